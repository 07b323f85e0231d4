"""Who is signed in with a browser: sessions, each bound to the secret that began it.

A session's id is random and in its cookie alone. Redis has its SHA-256 with the id and digest of the key; the session
ends when the key is revoked.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from anyio import to_thread
from pydantic import ValidationError

from ragassay.api.security import Guard
from ragassay.core.models import FrozenModel
from ragassay.service.access import Requester

SESSION_S = 12 * 3600


class _SignedIn(FrozenModel):
    """``key``: its id; empty where the bootstrap key began it."""

    key: str
    digest: str
    project: str


class Sessions:
    """The sessions of a service."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def begin(self, text: str, project: str | None, address: str) -> str:
        """Sign in with a key's text; returns the session's id. Raises what ``Guard.requester`` raises."""
        asking = await self._guard.requester(text, project, address)
        session = secrets.token_urlsafe(32)
        await to_thread.run_sync(self._keep, session, text, asking)
        return session

    async def requester(self, session: str) -> tuple[Requester, str] | None:
        """Who began the session, and under which name; None where it is over. Raises RateLimited as for a key."""
        return await to_thread.run_sync(self._find, session)

    async def end(self, session: str) -> None:
        """Sign out: the session is over."""
        await to_thread.run_sync(self._guard.access.redis.delete, _name(session))

    def _keep(self, session: str, text: str, asking: Requester) -> None:
        key = "" if asking.everywhere else text.split("_")[1]
        digest = _bound(session, text) if asking.everywhere else self._guard.access.digest(text)
        stored = _SignedIn(key=key, digest=digest, project=asking.project)
        self._guard.access.redis.set(_name(session), stored.model_dump_json(), ex=SESSION_S)

    def _find(self, session: str) -> tuple[Requester, str] | None:
        document = self._guard.access.redis.get(_name(session))
        try:
            stored = None if document is None else _SignedIn.model_validate_json(document)
        except ValidationError:  # of another version
            stored = None
        if stored is None:
            return None
        if not stored.key:
            secret = self._guard.bootstrap
            if secret is None or not hmac.compare_digest(_bound(session, secret), stored.digest):
                return None
            return Requester(stored.project), f"operator, project {stored.project}"
        key = self._guard.access.verify(stored.key, stored.digest)
        if key is None:
            return None
        self._guard.access.limit_rate(key)
        return Requester(key.project, frozenset(key.scopes), everywhere=False), f"{key.name}, project {key.project}"


def _name(session: str) -> str:
    return f"ra:session:{hashlib.sha256(session.encode()).hexdigest()}"


def _bound(session: str, secret: str) -> str:
    """What only who has both can make: the bootstrap key is not in Redis in any form that guesses could be tried on."""
    return hmac.new(session.encode(), secret.encode(), hashlib.sha256).hexdigest()
