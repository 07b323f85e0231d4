"""Is work being done, and kept? A process that runs and takes nothing is no better than none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragassay.store.redis import RedisStore


def stalled_jobs(store: RedisStore, *, for_s: float) -> list[str]:
    """Jobs with waiting chunks of which none was claimed for so long; empty while a chunk of any job is worked on.

    A job that waits for its provider is not counted. Time is that of the Redis server.
    """
    seconds, microseconds = store.redis.time()
    now_ms = seconds * 1000 + microseconds // 1000
    stalled = []
    for job in store.active():
        pipe = store.redis.pipeline(transaction=False)
        pipe.hmget(store.key(job, "meta"), "status", "created_ms", "claimed_ms", "next_ms")
        pipe.llen(store.key(job, "todo"))
        pipe.zcount(store.key(job, "lease"), now_ms, "+inf")
        (status, created_ms, claimed_ms, next_ms), waiting, leases = pipe.execute()
        if leases:
            return []
        idle_ms = now_ms - max(int(created_ms or 0), int(claimed_ms or 0))
        if status in (b"queued", b"running") and waiting and next_ms is None and idle_ms > for_s * 1000:
            stalled.append(job)
    return stalled


def pulses(store: RedisStore, jobs: Sequence[str]) -> list[Any]:
    """For each job, what changes when there is something to tell of it; in one round trip."""
    pipe = store.redis.pipeline(transaction=False)
    for job in jobs:
        pipe.hmget(store.key(job, "meta"), "status", "rows_done", "rows_failed", "waiting", "waiting_since_ms", "error")
    known: list[Any] = pipe.execute()
    return known


def troubles(store: RedisStore) -> list[str]:
    """What of Redis's configuration would lose jobs."""
    memory, persistence = store.redis.info("memory"), store.redis.info("persistence")
    listed = []
    if memory.get("maxmemory_policy", "noeviction") != "noeviction":
        listed.append(f"Redis evicts keys (maxmemory-policy {memory['maxmemory_policy']}): jobs can vanish")
    if not persistence.get("aof_enabled"):
        listed.append("Redis keeps no append-only file: a restart loses jobs")
    if persistence.get("aof_last_write_status", "ok") != "ok":
        listed.append("Redis can't write its append-only file: is its disk full?")
    limit = memory.get("maxmemory", 0)
    if limit and memory["used_memory"] > 0.7 * limit:
        listed.append("Redis uses more than 70 % of its memory")
    return listed
