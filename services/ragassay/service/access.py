"""API keys: what each may do and whose project it belongs to, in Redis without their secrets.

A key is ``ra_<id>_<secret>``. Redis keeps HMAC-SHA256 of it under a pepper that Redis never sees, so a reader of Redis can
neither use a key nor try guesses. ``ra:key:<id>`` is a hash; a project's ``keys`` lists the ids of its own. ``ra:keys:made``
stays once any key was made.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from pydantic import Field

from ragassay.core.addresses import is_loopback
from ragassay.core.errors import BadSettings, Conflict, NotFound, RateLimited, Unavailable
from ragassay.core.jobs import DEFAULT_PROJECT, PROJECT
from ragassay.core.models import FrozenModel
from ragassay.core.settings import Settings
from ragassay.service.projects import ProjectRedis

Permission = Literal["submit", "read", "admin"]
SCOPES: tuple[Permission, ...] = get_args(Permission)
SHORTEST_SECRET = 16
MAX_KEYS = 200  # of a project
LONGEST_NAME = 100
MINUTE_S = 60
_MADE = "ra:keys:made"
_KEY = re.compile(r"ra_([0-9a-f]{12})_[0-9a-f]{48}")
_log = logging.getLogger("ragassay.keys")


class ApiKey(FrozenModel):
    """A key as it is listed. Its secret was shown once, when it was made."""

    id: str = Field(description="the part of the key that is no secret: ra_ID_...")
    name: str = Field(description="what it is for")
    project: str = Field(description="whose jobs and datasets it reaches")
    scopes: tuple[Permission, ...] = Field(description="what it may do")
    created_at: datetime


class MadeKey(ApiKey):
    """A key with its secret, which is shown this once."""

    key: str = Field(description="what to send as 'Authorization: Bearer KEY'; it can't be shown again")


@dataclass(frozen=True)
class Requester:
    """Who asks: a key's project and what it may do. ``everywhere``: the operator of the service, as everybody is without keys."""

    project: str = DEFAULT_PROJECT
    scopes: frozenset[Permission] = frozenset(SCOPES)
    everywhere: bool = True


def secret_setting(value: str | None, variable: str) -> str | None:
    """A secret of the settings, or None if it is not set; raises BadSettings for one that is too short or not ASCII."""
    secret = (value or "").strip()
    if not secret:
        return None
    if len(secret) < SHORTEST_SECRET or not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise BadSettings(
            f"{variable} must be {SHORTEST_SECRET} or more printable ASCII characters without blanks",
            hint="make one: openssl rand -hex 24",
        )
    return secret


def check_project(name: str) -> str:
    """The name, if a project may have it; raises BadSettings."""
    if not re.fullmatch(PROJECT, name):
        what = f"a project's name is letters, digits, '_' and '-', 64 at the most, not {name[:80]!r}"
        raise BadSettings(what, where="project")
    return name


