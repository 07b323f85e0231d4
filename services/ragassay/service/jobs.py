"""The use cases of the service: submit, work, finalize, cancel, resume, tick. Command line, API and workers call these."""

from __future__ import annotations

import copy
import hashlib
import logging
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress

import orjson
from redis.exceptions import RedisError

from ragassay.core import telemetry
from ragassay.core.errors import (
    BadInput,
    BudgetReached,
    Conflict,
    NotFound,
    NothingToEvaluate,
    Unavailable,
    class_and_reason,
)
from ragassay.core.jobs import Job, JobPage, JobStatus, Planned, ResultPage
from ragassay.core.report import DEFAULT_PROJECT
from ragassay.core.specification import Budget, JobSpec
from ragassay.datasets.dataset import digest_of_samples
from ragassay.evaluation import plan, runner
from ragassay.evaluation.engine import given_up
from ragassay.evaluation.provenance import with_tools
from ragassay.evaluation.runtime import Runtime
from ragassay.llm.journal import MemoryLedger
from ragassay.service import job_listing, job_notifications, job_results
from ragassay.service.health import check_memory
from ragassay.service.job_chunks import Chunks
from ragassay.service.job_costs import JobCosts
from ragassay.service.job_leases import report_claimed
from ragassay.service.job_reports import Gating, JobReports
from ragassay.service.job_run import JobRun, run_of
from ragassay.service.job_state import Claim, JobState
from ragassay.service.notifier import Notifier
from ragassay.service.queue import CHUNKS, REPORTS, Queue
from ragassay.service.redis import RedisStore
from ragassay.service.registered import Registered
from ragassay.service.retention import Trimming
from ragassay.storage.selection import Selection

logger = logging.getLogger("ragassay.jobs")
MOST_ROWS_A_PAGE, MOST_FAILED_FINALIZES, MOST_FINALIZES = 200, 3, 10  # the last count killed workers too
SLOTS = 4  # messages of one job that may wait or work at once, at the most


