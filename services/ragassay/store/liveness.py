"""Is work being done? A process that runs and takes nothing is no better than none."""

from __future__ import annotations

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
