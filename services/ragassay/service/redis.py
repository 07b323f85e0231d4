"""The truth about jobs, in Redis, changed by Lua scripts only; a Celery message merely says that there may be work.

The keys of a job are ``ra:{job}:meta todo lease owner dead done tries report_lock in:<chunk>
calls:<chunk> out:<chunk> column:<system>:<name> texts report costs partial partial_costs gates labels``,
and ``new:<id>``, rows of a job that is still being made.
Who asks a system that is called is kept for all jobs together, in ``ra:asks:<system>``. Each project has a list of its jobs,
``jobs``. Times are milliseconds of the Redis server's own clock.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson
import zstandard
from redis import exceptions

from ragassay.core.errors import Conflict, NotFound, TooLarge, Unavailable, bad_cursor
from ragassay.core.jobs import ENDED, Planned
from ragassay.core.models import Response, Result, Sample
from ragassay.core.report import DEFAULT_PROJECT
from ragassay.core.specification import Budget
from ragassay.evaluation.human_labels import MOST_LABELS, HumanLabel
from ragassay.service.counters import KEY as COUNTERS
from ragassay.service.job_state import Claim, JobState, Retention, gone, no_job
from ragassay.service.projects import ProjectRedis
from ragassay.storage.columns import columns, pack_texts
from ragassay.storage.columns import names as column_kinds
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord

MOST_DEATHS = 5
LOOK_EVERY_S, NO_LIMIT = 5.0, 10**9
WHOLE, PARTIAL = ("report", "costs"), ("partial", "partial_costs")
REPORT_NAMES = ("meta", *WHOLE, *PARTIAL, "headline", "gates", "labels")
CHUNKS_AT_ONCE = 16  # whose rows are sent to Redis
WRITTEN_WITHIN_S = 3600
A_ROUND = 1000  # ids of jobs that are looked at together


@dataclass
class Applied:
    """How many jobs a retention was applied to, and of these, how many lose all or their rows at once."""

    jobs: int = 0
    without_report: int = 0
    without_rows: int = 0


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
        self._looked_up = (-math.inf, 0)

    # --- jobs -------------------------------------------------------------------------------------------------

    def create(
        self,
        record: RunRecord,
        samples: Sequence[Sample],
        responses: Mapping[str, Mapping[str, Response]],
        *,
        gating: dict[str, Any] | None = None,
        body_digest: str | None = None,
        planned: Planned | None = None,
    ) -> None:
        """Save a job of this project with its input; it is visible only when all of it is there.

        ``body_digest``: what a submission with an idempotency key asked for. With it, or for a ``planned`` run, the caller
        has chosen the id so that a repeated submission has the same: raises Conflict if the job exists.
        """
        job, project = record.id, self.project or DEFAULT_PROJECT
        self.knows([job])
        called = [name for name, source in record.systems.items() if source.called]
        created_ms = int(datetime.fromisoformat(record.created_at).timestamp() * 1000)
        once = planned is not None or body_digest is not None
        if once and self.redis.exists(self.key(job, "meta")):
            raise _exists(job)
        with self._rows_ahead(record, samples, responses) as ahead, self.redis.pipeline(transaction=True) as pipe:
            if once:
                pipe.watch(self.key(job, "meta"))
                if pipe.exists(self.key(job, "meta")):
                    raise _exists(job)
                pipe.multi()
            for name, new in ahead.items():
                pipe.copy(new, name, replace=True)  # and not renamed: this may be sent again after a lost answer
                pipe.persist(name)
                pipe.unlink(new)
            pipe.delete(self.key(job, "todo"))
            in_turn = sorted(record.chunks(), key=lambda chunk: chunk.number)  # one of each system, then the next
            pipe.rpush(self.key(job, "todo"), *map(str, in_turn))
            pipe.hset(
                self.key(job, "meta"),
                mapping={
                    "status": "queued",
                    "project": project,
                    "record": record.model_dump_json(),
                    "gating": orjson.dumps(gating or {}),
                    "chunks": len(in_turn),
                    "chunk_size": record.chunk_size,
                    "rows": len(samples) * len(record.systems),
                    "rows_done": 0,
                    "rows_failed": 0,
                    "created_ms": created_ms,
                    "provider": int(_asks_a_provider(record)),
                    "called": f",{','.join(called)}," if called else "",
                    **_caps(record.spec.budget),
                    **({"planned": planned.model_dump_json()} if planned else {}),
                    **({"body_digest": body_digest} if body_digest else {}),
                },
            )
            pipe.zadd(self.of_project("jobs"), {job: created_ms})
            pipe.sadd("ra:projects", project)
            pipe.sadd("ra:active", job)
            self._execute_new(pipe, job)

    def _execute_new(self, pipe: Any, job: str) -> None:
        """Execute the transaction that makes a job; raises Conflict if the job exists by now."""
        try:
            pipe.execute()
        except exceptions.WatchError as error:  # redis-py raises it for a lost connection as well
            if self.redis.exists(self.key(job, "meta")):
                raise _exists(job) from None
            raise exceptions.ConnectionError(str(error)) from None

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
            if not (dash and created.isdecimal() and len(created) < 16):
                raise bad_cursor(before)
            at_once = self.redis.zrangebyscore(listed, created, created)
            first = self.redis.zcount(listed, f"({created}", "+inf") + sum(job >= id_.encode() for job in at_once)
        found = self.redis.zrevrange(listed, first, first + limit - 1, withscores=True)
        self.knows(job.decode() for job, _ in found)
        return [(job.decode(), f"{created:.0f}-{job.decode()}") for job, created in found]

    def active(self) -> list[str]:
        """Jobs of all projects that are neither finished nor failed nor cancelled."""
        return sorted(job.decode() for job in self.redis.smembers("ra:active"))

    def transition_status(self, job: str, to: str, *allowed: str, error: str = "") -> str:
        """Change the status where it is one of ``allowed``, for an ``error`` if any; returns the one before.

        Raises NotFound.
        """
        return self._status_before("transition_status", job, [self.key(job, "meta"), COUNTERS], [to, error, *allowed])

    def _status_before(self, script: str, job: str, keys: Sequence[str], arguments: Sequence[Any]) -> str:
        before = self.run(script, keys, arguments)
        if before is None:
            raise no_job(job)
        return str(before.decode())

    def close(self, job: str, record: RunRecord | None = None) -> None:
        """A job that has ended needs no sweeping; its input, calls and results are kept for the retention time.

        Calls that are still open count as spent. A job that works again by now stays as it is.
        """

        def closed(pipe: Any) -> bool:
            status, in_flight = pipe.hmget(self.key(job, "meta"), ("status", "in_flight"))
            pipe.multi()
            if status is not None and status.decode() not in ENDED:
                return False
            pipe.srem("ra:active", job)
            pipe.delete(*(self.key(job, name) for name in ("todo", "lease", "owner", "dead")))
            for name in row_names(record) if record else ("done",):
                pipe.expire(self.key(job, name), self.retention.results_s)
            pipe.expire(self.key(job, "meta"), self.retention.reports_s)
            return int(in_flight or 0) > 0

        if self.redis.transaction(closed, self.key(job, "meta"), value_from_callable=True):
            for chunk in record.chunks() if record else ():
                self._book_open(job, str(chunk))

    def fail(self, job: str, error: str) -> None:
        """End a job that can't go on, and say why."""
        self.transition_status(job, "failed", "queued", "running", "paused", "finalizing", error=error)

    def pause(self, job: str, why: str, resumes: int) -> None:
        """No chunk is given out any more, until ``resume``; nothing where it came after the caller's claim."""
        self.run("pause", [self.key(job, "meta")], [why, resumes])

    def resume(self, job: str, budget: Budget, *, lifted: Collection[str] = ()) -> str:
        """Go on with a paused job; returns the status before. Raises NotFound.

        A cap of ``budget`` replaces the job's, and stays as it is if ``budget`` has none. ``lifted``: ``usd`` or
        ``tokens``, the caps that the job has no longer.
        """
        given = {"usd": budget.usd, "tokens": budget.tokens}
        caps = ["none" if name in lifted else "" if most is None else most for name, most in given.items()]
        return self._status_before("resume", job, [self.key(job, "meta")], caps)

    def retry(self, job: str, record: RunRecord, chunks: Sequence[ChunkId], *, rows: int, ended_ms: int | None) -> str:
        """Have a job that ended at ``ended_ms`` work again on these chunks, ``rows`` failed ones of those with results.

        Returns the status before; ``stale`` where it has ended again since. Raises NotFound.
        """
        names = ("meta", "todo", "done", "tries", "lease", "owner", "dead")
        reports = (*WHOLE, *PARTIAL, "gates", "headline")
        own = [self.key(job, name) for name in names]
        kept = [self.key(job, name) for name in (*reports, *row_names(record))]
        arguments = ["" if ended_ms is None else ended_ms, rows, *map(str, chunks)]
        return self._status_before("retry", job, [*own, "ra:active", *kept], arguments)

    # --- chunks -----------------------------------------------------------------------------------------------

    def claim(self, job: str) -> Claim | None:
        """The next chunk, or None when there is none to be had."""
        token = uuid.uuid4().hex
        keys, processes = [self.key(job, name) for name in ("meta", "todo", "lease", "owner")], self.processes_lately()
        most_of_a_provider = max(1, processes - 1) if processes else NO_LIMIT
        chunk = self.run("claim", keys, [token, self.lease_ms, most_of_a_provider])
        if not chunk:
            return None
        self._book_open(job, chunk.decode())
        return Claim.of(job, chunk, token)

    def report_lock(self, job: str) -> Any:
        """The lock of the worker that makes a job's report, for the length of a lease."""
        key = self.key(job, "report_lock")
        return self.redis.lock(key, timeout=self.lease_ms / 1000, blocking=False, thread_local=False)

    def end_turn(self, claim: Claim) -> list[str]:
        """The chunk's system may be asked by others; the jobs that have waited for that, the longest first."""
        keys = [f"ra:asks:{claim.system}", f"ra:asks:{claim.system}:waiting"]
        return [job.decode() for job in self.run("end_turn", keys, [claim.token])]

    def keep_built(self, job: str, system: str, models: Sequence[str], index_bytes: int | None) -> None:
        """Keep what a worker made of a built-in system, for the report."""
        self.redis.hset(self.key(job, "meta"), f"built:{system}", orjson.dumps([list(models), index_bytes]))

    def processes_lately(self) -> int:
        """How many processes all workers had for chunks a few seconds ago; 0 where nobody sends a heartbeat."""
        looked_up, processes = self._looked_up
        if time.monotonic() - looked_up > LOOK_EVERY_S:
            processes = self.processes()
            self._looked_up = time.monotonic(), processes
        return processes

    def renew(self, claim: Claim) -> bool:
        """Keep the lease for longer; False when it is no longer ours or the job no longer wanted.

        True while Redis does not answer: then nobody else can take it either, and the next renewal will tell.
        """
        from redis.exceptions import RedisError

        keys = [self.key(claim.job, name) for name in ("meta", "lease", "owner")]
        try:
            return bool(self.run("renew", keys, [str(claim), claim.token, self.lease_ms]))
        except RedisError:
            return True

    def commit(self, claim: Claim, results: Sequence[Result], evaluated: Sequence[Result] | None = None) -> Outcome:
        """Store the results once: ``kept``, ``last`` when the job is complete now, ``stale`` when the claim was lost.

        ``evaluated``: those that are new, where the chunk had some before.
        """
        new = results if evaluated is None else evaluated
        names = ("meta", "lease", "owner", "done", f"out:{claim}", "texts")
        failed = sum(result.failed for result in new)
        blob = pack([result.model_dump(mode="json", exclude_defaults=True) for result in results])
        arguments = [str(claim), claim.token, blob, len(new), failed, pack_texts(results), claim.number]
        by_key = {self.key(claim.job, column_name(claim.system, n)): c for n, c in columns(results).items()}
        keys = [*(self.key(claim.job, name) for name in names), COUNTERS, *by_key]
        outcome: Outcome = self.run("commit", keys, [*arguments, *(c.tobytes() for c in by_key.values())]).decode()
        return outcome

    def give_back(self, claim: Claim, *, why: str = "") -> None:
        """Return what could not be finished; with ``why`` it counts as a chunk's death, and too many end its retries."""
        keys = [self.key(claim.job, name) for name in ("meta", "todo", "lease", "owner", "dead")]
        self.run("give_back", keys, [str(claim), claim.token, why, MOST_DEATHS])

    def wait_for_provider(self, claim: Claim, why: str, *, wait_s: float, give_up_s: float) -> str:
        """Return a chunk because its provider fails: ``waiting``; ``given up`` when it has failed for too long.

        Nothing else is given out of the job until the next probe is due. ``stale`` when the claim was lost.
        """
        keys = [self.key(claim.job, name) for name in ("meta", "todo", "lease", "owner")]
        arguments = [str(claim), claim.token, why, int(wait_s * 1000), int(give_up_s * 1000)]
        return str(self.run("wait", keys, arguments).decode())

    def end_wait(self, job: str) -> None:
        """The provider answers again."""
        self.redis.hdel(self.key(job, "meta"), "waiting", "waiting_since_ms", "probes", "next_ms")

    def why_dead(self, claim: Claim) -> str | None:
        """The error with which a chunk failed the last time; None when its worker died without a word."""
        why = self.redis.hget(self.key(claim.job, "dead"), f"why:{claim}")
        return None if why is None else str(why.decode())

    def count_finalize(self, job: str, what: Literal["begun", "failed"], by: int = 1) -> int:
        """How often the report was begun, or failed, this time included."""
        return int(self.redis.hincrby(self.key(job, "meta"), f"finalize_{what}", by))

    def sweep(self, job: str) -> tuple[list[Claim], int]:
        """Take back chunks whose lease ran out: those that died too often, claimed for the caller, and how many wait again."""
        token = uuid.uuid4().hex
        keys = [*(self.key(job, name) for name in ("meta", "todo", "lease", "owner", "dead")), COUNTERS]
        poisoned, expired = self.run("sweep", keys, [MOST_DEATHS, token, self.lease_ms])
        for chunk in expired:
            self._book_open(job, chunk.decode())
        return [Claim.of(job, chunk, token) for chunk in poisoned], len(expired) - len(poisoned)

    def _book_open(self, job: str, chunk: str) -> None:
        """Requests of a chunk that a dead worker left open count as spent: they may have been paid."""
        keys = [self.key(job, name) for name in (f"calls:{chunk}", "meta", "owner")]
        self.run("book_open", [*keys, COUNTERS], [chunk])

    def pending(self, job: str) -> set[ChunkId]:
        """The chunks that wait to be claimed."""
        return {ChunkId.parse(chunk.decode()) for chunk in self.redis.lrange(self.key(job, "todo"), 0, -1)}

    def samples(self, job: str, chunk: ChunkId) -> list[Sample]:
        """The input of a chunk, with its system's responses where they are recorded."""
        shared = ChunkId("", chunk.number)
        own, of_all = self.redis.mget([self.key(job, f"in:{each}") for each in (chunk, shared)])
        blob = own or of_all
        if blob is None:
            raise gone(f"the rows of chunk {chunk}", job)
        return [Sample.model_validate(row) for row in unpack(blob)]

    def results(self, job: str, chunk: ChunkId) -> list[Result] | None:
        """The committed results of a chunk, in the order of evaluation; None when it has none."""
        blob = self.redis.get(self.key(job, f"out:{chunk}"))
        return None if blob is None else [Result.model_validate(row) for row in unpack(blob)]

    def with_results(self, job: str, chunks: Sequence[ChunkId]) -> list[ChunkId]:
        """Those of the chunks that have committed results, in the same order."""
        pipe = self.redis.pipeline(transaction=False)
        for chunk in chunks:
            pipe.exists(self.key(job, f"out:{chunk}"))
        return [chunk for chunk, there in zip(chunks, pipe.execute(), strict=True) if there]

    def keep_rows(self, job: str, record: RunRecord) -> bool:
        """Keep the rows of a finished job for their whole retention time from now on; False if some are deleted."""
        kept_s = min(self.retention.results_s, self.redis.ttl(self.key(job, "meta")))
        pipe = self.redis.pipeline(transaction=False)
        for name in row_names(record):
            pipe.expire(self.key(job, name), kept_s)
        pipe.execute()
        return self.with_results(job, record.chunks()) == record.chunks()

    def done(self, job: str) -> list[str]:
        """The chunks whose results were committed and are not to be replaced."""
        return [chunk.decode() for chunk in self.redis.smembers(self.key(job, "done"))]

    def spent_usd(self, job: str) -> float:
        """What the job's calls of models have cost so far, as far as their prices are known."""
        return float(self.redis.hget(self.key(job, "meta"), "spent_usd") or 0)

    def tries(self, claim: Claim) -> int:
        """How often rows of the chunk were tried again, this time included; 0 for one that has no results yet."""
        return int(self.redis.hget(self.key(claim.job, "tries"), str(claim)) or 0)

    # --- messages ---------------------------------------------------------------------------------------------

    def count_waiting(self, job: str) -> int:
        """How many chunks wait to be claimed; 0 while the provider's next probe is not due."""
        probe_ms = int(self.redis.hget(self.key(job, "meta"), "next_ms") or 0)
        return 0 if probe_ms > self.now_ms() else int(self.redis.llen(self.key(job, "todo")))

    def note_sent(self, job: str) -> None:
        """Write down that messages were sent for the job."""
        self.redis.hset(self.key(job, "meta"), "sent_ms", int(self.now_ms()))

    def is_stalled(self, job: str) -> bool:
        """Does work of a job wait that no worker has, without a claim or a message for as long as a lease?

        While a provider fails, the work waits for the next probe.
        """
        now = self.now_ms()
        pipe = self.redis.pipeline(transaction=False)
        pipe.hmget(self.key(job, "meta"), "status", "sent_ms", "claimed_ms", "next_ms")
        pipe.llen(self.key(job, "todo"))
        pipe.zcount(self.key(job, "lease"), now, "+inf")
        pipe.exists(self.key(job, "report_lock"))
        (status, sent, claimed, probe), waiting, leased, report = pipe.execute()
        silent = now - max(int(sent or 0), int(claimed or 0)) >= self.lease_ms
        if status == b"finalizing":
            return silent and not report
        if status not in (b"queued", b"running") or not waiting or leased:
            return False
        return silent if probe is None else int(probe) <= now and (sent is None or silent)

    # --- reports, each once: a finalize that was overtaken must not change what was read ----------------------
    # What follows from a report is kept only if the failed rows were tried again ``retries`` times when it was made.

    def save_report(self, job: str, report: bytes, costs: bytes, *, partial: bool = False, retries: int = 0) -> None:
        """Keep the finished report and its record of costs; the first ones stay.

        ``partial``: of the rows that a paused or cancelled job has done so far; the next one takes its place.
        """
        names = PARTIAL if partial else WHOLE
        packed = dict(zip(names, map(zstandard.compress, (report, costs)), strict=True))

        def save(pipe: Any) -> None:
            for name, content in packed.items():
                pipe.set(self.key(job, name), content, ex=self.retention.reports_s, nx=not partial)

        self._at_retry(job, retries, save)

    def _at_retry(self, job: str, retries: int, write: Callable[[Any], object]) -> list[Any]:
        def checked(pipe: Any) -> None:
            known = int(pipe.hget(self.key(job, "meta"), "retries") or 0)
            pipe.multi()
            if known == retries:
                write(pipe)

        answers: list[Any] = self.redis.transaction(checked, self.key(job, "meta"))
        return answers

    def report(self, job: str) -> bytes:
        """The report's JSON, else that of the rows done when the job was paused or cancelled, or before failed ones were
        tried again. Raises NotFound for an unknown job, Conflict while there is no report.
        """
        blob: bytes | None = self.redis.get(self.key(job, "report"))
        if blob is None:
            retried = self.redis.hget(self.key(job, "meta"), "retries") is not None
            if retried or self.status(job) in ("paused", "cancelled"):
                blob = self.redis.get(self.key(job, "partial"))
        if blob is None:
            status = self.status(job)
            raise Conflict(f"job {job} is {status} and has no report", hint="follow it: GET /v1/jobs/" + job)
        return zstandard.decompress(blob)

    def save_gates(self, job: str, document: bytes, alerts: bytes, *, retries: int = 0) -> bool:
        """Keep what the gates say, and the alerts in the job's record; False where that was kept already."""

        def save(pipe: Any) -> None:
            pipe.set(self.key(job, "gates"), document, ex=self.retention.reports_s, nx=True)
            pipe.hsetnx(self.key(job, "meta"), "alerts", alerts)

        answers = self._at_retry(job, retries, save)
        return bool(answers and answers[0])

    def keep_notifications(self, job: str, notifications: bytes, *, retries: int = 0) -> None:
        """Keep the notifications of a job's report until they are sent; the first stay."""
        self._at_retry(job, retries, lambda pipe: pipe.hsetnx(self.key(job, "meta"), "notifications", notifications))

    def headline(self, job: str) -> bytes | None:
        """The sentences on a finished job's systems, as JSON; None where nobody has asked for them."""
        kept: bytes | None = self.redis.get(self.key(job, "headline"))
        return kept

    def keep_headline(self, job: str, headline: bytes, *, retries: int = 0) -> None:
        """Keep those sentences as long as a report may live."""
        name, kept_s = self.key(job, "headline"), self.retention.reports_s
        self._at_retry(job, retries, lambda pipe: pipe.set(name, headline, ex=kept_s))

    def gates(self, job: str) -> bytes | None:
        """What the gates of a job say, as JSON; empty where they could not be checked."""
        document: bytes | None = self.redis.get(self.key(job, "gates"))
        return document

    def add_labels(self, job: str, labels: Sequence[HumanLabel]) -> None:
        """Keep labels for as long as the finished report.

        Raises NotFound, Conflict while there is no such report, and TooLarge beyond what is kept of a job.
        """
        left_s = self.redis.ttl(self.key(job, "report"))
        if left_s <= 0:
            raise Conflict(f"job {job} is {self.status(job)}", hint="rows can be labelled once it is completed")
        if self.redis.llen(self.key(job, "labels")) + len(labels) > MOST_LABELS:
            raise TooLarge(f"of a job {MOST_LABELS:,} labels are kept", hint="label another run")
        pipe = self.redis.pipeline(transaction=True)
        pipe.rpush(self.key(job, "labels"), *(label.model_dump_json() for label in labels))
        pipe.expire(self.key(job, "labels"), left_s)
        pipe.execute()

    def labels(self, job: str) -> Sequence[HumanLabel]:
        """What people said of the job's rows, oldest first; raises NotFound."""
        return [HumanLabel.model_validate_json(line) for line in self.redis.lrange(self.key(job, "labels"), 0, -1)]

    # --- rows -------------------------------------------------------------------------------------------------

    @contextmanager
    def _rows_ahead(
        self, record: RunRecord, samples: Sequence[Sample], responses: Mapping[str, Mapping[str, Response]]
    ) -> Iterator[dict[str, str]]:
        """Write each chunk's rows beside its key, for an hour, a few chunks at a time; {key: where they are}.

        They go where the block is refused. Raises Unavailable where they took too long.
        """
        inputs = {input_chunk(chunk, record): None for chunk in record.chunks()}
        names = {self.key(record.id, f"in:{chunk}"): self.key(record.id, f"new:{uuid.uuid4().hex}") for chunk in inputs}
        try:
            self._write_rows(record, samples, responses, dict(zip(inputs, names.values(), strict=True)))
            yield names
        except BaseException as error:
            # after a lost answer the transaction of the block may yet take place
            if not isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
                with suppress(exceptions.RedisError):
                    self.redis.unlink(*names.values())
            raise

    def _write_rows(
        self,
        record: RunRecord,
        samples: Sequence[Sample],
        responses: Mapping[str, Mapping[str, Response]],
        names: Mapping[ChunkId, str],
    ) -> None:
        size, began = record.chunk_size, time.monotonic()
        pipe = self.redis.pipeline(transaction=False)
        for number, (chunk, name) in enumerate(names.items(), 1):
            rows = samples[chunk.number * size : (chunk.number + 1) * size]
            recorded = responses.get(chunk.system, {})
            given = [row.model_copy(update={"response": recorded.get(row.query_id)}) for row in rows]
            packed = pack([row.model_dump(mode="json", exclude_defaults=True) for row in given])
            pipe.set(name, packed, ex=WRITTEN_WITHIN_S)
            if number % CHUNKS_AT_ONCE == 0:
                pipe.execute()
        pipe.execute()
        if time.monotonic() - began > WRITTEN_WITHIN_S / 2:
            raise Unavailable("the rows of the job came too slowly", hint="submit it again")

    def check_rows(self, record: RunRecord, chunks: Iterable[ChunkId], done: Collection[str]) -> None:
        """Raise NotFound where Redis has lost the input of these chunks, or results of those that are done."""
        names = {f"in:{input_chunk(chunk, record)}" for chunk in chunks} | {f"out:{chunk}" for chunk in done}
        if self.redis.exists(*(self.key(record.id, name) for name in names)) < len(names):
            raise gone("rows or results", record.id)

    def read_rows(self, job: str, wanted: Mapping[ChunkId, Iterable[int]]) -> dict[ChunkId, dict[int, Result]]:
        """Some of the committed results of chunks, by their numbers in these; what is not there is left out."""
        blobs = self.redis.mget([self.key(job, f"out:{chunk}") for chunk in wanted]) if wanted else []
        kept = {chunk: unpack(blob) for chunk, blob in zip(wanted, blobs, strict=True) if blob is not None}
        return {chunk: {n: Result.model_validate(rows[n]) for n in wanted[chunk]} for chunk, rows in kept.items()}

    # --- retention --------------------------------------------------------------------------------------------

    def trim(self, listed: str, at: int, most: int = A_ROUND) -> int:
        """Take ids whose records are gone out of the list under a key, of the ``most`` from ``at`` on; where to go on."""
        ids = self.redis.zrange(listed, at, at + most - 1)
        pipe = self.redis.pipeline(transaction=False)
        for job in ids:
            pipe.exists(self.key(job.decode(), "meta"))
        if gone := [job for job, there in zip(ids, pipe.execute(), strict=True) if not there]:
            self.redis.zrem(listed, *gone)
        return 0 if len(ids) < most else at + most - len(gone)

    def apply_retention(self, lists: Iterable[str], retention: Retention, *, dry_run: bool) -> Applied:
        """Let every job of these lists that has ended live as long as if the retention had held when it ended.

        A job of another version of ragassay that can't be read stays as it is. ``dry_run`` only counts.
        """
        applied = Applied()
        for state in (each for listed in lists for each in self._ended(listed)):
            now_s = self.now_ms() / 1000
            ended_s = (state.changed_ms or 0) / 1000 or now_s
            rows_s, report_s = (int(ended_s + kept - now_s) for kept in (retention.results_s, retention.reports_s))
            rows = [self.key(state.record.id, name) for name in row_names(state.record)]
            reports = [self.key(state.record.id, name) for name in REPORT_NAMES]
            applied.jobs += 1
            applied.without_report += report_s <= 0
            applied.without_rows += rows_s <= 0 < report_s and self.redis.exists(*rows) > 0
            if dry_run:
                continue
            pipe = self.redis.pipeline(transaction=True)
            for keys, seconds_left in ((rows, rows_s), (reports, report_s)):
                for key in keys:
                    pipe.expire(key, seconds_left)  # of a time that is over, it deletes
            pipe.execute()
        return applied

    def _ended(self, listed: str) -> Iterator[JobState]:
        """The jobs of a list that have ended, the oldest first; a part of it at a time."""
        at = 0
        while ids := self.redis.zrange(listed, at, at + A_ROUND - 1):
            at += len(ids)
            for job in ids:
                with suppress(NotFound, Conflict):
                    state = self.state(job.decode())
                    if state.ended:
                        yield state


