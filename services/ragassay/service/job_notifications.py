"""The notifications of a job: gates that it missed, rows that failed, a budget that was reached, its end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from ragassay.analysis.gates import GateReport, GateResult
from ragassay.core.report import Report
from ragassay.evaluation.aggregate import unscored
from ragassay.service.job_state import JobState
from ragassay.service.notifications import MAX_NOTIFICATIONS, Notification, NotificationKind


def of_report(state: JobState, report: Report, results: GateReport | None) -> tuple[Notification, ...]:
    """The notifications of a finished report: gates missed, metrics of which more than ``max_missing`` failed.

    ``results``: None where the job has no gates, or they could not be checked.
    """
    missed = [*_missed(state, results)] if results else []
    if results is None and state.gating.get("gates"):
        missed = [_notification(state, "gate_missed", "unchecked", cause="unchecked")]
    return (*missed, *_coverage(state, report))


def of_change(state: JobState, kind: NotificationKind) -> Notification:
    """The notification of a job that is paused, has finished or failed: one for each time."""
    times = state.resumes if kind == "budget_reached" else state.retries
    number = [str(times)] if times or kind == "budget_reached" else []
    counts = {"rows": state.rows, "done": state.rows_done, "failed": state.rows_failed}
    return _notification(state, kind, *number, **counts)


def _missed(state: JobState, results: GateReport) -> Iterator[Notification]:
    """A notification for each gate and system. One on slices has one, by their field: its values are text of the data."""
    gates: dict[tuple[NotificationKind, str], list[GateResult]] = {}
    for result in results.missed:
        fell = result.drop is not None and result.cause in ("threshold", "undecided")
        gates.setdefault(("regression" if fell else "gate_missed", _name(result)), []).append(result)
    for (kind, name), [first, *more] in list(gates.items())[:MAX_NOTIFICATIONS]:
        yield _notification(
            state,
            kind,
            hashlib.sha256(name.encode()).hexdigest()[:16],
            gate=name,
            system=first.system,
            metric=first.metric,
            value=first.value,
            threshold=first.threshold,
            baseline=first.baseline,
            cause=first.cause,
            count=1 + len(more),
        )
    if rest := sum(map(len, list(gates.values())[MAX_NOTIFICATIONS:])):
        yield _notification(state, "gate_missed", "more", count=rest)


def _name(result: GateResult) -> str:
    if result.slice is None:
        return result.name
    field = result.slice.partition("=")[0]
    return result.name.replace(f"{result.system}, {result.slice}: ", f"{result.system}, each {field}: ", 1)


def _coverage(state: JobState, report: Report) -> Sequence[Notification]:
    """One notification, of the metric with the most failures, where any has more than the job allows."""
    limit = report.provenance.configuration.max_missing
    beyond = {name: share for name, share in unscored(report).items() if share > limit}
    if not beyond:
        return ()
    worst = max(sorted(beyond), key=beyond.__getitem__)
    of = {"metric": worst, "value": 1 - beyond[worst], "threshold": 1 - limit, "count": len(beyond)}
    return (_notification(state, "coverage_low", **of),)


def _notification(state: JobState, kind: NotificationKind, *what: str, **fields: Any) -> Notification:
    return Notification(
        id=":".join((state.record.id, kind, *what)),
        kind=kind,
        project=state.project,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        job=state.record.id,
        schedule=state.planned and state.planned.schedule,
        slot=state.planned and state.planned.slot,
        **fields,
    )
