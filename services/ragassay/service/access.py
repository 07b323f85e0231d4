"""Keys, what each may do, and whose project it belongs to.

A key is ``ra_<id>_<secret>``. Redis keeps HMAC-SHA256 of it under a pepper that Redis never sees, so that who reads Redis can
neither use a key nor try guesses.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import get_args

from pydantic import Field

from ragassay.core.errors import BadSettings, Conflict, RateLimited, Unavailable
from ragassay.core.report import DEFAULT_PROJECT, PROJECT
from ragassay.core.settings import Settings
from ragassay.service.keys import ApiKey, Permission, RedisKeys
from ragassay.service.projects import ProjectRedis

SHORTEST_SECRET = 16
MOST_KEYS = 200  # of a project that are good at the same time
LONGEST_NAME, MOST_DAYS = 100, 3650
SCOPES: tuple[Permission, ...] = get_args(Permission)
_KEY = re.compile(r"ra_([0-9a-f]{12})_[0-9a-f]{48}")
_log = logging.getLogger("ragassay.keys")


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
    """A secret of the settings, or None where it is not set; raises BadSettings for one that is no good."""
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
    """The name, where a project may have it; raises BadSettings."""
    if not re.fullmatch(PROJECT, name):
        what = f"a project's name is letters, digits, '_' and '-', 64 at the most, not {name[:80]!r}"
        raise BadSettings(what, where="project")
    return name


class Access:
    """The keys of a store's project, or of all: made, listed, revoked, and recognized."""

    def __init__(self, store: ProjectRedis, settings: Settings) -> None:
        self._keys, self._settings = RedisKeys(store), settings
        self.redis = store.redis
        self._pepper = secret_setting(settings.key_pepper, "RAGASSAY_KEY_PEPPER")

    def make(
        self, name: str, *, project: str, scopes: Iterable[Permission], expires_in_days: float | None = None
    ) -> MadeKey:
        """Make a key. Raises BadSettings, also without a pepper; Conflict where the project has too many keys."""
        check_project(project)
        if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
            what = f"a key's name is up to {LONGEST_NAME} printable characters, not {name[: LONGEST_NAME + 20]!r}"
            raise BadSettings(what, where="name", hint="say what the key is for")
        if expires_in_days is not None and not 0 < expires_in_days <= MOST_DAYS:
            what = f"should be above 0 and at most {MOST_DAYS}, is {expires_in_days:g}"
            raise BadSettings(what, where="expires_in_days", hint="leave it out for a key that does not expire")
        key, now = secrets.token_hex(6), datetime.now(UTC)
        text = f"ra_{key}_{secrets.token_hex(24)}"
        digest = self.digest(text)
        good = [key for key in self._keys.listed() if key.project == project and not _why_not(key, now)]
        if len(good) >= MOST_KEYS:
            raise Conflict(f"project {project} has {MOST_KEYS} keys", hint="revoke some: DELETE /v1/keys/ID")
        made = ApiKey(
            id=key,
            name=name,
            project=project,
            scopes=tuple(scope for scope in SCOPES if scope in set(scopes)),
            created_at=now,
            expires_at=None if expires_in_days is None else now + timedelta(days=expires_in_days),
        )
        self._keys.add(made, digest)
        _log.info("key made: key=%s project=%s scopes=%s", made.id, project, ",".join(made.scopes))
        return MadeKey(**dict(made), key=text)

    def listed(self) -> list[ApiKey]:
        """The keys, the oldest first; for 90 days also those that are revoked or have expired."""
        return self._keys.listed()

    def revoke(self, key: str) -> ApiKey:
        """The key is good for nothing from now on. Raises NotFound."""
        revoked = self._keys.revoke(key)
        _log.info("key revoked: key=%s project=%s", key, revoked.project)
        return revoked

    def any_made(self) -> bool:
        """Was a key made, ever?"""
        return self._keys.any_made()

    def recognize(self, text: str) -> tuple[ApiKey | None, str]:
        """The key that a text is; or None, and why it is none that is good."""
        parts = _KEY.fullmatch(text)
        if parts is None:
            return None, "the key is missing or wrong"
        if self._pepper is None:
            raise Unavailable(
                "this server can't check keys", hint="start it with the RAGASSAY_KEY_PEPPER that they were made with"
            )
        return self.holder(parts[1], self.digest(text))

    def holder(self, key: str, digest: str) -> tuple[ApiKey | None, str]:
        """The key with this id where the digest is of its secret; or None, and why it is none that is good."""
        found, now = self._keys.find(key)
        if found is None or not hmac.compare_digest(digest, found.digest):
            return None, "the key is missing or wrong"
        why_not = _why_not(found.key, now)
        return (None, why_not) if why_not else (found.key, "")

    def admit(self, key: ApiKey) -> None:
        """Count a request of the key; raises RateLimited if there were too many of it or its project in this minute."""
        limits = {"key": self._settings.key_requests_per_minute, "project": self._settings.project_requests_per_minute}
        for whose, limit in limits.items():
            requests, left_s = self._keys.count(key, of_project=whose == "project")
            if limit and requests > limit:
                what = f"more than {limit} requests a minute of this {whose}"
                raise RateLimited(what, hint="wait for as long as Retry-After says", retry_after=left_s)

    def digest(self, text: str) -> str:
        """What Redis keeps of a key's text; raises BadSettings without a pepper."""
        if self._pepper is None:
            hint = "set it for the API and for this command, and keep it: openssl rand -hex 32"
            raise BadSettings("there are no keys without a pepper", where="RAGASSAY_KEY_PEPPER", hint=hint)
        return hmac.new(self._pepper.encode(), text.encode(), hashlib.sha256).hexdigest()


def _why_not(key: ApiKey, now: datetime) -> str:
    """Why a key is no longer good; empty where it is."""
    if key.revoked_at is not None:
        return "this key was revoked"
    if key.expires_at is not None and key.expires_at <= now:
        return "this key has expired"
    return ""
