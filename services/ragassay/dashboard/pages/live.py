"""Live traffic: the streams, and of one its quality and cost by window, the states of its requests and its worst rows."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse

from ragassay.core.errors import NotFound
from ragassay.core.formatting import changes_of, interval, number, of_metric, percent
from ragassay.dashboard.site import SearchText, analysis, body, form_of, pages, shown, shown_document
from ragassay.live.models import STATUSES, LiveRule, LiveWindow, RequestStatus, WindowKind
from ragassay.live.traffic import LiveTraffic
from ragassay.reporting.charts import Drawn, over_time
from ragassay.reporting.document import Document, Link, Table
from ragassay.reporting.figures import share
from ragassay.service.jobs import Jobs

WINDOWS, WORST, NEWEST = 24, 20, 20
_FIRST = ("accurate", "faithfulness", "correctness", "relevance")  # metrics that a page begins with
_STATES: dict[RequestStatus, str] = {
    "waiting": "waiting for the root span",
    "not_sampled": "not sampled",
    "no_answer": "no question or answer found",
    "budget_reached": "budget of the day reached",
    "evaluating": "being evaluated",
    "evaluated": "evaluated",
    "failed": "failed",
}
router = pages()


async def _own(request: Request) -> LiveTraffic:
    jobs: Jobs = request.app.state.jobs
    return LiveTraffic(jobs.of(request.state.project), request.app.state.settings)


Own = Annotated[LiveTraffic, Depends(_own)]


@router.get("/ui/live")
def _streams(request: Request, live: Own) -> Response:
    rows = tuple(
        (
            Link(one.name, f"/ui/live/{one.name}"),
            _sampled(one.rule) if one.rule else "none: it has no rule",
            f"{one.today.received:,}",
            f"{one.today.evaluated:,}",
            f"{number(one.spent_usd)} USD" + (f" of {one.rule.budget_usd}" if one.rule and one.rule.budget_usd else ""),
        )
        for one in live.streams()
    )
    columns = ("stream", "evaluated", "requests today", "evaluated today", "spent today")
    none = "No request has come yet. Point an OpenTelemetry exporter at this service, with a key of the scope submit:"
    address = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:8400/v1/traces"
    document = Document("Live traffic", blocks=(Table("Streams", columns, rows),) if rows else ())
    return shown_document(request, document, commands=() if rows else (none, address))


@router.get("/ui/live/{stream}")
@analysis
def _stream(
    request: Request,
    live: Own,
    stream: str,
    kind: WindowKind = "hour",
    metric: SearchText = "",
    status: SearchText = "",
    added: SearchText = "",
) -> Response:
    known, windows = live.stream(stream), live.windows(stream, kind, limit=WINDOWS).windows
    metrics = sorted({name for window in windows for name in window.metrics}, key=_place)
    chosen = metric if metric in metrics else next(iter(metrics), "")
    state = next((one for one in STATUSES if one == status), None)
    drawn = [
        Drawn(
            _began(one.window),
            value.value,
            f"{one.window}: {of_metric(chosen, value.value)}, {one.rows} rows",
            value.interval,
        )
        for one in reversed(windows)
        if (value := one.metrics.get(chosen)) and value.value is not None
    ]
    return shown(
        request,
        "live.html",
        stream=known,
        sampled=_sampled(known.rule) if known.rule else "",
        kind=kind,
        metric=chosen,
        metrics=metrics,
        windows=[(one, _drift(one)) for one in windows],
        chart=over_time(f"{chosen} by {kind}", "", {stream: drawn}, note="Lines are 95 % intervals.")
        if drawn
        else None,
        states=[(name, _STATES[name], getattr(known.today, name)) for name in STATUSES],
        state=state,
        requests=live.store.requests(stream, limit=NEWEST, status=state).requests,
        worst=live.worst(stream, chosen, [one.window for one in windows[:2]], WORST) if chosen else [],
        added=added,
        percent=percent,
        share=share,
    )


@router.post("/ui/live/{stream}/dataset")
def _add(live: Own, stream: str, sent: Annotated[bytes, Depends(body(2000))]) -> Response:
    form = form_of(sent)
    if live.store.request(form.get("trace", "")).stream != stream:
        raise NotFound(f"stream {stream} has no such request")
    version = live.add_to_dataset(form["trace"], form.get("dataset", "").strip())
    return RedirectResponse(f"/ui/live/{quote(stream)}?added={version.name}", 303)


def _sampled(rule: LiveRule) -> str:
    return f"{100 * rule.rate:.4g} % of the requests"


def _place(metric: str) -> tuple[int, str]:
    return (_FIRST.index(metric) if metric in _FIRST else len(_FIRST)), metric


def _began(window: str) -> str:
    """When a window began, ISO 8601."""
    return f"{window}:00:00+00:00" if "T" in window else f"{window}T00:00:00+00:00"


def _drift(window: LiveWindow) -> list[str]:
    """What is different from the windows before, in words."""
    return [
        f"{one.metric} is {one.outcome}: {of_metric(one.metric, one.mean_b)} after {of_metric(one.metric, one.mean_a)}, "
        f"difference {interval(one.interval, changes_of(one.metric))}"
        for one in window.drift
        if one.outcome in ("worse", "better")
    ]
