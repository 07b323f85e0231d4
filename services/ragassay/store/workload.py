"""How much work waits, and for what: figures of all jobs that have not ended, without a look at any other key."""

from __future__ import annotations

from collections import Counter

from ragassay.models import FrozenModel
from ragassay.store.redis import RedisStore

ACTIVE = ("queued", "running", "paused", "finalizing")


class Workload(FrozenModel):
    """Times are seconds by the clock of Redis; 0 where nothing waits.

    ``chunk_age_s``: since the oldest job was submitted of which a chunk could be claimed and none is worked on or all
    workers are busy; ``unclaimed_s``: the longest time for which a job with such chunks has got no worker.
    ``outage_s``: the longest time for which a job has waited for its provider.
    """

    jobs: dict[str, int]
    chunks_waiting: int = 0
    chunks_leased: int = 0
    chunk_age_s: float = 0.0
    unclaimed_s: float = 0.0
    jobs_waiting: int = 0
    outage_s: float = 0.0
    workers: int = 0
    processes: int = 0
    beats: int = 0


def workload(store: RedisStore) -> Workload:
    """The figures now, in two round trips and those that count processes."""
    seconds, microseconds = store.redis.time()
    now_ms = seconds * 1000 + microseconds // 1000
    pipe = store.redis.pipeline(transaction=False)
    active = store.active()
    for job in active:
        pipe.hmget(store.key(job, "meta"), "status", "created_ms", "claimed_ms", "waiting_since_ms")
        pipe.llen(store.key(job, "todo"))
        pipe.zcard(store.key(job, "lease"))
    answers = iter(pipe.execute())
    jobs: Counter[str] = Counter(dict.fromkeys(ACTIVE, 0))
    waiting = leased = oldest = unclaimed = outages = outage = 0
    for (status, *times), todo, leases in zip(answers, answers, answers, strict=True):
        name = (status or b"").decode()
        if name not in ACTIVE:
            continue
        created_ms, claimed_ms, since_ms = (int(time or 0) for time in times)
        jobs[name] += 1
        leased += leases
        if name in ("queued", "running"):
            waiting += todo
            if since_ms:
                outages += 1
                outage = max(outage, now_ms - since_ms)
            elif todo:
                oldest = max(oldest, now_ms - created_ms)
                unclaimed = max(unclaimed, now_ms - max(created_ms, claimed_ms))
    return Workload(
        jobs=jobs,
        chunks_waiting=waiting,
        chunks_leased=leased,
        chunk_age_s=oldest / 1000,
        unclaimed_s=unclaimed / 1000,
        jobs_waiting=outages,
        outage_s=outage / 1000,
        workers=store.alive("worker"),
        processes=store.processes(),
        beats=store.alive("beat"),
    )
