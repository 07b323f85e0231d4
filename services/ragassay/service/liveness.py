"""Is work being done, and kept? A process that runs and takes nothing is no better than none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ragassay.core.errors import Unavailable
from ragassay.core.models import FrozenModel
from ragassay.service.connection import connect
from ragassay.service.redis import RedisStore

OLDEST_REDIS = (6, 2)
NEARLY_FULL, NEARLY_FULL_RETRY_S = 0.7, 60.0
RedisRole = Literal["state", "broker"]
logger = logging.getLogger("ragassay")


class RedisServer(FrozenModel):
    """A Redis and what of it would lose jobs. ``limit_bytes`` is None without a limit, ``fsync`` where it is not known."""

    role: RedisRole
    version: str
    uptime_s: int
    used_bytes: int
    limit_bytes: int | None
    eviction: str
    append_only: bool
    fsync: str | None
    troubles: tuple[str, ...]

    @property
    def summary(self) -> str:
        """In one line."""
        limit = f"of {megabytes(self.limit_bytes)}" if self.limit_bytes else "without a limit"
        kept = f"append-only file{f', fsync {self.fsync}' if self.fsync else ''}" if self.append_only else "memory only"
        return f"{self.version}: {megabytes(self.used_bytes)} {limit}, {self.eviction}, {kept}"


def redis_server(redis: Any, role: RedisRole) -> RedisServer:
    """What a Redis says of itself; one command, or two where it lets us ask for its settings."""
    from redis.exceptions import ResponseError

    info = redis.info()
    try:
        fsync = redis.config_get("appendfsync").get("appendfsync")
    except ResponseError:  # as hosted ones do, which have no CONFIG
        fsync = None
    return RedisServer(
        role=role,
        version=str(info["redis_version"]),
        uptime_s=info["uptime_in_seconds"],
        used_bytes=info["used_memory"],
        limit_bytes=info.get("maxmemory") or None,
        eviction=info.get("maxmemory_policy", "noeviction"),
        append_only=bool(info.get("aof_enabled")),
        fsync=fsync if info.get("aof_enabled") else None,
        troubles=tuple(_troubles(info, role)),
    )


def troubles(store: RedisStore) -> list[str]:
    """What of the Redis that keeps the jobs would lose them or take none; one command, whatever is in it."""
    return list(_troubles(store.redis.info(), "state"))


def _troubles(info: Mapping[str, Any], role: RedisRole) -> Iterator[str]:
    version = str(info["redis_version"])
    if tuple(map(int, version.split(".")[:2])) < OLDEST_REDIS:
        yield f"Redis {version} is older than {'.'.join(map(str, OLDEST_REDIS))}, the oldest that is tested"
    if info.get("role") == "slave":
        yield "Redis is a replica and takes no writes: name the one that it copies"
    if (policy := info.get("maxmemory_policy", "noeviction")) != "noeviction":
        lost = "jobs can vanish" if role == "state" else "wake-ups can vanish, and jobs start late"
        yield f"Redis evicts keys (maxmemory-policy {policy}): {lost}"
    if evicted := info.get("evicted_keys", 0):
        yield f"Redis has evicted {evicted} keys since it started"
    if role == "state" and not info.get("aof_enabled"):
        yield "Redis keeps no append-only file: a restart loses jobs"
    if info.get("aof_last_write_status", "ok") != "ok":
        yield "Redis can't write its append-only file: is its disk full?"
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield "Redis can't write its snapshot: is its disk full?"
    if full := _nearly_full(info):
        yield full


def _nearly_full(info: Mapping[str, Any]) -> str | None:
    used, limit = info["used_memory"], info.get("maxmemory", 0)
    if not limit or used <= NEARLY_FULL * limit:
        return None
    return f"Redis uses more than 70 % of its memory ({megabytes(used)} of {megabytes(limit)})"


def check_room(store: RedisStore) -> None:
    """Raise Unavailable where the Redis of the jobs is nearly full: what is left is for results of those under way."""
    if full := _nearly_full(store.redis.info("memory")):
        hint = "give it more (maxmemory), or let rows go: ragassay admin retention"
        raise Unavailable(f"no new jobs are taken: {full}", hint=hint, retry_after=NEARLY_FULL_RETRY_S)


def megabytes(count: int) -> str:
    """Bytes as whole megabytes."""
    return f"{count / 1e6:,.0f} MB"


def log_redis(servers: Mapping[RedisRole, str]) -> None:
    """Say in the log what the Redis servers at these addresses are and what of them would lose jobs.

    In a thread: a Redis may hang, and the process is to start nevertheless.
    """
    threading.Thread(target=_log_redis, args=(servers,), daemon=True, name="look at Redis").start()


def _log_redis(servers: Mapping[RedisRole, str]) -> None:
    from redis.exceptions import RedisError

    for role, url in servers.items():
        try:
            with connect(url, patient=False) as redis:
                server = redis_server(redis, role)
        except RedisError as error:
            logger.warning("Redis (%s) does not answer now: %s", role, error)
            continue
        logger.info("Redis (%s) %s", role, server.summary)
        for trouble in server.troubles:
            logger.warning("%s (%s)", trouble, role)
