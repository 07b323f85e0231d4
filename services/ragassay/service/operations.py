"""What an operator asks of the running service: its health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from redis.exceptions import RedisError

from ragassay.core.models import FrozenModel
from ragassay.service.connection import connect
from ragassay.service.liveness import RedisRole, RedisServer, redis_server
from ragassay.service.queue import depths
from ragassay.service.redis import RedisStore
from ragassay.service.workload import STALLED_AFTER_S, active_jobs, stalled


class ServiceHealth(FrozenModel):
    """The service as its Redis shows it. ``troubles`` is empty where nothing needs attention.

    ``waiting`` messages by queue, and ``taken`` by workers and not done; a job has four at the most.
    ``jobs``: those that have not ended, by status; ``stalled``: those whose chunks nobody takes; ``listed``: all.
    """

    redis: tuple[RedisServer, ...]
    workers: int
    processes: int
    beats: int
    waiting: dict[str, int]
    taken: int
    jobs: dict[str, int]
    stalled: tuple[str, ...]
    listed: int
    troubles: tuple[str, ...]


def health(store: RedisStore, servers: Mapping[RedisRole, str]) -> ServiceHealth:
    """Ask Redis how the service is; ``servers``: their addresses. Raises redis's errors where the state does not answer."""
    known, troubles = [], []
    waiting: dict[str, int] = {}
    taken = 0
    for role, url in servers.items():
        try:
            with connect(url, patient=False) as redis:
                known.append(redis_server(redis, role))
                if url == list(servers.values())[-1]:  # the broker, or the one that is both
                    waiting, taken = depths(redis)
        except RedisError as error:
            if role == "state":
                raise
            troubles.append(f"the broker does not answer ({error}): jobs wait")
    troubles += [trouble for server in known for trouble in server.troubles]
    workers, beats, active = store.alive("worker"), store.alive("beat"), active_jobs(store)
    if not workers:
        troubles.append("no worker is running: jobs wait; start one: ragassay worker")
    if not beats:
        troubles.append("no beat is running: what is lost is not put right; start one: ragassay beat")
    if waiting_jobs := stalled(active):
        troubles.append(f"chunks wait, and no worker has claimed one for {STALLED_AFTER_S:g} s (job {waiting_jobs[0]})")
    troubles += [f"job {job.id} is active and has no record: were keys evicted?" for job in active if not job.status]
    return ServiceHealth(
        redis=tuple(known),
        workers=workers,
        processes=store.processes(),
        beats=beats,
        waiting=waiting,
        taken=taken,
        jobs=Counter(job.status for job in active if job.status),
        stalled=tuple(waiting_jobs),
        listed=sum(store.redis.zcard(listed) for listed in store.job_lists()),
        troubles=tuple(troubles),
    )
