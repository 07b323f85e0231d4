"""The documents of live traffic: the rule of a stream, the state of a request, and the figures of a window."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field

from ragassay.analysis.difference import Difference
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Chance, FrozenModel
from ragassay.core.report import Distribution
from ragassay.core.statistics import CostPerAccurate, Estimate
from ragassay.datasets.traces import SpanRule

STREAM = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
TRACE = r"[0-9A-Za-z_-]{1,64}"
RequestStatus = Literal["waiting", "not_sampled", "no_answer", "budget_reached", "evaluating", "evaluated", "failed"]
STATUSES: tuple[RequestStatus, ...] = get_args(RequestStatus)
Cause = Literal["sampled", "error", "low_score"]
WINDOW = r"\d{4}-\d\d-\d\d(T\d\d)?"
WindowKind = Literal["hour", "day"]
REFERENCES: dict[WindowKind, int] = {"hour": 24, "day": 7}  # how many windows before one it is compared with
HOUR, DAY = "%Y-%m-%dT%H", "%Y-%m-%d"


class LiveRule(FrozenModel):
    """Which requests of a stream are evaluated, and what drift is an alert."""

    rate: Chance = Field(0.1, description="share of the requests that is evaluated, chosen by a hash of the trace id")
    budget_usd: Annotated[float | None, Field(gt=0, le=10**9)] = Field(
        None, description="most that judge calls about the requests of a day (UTC) may cost; default: no limit"
    )
    errors: bool = Field(True, description="evaluate each request that failed, too")
    low_score: Chance | None = Field(
        None,
        description="evaluate each answer, too, of whose words a smaller share than this is in its contexts",
    )
    spans: SpanRule = SpanRule()
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        0.001, description="chance of a false alert of a window, over all its metrics and looks"
    )


class NewStream(LiveRule):
    """A rule, and ``job``: how its requests are evaluated, with the keys of a job's body that are about that."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"rate": 0.1, "budget_usd": 5, "job": {"metrics": ["faithfulness", "relevance"]}}}
    )

    job: dict[str, Any] = Field({}, description="`metrics`, `judge` and so on, as in the body of `POST /v1/jobs`")


class StoredStream(FrozenModel):
    """A stream as it is stored: its rule, what was asked for, and how that is evaluated. Null: it has no rule yet."""

    rule: LiveRule | None = None
    job: dict[str, Any] = {}  # noqa: RUF012 - a default of a model
    spec: RunConfig | None = None


class LiveRequest(FrozenModel):
    """One request: its state, and why it is in it. Times are UTC, ISO 8601.

    ``hour``: the window that it is counted in, by when its first span came. ``read_from``: the spans that question, answer and
    contexts are read from. ``job``: where it was evaluated; ``cause``: why it was chosen.
    """

    trace: str
    stream: str
    status: RequestStatus
    reason: str
    hour: str
    received_at: str
    cause: Cause | None = None
    read_from: dict[str, str] = {}  # noqa: RUF012 - a default of a model
    job: str | None = None


class RequestPage(FrozenModel):
    """Requests of a stream, the newest first; ``next`` is the cursor of the next page."""

    requests: tuple[LiveRequest, ...]
    next: str | None


class Counts(FrozenModel):
    """How many requests are in each state; ``late`` and ``refused`` are spans: after the end, and beyond the limit of a trace."""

    received: int = 0
    waiting: int = 0
    not_sampled: int = 0
    no_answer: int = 0
    budget_reached: int = 0
    evaluating: int = 0
    evaluated: int = 0
    failed: int = 0
    late: int = 0
    refused: int = 0


class LiveStream(FrozenModel):
    """A stream: its rule, null if there is none, and the states of the requests of today (UTC)."""

    name: str
    rule: LiveRule | None
    job: dict[str, Any]
    today: Counts
    spent_usd: float = Field(description="by judge calls about today's requests, with what calls in flight may take")


class StreamList(FrozenModel):
    """The streams of a project, by name; ``next`` is the cursor of the next page."""

    streams: tuple[LiveStream, ...]
    next: str | None


class LiveWindow(FrozenModel):
    """An hour or a day of a stream. Figures are of the requests that were sampled by rate: those chosen for an error or a low
    score are evaluated too, and would bias them.

    ``rows``: of these, ``always``: chosen for another cause. ``failures``: rows by cause, of those that are not accurate.
    ``drift``: against the windows before, each ``Difference`` at the alpha of the rule over all metrics. An alert goes
    by less than that at each look, so that all looks together use no more.
    """

    stream: str
    kind: WindowKind
    window: str
    counts: Counts
    rows: int
    always: int
    metrics: dict[str, Estimate]
    latency_ms: Distribution
    cost_usd: Distribution
    cost_per_accurate_answer: CostPerAccurate
    judging_usd: float | None
    refusals: Estimate
    failures: dict[str, int]
    reference: tuple[str, ...] = ()
    drift: tuple[Difference, ...] = ()


class WindowPage(FrozenModel):
    """Windows of a stream, the newest first; ``next`` is the cursor of the next page."""

    windows: tuple[LiveWindow, ...]
    next: str | None


class WorstRow(FrozenModel):
    """A row with a low score: the job that has it, and when it came. ``query``: None once its job's rows are deleted."""

    job: str
    trace: str
    query: str | None = None
    hour: str
    value: float
    failure: str | None


class DatasetAddition(FrozenModel):
    """Into which dataset the question of a request is put."""

    model_config = ConfigDict(strict=True, json_schema_extra={"example": {"dataset": "from-production"}})

    dataset: str


def hour_of(ms: float) -> str:
    """The window of an hour, ``2026-11-26T17``, UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):{HOUR}}"


def kind_of(window: str) -> WindowKind:
    """Is it an hour or a day? Raises ValueError for neither."""
    if not re.fullmatch(WINDOW, window):
        raise ValueError("should be a day or an hour, such as 2026-11-26 or 2026-11-26T17")
    return "hour" if "T" in window else "day"


def hours_in(window: str) -> list[str]:
    """The hours of a window."""
    return [window] if kind_of(window) == "hour" else [f"{window}T{hour:02d}" for hour in range(24)]


def before(window: str, number: int) -> list[str]:
    """So many windows of its kind before it, the newest first."""
    kind = kind_of(window)
    form, step = (HOUR, timedelta(hours=1)) if kind == "hour" else (DAY, timedelta(days=1))
    start = datetime.strptime(window, form).replace(tzinfo=UTC)
    return [f"{start - step * n:{form}}" for n in range(1, number + 1)]
