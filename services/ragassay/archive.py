"""What finished jobs are good for: comparing them, following a figure over them, and holding a new one to its gates."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from ragassay import comparison, gates, trends
from ragassay.comparisons import Comparison
from ragassay.config import Statistics
from ragassay.documents import ENDED, JOB_ID, Alert, Job, Progress, Report, Source
from ragassay.errors import BadInput, BadSettings, Conflict, NotFound, UnknownName
from ragassay.gates import GateList, GateReport, files
from ragassay.gates.figures import Figure
from ragassay.models import JobSpec, Noun
from ragassay.stopping import Scores, baseline_scores
from ragassay.store.redis import RedisStore
from ragassay.trends import Trend

MOST_LOOKED_AT = 1000
MOST_ALERTS = 100  # of a job; a slice of many values can make thousands of gates
_log = logging.getLogger("ragassay.gates")


class Gating(Noun):
    """What a job is held to when it has finished. ``baseline`` is an earlier job, or JOB#SYSTEM."""

    gates: GateList = ()
    baseline: str | None = None
    statistics: Statistics = Statistics()


class JobDocument(Noun):
    """What is kept of a job besides its rows."""

    spec: JobSpec
    metrics: tuple[str, ...]
    dataset: Source
    systems: dict[str, Source]
    created_at: str
    gating: Gating = Gating()


