"""The truth about jobs, in Redis; a Celery message merely says that there may be work.

Once a job exists, Lua scripts, and the transaction of a retry, change its status, its claims and its accounts; plain commands
and transactions change the rest.

The keys of a job are ``ra:{job}:meta todo lease owner dead done tries report_lock contents calls:<chunk>``, ``inputs`` (rows by
chunk; ``new:<id>`` while the job is being made), and the blobs of its run (``storage.runs``) with ``partial.json`` and
``headline-<n>.json``.
A system that is called is asked under one lock over all jobs, ``ra:asks:<system>``. Each project has a list of its jobs,
``jobs``. Times are milliseconds of the Redis server's own clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from redis.exceptions import LockError, LockNotOwnedError, RedisError
from redis.lock import Lock

from ragassay.core.blobs import RedisBlobs, packed, unpacked
from ragassay.core.errors import Conflict
from ragassay.core.jobs import DEFAULT_PROJECT, ENDED, JobStatus
from ragassay.core.models import Response, Result, Sample
from ragassay.core.paging import bad_cursor
from ragassay.datasets.versions import DatasetStore
from ragassay.service.connection import refuses_writes
from ragassay.service.counters import KEY as COUNTERS
from ragassay.service.job_state import DAY_S, TRANSITIONS, Claim, JobState, Retention, gone, no_job
from ragassay.service.notifications import Notification
from ragassay.service.projects import ProjectRedis
from ragassay.storage.columns import column_parts, columns_blob, pack_texts, texts_blob
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord
from ragassay.storage.runs import GATES_FILE, REPORT_FILE, result_lines, results_blob

MAX_DEATHS = 5
NO_LIMIT = 10**9
OUTBOX = "ra:outbox"  # notifications that no beat has queued for webhooks yet
PARTIAL_FILE = "partial.json"  # the report of the rows that are done
CHUNKS_AT_ONCE = 16  # whose rows are sent to Redis
WRITTEN_WITHIN_S = 3600  # from a block of rows to the next
_WORK = ("todo", "lease", "owner", "dead")  # of a job that has not ended
_WAIT = ("waiting", "waiting_since_ms", "probes", "next_ms")  # fields of a job that waits for its provider
_OF_ONE_LIFE = (*_WAIT, "owed", "error", "alerts", "finalize_begun", "given_up")
LISTED_S = 100 * DAY_S  # for how much longer than a report a job's id is listed


class Workload(NamedTuple):
    """The work on a job at ``now_ms``; times are milliseconds since 1970, 0 where nothing happened yet.

    ``status``: empty if the job's record is gone. ``waiting``: chunks that no worker has; ``leased``: what workers have of
    it, chunks or the report. ``changed_ms``: when it was paused, resumed or tried again. ``since_ms``: when its provider
    began to fail; ``probe_ms``: when it is asked next. ``owed``: whether a worker sends its next message when it ends its
    work on a chunk.
    """

    job: str
    now_ms: int
    status: str
    waiting: int
    leased: int
    created_ms: int
    changed_ms: int
    claimed_ms: int
    since_ms: int
    probe_ms: int
    owed: int

    @property
    def needs_message(self) -> bool:
        """Does work wait that a worker may claim now? Not if one sends the message when it ends its work on a chunk."""
        if self.status == "finalizing":
            return not self.leased
        has_work = self.status in ("queued", "running") and self.waiting and self.probe_ms <= self.now_ms
        return bool(has_work and not (self.owed and self.leased))


class LiveJob(NamedTuple):
    """A job of rows of live traffic, which is in no list of jobs: its id, the account of its stream's day, and the cap of that."""

    id: str
    account: str
    usd: float | None


