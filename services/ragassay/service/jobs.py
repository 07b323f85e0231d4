"""The use cases of the service: the API submits, shows, cancels, resumes, retries; workers work, finalize; the scheduler ticks."""

from __future__ import annotations

import copy
import hashlib
import logging
import time
import uuid
from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress

import numpy as np
import orjson
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from ragassay import observability
from ragassay.core.errors import (
    BadInput,
    BudgetReached,
    Conflict,
    NotFound,
    NothingToEvaluate,
    Unavailable,
    class_and_reason,
)
from ragassay.core.eval_config import Budget, RunConfig
from ragassay.core.formatting import json_document
from ragassay.core.jobs import DEFAULT_PROJECT, Job, JobPage, JobStatus, Planned, Progress, ResultPage
from ragassay.core.report import ReportWithResults
from ragassay.datasets.dataset import digest_of_samples
from ragassay.evaluation import aggregate
from ragassay.evaluation.evaluate import failed_results
from ragassay.evaluation.inputs import Inputs
from ragassay.evaluation.outage import waiting_text
from ragassay.evaluation.prepare import prepare, with_judges
from ragassay.evaluation.runtime import Runtime
from ragassay.service import notifications
from ragassay.service.health import check_memory
from ragassay.service.job_reports import MAX_LOOKED_AT, Gating, JobReports, log_alerts, shown_alerts
from ragassay.service.job_run import JobRun, run_of
from ragassay.service.job_state import DAY_S, Claim, JobState, not_under_way
from ragassay.service.notifier import Notifier
from ragassay.service.projects import clock_time
from ragassay.service.queue import CHUNKS, REPORTS, Queue
from ragassay.service.redis import LiveJob, RedisStore, Workload
from ragassay.service.registered import Registered
from ragassay.service.worker import Chunks, report_claimed
from ragassay.storage.columns import FAILED, label_column, label_value
from ragassay.storage.protocol import ChunkId
from ragassay.storage.row_index import RowIndex
from ragassay.storage.runs import GATES_FILE, REPORT_FILE
from ragassay.storage.selection import Selection, cursor_at

