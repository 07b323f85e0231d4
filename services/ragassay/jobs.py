"""The use cases of the service: submit, work, finalize, cancel, resume, tick. The doors are a few lines over these."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from redis.exceptions import RedisError

from ragassay import runs
from ragassay.data.dataset import digest_of_samples
from ragassay.documents import Alert, Job, JobPage, JobStatus, Progress, ResultPage, Source
from ragassay.engine import given_up
from ragassay.errors import (
    AssayError,
    BadInput,
    BudgetReached,
    Conflict,
    NotFound,
    NothingToEvaluate,
    Unavailable,
    reason_from,
)
from ragassay.job_reports import MOST_LOOKED_AT, Gating, JobReports
from ragassay.ledger import GivenUpLedger, MemoryLedger, ProbingLedger
from ragassay.models import Result, Sample
from ragassay.protocols import Ledger
from ragassay.queue import Queue
from ragassay.runs.outage import given_up_text, waiting_text
from ragassay.runs.provenance import with_tools
from ragassay.runs.runner import log_start
from ragassay.specification import Budget, JobSpec
from ragassay.store.idempotency import free_key, take_key
from ragassay.store.job_run import JobRun
from ragassay.store.job_state import Claim, JobState
from ragassay.store.protocol import ChunkId, Outcome
from ragassay.store.redis import RedisStore
from ragassay.store.redis_ledger import RedisLedger

logger = logging.getLogger("ragassay")
MOST_ROWS_A_PAGE = 200
MOST_FAILED_FINALIZES, MOST_FINALIZES = 3, 10  # the second counts those that killed their worker too
SLOTS = 4  # messages of one job that may wait or work at once: many enough for all workers, few enough to be fair


class Jobs:
    """Jobs in Redis. Only workers make anything of ``factory``, so that the API stays light."""

    def __init__(self, store: RedisStore, queue: Queue, factory: runs.Factory) -> None:
        self.store, self._queue = store, queue
        self.reports = JobReports(store)
        self._session = runs.Session(factory, self.reports.baseline_rows)
        self._runner: asyncio.Runner | None = None
        self._evaluation: asyncio.Task[Outcome] | None = None
        self._broken_off: str | None = None
        self._stopping = False

    # --- for everybody ----------------------------------------------------------------------------------------

    def submit(
        self,
        spec: JobSpec,
        dataset: Source,
        samples: Sequence[Sample],
        gating: Gating = Gating(),  # noqa: B008 - frozen
        *,
        idempotency_key: str | None = None,
    ) -> tuple[Job, bool]:
        """Save and queue an evaluation of the samples' responses; returns the job and whether it is new.

        Every name is resolved now. Raises NothingToEvaluate, UnknownName, BadSettings; NotFound and Conflict for a
        baseline without a report; BadInput when the idempotency key belongs to another body, Conflict while its job is
        being made.
        """
        asked = "".join(part.model_dump_json() for part in (spec, dataset, gating))
        digest = hashlib.sha256(f"{asked}{digest_of_samples(samples)}".encode()).hexdigest()
        if idempotency_key and (known := take_key(self.store, idempotency_key, digest)):
            return self.get(known), False
        try:
            job = self._create(spec, dataset, samples, gating, (idempotency_key, digest) if idempotency_key else None)
        except AssayError:
            if idempotency_key:
                free_key(self.store, idempotency_key)
            raise
        self._enqueue(job)
        return self.get(job), True

    def _create(
        self,
        spec: JobSpec,
        dataset: Source,
        samples: Sequence[Sample],
        gating: Gating,
        idempotency: tuple[str, str] | None,
    ) -> str:
        inputs = runs.recorded(dataset, samples)
        record = runs.prepare(self._session, spec, inputs, uuid.uuid4().hex)
        self.reports.check_gating(gating, record, samples)
        self.store.create(
            record, samples, inputs.responses(), gating=gating.model_dump(mode="json"), idempotency=idempotency
        )
        return record.id

    def get(self, job: str) -> Job:
        """The job as it stands; raises NotFound."""
        state = self.store.state(job)
        record = state.record
        return Job(
            id=job,
            name=record.spec.name,
            status=state.status,
            created_at=record.created_at,
            started_at=_time(state.started_ms),
            ended_at=_time(state.changed_ms) if state.ended else None,
            judge=record.spec.judge,
            metrics=record.metrics,
            progress=Progress(rows=state.rows, done=state.rows_done, failed=state.rows_failed),
            uncertain_calls=state.uncertain_calls,
            alerts=tuple(Alert(**alert) for alert in state.alerts) if state.ended else (),
            warnings=record.dataset.warnings,
            waiting=_waiting(state),
            error=state.error or (state.given_up and f"rows were given up: {state.given_up}"),
        )

    def page(self, *, cursor: str | None, limit: int, status: JobStatus | None = None) -> JobPage:
        """Jobs, newest first. With ``status`` a page looks at so many jobs at the most, so it may hold fewer."""
        most = limit if status is None else max(limit, MOST_LOOKED_AT)
        ids = self.store.jobs(before=cursor, limit=most + 1)
        shown: list[Job] = []
        last = None
        for last in ids[:most]:
            try:
                job = self.get(last)
            except (NotFound, Conflict):  # the list outlives a job's record; another version's can't be read
                continue
            if status in (None, job.status):
                shown.append(job)
            if len(shown) == limit:
                break
        return JobPage(jobs=tuple(shown), next=None if not ids or last == ids[-1] else last)

    def report(self, job: str) -> bytes:
        """The report as JSON; raises NotFound, or Conflict while the job has none."""
        return self.store.report(job)

    def results(self, job: str, *, cursor: str | None, limit: int) -> ResultPage:
        """The results that are there, in the dataset's order; raises NotFound when their time is over."""
        first, state = offset(cursor), self.store.state(job)
        record, rows = state.record, state.record.dataset.rows
        page = range(first, min(first + limit, rows))
        evaluated = {place: n for n, place in enumerate(record.evaluation_order()) if place in page}
        by_number: dict[int, Result] = {}
        for number in sorted({n // record.chunk_size for n in evaluated.values()}):
            results = self.store.results(job, ChunkId("default", number)) or ()
            by_number |= dict(enumerate(results, number * record.chunk_size))
        results = [by_number[evaluated[place]] for place in page if evaluated[place] in by_number]
        if not results and first < rows and state.status == "finished" and record.spec.stop_when is None:
            raise NotFound(f"the results of job {job} were kept for 30 days and are gone", hint="the report holds them")
        return ResultPage(results=tuple(results), next=str(first + limit) if first + limit < rows else None)

    def cancel(self, job: str) -> Job:
        """Stop a job: no new call is made for it. A job that has ended can't be cancelled (Conflict)."""
        before = self.store.transition_status(job, "cancelled", "queued", "running", "paused", "finalizing")
        if before in ("finished", "failed"):
            raise Conflict(f"job {job} is {before} already")
        self._close(job)
        self._queue.finalize(job)
        return self.get(job)

    def resume(self, job: str, budget: Budget) -> Job:
        """Go on with a job that its budget has paused, under a new one; any other job stays as it is (Conflict)."""
        before = self.store.resume(job, budget)
        if before != "paused":
            raise Conflict(f"job {job} is {before}, not paused")
        self._enqueue(job)
        return self.get(job)

    # --- for workers ------------------------------------------------------------------------------------------

    def work(self, job: str, slot: int, nonce: str) -> None:
        """Work on one chunk of a job, then enqueue the next wake-up. Delivered at least once, so it claims first."""
        claim = None if self._stopping else self.store.claim(job)
        if claim is None:
            if self.store.is_current(job, slot, nonce):
                self.store.clear_slot(job, slot)
            return
        state = self.store.state(job)
        try:
            outcome = self._evaluate(claim, state)
        except BudgetReached as reached:
            self.store.give_back(claim)
            self.store.pause(job, reached.message, state.resumes)
            self.store.clear_slot(job, slot)
            self._queue.finalize(job)
            return
        except (BadInput, NothingToEvaluate) as error:
            self._fail(job, str(error))
            return
        except RedisError:
            raise  # the lease brings the chunk back
        except Exception as error:
            self.store.give_back(claim, why=f"{type(error).__name__}: {reason_from(error)}")
            raise
        if outcome == "last":
            self._queue.finalize(job)
        elif self.store.is_current(job, slot, nonce):
            self.store.clear_slot(job, slot)
            if not self._stopping:
                self._enqueue(job)

    def break_off(self, *, stopping: bool) -> None:
        """Stop the evaluation that is under way, if any, and give its chunk back. For a signal handler or a thread.

        ``stopping``: the process ends, so no further chunk is taken and nothing is held against the chunk. Otherwise
        it took too long, which counts like a death: a chunk that never ends is given up in the end.
        """
        self._stopping = self._stopping or stopping
        evaluation = self._evaluation
        if evaluation is not None:
            self._broken_off = "stopping" if stopping else "too long"
            evaluation.get_loop().call_soon_threadsafe(evaluation.cancel)

    def close(self) -> None:
        """Close the event loop and the connections that live in it."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _evaluate(self, claim: Claim, state: JobState) -> Outcome:
        """Evaluate a claimed chunk and commit it; ``stale`` when the claim was lost, or given back to wait."""
        spec = state.record.spec
        if claim.number == 0:
            log_start(state.record, [claim.system])
        calls = RedisLedger(self.store, claim, cache=spec.cache)
        try:
            if state.given_up is not None:
                return self._work(claim, state, GivenUpLedger(calls, given_up_text(state.given_up, spec.give_up_s)))
            probing = ProbingLedger(calls, state.waiting or "", lambda: self.store.end_wait(claim.job))
            try:
                return self._work(claim, state, calls if state.waiting is None else probing)
            except Unavailable as down:
                first = state.waiting is None or probing.proved
                why = str(down) if first else state.waiting or ""
                wait_s = runs.wait_s(0 if first else state.probes, down.retry_after)
                if self.store.wait_for_provider(claim, why, wait_s=wait_s, give_up_s=spec.give_up_s) == "given up":
                    return self._work(claim, state, GivenUpLedger(calls, given_up_text(why, spec.give_up_s)))
                return "stale"
        except asyncio.CancelledError:
            if self._broken_off:
                self.store.give_back(claim, why="it took too long" if self._broken_off == "too long" else "")
            return "stale"

    def _work(self, claim: Claim, state: JobState, ledger: Ledger) -> Outcome:
        run = JobRun(self.store, claim.job)
        run.record = state.record
        return self._run(claim, runs.work(self._session, run, claim, ledger))

    def _run(self, claim: Claim, evaluation: Coroutine[None, None, Outcome]) -> Outcome:
        """Run an evaluation on this process's one event loop, with the lease kept; cancelled when the lease is lost."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        loop = self._runner.get_loop()
        task = loop.create_task(evaluation)
        self._broken_off, self._evaluation = None, task
        if self._stopping:  # it was asked for before there was anything to break off
            self.break_off(stopping=True)
        try:
            with self._lease_kept(claim, lambda: loop.call_soon_threadsafe(task.cancel)):
                return loop.run_until_complete(task)
        finally:
            self._evaluation = None

    @contextmanager
    def _lease_kept(self, claim: Claim, lost: Callable[[], object]) -> Iterator[None]:
        """Renew the lease four times in its length, in a thread: scoring keeps the event loop busy."""
        stop = threading.Event()

        def renew() -> None:
            while not stop.wait(self.store.lease_ms / 4000):
                if not self.store.renew(claim):
                    lost()
                    return

        thread = threading.Thread(target=renew, daemon=True, name="lease")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def finalize(self, job: str) -> None:
        """Recount everything and keep the report. Idempotent: the last step is what makes the job finished.

        A paused or cancelled job gets a report of the rows that are done.
        """
        state = self.store.state(job)
        partial = state.status in ("paused", "cancelled") and state.rows_done > 0
        if state.status != "finalizing" and not partial:
            return
        if not partial and self.store.count_finalize(job, "begun") > MOST_FINALIZES:
            self._fail(job, "the report can't be made: worker crashed repeatedly on it")
            return
        try:
            run = JobRun(self.store, job, partial=partial)
            run.record = with_tools(state.record, self._session.tools(state.record.spec, MemoryLedger()))
            report = runs.finish(self._session, run)
            if not partial:
                self.reports.check_gates(job, Gating.model_validate(state.gating), report)
        except (RedisError, Unavailable):
            raise
        except Exception as error:
            if not partial and self.store.count_finalize(job, "failed") >= MOST_FAILED_FINALIZES:
                self._fail(job, f"the report can't be made: {type(error).__name__}: {reason_from(error)}")
            raise
        if not partial:
            self.store.transition_status(job, "finished", "finalizing")
            self._close(job)

    # --- for the sweeper --------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take back what dead workers held, give up chunks that kill them, and enqueue wake-ups that were lost."""
        for job in self.store.active():
            try:
                state = self.store.state(job)
            except NotFound:  # its keys were evicted or deleted by hand; the other jobs go on
                self.store.close(job)
                continue
            except Conflict as unreadable:  # left as it is for the version that wrote it
                logger.warning("%s", unreadable)
                continue
            if state.ended:  # whoever ended it died before the last step
                self._close(job)
                continue
            for claim in self.store.sweep(job):
                samples = self.store.samples(job, claim)
                error = self.store.why_dead(claim)
                reason = "worker crashed repeatedly on this chunk" + (f": {error}" if error else "")
                results = given_up(samples, claim.system, state.record.metrics, reason)
                if self.store.commit(claim, results) == "last":
                    self._queue.finalize(job)
            self._enqueue(job)

    def _enqueue(self, job: str) -> None:
        finalizing = self.store.status(job) == "finalizing"
        due = self.store.due_slots(job, slots=SLOTS, patience_ms=self.store.lease_ms)
        try:
            while due:
                slot, nonce = due[0]
                sent = self._queue.finalize(job) if finalizing else self._queue.enqueue(job, slot, nonce)
                if not sent:
                    break
                due.pop(0)
        finally:  # a process that ends in the middle must not leave a wake-up marked as sent for as long as a lease
            for slot, _ in due:
                self.store.clear_slot(job, slot)

    def _fail(self, job: str, error: str) -> None:
        self.store.fail(job, error)
        self._close(job)

    def _close(self, job: str) -> None:
        self.store.close(job, self.store.state(job).record.chunks())


def _waiting(state: JobState) -> str | None:
    if state.ended or state.waiting is None or state.waiting_since_ms is None:
        return None
    return waiting_text(state.waiting, state.waiting_since_ms / 1000)


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def offset(cursor: str | None) -> int:
    """The place from which a page is to begin; raises BadInput."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 9:
        raise BadInput(f"cursor {cursor[:40]!r} is not one that a page gave")
    return int(cursor)