class Access:
    """The keys of a store's project, or of all projects if it has none: made, listed, removed, and authenticated."""

    def __init__(self, store: ProjectRedis, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self.redis = store.redis
        self._pepper = secret_setting(settings.key_pepper, "RAGASSAY_KEY_PEPPER")

    def make(self, name: str, *, project: str, scopes: Iterable[Permission]) -> MadeKey:
        """Make a key. Raises BadSettings, also without a pepper; Conflict if the project has too many keys."""
        check_project(project)
        if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
            what = f"a key's name is up to {LONGEST_NAME} printable characters, not {name[: LONGEST_NAME + 20]!r}"
            raise BadSettings(what, where="name", hint="say what the key is for")
        key = secrets.token_hex(6)
        text = f"ra_{key}_{secrets.token_hex(24)}"
        digest = self.digest(text)
        listed = self._store.of(project).of_project("keys")
        if self.redis.zcard(listed) >= MAX_KEYS:
            raise Conflict(f"project {project} has {MAX_KEYS} keys", hint="revoke some: DELETE /v1/keys/ID")
        kept = tuple(scope for scope in SCOPES if scope in set(scopes))
        made = MadeKey(id=key, name=name, project=project, scopes=kept, created_at=datetime.now(UTC), key=text)
        pipe = self.redis.pipeline(transaction=True)
        pipe.hset(_name(key), mapping={"key": made.model_dump_json(exclude={"key"}), "digest": digest})
        pipe.zadd(listed, {key: made.created_at.timestamp()})
        pipe.sadd("ra:projects", project)
        pipe.set(_MADE, 1)
        pipe.execute()
        _log.info("key made: key=%s project=%s scopes=%s", key, project, ",".join(kept))
        return made

    def listed(self) -> list[ApiKey]:
        """The keys, the oldest first, project by project."""
        projects = [self._store.project] if self._store.project else self._store.projects()
        pipe = self.redis.pipeline(transaction=False)
        for project in projects:
            for key in self.redis.zrange(self._store.of(project).of_project("keys"), 0, -1):
                pipe.hget(_name(key.decode()), "key")
        return [ApiKey.model_validate_json(known) for known in pipe.execute() if known]

    def revoke(self, key: str) -> ApiKey:
        """Remove a key: it is refused from the next request on. Raises NotFound."""
        known = self.redis.hget(_name(key), "key")
        removed = ApiKey.model_validate_json(known) if known else None
        if removed is None or self._store.project not in (None, removed.project):
            raise NotFound(f"there is no key {key[:40]!r}", hint="list them: GET /v1/keys, or ragassay admin keys list")
        pipe = self.redis.pipeline(transaction=True)
        pipe.delete(_name(key))
        pipe.zrem(self._store.of(removed.project).of_project("keys"), key)
        pipe.execute()
        _log.info("key revoked: key=%s project=%s", key, removed.project)
        return removed

    def any_made(self) -> bool:
        """Was a key made, ever? Then no request is served without one, even when all are revoked."""
        return bool(self.redis.exists(_MADE))

    def authenticate(self, text: str) -> ApiKey | None:
        """The key that a text is, if any; raises Unavailable without a pepper."""
        parts = _KEY.fullmatch(text)
        if parts is None:
            return None
        if self._pepper is None:
            hint = "start it with the RAGASSAY_KEY_PEPPER that they were made with"
            raise Unavailable("this server can't check keys", hint=hint)
        return self.verify(parts[1], self.digest(text))

    def verify(self, key: str, digest: str) -> ApiKey | None:
        """The key with this id if the digest is of its secret."""
        known, kept = self.redis.hmget(_name(key), "key", "digest")
        if not known or not hmac.compare_digest(digest, kept.decode()):
            return None
        return ApiKey.model_validate_json(known)

    def limit_rate(self, key: ApiKey) -> None:
        """Count a request of the key; raises RateLimited after too many in a minute, which begins with a first request."""
        limit, name = self._settings.key_requests_per_minute, f"ra:limit:key:{key.id}"
        pipe = self.redis.pipeline(transaction=True)
        pipe.set(name, 0, ex=MINUTE_S, nx=True)
        pipe.incr(name)
        pipe.pttl(name)
        _, requests, left_ms = pipe.execute()
        if limit and requests > limit:
            what, hint = f"more than {limit} requests a minute of this key", "wait for as long as Retry-After says"
            raise RateLimited(what, hint=hint, retry_after=left_ms / 1000)

    def digest(self, text: str) -> str:
        """What Redis keeps of a key's text; raises BadSettings without a pepper."""
        if self._pepper is None:
            hint = "set it for the API and for this command, and keep it: openssl rand -hex 32"
            raise BadSettings("there are no keys without a pepper", where="RAGASSAY_KEY_PEPPER", hint=hint)
        return hmac.new(self._pepper.encode(), text.encode(), hashlib.sha256).hexdigest()


def _name(key: str) -> str:
    return f"ra:key:{key}"


def bootstrap_key(settings: Settings) -> str | None:
    """The operator's key, good for all projects, or None; raises BadSettings for one that is no good."""
    return secret_setting(settings.bootstrap_key, "RAGASSAY_BOOTSTRAP_KEY")


def asks_for_key(settings: Settings) -> bool:
    """Do the settings alone say that nobody may ask without a key? Raises BadSettings for secrets that are no good."""
    pepper = secret_setting(settings.key_pepper, "RAGASSAY_KEY_PEPPER")
    return bootstrap_key(settings) is not None or pepper is not None


def check_bind(host: str, settings: Settings) -> None:
    """Raise BadSettings where others could reach a server that asks for no key."""
    if not asks_for_key(settings) and not is_loopback(host):
        raise BadSettings(
            f"without a key the server listens on loopback only, not on {host!r}",
            hint="set RAGASSAY_KEY_PEPPER and make keys, or RAGASSAY_BOOTSTRAP_KEY; or leave --host out",
        )
