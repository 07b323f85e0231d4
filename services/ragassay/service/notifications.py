"""Notifications of nightly runs and jobs: ids, numbers and names, never text of a question, an answer or a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field

from ragassay.analysis.gates import GateReport, GateResult
from ragassay.core.formatting import cut, of_metric, percent, printable
from ragassay.core.models import FrozenModel
from ragassay.core.report import Report
from ragassay.core.settings import secrets, without
from ragassay.evaluation.aggregate import unscored
from ragassay.service.job_state import JobState

NotificationKind = Literal[
    "gate_missed", "regression", "coverage_low", "budget_reached", "run_missed", "drift", "job_finished", "job_failed"
]
KINDS: tuple[NotificationKind, ...] = get_args(NotificationKind)
# no alerts: sent, and kept, only if a webhook asks for them
OPT_IN: tuple[NotificationKind, ...] = ("job_finished", "job_failed")
ALERTS: tuple[NotificationKind, ...] = tuple(kind for kind in KINDS if kind not in OPT_IN)
MAX_NAME, MAX_ID = 200, 300  # characters

WebhookFormat = Literal["standard", "slack"]
Cause = Literal["threshold", "coverage", "missing", "baseline", "undecided", "unchecked"]


def _name(text: str) -> str:
    """A name that others chose, without values of our keys and passwords, and what acts on a terminal."""
    return cut(printable(without(text, secrets())), MAX_NAME)


Name = Annotated[str, AfterValidator(_name)]


class Notification(FrozenModel):
    """One thing that happened. ``id`` is the same for the same occurrence, however often it is noticed.

    ``slot``: the time for which a schedule planned the run, UTC. ``value``, ``threshold`` and ``baseline`` are numbers of
    ``metric``; null where they are unknown. ``cause``: why the gate was missed; ``unchecked``, why it is not known.
    ``count``: how many gates, or metrics, the notification stands for. ``stream`` and ``window`` of live traffic: ``metric`` is
    worse than in the windows before, by ``low`` to ``high``, the interval of the difference.
    ``rows``, ``done`` and ``failed`` are those of the job.
    """

    id: Annotated[str, Field(min_length=1, max_length=MAX_ID)]
    kind: NotificationKind | Literal["test"]
    project: str
    at: str
    schedule: Name | None = None
    slot: str | None = None
    job: str | None = None
    system: Name | None = None
    gate: Name | None = None
    metric: Name | None = None
    value: float | None = None
    threshold: float | None = None
    baseline: float | None = None
    cause: Cause | None = None
    count: int = 1
    rows: int | None = None
    done: int | None = None
    failed: int | None = None
    stream: Name | None = None
    window: str | None = None
    low: float | None = None
    high: float | None = None

    @property
    def headline(self) -> str:
        """What happened, in a line."""
        more = f" and {self.count - 1} more" if self.count > 1 and self.gate else ""
        write = partial(of_metric, self.metric or "")
        now, before = write(self.value, beside=self.threshold), write(self.baseline, beside=self.value)
        match self.kind:
            case "gate_missed" if self.gate:
                why = "" if self.cause == "threshold" else f" ({self.cause})"
                return f"gate missed: {self.gate}{more}: {now}{why}"
            case "gate_missed":
                return "the gates could not be checked"
            case "regression":
                return f"regression: {self.gate}{more}: {now} after {before}"
            case "coverage_low":
                limits = f"{percent(self.value or 0.0)} of the rows, wanted are {percent(self.threshold or 0.0)}"
                also = f", and {self.count - 1} more" if self.count > 1 else ""
                return f"rows failed: {self.metric} has {limits}{also}"
            case "budget_reached":
                return f"budget reached: the job is paused, {self.done} of {self.rows} rows are done"
            case "run_missed":
                return f"run missed: schedule {self.schedule} started no run for {self.slot}"
            case "drift":
                also = f", and {self.count - 1} more" if self.count > 1 else ""
                by = f"(difference {write(self.low, sign='-')} to {write(self.high, sign='-')})"
                moved = f"{now} after {before} {by}"
                return f"drift: {self.metric} of {self.stream} is {moved} in {self.window}, {self.rows} rows{also}"
            case "job_finished":
                return f"job finished: {self.done} of {self.rows} rows, {self.failed} with a failure"
            case "job_failed":
                return f"job failed: {self.done} of {self.rows} rows were done"
            case "test":
                return "a test of this webhook: nothing happened"

    @property
    def path(self) -> str:
        """Where the service shows more."""
        if self.job and self.kind != "run_missed":
            page = {"gate_missed": "/gates", "regression": "/gates", "coverage_low": "/report"}.get(self.kind, "")
            return f"/v1/jobs/{self.job}{'' if self.cause == 'unchecked' else page}"
        if self.stream:
            kind = "hour" if "T" in (self.window or "") else "day"
            return f"/v1/live/streams/{self.stream}/windows?kind={kind}"
        if self.schedule:
            return f"/v1/schedules/{self.schedule}"
        return "/v1/webhooks" if self.kind == "test" else f"/v1/alerts?kind={self.kind}"

    @property
    def text(self) -> str:
        """What people read: a few short lines."""
        lines = [self.headline]
        lines += [
            f"{name}: {value}"
            for name in ("project", "schedule", "slot", "job", "stream", "window")
            if (value := getattr(self, name))
        ]
        command = f"ragassay job show {self.job}, " if self.job else ""
        lines.append(f"more: {command}GET {self.path}")
        return "\n".join(lines)


class NotificationPage(FrozenModel):
    """Notifications, newest first; ``next`` asks for the following page, null on the last one."""

    alerts: tuple[Notification, ...]
    next: str | None


class Webhook(FrozenModel):
    """A receiver of a project's notifications. ``url`` is shown without what may be a secret in it.

    ``last_at``, ``last_status`` and ``last_error`` are of the last try.
    """

    id: str
    url: str
    kinds: tuple[NotificationKind, ...]
    format: WebhookFormat
    created_at: str
    last_at: str | None = None
    last_status: int | None = None
    last_error: str | None = None

    @property
    def last_try(self) -> str:
        """The time and the outcome of the last try."""
        if self.last_at is None:
            return "nothing was sent yet"
        return f"{self.last_at[:19]}: {self.last_error or f'it answered {self.last_status}'}"


class WebhookSecret(FrozenModel):
    """A webhook, and the secret that signs what it gets: it is shown this once. Null if the format has no signature."""

    webhook: Webhook
    secret: Annotated[str | None, Field(repr=False)] = None


class WebhookList(FrozenModel):
    """A page of a project's webhooks, the oldest first."""

    webhooks: tuple[Webhook, ...]
    next: str | None = None


