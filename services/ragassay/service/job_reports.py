"""What finished jobs are good for: comparing them, following a figure over them, and holding a new one to its gates."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import orjson

from ragassay.analysis import comparison, gates, trends
from ragassay.analysis.costs import CostQuery, CostReport, cost_report
from ragassay.analysis.gates import GateList, GateReport
from ragassay.analysis.models import Comparison
from ragassay.analysis.trends import Trend
from ragassay.core.errors import BadInput, BadSettings, Conflict, NotFound, UnknownName
from ragassay.core.eval_config import Statistics
from ragassay.core.formatting import of_metric
from ragassay.core.jobs import JOB_ID, Alert, JobStatus
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.report import ReportWithResults, run_and_system
from ragassay.evaluation.labelling import report_of
from ragassay.metrics.composite import custom_metrics
from ragassay.service.job_run import JobRun
from ragassay.service.job_state import JobState, no_job
from ragassay.service.redis import RedisStore
from ragassay.storage.protocol import RunRecord
from ragassay.storage.runs import Entry

MAX_LOOKED_AT = 1000
_AT_ONCE = 500
_IN_CATALOG: dict[JobStatus, Any] = {
    "finished": "finished",
    "paused": "partial",
    "cancelled": "partial",
    "failed": "failed",
}
MAX_ALERTS = 100  # of a job; each of many gates may be about 20 slices of each system
_LOGGED = {"gate", "metric", "value", "threshold"}
_log = logging.getLogger("ragassay.gates")


class Gating(FrozenModel):
    """The gates that are checked when a job has finished. ``baseline`` is a system of the job, an earlier job, or JOB#SYSTEM."""

    gates: GateList = ()
    baseline: str | None = None
    statistics: Statistics = Statistics()