logger = logging.getLogger("ragassay.jobs")
_RESPONSE_FAILED = label_value("response_failed")
MAX_ROWS_A_PAGE, MAX_FINALIZES = 200, 5
ON_ITS_WAY_S = 0.2  # in which a worker that took a message claims a chunk and sends the next one


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
        self.reports = JobReports(store)
        self._runtime = runtime
        self._chunks = Chunks(store, self._runtime, self.registered)
        self._worked_on = ""  # the job of this worker's last chunk, until another one's message went before it

    def of(self, project: str) -> Jobs:
        """The use cases over one project's jobs and datasets; what belongs to another is not there (NotFound)."""
        scoped = copy.copy(self)
        scoped.store = self.store.of(project)
        scoped.reports = JobReports(scoped.store)
        scoped.registered = self.registered.of(project)
        return scoped

    # --- for everybody ----------------------------------------------------------------------------------------

    def submit(
        self,
        spec: RunConfig,
        inputs: Inputs,
        gating: Gating = Gating(),  # noqa: B008 - frozen
        *,
        idempotency_key: str | None = None,
        planned: tuple[str, Planned] | None = None,
        live: LiveJob | None = None,
    ) -> tuple[Job, bool]:
        """Save and queue an evaluation; returns the job and whether it is new.

        Every name is resolved now. Raises NothingToEvaluate, UnknownName, BadSettings; NotFound and Conflict for a
        baseline without a report; BadInput when the idempotency key belongs to another body; Unavailable where Redis is
        nearly full. ``planned``: the id, schedule and time of a run; Conflict if there. ``live``: of rows of live traffic.
        """
        job, of_schedule = planned or (live.id if live else uuid.uuid4().hex, None)
        body_digest = None
        if idempotency_key:
            job, body_digest = _job_id(self.store.project, idempotency_key), _digest(spec, inputs, gating)
            if known := self._submitted(job, body_digest):
                return known, False
        try:
            with observability.span("submit", "producer", {"ragassay.job": job}):
                check_memory(self.store)
                record = prepare(spec, inputs, job)
                called = (name for name, source in record.systems.items() if source.called)
                if max_rows := self.registered.max_rows(called):
                    record = record.model_copy(update={"chunk_size": min(record.chunk_size, max_rows)})
                self.reports.check_gating(gating, record, inputs.samples)
                about = {
                    "gating": gating.model_dump_json(),
                    "body_digest": body_digest,
                    "planned": of_schedule.model_dump_json() if of_schedule else None,
                    "account": live.account if live else None,
                    "most_account_usd": live.usd if live else None,
                    "traceparent": observability.traceparent(),
                }
                once = bool(of_schedule or body_digest or live)
                self.store.create(record, inputs.samples, inputs.responses(), about, once=once, listed=live is None)
        except Conflict:
            if body_digest and (known := self._submitted(job, body_digest)):  # by a request at the same time
                return known, False
            raise
        submitted = {"event": "job_submitted", "job": job, "rows": record.dataset.rows}
        logger.info("job %s was submitted", job, extra=submitted)
        self._queue.enqueue(job)
        return self.get(job), True

    def _submitted(self, job: str, body_digest: str) -> Job | None:
        """The job that was submitted under an idempotency key, if any; raises BadInput if it had another body."""
        try:
            state = self.store.state(job)
        except NotFound:
            return None
        if state.body_digest != body_digest:
            raise BadInput("this Idempotency-Key was used with another body", hint="use a new key for a new job")
        return shown(state)

    def check(self, spec: RunConfig, inputs: Inputs, gating: Gating) -> None:
        """Raise what ``submit`` would for these; it also refuses if Redis is nearly full, a job has the id, or a key is reused."""
        record = prepare(spec, inputs, uuid.uuid4().hex)
        self.reports.check_gating(gating, record, inputs.samples)

    def get(self, job: str) -> Job:
        """The job as it stands; raises NotFound."""
        return shown(self.store.state(job))

    def page(self, *, cursor: str | None, limit: int, status: JobStatus | None = None) -> JobPage:
        """Jobs, newest first. A page looks at ``MAX_LOOKED_AT`` jobs at the most, so with ``status`` it may hold fewer."""
        max_looked_at = max(limit, MAX_LOOKED_AT)
        listed = self.store.jobs(before=cursor, limit=max_looked_at + 1)
        jobs: list[Job] = []
        last = None
        for id_, after in self.store.kept(listed[:max_looked_at], limit):
            if len(jobs) == limit:
                break
            last = after
            try:
                job = shown(self.store.state(id_))
            except (NotFound, Conflict):  # deleted a moment ago; another version's can't be read
                continue
            if status in (None, job.status):
                jobs.append(job)
        else:
            last = listed[max_looked_at - 1][1] if len(listed) > max_looked_at else None
        return JobPage(jobs=tuple(jobs), next=last)

    def results(
        self,
        job: str,
        *,
        cursor: str | None,
        limit: int,
        selection: Selection = Selection(),  # noqa: B008 - frozen
    ) -> ResultPage:
        """The rows that are there over all systems, by default system by system in the dataset's order.

        Columns decide, so that only the page's own rows are read. Raises NotFound for an unknown job and where the rows'
        time is over, UnknownName for a figure or system that it has not, BadInput for a cursor that no such page gave.
        """
        state, rows, begin = self.store.state(job), RowIndex(JobRun(self.store, job)), 0
        ordered = rows.selected(selection)
        if (after := cursor_at(cursor, selection.tag)) is not None:
            at = np.flatnonzero(ordered == after)
            if not len(at):
                raise BadInput("the cursor is of rows that are gone", where="cursor", hint="begin without a cursor")
            begin = int(at[0]) + 1
        found = [int(number) for number in ordered[begin : begin + limit]]
        results = rows.at(found)
        if not results and state.status == "finished" and (found or selection.takes_all):
            what = f"the results of job {job} were kept for {self.store.retention.results_s // DAY_S} days and are gone"
            raise NotFound(what, hint="the report holds them")
        more = begin + limit < len(ordered)
        return ResultPage(results=tuple(results), next=f"{found[-1]}-{selection.tag}" if more else None)

    def cancel(self, job: str) -> Job:
        """Stop a job: no new call is made for it. A job that has ended can't be cancelled (Conflict)."""
        before, _ = self.store.transition(job, "cancelled")
        if before in ("finished", "failed"):
            raise Conflict(f"job {job} is {before} already")
        self._queue.finalize(job)
        return self.get(job)

    def resume(self, job: str, budget: Budget, *, lifted: Collection[str] = ()) -> Job:
        """Go on with a job that its budget has paused; any other job stays as it is (Conflict).

        A cap of ``budget`` replaces the job's, and stays as it is if ``budget`` has none. ``lifted``: ``usd`` or
        ``tokens``, the caps that the job has no longer. Raises BadInput for a cap that is spent already.
        """
        state, fields = self.store.state(job), {"error": ""}
        for unit, cap in (("usd", budget.usd), ("tokens", budget.tokens)):
            if cap is not None and state.status == "paused" and cap <= (spent := self.store.spent(job, unit)):
                what = f"the job has spent {spent:g} {unit}, so a budget of {cap:g} {unit} is used up"
                raise BadInput(what, where=f"budget_{unit}", hint="give a higher one, or none: no cap")
            if cap is not None or unit in lifted:
                fields[f"most_{unit}"] = "" if cap is None else str(cap)
        fields["resumes"] = str(state.resumes + 1)
        before, resumed = self.store.transition(job, "running", guard=("resumes", state.resumes), fields=fields)
        if not resumed:
            raise Conflict(f"job {job} is {before}, not paused")
        self._queue.enqueue(job)
        return self.get(job)

    def retry(self, job: str) -> Job:
        """Have the failed rows of a job evaluated again, and of one that failed as a whole those without results.

        A job that is at it stays as it is. Raises NotFound if there is no such job or its rows are gone, Conflict if it
        has not ended or was cancelled, or has no row that can be tried again.
        """
        store, state = self.store, self.store.state(job)
        if not (state.retries and state.status in ("running", "finalizing")):
            if state.status in ("paused", "cancelled"):
                raise not_under_way(state)
            if not state.ended:
                hint = "its failed rows can be tried again once it has ended"
                raise Conflict(f"job {job} is {state.status}", hint=hint)
            failed, recorded = _failed_rows(store, job, state)
            done = set(store.done(job))
            chunks = [chunk for chunk in state.record.chunks() if chunk in failed or str(chunk) not in done]
            if not chunks and state.status == "finished":
                raise _nothing(job, recorded)
            store.check_rows(state.record, chunks, done)
            chunks.sort(key=lambda chunk: chunk.number)
            rows = sum(count for chunk, count in failed.items() if str(chunk) in done)
            if store.retry(job, state.record, chunks, rows=rows, changed_ms=state.changed_ms) == "stale":
                return self.retry(job)
            self._send(job, for_report=not chunks)
        return self.get(job)

    # --- for workers ------------------------------------------------------------------------------------------

    def work(self, job: str) -> None:
        """Work on one chunk of a job. Delivered at least once, so it claims first.

        A job has one message at a time, so that jobs take turns: who claims a chunk and leaves some sends the next one, as
        does who makes a chunk available that is alone, or may be claimed only now. That message is older than those which came
        while the worker was at work on its chunk: it lets them go first, once.
        """
        lets_others_go = job == self._worked_on and self._queue.has_waiting()
        self._worked_on = ""
        if self._chunks.stopping or lets_others_go:
            self._queue.enqueue(job)
            return
        claim = self.store.claim(job)
        if claim is None:
            return
        self._worked_on = job
        try:
            state = self.store.state(job)
        except Conflict:
            # A newer version made the job. Its workers can take the chunk; the scheduler sends the messages.
            self.store.release(claim)
            self.store.freed(claim)
            raise
        if claim.more:
            self._queue.enqueue(job)
        try:
            with observability.about(**state.origin):
                self._work_on_claim(claim, state)
        finally:
            for freed in self.store.freed(claim):
                self._queue.enqueue(freed)

    def _work_on_claim(self, claim: Claim, state: JobState) -> None:
        job = claim.job
        try:
            outcome = self._chunks.evaluate(claim, state)
        except BudgetReached as reached:
            self.store.release(claim)
            outbox = [notifications.of_change(self.store.state(job), "budget_reached")]
            fields, since = {"error": reached.message}, ("resumes", state.resumes)
            if self.store.transition(job, "paused", guard=since, fields=fields, notifications=outbox)[1]:
                logger.warning("job %s is paused: %s", job, reached.message, extra={"event": "job_paused"})
            self._queue.finalize(job)
            return
        except (BadInput, NothingToEvaluate, NotFound) as error:
            self._fail(job, str(error))
            return
        except RedisError:
            raise  # the lease brings the chunk back
        except Exception as error:
            self.store.release(claim, died=class_and_reason(error))
            raise
        if outcome == "last":
            self._queue.finalize(job)

    def break_off(self, *, stopping: bool) -> None:
        """Stop the chunk that is worked on, if any, and give it back; see ``Chunks.break_off``."""
        self._chunks.break_off(stopping=stopping)

    def close(self) -> None:
        """Close the event loop and the connections that live in it."""
        self._chunks.close()

    def finalize(self, job: str) -> None:
        """Aggregate the results into the report and keep it. Idempotent: the last step is what makes the job finished.

        A paused or cancelled job gets a report of the rows that are done.
        """
        state = self.store.state(job)
        partial = state.status in ("paused", "cancelled") and state.rows_done > 0
        if state.status != "finalizing" and not partial:
            return
        claimed = nullcontext(True) if partial else report_claimed(self.store, job)
        with observability.about(**state.origin), claimed as ours:
            if ours:
                with observability.span("finalize", "consumer", {"ragassay.job": job}, parent=state.traceparent):
                    self._finalize(job, state, partial=partial)

    def _finalize(self, job: str, state: JobState, *, partial: bool) -> None:
        if partial:
            with suppress(NotFound):  # rows were evicted
                self._report(job, state, partial=True)
            return
        if self.store.count_finalize(job) > MAX_FINALIZES:
            self._fail(job, "the report can't be made: worker crashed repeatedly on it")
            return
        try:
            self._finish(job, state, self._report(job, state, partial=False))
        except (RedisError, Unavailable):
            with suppress(RedisError):  # an outage is no crash of a worker
                self.store.count_finalize(job, by=-1)
            raise
        except NotFound as error:
            self._fail(job, f"the report can't be made: {error}")
        except Exception as error:
            if self.store.count_finalize(job, by=0) >= MAX_FINALIZES:
                self._fail(job, f"the report can't be made: {class_and_reason(error)}")
            raise

    def _report(self, job: str, state: JobState, *, partial: bool) -> ReportWithResults:
        run = JobRun(self.store, job, partial=partial)
        run.record = with_judges(state.described, self._runtime.scoring_of(state.record))
        return aggregate.finish(run, uncertain_calls=state.uncertain_calls)

    def _finish(self, job: str, state: JobState, report: ReportWithResults) -> None:
        """Check the gates and finish the job with all that is kept of it, in one step, unless it was retried meanwhile."""
        gating, fields = Gating.model_validate(state.gating), dict[str, str]()
        contents = {REPORT_FILE: report.without_rows.model_dump_json().encode()}
        results, alerts = self.reports.check_gates(gating, report) if gating.gates else (None, ())
        if gating.gates:
            contents[GATES_FILE] = json_document(results) if results else b""
            fields["alerts"] = shown_alerts(job, alerts)
        outbox = notifications.of_report(state, report, results)
        outbox = (*outbox, notifications.of_change(state, "job_finished"))
        retried = ("retries", state.retries)
        _, finished = self.store.transition(
            job, "finished", guard=retried, fields=fields, notifications=outbox, contents=contents
        )
        if finished:
            log_alerts(job, alerts)
            _note_end(job, state)

    # --- for the scheduler ------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take back what dead workers held, give up chunks that kill them, and send messages that were lost, or that are due
        for the next probe of a provider. Several processes may do so at once.
        """
        swept: list[str] = []
        for job in self.store.active():
            try:
                state = self.store.state(job)
            except NotFound:  # the other jobs go on
                self.store.forget_gone(job)
                continue
            except Conflict as unreadable:  # left as it is for the version that wrote it
                logger.warning("%s", unreadable)
                continue
            try:
                if self._sweep(job, state):
                    continue
            except NotFound as error:  # rows or results that were evicted: no round brings them back
                self._fail(job, str(error))
                continue
            swept.append(job)
        if lacking := self._lacking(swept):
            time.sleep(ON_ITS_WAY_S)
            claimed_ms = {work.job: work.claimed_ms for work in lacking}
            for work in self._lacking([*claimed_ms]):
                if work.claimed_ms == claimed_ms[work.job]:
                    self._send(work.job, for_report=work.status == "finalizing")
        self.store.trim()

    def _lacking(self, jobs: Sequence[str]) -> list[Workload]:
        """Those of these jobs that need a message and have none in the queue; none while the broker does not answer."""
        try:
            waiting = {queue: self._queue.waiting(queue) for queue in (CHUNKS, REPORTS)}
        except (RedisAway, RedisTimeout):  # to try with each job would hold up the other rounds of the scheduler
            return []
        return [
            work
            for work in self.store.workloads(jobs)
            if work.needs_message
            and work.job.encode() not in waiting[REPORTS if work.status == "finalizing" else CHUNKS]
        ]

    def _send(self, job: str, *, for_report: bool) -> None:
        """Send a message for a job's next chunk, or its report. The scheduler sends again what can't be sent."""
        if for_report:
            self._queue.finalize(job)
        else:
            self._queue.enqueue(job)

    def _sweep(self, job: str, state: JobState) -> bool:
        """Take back chunks of dead workers, and give up those that kill them; was a message sent for that?"""
        poisoned, returned = self.store.sweep(job)
        for claim in poisoned:
            run, error = run_of(self.store, claim), self.store.why_dead(claim)
            reason = "worker crashed repeatedly on this chunk" + (f": {error}" if error else "")
            results = failed_results(run.samples(claim), claim.system, state.record.metrics, reason)
            if run.commit(claim, results) == "last":
                self._queue.finalize(job)
        if is_owed := bool(returned) and self.store.takes_owed(job):
            self._queue.enqueue(job)
        return is_owed

    def _fail(self, job: str, error: str) -> None:
        outbox = [notifications.of_change(self.store.state(job), "job_failed")]
        self.store.transition(job, "failed", fields={"error": error}, notifications=outbox)
        logger.error("job %s failed: %s", job, error, extra={"event": "job_failed", "job": job})


def shown(state: JobState) -> Job:
    """A job as it stands."""
    record, waiting = state.record, None
    if not state.ended and state.waiting is not None and state.waiting_since_ms is not None:
        waiting = waiting_text(state.waiting, state.waiting_since_ms / 1000)
    return Job(
        id=record.id,
        name=record.spec.name,
        status=state.status,
        created_at=record.created_at,
        started_at=None if state.started_ms is None else clock_time(state.started_ms),
        ended_at=clock_time(state.changed_ms) if state.ended and state.changed_ms is not None else None,
        judge=record.spec.judged_by,
        metrics=record.metrics,
        progress=Progress(rows=state.rows, done=state.rows_done, failed=state.rows_failed),
        uncertain_calls=state.uncertain_calls,
        retries=state.retries,
        alerts=state.alerts if state.ended else (),
        systems=tuple(record.systems),
        warnings=(
            *record.dataset.warnings,
            *(why for source in record.systems.values() for why in source.warnings),
            *(f"webhook {webhook} did not get {why}" for webhook, why in state.undelivered.items()),
        ),
        waiting=waiting,
        error=state.error or (state.given_up and f"rows were given up: {state.given_up}"),
        planned=state.planned,
    )


def _job_id(project: str | None, idempotency_key: str) -> str:
    """The id of the job of an idempotency key: a hash, so that one key can't make two jobs."""
    return hashlib.sha256(f"{project or DEFAULT_PROJECT}\nkey\n{idempotency_key}".encode()).hexdigest()[:32]