# --- the notifications of a job: gates that it missed, rows that failed, a budget that was reached, its end ---


def of_report(state: JobState, report: Report, results: GateReport | None) -> tuple[Notification, ...]:
    """The notifications of a finished report: gates missed, metrics of which more than ``max_failed_share`` failed.

    ``results``: None where the job has no gates, or they could not be checked.
    """
    missed = [*_missed(state, results)] if results else []
    if results is None and state.gating.get("gates"):
        missed = [_notification(state, "gate_missed", cause="unchecked")]
    return (*missed, *_coverage(state, report))


def of_change(state: JobState, kind: NotificationKind) -> Notification:
    """The notification of a job that is paused, has finished or failed: one for each time."""
    times = state.resumes if kind == "budget_reached" else state.retries
    number = [str(times)] if times or kind == "budget_reached" else []
    counts = {"rows": state.rows, "done": state.rows_done, "failed": state.rows_failed}
    return _notification(state, kind, *number, **counts)


def _missed(state: JobState, results: GateReport) -> Iterator[Notification]:
    """A notification of the first gate that was missed, of the first regression another; each counts those of its kind."""
    by_kind: dict[NotificationKind, list[GateResult]] = {"gate_missed": [], "regression": []}
    for result in results.missed:
        fell = result.drop is not None and result.cause in ("threshold", "undecided")
        by_kind["regression" if fell else "gate_missed"].append(result)
    for kind, missed in by_kind.items():
        if missed:
            numbers = missed[0].model_dump(include={"system", "metric", "value", "threshold", "baseline", "cause"})
            yield _notification(state, kind, gate=_gate_name(missed[0]), count=len(missed), **numbers)


def _gate_name(result: GateResult) -> str:
    """Its name; of a gate on a slice without the slice's value, which is text of the data."""
    if result.slice is None:
        return result.name
    field = result.slice.partition("=")[0]
    return result.name.replace(f"{result.system}, {result.slice}: ", f"{result.system}, each {field}: ", 1)


def _coverage(state: JobState, report: Report) -> Sequence[Notification]:
    """One notification, of the metric with the most failures, where any has more than the job allows."""
    limit = report.provenance.configuration.max_failed_share
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