def pack(rows: Sequence[Any]) -> bytes:
    """Rows as they are kept."""
    return zstandard.compress(orjson.dumps(rows))


def unpack(blob: bytes) -> list[Any]:
    """The rows that were kept."""
    rows: list[Any] = orjson.loads(zstandard.decompress(blob))
    return rows


def column_name(system: str, name: str) -> str:
    """Under which name of a job's keys one column of a system's rows is."""
    return f"column:{system}:{name}"


def column_names(record: RunRecord) -> list[str]:
    """Under which names all columns and the texts are."""
    return ["texts", *(column_name(system, name) for system in record.systems for name in column_kinds(record.metrics))]


def input_chunk(chunk: ChunkId, record: RunRecord) -> ChunkId:
    """The chunk under which a chunk's input is kept: systems without recorded responses share theirs."""
    source = record.systems[chunk.system]
    return ChunkId("", chunk.number) if source.called or source.built else chunk


def row_names(record: RunRecord) -> list[str]:
    """Under which names all of a job's rows are: what was asked, what was called, what came of it."""
    names = {f"{kind}:{chunk}": None for chunk in record.chunks() for kind in ("calls", "out")}
    inputs = {f"in:{input_chunk(chunk, record)}": None for chunk in record.chunks()}
    return [*inputs, *names, "contents", "done", "tries", *column_names(record)]


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


def _caps(budget: Budget) -> dict[str, float]:
    caps = {"most_usd": budget.usd, "most_tokens": budget.tokens}
    return {name: most for name, most in caps.items() if most is not None}
