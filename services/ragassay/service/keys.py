"""API keys in Redis: who holds them and what they may do, their digests, and how often they ask. No secret is there.

``ra:key:<id>`` is a hash; a project's ``keys`` lists the ids of its own. ``ra:keys:made`` stays once any key was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

import orjson
from pydantic import Field

from ragassay.core.errors import NotFound
from ragassay.core.models import FrozenModel
from ragassay.service.projects import ProjectRedis

Permission = Literal["submit", "read", "operate"]
MINUTE_S = 60
ENDED_KEPT_S = 90 * 86_400  # of a revoked or expired key, its line in the list
_MADE = "ra:keys:made"


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


class StoredKey(FrozenModel):
    """A key with the digest of its secret."""

    key: ApiKey
    digest: str


class RedisKeys:
    """The keys of a store's project; of all projects where it is not of one."""

    def __init__(self, store: ProjectRedis) -> None:
        self._store = store

    def any_made(self) -> bool:
        """Was a key made, ever? Then nobody may ask without one, even when all are revoked."""
        return bool(self._store.redis.exists(_MADE))

    def add(self, key: ApiKey, digest: str) -> None:
        """Keep a new key of its project."""
        store = self._store.of(key.project)
        made = key.model_dump(mode="json", include={"id", "name", "project", "scopes", "created_at", "expires_at"})
        pipe = store.redis.pipeline(transaction=True)
        pipe.hset(_name(key.id), mapping={"key": orjson.dumps(made), "digest": digest})
        if key.expires_at is not None:
            pipe.expireat(_name(key.id), int(key.expires_at.timestamp()) + ENDED_KEPT_S)
        pipe.zadd(store.of_project("keys"), {key.id: key.created_at.timestamp()})
        pipe.sadd("ra:projects", key.project)
        pipe.set(_MADE, 1)
        pipe.execute()

    def find(self, key: str) -> tuple[StoredKey | None, datetime]:
        """A key of any project by its id, or None, and what time it is in Redis."""
        pipe = self._store.redis.pipeline(transaction=False)
        pipe.time()
        pipe.hgetall(_name(key))
        (seconds, micros), kept = pipe.execute()
        return _stored(kept), datetime.fromtimestamp(seconds + micros / 1e6, UTC)

    def get(self, key: str) -> ApiKey:
        """A key of the project; raises NotFound."""
        found, _ = self.find(key)
        if found is None or self._store.project not in (None, found.key.project):
            raise NotFound(f"there is no key {key[:40]!r}", hint="list them: GET /v1/keys")
        return found.key

    def listed(self) -> list[ApiKey]:
        """The keys, the oldest first, project by project; for 90 days also those that are revoked or have expired."""
        if self._store.project is None:
            return [key for project in self._store.projects() for key in RedisKeys(self._store.of(project)).listed()]
        redis, name = self._store.redis, self._store.of_project("keys")
        ids = [each.decode() for each in redis.zrange(name, 0, -1)]
        pipe = redis.pipeline(transaction=False)
        for each in ids:
            pipe.hgetall(_name(each))
        found = dict(zip(ids, map(_stored, pipe.execute()), strict=True))
        if gone := [each for each, stored in found.items() if stored is None]:
            redis.zrem(name, *gone)
        return [stored.key for stored in found.values() if stored is not None]

    def revoke(self, key: str) -> ApiKey:
        """The key is good for nothing from now on; again for a revoked one changes nothing. Raises NotFound."""
        self.get(key)
        now_ms, pipe = int(self._store.now_ms()), self._store.redis.pipeline(transaction=True)
        pipe.hsetnx(_name(key), "revoked_ms", now_ms)
        pipe.expire(_name(key), ENDED_KEPT_S)
        pipe.execute()
        return self.get(key)

    def count(self, key: ApiKey, *, of_project: bool) -> tuple[int, float]:
        """Count a request of the key, or of its project: how many came in this minute, and the seconds until it is over.

        A minute begins with a first request. That of a key notes its last use.
        """
        name = self._store.of(key.project).of_project("limit:requests") if of_project else f"ra:limit:key:{key.id}"
        pipe = self._store.redis.pipeline(transaction=True)
        pipe.set(name, 0, ex=MINUTE_S, nx=True)
        pipe.incr(name)
        pipe.pttl(name)
        first, requests, left_ms = pipe.execute()
        if first and not of_project:
            self._store.redis.hset(_name(key.id), "used_ms", int(self._store.now_ms()))
        return requests, left_ms / 1000


def _name(key: str) -> str:
    return f"ra:key:{key}"


def _stored(kept: Mapping[bytes, bytes]) -> StoredKey | None:
    if b"digest" not in kept:
        return None
    times = {"revoked_at": b"revoked_ms", "last_used_at": b"used_ms"}
    when = {field: int(kept[name]) / 1000 for field, name in times.items() if name in kept}
    key = ApiKey.model_validate({**orjson.loads(kept[b"key"]), **when})
    return StoredKey(key=key, digest=kept[b"digest"].decode())