def _digest(spec: RunConfig, inputs: Inputs, gating: Gating) -> str:
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
    rows: observability.Attributes = {
        "ragassay.job": job,
        "ragassay.rows": state.rows,
        "ragassay.rows_failed": state.rows_failed,
    }
    with observability.span("job", "internal", rows, parent=state.traceparent, began_ms=state.created_ms):
        about = {"event": "job_finished", "job": job, "rows": state.rows, "rows_failed": state.rows_failed}
        logger.info("job %s finished: %d rows, %d failed", job, state.rows, state.rows_failed, extra=about)


def _failed_rows(store: RedisStore, job: str, state: JobState) -> tuple[dict[ChunkId, int], int]:
    """How many rows of each chunk can be tried again; and how many can't, since their responses came with an error."""
    record = state.record
    found: dict[ChunkId, int] = {}
    recorded, index = 0, RowIndex(JobRun(store, job))
    for system, source in record.systems.items():
        rows = index.of_system(system)
        failed = rows.there & (rows.column(FAILED) > 0)
        if not source.answers:
            given = failed & (rows.column(label_column("failure")) == _RESPONSE_FAILED)
            recorded += int(given.sum())
            failed &= ~given
        numbers, counts = np.unique(np.flatnonzero(failed) // record.chunk_size, return_counts=True)
        found |= {ChunkId(system, int(n)): int(count) for n, count in zip(numbers, counts, strict=True)}
    return found, recorded


def _nothing(job: str, recorded: int) -> Conflict:
    if recorded:
        what = f"job {job}: the responses of {recorded} rows were submitted with an error; nothing else failed"
        return Conflict(what, hint="submit it with other responses")
    return Conflict(f"no row of job {job} failed", hint="there is nothing to try again")
