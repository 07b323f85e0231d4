"""The health of the service, as its Redis shows it: one document for /readyz, ``admin health``, /metrics and the pages."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any, Literal

from redis.exceptions import RedisError, ResponseError

from ragassay.core.errors import Unavailable
from ragassay.core.models import FrozenModel
from ragassay.service.connection import connect
from ragassay.service.projects import project_key
from ragassay.service.queue import depths
from ragassay.service.redis import RedisStore, Workload

OLDEST_REDIS = (6, 2)
NEARLY_FULL, NEARLY_FULL_RETRY_S = 0.7, 60.0
ACTIVE = ("queued", "running", "paused", "finalizing")
STALLED_AFTER_S = 60.0
OVERDUE_S = 60  # a beat looks at schedules every second
SCHEDULES = "ra:schedules"  # the projects that have some, or had them
RedisRole = Literal["state", "broker"]
logger = logging.getLogger("ragassay")


class RedisServer(FrozenModel):
    """A Redis and what of it would lose jobs. ``limit_bytes`` is None without a limit, ``fsync`` if it is not known."""

    role: RedisRole
    version: str
    uptime_s: int
    used_bytes: int
    limit_bytes: int | None
    eviction: str
    append_only: bool
    fsync: str | None
    problems: tuple[str, ...]

    @property
    def summary(self) -> str:
        """In one line."""
        limit = f"of {megabytes(self.limit_bytes)}" if self.limit_bytes else "without a limit"
        kept = f"append-only file{f', fsync {self.fsync}' if self.fsync else ''}" if self.append_only else "memory only"
        return f"{self.version}: {megabytes(self.used_bytes)} {limit}, {self.eviction}, {kept}"


class ServiceParts(FrozenModel):
    """The parts of the service by the clock of its Redis: without ``problems`` no part needs attention.

    ``waiting``: messages by queue; ``taken`` by workers and not done. ``schedule_overdue_s``: the longest time for which a
    schedule has been due.
    """

    redis: tuple[RedisServer, ...]
    workers: int
    processes: int
    beats: int
    waiting: dict[str, int]
    taken: int
    schedule_overdue_s: float
    ready: bool
    problems: tuple[str, ...]


class ServiceHealth(ServiceParts):
    """The service with its jobs. ``job_problems`` name jobs, which is not for everybody.

    ``jobs``: those that have not ended, by status; ``listed``: all; ``stalled``: those with waiting chunks of which none was
    claimed for a minute, while no chunk of any job is worked on. ``chunk_age_s``: since the oldest job with waiting chunks was
    submitted; ``unclaimed_s``: the longest time for which such a job has got no worker. ``jobs_waiting``: for a provider;
    ``outage_s``: the longest of them.
    """

    jobs: dict[str, int]
    listed: int
    stalled: tuple[str, ...]
    chunks_waiting: int
    chunks_leased: int
    chunk_age_s: float
    unclaimed_s: float
    jobs_waiting: int
    outage_s: float
    job_problems: tuple[str, ...]


def parts(store: RedisStore, broker: str | None = None) -> ServiceParts:
    """Ask Redis how the parts of the service are; ``broker``: the address of the broker's Redis if that is another one.

    Raises redis's errors if the Redis of the jobs does not answer.
    """
    redis, problems = [redis_server(store.redis, "state")], []
    waiting, taken = dict[str, int](), 0
    try:
        with connect(broker, patient=False) if broker else nullcontext(store.redis) as connection:
            if broker:
                redis.append(redis_server(connection, "broker"))
            waiting, taken = depths(connection)
    except RedisError as error:
        problems.append(f"the broker does not answer ({error}): jobs wait")
    workers, beats, ready = store.alive("worker"), store.alive("beat"), not problems
    problems += [problem for server in redis for problem in server.problems]
    if not workers:
        problems.append("no worker is running: jobs wait; start one: ragassay serve worker")
    if not beats:
        problems.append(
            "no scheduler is running: schedules, webhooks and lost chunks wait; start one: ragassay serve scheduler"
        )
    due = _overdue_s(store)
    if late := sum(seconds > OVERDUE_S for seconds in due):
        problems.append(f"schedules that are due and that no scheduler has started for {OVERDUE_S} s: {late}")
    return ServiceParts(
        redis=tuple(redis),
        workers=workers,
        processes=store.processes(),
        beats=beats,
        waiting=waiting,
        taken=taken,
        schedule_overdue_s=max((0.0, *due)),
        ready=ready and workers > 0,
        problems=tuple(problems),
    )


def health(store: RedisStore, broker: str | None = None) -> ServiceHealth:
    """Ask Redis how the service is, as ``parts`` does, and how its jobs are."""
    service, active = parts(store, broker), store.workloads(store.active())
    with_work = [job for job in active if job.waiting and job.status in ("queued", "running")]
    idle = [job for job in with_work if not job.since_ms]
    outages_s = [_seconds(job, job.since_ms) for job in active if job.since_ms and job.status in ("queued", "running")]
    leased = sum(job.leased for job in active)
    stalled = [job.job for job in with_work if not leased and not job.probe_ms and _unclaimed_s(job) > STALLED_AFTER_S]
    of_jobs = [f"job {job.job} is active and has no record: were keys evicted?" for job in active if not job.status]
    if stalled:
        of_jobs.insert(0, f"chunks wait, and no worker has claimed one for {STALLED_AFTER_S:g} s (job {stalled[0]})")
    return ServiceHealth(
        **dict(service),
        jobs={status: sum(job.status == status for job in active) for status in ACTIVE},
        listed=sum(store.redis.zcard(listed) for listed in store.job_lists()),
        stalled=tuple(stalled),
        chunks_waiting=sum(job.waiting for job in with_work),
        chunks_leased=leased,
        chunk_age_s=max((0.0, *(_seconds(job, job.created_ms) for job in idle))),
        unclaimed_s=max((0.0, *(_unclaimed_s(job) for job in idle))),
        jobs_waiting=len(outages_s),
        outage_s=max((0.0, *outages_s)),
        job_problems=tuple(of_jobs),
    )


def _seconds(job: Workload, since_ms: int) -> float:
    return (job.now_ms - since_ms) / 1000


def _unclaimed_s(job: Workload) -> float:
    """Since it came, was resumed or tried again, or a chunk was claimed last."""
    return _seconds(job, max(job.created_ms, job.changed_ms, job.claimed_ms))


def _overdue_s(store: RedisStore) -> list[float]:
    """For how many seconds each schedule has been due that no beat has claimed."""
    now_ms, pipe = store.now_ms(), store.redis.pipeline(transaction=False)
    for project in store.redis.smembers(SCHEDULES):
        pipe.zrangebyscore(project_key(project.decode(), "due"), "-inf", now_ms, withscores=True)
    return [(now_ms - due_ms) / 1000 for schedules in pipe.execute() for _, due_ms in schedules]


# --- Redis ----------------------------------------------------------------------------------------------------


def redis_server(redis: Any, role: RedisRole) -> RedisServer:
    """What a Redis says of itself; one command, or two if it lets us ask for its settings."""
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
        problems=tuple(_problems(info, role)),
    )


def _problems(info: Mapping[str, Any], role: RedisRole) -> Iterator[str]:
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


def check_memory(store: RedisStore) -> None:
    """Raise Unavailable if the Redis of the jobs is nearly full: what is left is for results of those under way."""
    if full := _nearly_full(store.redis.info("memory")):
        hint = "give it more (maxmemory), or let rows go: RAGASSAY_KEEP_RESULTS_DAYS"
        raise Unavailable(f"no new jobs are taken: {full}", hint=hint, retry_after=NEARLY_FULL_RETRY_S)


def megabytes(count: int) -> str:
    """Bytes as whole megabytes."""
    return f"{count / 1e6:,.0f} MB"


def log_redis(servers: Mapping[RedisRole, str]) -> None:
    """Log what the Redis servers at these addresses are and what of them would lose jobs.

    In a thread: a Redis may hang, and the process is to start nevertheless.
    """
    threading.Thread(target=_log_redis, args=(servers,), daemon=True, name="look at Redis").start()


def _log_redis(servers: Mapping[RedisRole, str]) -> None:
    for role, url in servers.items():
        try:
            with connect(url, patient=False) as redis:
                server = redis_server(redis, role)
        except RedisError as error:
            logger.warning("Redis (%s) does not answer now: %s", role, error)
            continue
        logger.info("Redis (%s) %s", role, server.summary)
        for problem in server.problems:
            logger.warning("%s (%s)", problem, role)