class Archive:
    """The reports of the service's jobs."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    def job(self, job: str) -> Job:
        """The job as it stands; raises NotFound."""
        meta = self._store.meta(job)
        document = JobDocument.model_validate_json(meta["document"])
        number = {name: int(meta.get(name, b"0")) for name in ("rows", "rows_done", "rows_failed", "uncertain_calls")}
        status = meta["status"].decode()
        ended = status in ENDED
        return Job(
            id=job,
            name=document.spec.name,
            status=status,
            created_at=document.created_at,
            started_at=_time(meta.get("started_ms")),
            ended_at=_time(meta.get("turned_ms")) if ended else None,
            judge=document.spec.judge,
            metrics=document.metrics,
            progress=Progress(rows=number["rows"], done=number["rows_done"], failed=number["rows_failed"]),
            uncertain_calls=number["uncertain_calls"],
            alerts=tuple(Alert(**alert) for alert in orjson.loads(meta.get("alerts", b"[]"))) if ended else (),
            error=meta["error"].decode() if "error" in meta else None,
        )

    def finished(self, job: str) -> JobDocument:
        """What a finished job has evaluated; raises NotFound, or Conflict for one that has not finished."""
        if not JOB_ID.fullmatch(job):
            raise NotFound(f"there is no job {job[:40]!r}", hint="list them: GET /v1/jobs")
        meta = self._store.meta(job)
        if (status := meta["status"].decode()) != "finished":
            raise Conflict(f"job {job} is {status} and has no report", hint=f"follow it: GET /v1/jobs/{job}")
        return JobDocument.model_validate_json(meta["document"])

    def report(self, job: str) -> Report:
        """The report of a job; raises NotFound, or Conflict while it has none."""
        return Report.model_validate_json(self._store.report(job))

    def compare(self, references: Sequence[str], **options: Any) -> Comparison:
        """Compare jobs, or systems of jobs (JOB#SYSTEM), as ``comparison.compare`` does with its ``options``.

        Raises what that raises, NotFound for a job that is not there, Conflict for one that has no report.
        """
        parts = [_parted(reference) for reference in references]
        for job, _ in parts:  # all of them before any report is read, which may take seconds
            self.finished(job)
        reports = {job: self.report(job) for job in {job for job, _ in parts}}
        return comparison.compare(comparison.entrants([(reports[job], system) for job, system in parts]), **options)

    def trend(
        self, metric: str, *, system: str | None, dataset: str | None, last: int, alpha: float, seed: int
    ) -> Trend:
        """A figure over the newest ``last`` finished jobs on one dataset, as ``trends.trend`` does for runs."""
        Figure.parse(metric)
        chosen: list[str] = []
        for job in self._store.jobs(before=None, limit=MOST_LOOKED_AT):
            try:
                meta = self._store.meta(job)
            except NotFound:  # the list outlives a job's record
                continue
            known = JobDocument.model_validate_json(meta["document"])
            if meta["status"] != b"finished" or (system is not None and system not in known.systems):
                continue
            dataset = known.dataset.name if dataset is None else dataset
            if known.dataset.name == dataset:
                chosen.append(job)
            if len(chosen) == last:
                break
        return trends.trend(
            self._reports(reversed(chosen)), metric, system=system, dataset=dataset, alpha=alpha, seed=seed
        )

    def _reports(self, jobs: Iterator[str]) -> Iterator[Report]:
        for job in jobs:
            try:
                yield self.report(job)
            except (NotFound, Conflict):  # its time was over a moment ago
                continue

    def baseline(self, spec: JobSpec) -> Scores | None:
        """The scores of the finished job that a stop rule decides against; raises NotFound, Conflict, BadSettings."""
        if spec.stop_when is None or spec.baseline is None:
            return None
        job, system = _parted(spec.baseline)
        self.finished(job)
        return baseline_scores(self.report(job), system)

    # --- gates ------------------------------------------------------------------------------------------------

    def check_gating(self, gating: Gating) -> None:
        """Can the gates be checked when the job is done? Raises BadSettings, NotFound, Conflict, UnknownName."""
        without = gates.about_a_drop(gating.gates)
        if gating.baseline is not None:
            job, system = _parted(gating.baseline)
            try:
                known = self.finished(job)
            except (NotFound, Conflict) as error:
                error.where = "baseline"
                raise
            if system is not None and system not in known.systems:
                raise UnknownName("system", system, known.systems, where="baseline")
        elif without is not None:
            raise BadSettings(without, where="gates", hint="name an earlier job: 'baseline': 'JOB' or 'JOB#SYSTEM'")

    def hold(self, job: str, gating: Gating, report: Report) -> None:
        """Hold a job to its gates: keep what they say, with an alert for each one missed, and log those, all once."""
        if not gating.gates:
            return
        try:
            found = self._checked(gating, report)
            document, alerts = files.json(found), _alerts(found)
        except (BadInput, NotFound, Conflict) as error:  # the baseline was let go since the job was submitted
            document, alerts = b"", (Alert(reason=f"the gates could not be checked: {error}"),)
        shown = alerts[:MOST_ALERTS]
        if more := len(alerts) - len(shown):
            shown += (Alert(reason=f"... and {more} more: GET /v1/jobs/{job}/gates"),)
        kept = orjson.dumps([alert.model_dump(mode="json") for alert in shown])
        if self._store.save_gates(job, document, kept):
            for alert in alerts:
                value = "none" if alert.value is None else f"{alert.value:.3f}"
                said = "gate missed: job=%s metric=%s value=%s threshold=%s: %s"
                _log.error(said, job, alert.metric, value, alert.threshold, alert.reason)

    def _checked(self, gating: Gating, report: Report) -> GateReport:
        earlier, system = None, None
        if gating.baseline is not None and gates.about_a_drop(gating.gates):
            job, system = _parted(gating.baseline)
            earlier = self.report(job)
        of_gates = gating.statistics.of_gates
        return gates.check(report, gating.gates, earlier, baseline_system=system, **of_gates)

    def gates(self, job: str) -> bytes:
        """The document ``gates`` of a job; raises NotFound where it has none, Conflict before it has finished."""
        if not self.finished(job).gating.gates:
            raise NotFound(f"job {job} has no gates", hint="submit it with 'gates'")
        if not (document := self._store.gates(job)):
            raise NotFound(f"the gates of job {job} could not be checked", hint="its alerts say why: GET /v1/jobs/ID")
        return document


def _time(milliseconds: bytes | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC).isoformat(timespec="milliseconds")


def _parted(reference: str) -> tuple[str, str | None]:
    """JOB or JOB#SYSTEM."""
    job, hash_, system = reference.partition("#")
    return job, system if hash_ else None


def _alerts(found: GateReport) -> tuple[Alert, ...]:
    return tuple(
        Alert(
            gate=result.name,
            metric=result.metric,
            value=result.value,
            threshold=result.threshold,
            reason=result.reason,
        )
        for result in found.missed
    )
