"""The use cases of the service: submit, work, finalize, cancel, resume, tick. The doors are a few lines over these."""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import orjson
from redis.exceptions import RedisError

from ragassay import job_results, runs
from ragassay.alerts import Alerts
from ragassay.data.dataset import digest_of_samples
from ragassay.documents import Report
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
from ragassay.job_chunks import Chunks
from ragassay.job_documents import Alert, Job, JobPage, JobStatus, Progress, ResultPage
from ragassay.job_reports import MOST_LOOKED_AT, Gating, JobReports
from ragassay.ledger import MemoryLedger
from ragassay.notices import Notice
from ragassay.queue import Queue
from ragassay.registered import Registered
from ragassay.runs.outage import waiting_text
from ragassay.runs.provenance import with_tools
from ragassay.specification import Budget, JobSpec
from ragassay.store.idempotency import free_key, take_key
from ragassay.store.job_run import JobRun
from ragassay.store.job_state import Claim, JobState
from ragassay.store.redis import RedisStore
from ragassay.store.redis_canaries import RedisCanary
from ragassay.store.selection import Selection

DEFAULT_PROJECT = "default"
logger = logging.getLogger("ragassay")
MOST_ROWS_A_PAGE = 200
MOST_FAILED_FINALIZES, MOST_FINALIZES = 3, 10  # the second counts those that killed their worker too
SLOTS = 4  # messages of one job that may wait or work at once: many enough for all workers, few enough to be fair


class Jobs:
    """Jobs in Redis. Only workers make anything of ``factory``, so that the API stays light."""

    def __init__(
        self, store: RedisStore, queue: Queue, factory: runs.Factory, registered: Registered | None = None
    ) -> None:
        self.store, self._queue, self.registered = store, queue, registered or Registered()
        self.reports, self._alerts = JobReports(store), Alerts(store)
        self._session = runs.Session(factory, self.reports.baseline_rows)
        self._chunks = Chunks(store, self._session, self.registered)

    def of(self, project: str) -> Jobs:
        """The use cases over one project's jobs and datasets; what belongs to another is not there (NotFound)."""
        del project
        return self

    # --- for everybody ----------------------------------------------------------------------------------------

    def submit(
        self,
        spec: JobSpec,
        inputs: runs.Inputs,
        gating: Gating = Gating(),  # noqa: B008 - frozen
        *,
        idempotency_key: str | None = None,
    ) -> tuple[Job, bool]:
        """Save and queue an evaluation; returns the job and whether it is new.

        Every name is resolved now. Raises NothingToEvaluate, UnknownName, BadSettings; NotFound and Conflict for a
        baseline without a report; BadInput when the idempotency key belongs to another body, Conflict while its job is
        being made.
        """
        digest = _digest(spec, inputs, gating)
        if idempotency_key and (known := take_key(self.store, idempotency_key, digest)):
            return self.get(known), False
        try:
            job = self._create(spec, inputs, gating, (idempotency_key, digest) if idempotency_key else None)
        except AssayError:
            if idempotency_key:
                free_key(self.store, idempotency_key)
            raise
        self._enqueue(job)
        return self.get(job), True

    def _create(self, spec: JobSpec, inputs: runs.Inputs, gating: Gating, idempotency: tuple[str, str] | None) -> str:
        record = runs.prepare(self._session, spec, inputs, uuid.uuid4().hex)
        if most := self.registered.most_rows(name for name, source in record.systems.items() if source.called):
            record = record.model_copy(update={"chunk_size": min(record.chunk_size, most)})
        self.reports.check_gating(gating, record, inputs.samples)
        if inputs.panel:
            RedisCanary(self.store, record.id).save_rows(inputs.panel)
        self.store.create(
            record,
            inputs.samples,
            inputs.responses(),
            gating=gating.model_dump(mode="json"),
            idempotency=idempotency,
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
            systems=tuple(record.systems),
            warnings=(
                *record.dataset.warnings,
                *(why for source in record.systems.values() for why in source.warnings),
            ),
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
        claim = None if self._chunks.stopping else self.store.claim(job)
        if claim is None:
            if self.store.is_current(job, slot, nonce):
                self.store.clear_slot(job, slot)
            return
        state = self.store.state(job)
        try:
            with self._turn(claim, state):
                outcome = self._chunks.evaluate(claim, state)
        except BudgetReached as reached:
            self.store.give_back(claim)
            self.store.pause(job, reached.message, state.resumes)
            self.store.clear_slot(job, slot)
            self._queue.finalize(job)
            return
        except (BadInput, NothingToEvaluate, NotFound) as error:
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
        if not partial and self.store.count_finalize(job, "begun") > MOST_FINALIZES:
            self._fail(job, "the report can't be made: worker crashed repeatedly on it")
            return
        try:
            run = JobRun(self.store, job, partial=partial)
            run.record = with_tools(state.described, self._session.tools(state.record.spec, MemoryLedger()))
            report = runs.finish(self._session, run)
            if not partial:
                self.reports.check_gates(job, Gating.model_validate(state.gating), report)
                if notice := drift_notice(report, project=DEFAULT_PROJECT):
                    self._alerts.tell(notice)
        except (RedisError, Unavailable):
            raise
        except NotFound as error:
            if not partial:
                self._fail(job, f"the report can't be made: {error}")
            return
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
            try:
                self._give_up_poisoned(job, state)
            except NotFound as error:  # rows or results that were evicted: no round brings them back
                self._fail(job, str(error))
                continue
            self._enqueue(job)

    def _give_up_poisoned(self, job: str, state: JobState) -> None:
        for claim in self.store.sweep(job):
            samples = self.store.samples(job, claim)
            error = self.store.why_dead(claim)
            reason = "worker crashed repeatedly on this chunk" + (f": {error}" if error else "")
            results = given_up(samples, claim.system, state.record.metrics, reason)
            if self.store.commit(claim, results) == "last":
                self._queue.finalize(job)

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
        self.store.close(job, self.store.state(job).record)


def drift_notice(report: Report, *, project: str) -> Notice | None:
    """What is told where the judge has drifted: of the measure that tells most, its value now and then."""
    drift = report.drift
    if drift is None or drift.status != "drifted":
        return None
    metric, most = min(drift.scores.items(), key=lambda one: one[1].p)
    return Notice(
        id=f"{report.run.id}:judge_drift",
        kind="judge_drift",
        project=project,
        at=report.run.finished_at,
        job=report.run.id,
        metric=metric,
        value=most.now,
        threshold=most.threshold,
        baseline=most.baseline,
    )


def _digest(spec: JobSpec, inputs: runs.Inputs, gating: Gating) -> str:
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


def _waiting(state: JobState) -> str | None:
    if state.ended or state.waiting is None or state.waiting_since_ms is None:
        return None
    return waiting_text(state.waiting, state.waiting_since_ms / 1000)


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
