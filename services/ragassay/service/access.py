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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

import orjson
from pydantic import Field

from ragassay.core.errors import BadSettings, Conflict, NotFound, RateLimited, Unavailable
from ragassay.core.models import FrozenModel
from ragassay.core.report import DEFAULT_PROJECT, PROJECT
from ragassay.core.settings import Settings
from ragassay.service.projects import ProjectRedis

Permission = Literal["submit", "read", "operate"]
SCOPES: tuple[Permission, ...] = get_args(Permission)
SHORTEST_SECRET = 16
MOST_KEYS = 200  # of a project that are good at the same time
LONGEST_NAME, MOST_DAYS = 100, 3650
MINUTE_S = 60
ENDED_KEPT_S = 90 * 86_400  # of a revoked or expired key, its line in the list
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
    expires_at: datetime | None = Field(None, description="when it stops being good by itself")
    revoked_at: datetime | None = Field(None, description="since when it is good for nothing")
    last_used_at: datetime | None = Field(None, description="written at most once a minute")

    def why_not(self, now: datetime) -> str:
        """Why the key is no longer good; empty if it is."""
        if self.revoked_at is not None:
            return "this key was revoked"
        return "this key has expired" if self.expires_at is not None and self.expires_at <= now else ""


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
    """The keys of a store's project, or of all projects if it has none: made, listed, revoked, and authenticated."""

    def __init__(self, store: ProjectRedis, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self.redis = store.redis
        self._pepper = secret_setting(settings.key_pepper, "RAGASSAY_KEY_PEPPER")

    def make(
        self, name: str, *, project: str, scopes: Iterable[Permission], expires_in_days: float | None = None
    ) -> MadeKey:
        """Make a key. Raises BadSettings, also without a pepper; Conflict if the project has too many keys."""
        check_project(project)
        if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
            what = f"a key's name is up to {LONGEST_NAME} printable characters, not {name[: LONGEST_NAME + 20]!r}"
            raise BadSettings(what, where="name", hint="say what the key is for")
        if expires_in_days is not None and not 0 < expires_in_days <= MOST_DAYS:
            what = f"should be above 0 and at most {MOST_DAYS}, is {expires_in_days:g}"
            raise BadSettings(what, where="expires_in_days", hint="leave it out for a key that does not expire")
        now, key = datetime.now(UTC), secrets.token_hex(6)
        text = f"ra_{key}_{secrets.token_hex(24)}"
        digest = self.digest(text)
        store = self._store.of(project)
        if sum(not each.why_not(now) for each in _listed(store)) >= MOST_KEYS:
            raise Conflict(f"project {project} has {MOST_KEYS} keys", hint="revoke some: DELETE /v1/keys/ID")
        made = MadeKey(
            id=key,
            name=name,
            project=project,
            scopes=tuple(scope for scope in SCOPES if scope in set(scopes)),
            created_at=now,
            expires_at=None if expires_in_days is None else now + timedelta(days=expires_in_days),
            key=text,
        )
        kept = made.model_dump_json(exclude={"key", "revoked_at", "last_used_at"})
        pipe = self.redis.pipeline(transaction=True)
        pipe.hset(_name(key), mapping={"key": kept, "digest": digest})
        if made.expires_at is not None:
            pipe.expireat(_name(key), int(made.expires_at.timestamp()) + ENDED_KEPT_S)
        pipe.zadd(store.of_project("keys"), {key: now.timestamp()})
        pipe.sadd("ra:projects", project)
        pipe.set(_MADE, 1)
        pipe.execute()
        _log.info("key made: key=%s project=%s scopes=%s", key, project, ",".join(made.scopes))
        return made

    def listed(self) -> list[ApiKey]:
        """The keys, the oldest first, project by project; for 90 days also those that are revoked or have expired."""
        own = self._store.project
        return [key for each in ([own] if own else self._store.projects()) for key in _listed(self._store.of(each))]

    def revoke(self, key: str) -> ApiKey:
        """The key is good for nothing from now on; again for a revoked one changes nothing. Raises NotFound."""
        known = _stored(self.redis.hgetall(_name(key)))
        if known is None or self._store.project not in (None, known.project):
            raise NotFound(f"there is no key {key[:40]!r}", hint="list them: GET /v1/keys")
        pipe = self.redis.pipeline(transaction=True)
        pipe.hsetnx(_name(key), "revoked_ms", int(self._store.now_ms()))
        pipe.expire(_name(key), ENDED_KEPT_S)
        pipe.hgetall(_name(key))
        revoked = _stored(pipe.execute()[-1]) or known
        _log.info("key revoked: key=%s project=%s", key, revoked.project)
        return revoked

    def any_made(self) -> bool:
        """Was a key made, ever? Then no request is served without one, even when all are revoked."""
        return bool(self.redis.exists(_MADE))

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
        """The key with this id if the digest is of its secret; or None, and why it is none that is good."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.time()
        pipe.hgetall(_name(key))
        (seconds, micros), kept = pipe.execute()
        found = _stored(kept)
        if found is None or not hmac.compare_digest(digest, kept[b"digest"].decode()):
            return None, "the key is missing or wrong"
        why_not = found.why_not(datetime.fromtimestamp(seconds + micros / 1e6, UTC))
        return (None, why_not) if why_not else (found, "")

    def admit(self, key: ApiKey) -> None:
        """Count a request of the key, and note its use; raises RateLimited after too many of it or its project in a minute.

        A minute begins with a first request.
        """
        of_project = self._store.of(key.project).of_project("limit:requests")
        limits = (
            ("key", f"ra:limit:key:{key.id}", self._settings.key_requests_per_minute),
            ("project", of_project, self._settings.project_requests_per_minute),
        )
        for whose, name, limit in limits:
            pipe = self.redis.pipeline(transaction=True)
            pipe.set(name, 0, ex=MINUTE_S, nx=True)
            pipe.incr(name)
            pipe.pttl(name)
            first, requests, left_ms = pipe.execute()
            if first and whose == "key":
                self.redis.hset(_name(key.id), "used_ms", int(self._store.now_ms()))
            if limit and requests > limit:
                what = f"more than {limit} requests a minute of this {whose}"
                raise RateLimited(what, hint="wait for as long as Retry-After says", retry_after=left_ms / 1000)

    def digest(self, text: str) -> str:
        """What Redis keeps of a key's text; raises BadSettings without a pepper."""
        if self._pepper is None:
            hint = "set it for the API and for this command, and keep it: openssl rand -hex 32"
            raise BadSettings("there are no keys without a pepper", where="RAGASSAY_KEY_PEPPER", hint=hint)
        return hmac.new(self._pepper.encode(), text.encode(), hashlib.sha256).hexdigest()


def _name(key: str) -> str:
    return f"ra:key:{key}"


def _listed(store: ProjectRedis) -> list[ApiKey]:
    """The keys of a project; ids of those that are gone leave the list."""
    ids = [each.decode() for each in store.redis.zrange(store.of_project("keys"), 0, -1)]
    pipe = store.redis.pipeline(transaction=False)
    for each in ids:
        pipe.hgetall(_name(each))
    found = dict(zip(ids, map(_stored, pipe.execute()), strict=True))
    if gone := [each for each, key in found.items() if key is None]:
        store.redis.zrem(store.of_project("keys"), *gone)
    return [key for key in found.values() if key is not None]


def _stored(kept: Mapping[bytes, bytes]) -> ApiKey | None:
    if b"digest" not in kept:
        return None
    times = {"revoked_at": b"revoked_ms", "last_used_at": b"used_ms"}
    when = {field: int(kept[name]) / 1000 for field, name in times.items() if name in kept}
    return ApiKey.model_validate({**orjson.loads(kept[b"key"]), **when})