class JobReports:
    """The reports of the service's jobs."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    def finished(self, job: str) -> JobState:
        """The record of a finished job; raises NotFound, or Conflict for one that has not finished."""
        if not JOB_ID.fullmatch(job):
            raise no_job(job)
        state = self._store.state(job)
        if state.status != "finished":
            raise Conflict(f"job {job} is {state.status} and has no report", hint=f"follow it: GET /v1/jobs/{job}")
        return state

    def baseline(self, job: str) -> RunRecord:
        """The record of a finished job to measure drops from, whose rows are kept for their whole retention time again.

        Raises what ``finished`` does, and Conflict if rows are deleted.
        """
        record = self.finished(job).record
        if not self._store.keep_rows(job, record):
            hint = (
                "name a newer job; rows are kept for RAGASSAY_KEEP_RESULTS_DAYS after a job's end or use as a baseline"
            )
            raise Conflict(f"the rows of job {job} are deleted, so drops can't be measured from it", hint=hint)
        return record

    def compare(self, references: Sequence[str], **options: Any) -> Comparison:
        """Compare jobs, or systems of jobs (JOB#SYSTEM), as ``comparison.compare`` does with its ``options``.

        Raises what that raises, NotFound for a job that is not there, Conflict for one that has no report.
        """
        parts = [run_and_system(reference) for reference in references]
        for job, _ in parts:  # all of them before any report is read, which may take seconds
            self.finished(job)
        reports = {job: self._report(job) for job in {job for job, _ in parts}}
        return comparison.compare([(reports[job], system) for job, system in parts], **options)

    def trend(self, metric: str, **options: Any) -> Trend:
        """A figure over the newest finished jobs, as ``trends.trend`` does for runs with its ``options``."""
        return trends.trend(islice(self.newest(), MAX_LOOKED_AT), metric, **options)

    def newest(self) -> Iterator[Entry]:
        """Jobs, the newest first."""
        before = None
        while listed := self._store.jobs(before=before, limit=_AT_ONCE):
            before = listed[-1][1]
            for job, _ in self._store.kept(listed, _AT_ONCE):
                with suppress(NotFound, Conflict):  # deleted a moment ago; another version's can't be read
                    state, run = self._store.state(job), JobRun(self._store, job)
                    run.record = state.record
                    yield Entry(job, _IN_CATALOG.get(state.status, "not finished"), run)

    def _report(self, job: str) -> ReportWithResults:
        return report_of(JobRun(self._store, job))

    def costs(self, query: CostQuery) -> CostReport:
        """The cost report over the jobs; a paused or cancelled one counts with the rows that were done."""
        return cost_report(self.newest(), query)

    # --- gates ------------------------------------------------------------------------------------------------

    def check_gating(self, gating: Gating, record: RunRecord, samples: Sequence[Sample]) -> None:
        """Can the gates be checked when the job is done? Raises BadSettings, NotFound, Conflict, UnknownName."""
        gates.check_names(gating.gates, custom_metrics(record.spec), record.metrics, record.systems, samples)
        without = gates.about_a_drop(gating.gates)
        if gating.baseline is not None and gating.baseline not in record.systems:
            try:
                job, system = run_and_system(gating.baseline)
                systems = (self.baseline(job) if without else self.finished(job).record).systems
            except (BadSettings, NotFound, Conflict) as error:
                error.where = "baseline"
                raise
            if system is not None and system not in systems:
                raise UnknownName("system", system, systems, where="baseline")
        elif gating.baseline is None and without is not None:
            hint = "name a system of the job or an earlier job: 'baseline': 'SYSTEM', 'JOB' or 'JOB#SYSTEM'"
            raise BadSettings(without, where="gates", hint=hint)

    def check_gates(self, gating: Gating, report: ReportWithResults) -> tuple[GateReport | None, tuple[Alert, ...]]:
        """The results of a finished job's gates, None if they could not be checked, and an alert for each one missed."""
        try:
            results = self._checked(gating, report)
        except (BadInput, NotFound, Conflict) as error:  # the baseline's retention ended since the job was submitted
            return None, (Alert(reason=f"the gates could not be checked: {error}"),)
        return results, tuple(
            Alert(gate=one.name, metric=one.metric, value=one.value, threshold=one.threshold, reason=one.reason)
            for one in results.missed
        )

    def _checked(self, gating: Gating, report: ReportWithResults) -> GateReport:
        earlier, system = None, None
        if gating.baseline in report.systems:
            earlier, system = report, gating.baseline
        elif gating.baseline is not None and gates.about_a_drop(gating.gates):
            job, system = run_and_system(gating.baseline)
            earlier = self._report(job)
        alpha = gating.statistics.alpha
        return gates.check(report, gating.gates, earlier, baseline_system=system, alpha=alpha)

    def gates(self, job: str) -> bytes:
        """The document ``gates`` of a job; raises NotFound where it has none, Conflict before it has finished."""
        if not self.finished(job).gating.get("gates"):
            raise NotFound(f"job {job} has no gates", hint="submit it with 'gates'")
        if not (document := JobRun(self._store, job).gates()):
            raise NotFound(f"the gates of job {job} could not be checked", hint="its alerts say why: GET /v1/jobs/ID")
        return document


def shown_alerts(job: str, alerts: Sequence[Alert]) -> str:
    """The alerts as a job's record has them, JSON; one more says how many are left out."""
    shown = [alert.model_dump(mode="json") for alert in alerts[:MAX_ALERTS]]
    if left := len(alerts) - len(shown):
        shown.append(Alert(reason=f"... and {left} more: GET /v1/jobs/{job}/gates").model_dump(mode="json"))
    return orjson.dumps(shown).decode()


def log_alerts(job: str, alerts: Sequence[Alert]) -> None:
    """A line in the log for each alert."""
    for alert in alerts:
        form = "gate missed: job=%s metric=%s value=%s threshold=%s: %s"
        about = {"event": "gate_missed", "job": job, **alert.model_dump(include=_LOGGED)}
        value = of_metric(alert.metric or "", alert.value)
        _log.error(form, job, alert.metric, value, alert.threshold, alert.reason, extra=about)