class RedisStore(ProjectRedis):
    """Jobs, chunks, results and reports. Every method may be called by many processes at once."""

    def __init__(
        self,
        url: str,
        *,
        lease_s: float = 60.0,
        patient: bool = True,
        project: str | None = None,
        retention: Retention = Retention(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(url, patient=patient, project=project)
        self.lease_ms, self.retention = int(lease_s * 1000), retention

    # --- jobs -------------------------------------------------------------------------------------------------

    def create(
        self,
        record: RunRecord,
        samples: Sequence[Sample],
        responses: Mapping[str, Mapping[str, Response]],
        about: Mapping[str, str | float | None],
        *,
        once: bool,
        listed: bool,
    ) -> None:
        """Save a job of this project with its input; it is visible only when all of it is there.

        ``about``: more fields of its record. ``once``: the caller has chosen the id so that a repeated submission has the
        same: raises Conflict if the job exists. ``listed``: in the project's list of jobs.
        """
        job, project = record.id, self.project or DEFAULT_PROJECT
        self.knows([job])
        called = [name for name, source in record.systems.items() if source.called]
        created_ms = int(datetime.fromisoformat(record.created_at).timestamp() * 1000)
        meta, inputs = self.key(job, "meta"), self.key(job, "inputs")
        if self.redis.exists(meta):
            raise _exists(job)
        new = self._write_inputs(record, samples, responses)
        in_turn = sorted(record.chunks(), key=lambda chunk: chunk.number)  # one of each system, then the next
        fields = {
            "status": "queued",
            "project": project,
            "record": record.model_dump_json(),
            "chunks": len(in_turn),
            "rows": len(samples) * len(record.systems),
            "rows_done": 0,
            "rows_failed": 0,
            "created_ms": created_ms,
            "provider": int(_asks_a_provider(record)),
            **({"called": orjson.dumps(called)} if called else {}),
            **{f"most_{unit}": cap for unit, cap in record.spec.budget if cap is not None},
            **{name: value for name, value in about.items() if value is not None},
        }

        def made(pipe: Any) -> None:
            if pipe.exists(meta):
                if once:
                    raise _exists(job)
                return  # nobody else has its id: the answer to this transaction was lost
            pipe.multi()
            pipe.rename(new, inputs)
            pipe.persist(inputs)
            pipe.rpush(self.key(job, "todo"), *map(str, in_turn))
            pipe.hset(meta, mapping=fields)
            if listed:
                pipe.zadd(self.of_project("jobs"), {job: created_ms})
            pipe.sadd("ra:projects", project)
            pipe.sadd("ra:active", job)

        self.redis.transaction(made, meta)

    def state(self, job: str) -> JobState:
        """The job as it stands; raises NotFound."""
        meta = {name.decode(): value for name, value in self.redis.hgetall(self.key(job, "meta")).items()}
        if "status" not in meta:
            raise no_job(job)
        return JobState.of(job, meta)

    def jobs(self, *, before: str | None, limit: int) -> list[tuple[str, str]]:
        """Ids and cursors, newest first, of the project's jobs after a cursor in that order, be its job there or not."""
        first, listed = 0, self.of_project("jobs")
        if before is not None:
            created, dash, id_ = before.partition("-")
            if not (dash and created.isascii() and created.isdecimal() and len(created) < 16):
                raise bad_cursor(before)
            at_once = self.redis.zrangebyscore(listed, created, created)
            first = self.redis.zcount(listed, f"({created}", "+inf") + sum(job >= id_.encode() for job in at_once)
        found = self.redis.zrevrange(listed, first, first + limit - 1, withscores=True)
        self.knows(job.decode() for job, _ in found)
        return [(job.decode(), f"{created:.0f}-{job.decode()}") for job, created in found]

    def kept(self, listed: Sequence[tuple[str, str]], at_once: int) -> Iterator[tuple[str, str]]:
        """Of what ``jobs`` gives, those whose record is there; so many are looked up in one round trip."""
        for first in range(0, len(listed), at_once):
            some, pipe = listed[first : first + at_once], self.redis.pipeline(transaction=False)
            for job, _ in some:
                pipe.exists(self.key(job, "meta"))
            yield from (one for one, there in zip(some, pipe.execute(), strict=True) if there)

    def active(self) -> list[str]:
        """Jobs of all projects that are neither finished nor failed nor cancelled."""
        return sorted(job.decode() for job in self.redis.smembers("ra:active"))

    def transition(
        self,
        job: str,
        to: JobStatus,
        *,
        guard: tuple[str, int] | None = None,
        fields: Mapping[str, str | int | float] = {},
        notifications: Sequence[Notification] = (),
        contents: Mapping[str, bytes] = {},
    ) -> tuple[str, bool]:
        """Change the status where ``TRANSITIONS`` allows it, with all that belongs to the change, in one step.

        ``guard``: a number of the job's record that must be as the caller saw it. ``fields`` are set, or deleted if empty;
        ``contents`` are kept with the report. A job that ends needs no sweeping, requests that are open count as spent, and
        its rows are kept for the retention time. Returns the status before and whether it changed. Raises NotFound.
        """
        rows = row_names(self.state(job).record) if to in ENDED else []
        keys = [self.key(job, "meta"), COUNTERS, OUTBOX, "ra:active"]
        keys += [self.key(job, name) for name in (*_WORK, *rows)]
        name, value = guard or ("", 0)
        outbox = [notification.model_dump_json() for notification in notifications]
        arguments = [
            to,
            f",{','.join(TRANSITIONS['transition'][to])},",
            name,
            value,
            orjson.dumps(fields),
            orjson.dumps(outbox),
        ]
        arguments += [self.retention.results_s, self.retention.reports_s]
        kept = (part for name, content in contents.items() for part in (self.key(job, name), packed(content)))
        before, changed = self.run("transition", keys, [*arguments, *kept])
        if not before:
            raise no_job(job)
        return before.decode(), bool(changed)

    def forget_gone(self, job: str) -> None:
        """Let go of a job whose record is gone: its keys were evicted or deleted by hand."""
        self.redis.srem("ra:active", job)
        self.redis.delete(*(self.key(job, name) for name in _WORK))

    def retry(
        self, job: str, record: RunRecord, chunks: Sequence[ChunkId], *, rows: int, changed_ms: int | None
    ) -> str:
        """Have a job that ended at ``changed_ms`` work again on these chunks, ``rows`` failed ones of those with results.

        Chunks with failed rows are done no more, and their results stay until others are kept. The report is that of the
        rows that are done until the next one is made. Returns the status before; ``stale`` where it has ended again since.
        Raises NotFound.
        """
        meta, report = self.key(job, "meta"), self.key(job, REPORT_FILE)
        names, done = [str(chunk) for chunk in chunks], {chunk.encode() for chunk in self.done(job)}
        now_ms = int(self.now_ms())

        def step(pipe: Any) -> str:
            before, ended_ms = pipe.hmget(meta, "status", "changed_ms")
            if before is None:
                raise no_job(job)
            if (status := before.decode()) not in TRANSITIONS["retry"]["running"]:
                return str(status)
            if ended_ms != (None if changed_ms is None else str(changed_ms).encode()):
                return "stale"
            has_report = pipe.exists(report)
            pipe.multi()
            pipe.sadd("ra:active", job)
            for name in ("meta", *row_names(record)):
                pipe.persist(self.key(job, name))
            pipe.delete(*(self.key(job, name) for name in (*_WORK, GATES_FILE)))
            if has_report:
                pipe.rename(report, self.key(job, PARTIAL_FILE))
            for name in names:
                pipe.rpush(self.key(job, "todo"), name)
                if name.encode() in done:
                    pipe.srem(self.key(job, "done"), name)
                    pipe.hincrby(self.key(job, "tries"), name)
            pipe.hincrby(meta, "rows_done", -rows)
            pipe.hincrby(meta, "rows_failed", -rows)
            pipe.hincrby(meta, "retries")
            pipe.hdel(meta, *_OF_ONE_LIFE)
            pipe.hset(meta, mapping={"status": "running" if chunks else "finalizing", "changed_ms": now_ms})
            return str(status)

        return str(self.redis.transaction(step, meta, value_from_callable=True))

    def blobs(self, job: str) -> RedisBlobs:
        """The blobs of a job's run. Raises NotFound for a job of another project."""
        return RedisBlobs(self.redis, self.key(job, ""), where=f"job {job}", kept_s=self.retention.reports_s)

    @property
    def datasets(self) -> DatasetStore:
        """The datasets of the project."""
        return DatasetStore(
            RedisBlobs(self.redis, self.of_project("datasets:"), where="Redis", kept_s=WRITTEN_WITHIN_S)
        )

    # --- chunks -----------------------------------------------------------------------------------------------

    def claim(self, job: str) -> Claim | None:
        """The next chunk, or None when there is none to be had. A system that is called is asked by one worker at a time."""
        called = orjson.loads(self.redis.hget(self.key(job, "meta"), "called") or b"[]")
        waits = False
        while True:
            busy = [system for system in called if self.redis.exists(_asks(system))]
            claim = self._claim(job, called, busy)
            if claim is None:
                if waits or not busy:
                    return None
                pipe, waits = self.redis.pipeline(transaction=False), True  # and looks again: one may be free by now
                for system in busy:
                    pipe.zadd(f"{_asks(system)}:waiting", {job: self.now_ms()}, nx=True)
                    pipe.expire(f"{_asks(system)}:waiting", DAY_S)
                pipe.execute()
            elif claim.lock is None or claim.lock.acquire():
                return claim
            else:
                self.release(claim)  # another worker was first
                waits = False  # who found the chunk taken meanwhile does not wait for it

    def _claim(self, job: str, called: Collection[str], busy: Sequence[str]) -> Claim | None:
        token = uuid.uuid4().hex
        keys, processes = [self.key(job, name) for name in ("meta", "todo", "lease", "owner")], self.processes()
        max_of_a_provider = max(1, processes - 1) if processes else NO_LIMIT
        claimed = self.run("claim", [*keys, COUNTERS], [token, self.lease_ms, max_of_a_provider, *busy])
        if claimed is None:
            return None
        chunk, more = claimed
        claim = Claim.of(job, chunk, token, more=bool(more))
        return replace(claim, lock=self._lock(_asks(claim.system))) if claim.system in called else claim

    def freed(self, claim: Claim) -> list[str]:
        """A worker ends its work on a chunk: the jobs that get a message for that, those that waited for its system first."""
        jobs: list[str] = []
        if claim.lock:
            with suppress(LockError):  # it took longer than the lock is held
                claim.lock.release()
            waiting, pipe = f"{claim.lock.name}:waiting", self.redis.pipeline(transaction=True)
            pipe.zrange(waiting, 0, -1)
            pipe.delete(waiting)
            jobs = [job.decode() for job in pipe.execute()[0]]
        return [*jobs, claim.job] if self.takes_owed(claim.job) else jobs

    def takes_owed(self, job: str) -> bool:
        """Does the caller send the job's next message now? True once each time that one is owed."""
        return bool(self.redis.hdel(self.key(job, "meta"), "owed"))

    def report_lock(self, job: str) -> Lock:
        """The lock of the worker that makes a job's report."""
        return self._lock(self.key(job, "report_lock"))

    def _lock(self, key: str) -> Lock:
        """A lock for the length of a lease."""
        lock: Lock = self.redis.lock(key, timeout=self.lease_ms / 1000, blocking=False, thread_local=False)
        return lock

    def starts(self, claim: Claim) -> bool:
        """Does the evaluation of the claim's system begin now? True once for each system of a job."""
        return self._note(claim.job, f"started:{claim.system}", b"1")

    def keep_built(self, job: str, system: str, models: Sequence[str]) -> None:
        """Keep the models of a built-in system, for the report."""
        self._note(job, f"built:{system}", orjson.dumps(list(models)))

    def note_undelivered(self, job: str, webhook: str, why: str) -> None:
        """Write down with a job that a webhook did not get a notification of it in all tries."""
        self._note(job, f"undelivered:{webhook}", why.encode())

    def _note(self, job: str, field: str, value: bytes) -> bool:
        """Set a field of a job's record; False if it had the field, or is gone by now and stays so."""
        meta = self.key(job, "meta")
        return bool(self.redis.exists(meta) and self.redis.hset(meta, field, value))

    def renew(self, claim: Claim) -> bool:
        """Keep the lease for longer; False when it is no longer ours or the job no longer wanted.

        True while Redis does not answer: then nobody else can take it either, and the next renewal will tell.
        """
        keys = [self.key(claim.job, name) for name in ("meta", "lease", "owner")]
        try:
            if claim.lock and not renewed(claim.lock):
                return False
            return bool(self.run("renew", keys, [str(claim), claim.token, self.lease_ms]))
        except RedisError:
            return True

    def commit(
        self, claim: Claim, record: RunRecord, results: Sequence[Result], evaluated: Sequence[Result] | None = None
    ) -> Outcome:
        """Store the results once: ``kept``, ``last`` when the job is complete now, ``stale`` when the claim was lost.

        ``evaluated``: those that are new, where the chunk had some before.
        """
        new = results if evaluated is None else evaluated
        names = ("meta", "lease", "owner", "done", "results", "texts", columns_blob(claim.system))
        field, texts_field = (name.partition("/")[2] for name in (results_blob(claim), texts_blob(claim)))
        counts = len(new), sum(result.failed for result in new)
        arguments = [str(claim), claim.token, field, packed(result_lines(results)), *counts, texts_field]
        parts = (each for part in column_parts(record, claim, results, written=1.0) for each in part)
        keys = [*(self.key(claim.job, name) for name in names), COUNTERS]
        outcome: Outcome = self.run("commit", keys, [*arguments, pack_texts(results), *parts]).decode()
        return outcome

    def release(self, claim: Claim, *, died: str = "") -> None:
        """Return what could not be finished; ``died``: why, if it counts as a chunk's death, and too many end its retries."""
        self._release(claim, "died" if died else "back", died)

    def wait_for_provider(self, claim: Claim, why: str, *, wait_s: float, outage_timeout_s: float) -> bool:
        """Return a chunk because its provider fails; False when it has failed for too long: the caller keeps the chunk.

        Nothing else is given out of the job until the next probe is due.
        """
        return self._release(claim, "wait", why, int(wait_s * 1000), int(outage_timeout_s * 1000)) != "given up"

    def _release(self, claim: Claim, how: str, why: str, wait_ms: int = 0, give_up_ms: int = 0) -> str:
        keys = [self.key(claim.job, name) for name in ("meta", "todo", "lease", "owner", "dead")]
        arguments = [str(claim), claim.token, how, why, MAX_DEATHS, wait_ms, give_up_ms]
        return str(self.run("release", keys, arguments).decode())

    def end_wait(self, job: str) -> None:
        """The provider answers again."""
        self.redis.hdel(self.key(job, "meta"), *_WAIT)

    def why_dead(self, claim: Claim) -> str | None:
        """The error with which a chunk failed the last time; None when its worker died without a word."""
        why = self.redis.hget(self.key(claim.job, "dead"), f"why:{claim}")
        return None if why is None else str(why.decode())

    def count_finalize(self, job: str, by: int = 1) -> int:
        """How often the report was begun, this time included."""
        return int(self.redis.hincrby(self.key(job, "meta"), "finalize_begun", by))

    def sweep(self, job: str) -> tuple[list[Claim], int]:
        """Take back chunks whose lease ran out: those that died too often, claimed for the caller, and how many wait again."""
        token = uuid.uuid4().hex
        keys = [*(self.key(job, name) for name in ("meta", "todo", "lease", "owner", "dead")), COUNTERS]
        poisoned, returned = self.run("sweep", keys, [MAX_DEATHS, token, self.lease_ms])
        return [Claim.of(job, chunk, token) for chunk in poisoned], int(returned)

    def samples(self, job: str, chunk: ChunkId) -> list[Sample]:
        """The input of a chunk, with its system's responses where they are recorded."""
        shared = ChunkId("", chunk.number)
        own, of_all = self.redis.hmget(self.key(job, "inputs"), str(chunk), str(shared))
        if (rows := unpacked(own or of_all)) is None:
            raise gone(f"the rows of chunk {chunk}", job)
        return [Sample.model_validate(row) for row in orjson.loads(rows)]

    def keep_rows(self, job: str, record: RunRecord) -> bool:
        """Keep the rows of a finished job for their whole retention time from now on; False if some are deleted."""
        kept_s = min(self.retention.results_s, self.redis.ttl(self.key(job, "meta")))
        pipe = self.redis.pipeline(transaction=False)
        for name in row_names(record):
            pipe.expire(self.key(job, name), kept_s)
        pipe.execute()
        return int(self.redis.hlen(self.key(job, "results"))) == len(record.chunks())

    def done(self, job: str) -> list[str]:
        """The chunks whose results were committed and are not to be replaced."""
        return [chunk.decode() for chunk in self.redis.smembers(self.key(job, "done"))]

    def spent(self, job: str, unit: str = "usd") -> float:
        """What the job's calls of models have cost so far, as far as their prices are known; or their ``tokens``."""
        return float(self.redis.hget(self.key(job, "meta"), f"spent_{unit}") or 0)

    def tries(self, claim: Claim) -> int:
        """How often rows of the chunk were tried again, this time included; 0 for one that has no results yet."""
        return int(self.redis.hget(self.key(claim.job, "tries"), str(claim)) or 0)

    # --- messages ---------------------------------------------------------------------------------------------

    def workloads(self, jobs: Sequence[str]) -> list[Workload]:
        """The work on jobs, in two round trips."""
        now, pipe = int(self.now_ms()), self.redis.pipeline(transaction=False)
        for job in jobs:
            times = ("created_ms", "changed_ms", "claimed_ms", "waiting_since_ms", "next_ms")
            pipe.hmget(self.key(job, "meta"), *times, "owed")
            pipe.hget(self.key(job, "meta"), "status")
            pipe.llen(self.key(job, "todo"))
            pipe.zcount(self.key(job, "lease"), now, "+inf")
            pipe.exists(self.key(job, "report_lock"))
        answers = iter(pipe.execute())
        return [
            Workload(job, now, (status or b"").decode(), waiting, leased + report, *(int(time or 0) for time in times))
            for job, times, status, waiting, leased, report in zip(
                jobs, answers, answers, answers, answers, answers, strict=True
            )
        ]

    # --- rows -------------------------------------------------------------------------------------------------

    def _write_inputs(
        self, record: RunRecord, samples: Sequence[Sample], responses: Mapping[str, Mapping[str, Response]]
    ) -> str:
        """Write the rows of all chunks under a key of their own, a few chunks at a time; they go if no job takes them."""
        new, size = self.key(record.id, f"new:{uuid.uuid4().hex}"), record.chunk_size
        try:
            pipe = self.redis.pipeline(transaction=False)
            for number, chunk in enumerate({input_chunk(chunk, record): None for chunk in record.chunks()}, 1):
                rows = samples[chunk.number * size : (chunk.number + 1) * size]
                recorded = responses.get(chunk.system, {})
                given = [row.model_copy(update={"response": recorded.get(row.query_id)}) for row in rows]
                content = orjson.dumps([row.model_dump(mode="json", exclude_defaults=True) for row in given])
                pipe.hset(new, str(chunk), packed(content))
                pipe.expire(new, WRITTEN_WITHIN_S)
                if number % CHUNKS_AT_ONCE == 0:
                    pipe.execute()
            pipe.execute()
        except RedisError as error:
            if refuses_writes(error):  # it is full, and the other jobs need what this one took
                self.redis.unlink(new)
            raise
        return new

    def check_rows(self, record: RunRecord, chunks: Iterable[ChunkId], done: Collection[str]) -> None:
        """Raise NotFound where Redis has lost the input of these chunks, or results of those that are done."""
        inputs = {str(input_chunk(chunk, record)) for chunk in chunks}
        kept = {each.decode() for each in self.redis.hkeys(self.key(record.id, "inputs"))}
        if not inputs <= kept or self.redis.hlen(self.key(record.id, "results")) < len(done):
            raise gone("rows or results", record.id)

    # --- retention --------------------------------------------------------------------------------------------

    def trim(self) -> None:
        """Forget the ids of jobs whose records are long gone."""
        oldest_ms = self.now_ms() - (self.retention.reports_s + LISTED_S) * 1000
        for listed in self.job_lists():
            self.redis.zremrangebyscore(listed, "-inf", oldest_ms)


def renewed(lock: Lock) -> bool:
    """Keep a lock for longer; False if another process may have it. True while Redis does not answer: none can take it."""
    try:
        return lock.reacquire()
    except LockNotOwnedError:
        return False
    except RedisError:
        return True


def _asks(system: str) -> str:
    """The key of the lock of a system that is called."""
    return f"ra:asks:{system}"


def headline_blob(retries: int) -> str:
    """The name of the blob with the sentences on the systems of a finished job, after so many retries."""
    return f"headline-{retries}.json"


def input_chunk(chunk: ChunkId, record: RunRecord) -> ChunkId:
    """The chunk under which a chunk's input is kept: systems without recorded responses share theirs."""
    return ChunkId("", chunk.number) if record.systems[chunk.system].answers else chunk


def row_names(record: RunRecord) -> list[str]:
    """Under which names all of a job's rows are: what was asked, what was called, what came of it."""
    calls = [f"calls:{chunk}" for chunk in record.chunks()]
    columns = [columns_blob(system) for system in record.systems]
    return ["inputs", "results", "texts", "contents", "done", "tries", *columns, *calls]


def _asks_a_provider(record: RunRecord) -> bool:
    """Does a chunk of the run call a model or a live system, and so may wait for it?"""
    answering = (source.built.configuration.get("answer") for source in record.systems.values() if source.built)
    return (
        not record.spec.is_local
        or any(source.called for source in record.systems.values())
        or any(answer not in (None, "extractive") for answer in answering)
    )


def _exists(job: str) -> Conflict:
    return Conflict(f"job {job} exists")
