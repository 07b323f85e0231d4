"""How much work waits, and for what: figures of all jobs that have not ended, without a look at any other key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragassay.core.models import FrozenModel
from ragassay.service.redis import RedisStore

ACTIVE = ("queued", "running", "paused", "finalizing")
STALLED_AFTER_S = 60.0


class ActiveJob(NamedTuple):
    """A job that has not ended: its status, empty where its record is gone, and its chunks that wait.

    ``leased``: what workers have of it, chunks or its report. ``idle_s``: since it came or a chunk was claimed last.
    ``outage_s``: since it waits for its provider, None where it does not; ``held``: no chunk is given out until the next probe.
    """

    id: str
    status: str
    waiting: int
    leased: int
    age_s: float
    idle_s: float
    outage_s: float | None
    held: bool

    @property
    def has_work(self) -> bool:
        """Has it chunks that may be claimed?"""
        return self.status in ("queued", "running") and self.waiting > 0


def active_jobs(store: RedisStore) -> list[ActiveJob]:
    """The jobs that have not ended, by the clock of Redis; in three round trips."""
    now_ms, ids, pipe = store.now_ms(), store.active(), store.redis.pipeline(transaction=False)
    for job in ids:
        pipe.hmget(store.key(job, "meta"), "status", "created_ms", "claimed_ms", "waiting_since_ms", "next_ms")
        pipe.llen(store.key(job, "todo"))
        pipe.zcount(store.key(job, "lease"), now_ms, "+inf")
    answers, jobs = iter(pipe.execute()), []
    for job, (status, created, claimed, since, next_), waiting, leased in zip(
        ids, answers, answers, answers, strict=True
    ):
        age_s = (now_ms - int(created or 0)) / 1000
        idle_s = min(age_s, (now_ms - int(claimed or 0)) / 1000)
        outage_s = (now_ms - int(since)) / 1000 if since else None
        name = (status or b"").decode()
        jobs.append(ActiveJob(job, name, waiting, leased, age_s, idle_s, outage_s, next_ is not None))
    return jobs


def stalled(jobs: Sequence[ActiveJob]) -> list[str]:
    """Jobs with waiting chunks of which none was claimed for a minute; none while a chunk of any job is worked on."""
    if any(job.leased for job in jobs):
        return []
    return [job.id for job in jobs if job.has_work and not job.held and job.idle_s > STALLED_AFTER_S]


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
    """The figures now, in three round trips and those that count processes."""
    active = active_jobs(store)
    with_work = [job for job in active if job.has_work]
    idle = [job for job in with_work if job.outage_s is None]
    outages = [job.outage_s for job in active if job.outage_s is not None and job.status in ("queued", "running")]
    return Workload(
        jobs={status: sum(job.status == status for job in active) for status in ACTIVE},
        chunks_waiting=sum(job.waiting for job in with_work),
        chunks_leased=sum(job.leased for job in active),
        chunk_age_s=max((0.0, *(job.age_s for job in idle))),
        unclaimed_s=max((0.0, *(job.idle_s for job in idle))),
        jobs_waiting=len(outages),
        outage_s=max((0.0, *outages)),
        workers=store.alive("worker"),
        processes=store.processes(),
        beats=store.alive("beat"),
    )