class Jobs:
    """Jobs in Redis. Only workers make anything of ``runtime``, so that the API stays light."""

    def __init__(
        self,
        store: RedisStore,
        queue: Queue,
        runtime: Runtime,
        registered: Registered | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self.store, self._queue, self.registered = store, queue, registered or Registered()
        self.notifier = notifier or Notifier(store)
        self.reports, self.costs = JobReports(store), JobCosts(store)
        self._runtime = runtime
        self._chunks = Chunks(store, self._runtime, self.registered)
        self._trimming = Trimming(store)

    def of(self, project: str) -> Jobs:
        """The use cases over one project's jobs and datasets; what belongs to another is not there (NotFound)."""
        scoped = copy.copy(self)
        scoped.store = self.store.of(project)
        scoped.reports, scoped.costs = JobReports(scoped.store), JobCosts(scoped.store)
        scoped.registered = self.registered.of(project)
        return scoped

    # --- for everybody ----------------------------------------------------------------------------------------

    def submit(
        self,
        spec: JobSpec,
        inputs: plan.Inputs,
        gating: Gating = Gating(),  # noqa: B008 - frozen
        *,
        idempotency_key: str | None = None,
        planned: tuple[str, Planned] | None = None,
    ) -> tuple[Job, bool]:
        """Save and queue an evaluation; returns the job and whether it is new.

        Every name is resolved now. Raises NothingToEvaluate, UnknownName, BadSettings; NotFound and Conflict for a
        baseline without a report; BadInput when the idempotency key belongs to another body; Unavailable where Redis is
        nearly full. ``planned``: the id, schedule and time of a run; Conflict if there.
        """
        job, of_schedule = planned or (uuid.uuid4().hex, None)
        body_digest = None
        if idempotency_key:
            job, body_digest = _job_id(self.store.project, idempotency_key), _digest(spec, inputs, gating)
            if known := self._submitted(job, body_digest):
                return known, False
        try:
            with telemetry.span("submit", "producer", {"ragassay.job": job}):
                self._create(job, spec, inputs, gating, body_digest, of_schedule)
        except Conflict:
            if body_digest and (known := self._submitted(job, body_digest)):  # by a request at the same time
                return known, False
            raise
        self._enqueue(job)
        return self.get(job), True

    def _submitted(self, job: str, body_digest: str) -> Job | None:
        """The job that was submitted under an idempotency key, if any; raises BadInput if it had another body."""
        try:
            state = self.store.state(job)
        except NotFound:
            return None
        if state.body_digest != body_digest:
            raise BadInput("this Idempotency-Key was used with another body", hint="use a new key for a new job")
        return job_listing.shown(state)

    def check(self, spec: JobSpec, inputs: plan.Inputs, gating: Gating) -> None:
        """Raise what ``submit`` would."""
        record = runner.prepare(spec, inputs, uuid.uuid4().hex)
        self.reports.check_gating(gating, record, inputs.samples)

    def _create(
        self,
        job: str,
        spec: JobSpec,
        inputs: plan.Inputs,
        gating: Gating,
        body_digest: str | None,
        planned: Planned | None,
    ) -> None:
        check_memory(self.store)
        record = runner.prepare(spec, inputs, job)
        if most := self.registered.most_rows(name for name, source in record.systems.items() if source.called):
            record = record.model_copy(update={"chunk_size": min(record.chunk_size, most)})
        self.reports.check_gating(gating, record, inputs.samples)
        self.store.create(
            record,
            inputs.samples,
            inputs.responses(),
            gating=gating.model_dump(mode="json"),
            body_digest=body_digest,
            planned=planned,
        )
        if traceparent := telemetry.traceparent():
            self.store.redis.hset(self.store.key(record.id, "meta"), "traceparent", traceparent)
        about = {"event": "job_submitted", "job": record.id, "rows": record.dataset.rows}
        logger.info("job %s was submitted", record.id, extra=about)

    def get(self, job: str) -> Job:
        """The job as it stands; raises NotFound."""
        return job_listing.shown(self.store.state(job))

    def page(self, *, cursor: str | None, limit: int, status: JobStatus | None = None) -> JobPage:
        """Jobs, newest first; see ``job_listing.page``."""
        return job_listing.page(self.store, cursor=cursor, limit=limit, status=status)

    def results(
        self,
        job: str,
        *,
        cursor: str | None,
        limit: int,
        selection: Selection = Selection(),  # noqa: B008 - frozen
    ) -> ResultPage:
        """The results that are there; see ``job_results.page``."""
        return job_results.page(self.store, job, selection, cursor=cursor, limit=limit)

    def cancel(self, job: str) -> Job:
        """Stop a job: no new call is made for it. A job that has ended can't be cancelled (Conflict)."""
        before = self.store.transition_status(job, "cancelled", "queued", "running", "paused", "finalizing")
        if before in ("finished", "failed"):
            raise Conflict(f"job {job} is {before} already")
        self._close(job)
        self._queue.finalize(job)
        return self.get(job)

    def resume(self, job: str, budget: Budget, *, lifted: Collection[str] = ()) -> Job:
        """Go on with a job that its budget has paused; any other job stays as it is (Conflict).

        Caps change as ``RedisStore.resume`` says.
        """
        before = self.store.resume(job, budget, lifted=lifted)
        if before != "paused":
            raise Conflict(f"job {job} is {before}, not paused")
        self._enqueue(job)
        return self.get(job)

    # --- for workers ------------------------------------------------------------------------------------------

    def work(self, job: str, slot: int, nonce: str) -> None:
        """Work on one chunk of a job, then enqueue the next wake-up. Delivered at least once, so it claims first."""
        claim = None if self._chunks.stopping else self.store.claim(job)
        if claim is None:
            if self.store.is_current(job, slot, nonce):
                self.store.clear_slot(job, slot)
            return
        try:
            state = self.store.state(job)
        except Conflict:  # a newer version made the job, and its workers can take the chunk
            self.store.give_back(claim)
            raise
        with telemetry.about(**state.origin):
            self._work(claim, state, slot, nonce)

    def _work(self, claim: Claim, state: JobState, slot: int, nonce: str) -> None:
        job = claim.job
        try:
            with self._turn(claim, state):
                outcome = self._chunks.evaluate(claim, state)
        except BudgetReached as reached:
            self.store.give_back(claim)
            self.store.pause(job, reached.message, state.resumes)
            logger.warning("job %s is paused: %s", job, reached.message, extra={"event": "job_paused"})
            self.store.clear_slot(job, slot)
            self._queue.finalize(job)
            self._notify(self.store.state(job))
            return
        except (BadInput, NothingToEvaluate, NotFound) as error:
            self._fail(job, str(error))
            return
        except RedisError:
            raise  # the lease brings the chunk back
        except Exception as error:
            self.store.give_back(claim, why=class_and_reason(error))
            raise
        if outcome == "last":
            self.wake(job)
        elif self.store.is_current(job, slot, nonce):
            self.store.clear_slot(job, slot)
            if not self._chunks.stopping:
                self._enqueue(job)

    @contextmanager
    def _turn(self, claim: Claim, state: JobState) -> Iterator[None]:
        """When the chunk's system has been asked, the jobs that wait to ask it are woken up, before this one is again."""
        try:
            yield
        finally:
            if state.record.systems[claim.system].called is not None:
                for waiting in self.store.end_turn(claim):
                    if waiting != claim.job:
                        with suppress(NotFound):
                            self._enqueue(waiting)

    def break_off(self, *, stopping: bool) -> None:
        """Stop the chunk that is worked on, if any, and give it back; see ``Chunks.break_off``."""
        self._chunks.break_off(stopping=stopping)

    def close(self) -> None:
        """Close the event loop and the connections that live in it."""
        self._chunks.close()

    def finalize(self, job: str) -> None:
        """Recount everything and keep the report. Idempotent: the last step is what makes the job finished.

        A paused or cancelled job gets a report of the rows that are done.
        """
        state = self.store.state(job)
        partial = state.status in ("paused", "cancelled") and state.rows_done > 0
        if state.status != "finalizing" and not partial:
            return
        claimed = nullcontext(True) if partial else report_claimed(self.store, job)
        with telemetry.about(**state.origin), claimed as ours:
            if ours:
                with telemetry.span("finalize", "consumer", {"ragassay.job": job}, parent=state.traceparent):
                    self._finalize(job, state, partial=partial)

    def _finalize(self, job: str, state: JobState, *, partial: bool) -> None:
        if not partial and self.store.count_finalize(job, "begun") > MOST_FINALIZES:
            self._fail(job, "the report can't be made: worker crashed repeatedly on it")
            return
        try:
            run = JobRun(self.store, job, partial=partial, retries=state.retries)
            run.record = with_tools(
                state.described, self._runtime.for_job(job).tools(state.record.spec, MemoryLedger())
            )
            report = runner.finish(run, uncertain_calls=state.uncertain_calls)
            if not partial:
                results = self.reports.check_gates(job, Gating.model_validate(state.gating), report, state.retries)
                notifications = job_notifications.of_report(state, report, results)
                kept = orjson.dumps([each.model_dump(mode="json") for each in notifications])
                self.store.keep_notifications(job, kept, retries=state.retries)
        except (RedisError, Unavailable):
            if not partial:
                with suppress(RedisError):  # an outage is no crash of a worker
                    self.store.count_finalize(job, "begun", by=-1)
            raise
        except NotFound as error:
            if not partial:
                self._fail(job, f"the report can't be made: {error}")
            return
        except Exception as error:
            if not partial and self.store.count_finalize(job, "failed") >= MOST_FAILED_FINALIZES:
                self._fail(job, f"the report can't be made: {class_and_reason(error)}")
            raise
        if not partial:
            if self.store.transition_status(job, "finished", "finalizing") == "finalizing":
                _note_end(job, state)
            self._close(job)

    # --- for the sweeper --------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take back what dead workers held, give up chunks that kill them, and enqueue wake-ups that were lost: none was
        where as many wait as all jobs can use. Several processes may do so at once. Ids of jobs whose retention is over
        leave the list of jobs, some each time.
        """
        active = self.store.active()
        enough = self._slots() * len(active)
        lost = {queue: self._queue.waiting(queue) < enough for queue in (CHUNKS, REPORTS)}
        for job in active:
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
            self._notify(state)
            try:
                self._give_up_poisoned(job, state)
            except NotFound as error:  # rows or results that were evicted: no round brings them back
                self._fail(job, str(error))
                continue
            if lost[REPORTS if state.status == "finalizing" else CHUNKS]:
                self._enqueue(job)
        for listed in self.store.job_lists():
            self._trimming.trim(listed)

    def wake(self, job: str) -> None:
        """Send every wake-up that a job can use, those too that seem to be under way.

        So too where a chunk was the last: a finalize that no slot knows has the sweeper send another worker to the report.
        """
        for slot in range(SLOTS):
            self.store.clear_slot(job, slot)
        self._enqueue(job)

    def _give_up_poisoned(self, job: str, state: JobState) -> None:
        for claim in self.store.sweep(job):
            run, error = run_of(self.store, claim), self.store.why_dead(claim)
            reason = "worker crashed repeatedly on this chunk" + (f": {error}" if error else "")
            results = given_up(run.samples(claim), claim.system, state.record.metrics, reason)
            if run.commit(claim, results) == "last":
                self.wake(job)

    def _slots(self) -> int:
        """As many as there are processes, and one that waits; another job's message waits behind those that wait before it."""
        processes = self.store.processes_lately()
        return min(SLOTS, processes + 1) if processes else SLOTS

    def _enqueue(self, job: str) -> None:
        finalizing = self.store.status(job) == "finalizing"
        due = self.store.due_slots(job, slots=self._slots(), patience_ms=self.store.lease_ms)
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
        logger.error("job %s failed: %s", job, error, extra={"event": "job_failed", "job": job})
        self._close(job)

    def _close(self, job: str) -> None:
        state = self.store.state(job)
        self._notify(state)
        self.store.close(job, state.record)

    def _notify(self, state: JobState) -> None:
        """Send the notifications of a job as it stands; those that were sent before are not sent again."""
        for notification in job_notifications.of_state(state):
            self.notifier.notify(notification)


def _job_id(project: str | None, idempotency_key: str) -> str:
    """The id of the job of an idempotency key: a hash, so that one key can't make two jobs."""
    return hashlib.sha256(f"{project or DEFAULT_PROJECT}\nkey\n{idempotency_key}".encode()).hexdigest()[:32]


def _digest(spec: JobSpec, inputs: plan.Inputs, gating: Gating) -> str:
    """What tells whether two submissions ask for the same."""
    asked = "".join(part.model_dump_json() for part in (spec, inputs.dataset, gating))
    # What a registered system is now is the operator's business: the same body asks for the same.
    others = {
        name: None if system.source.called or system.source.built else system.source.digest
        for name, system in inputs.systems.items()
        if name != "default"
    }
    more = orjson.dumps(others).decode() if others else ""
    return hashlib.sha256(f"{asked}{digest_of_samples(inputs.samples)}{more}".encode()).hexdigest()


def _note_end(job: str, state: JobState) -> None:
    """One span for all of the job's time, and a line in the log."""
    rows: telemetry.Attributes = {
        "ragassay.job": job,
        "ragassay.rows": state.rows,
        "ragassay.rows_failed": state.rows_failed,
    }
    with telemetry.span("job", "internal", rows, parent=state.traceparent, began_ms=state.created_ms):
        about = {"event": "job_finished", "job": job, "rows": state.rows, "rows_failed": state.rows_failed}
        logger.info("job %s finished: %d rows, %d failed", job, state.rows, state.rows_failed, extra=about)
