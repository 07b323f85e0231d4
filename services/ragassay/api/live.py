"""``/v1/traces`` and ``/v1/live``: spans of running systems over OTLP/HTTP, and what becomes of their requests."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from ragassay.api import submission
from ragassay.api.bodies import arriving, json_body, media_type
from ragassay.api.dependencies import Page, jobs_of, scoped
from ragassay.api.problems import respond, takes
from ragassay.core.errors import AssayError
from ragassay.core.paging import page_of
from ragassay.core.settings import Settings
from ragassay.dashboard.site import analyse
from ragassay.datasets.versions import DatasetVersion
from ragassay.live import otlp
from ragassay.live.models import (
    STREAM,
    TRACE,
    DatasetAddition,
    LiveRequest,
    LiveRule,
    LiveStream,
    NewStream,
    RequestPage,
    RequestStatus,
    StoredStream,
    StreamList,
    WindowKind,
    WindowPage,
)
from ragassay.live.traffic import LiveTraffic
from ragassay.service.access import Requester
from ragassay.service.health import check_memory

router = APIRouter(prefix="/v1", tags=["live traffic"])
_ARRIVES_WITHIN_S = 30.0
_GZIP = ("identity", "gzip")
_BINARY = {"type": "string", "format": "binary"}
_CONTENT = {"application/x-protobuf": {"schema": _BINARY}, "application/json": {"schema": {"type": "object"}}}
_OTLP = {
    "requestBody": {
        "required": True,
        "description": "An ExportTraceServiceRequest, as each OpenTelemetry exporter sends it; gzip is understood.",
        "content": _CONTENT,
    }
}
_ANSWERED: dict[int | str, dict[str, Any]] = {
    200: {"content": _CONTENT},
    "4XX": {"content": {kind: {} for kind in (*otlp.MEDIA_TYPES, "application/problem+json")}},
    "5XX": {"content": {kind: {} for kind in (*otlp.MEDIA_TYPES, "application/problem+json")}},
}
Stream = Annotated[
    str, Path(pattern=f"^{STREAM}$", max_length=100, description="The service.name of its spans.", examples=["shop"])
]
Trace = Annotated[str, Path(pattern=f"^{TRACE}$", max_length=64, description="The trace id, in hex.")]


def _live(request: Request, caller: Requester) -> LiveTraffic:
    return LiveTraffic(jobs_of(request, caller), request.app.state.settings)


Reads = Annotated[LiveTraffic, scoped(_live, "read")]
Changes = Annotated[LiveTraffic, scoped(_live, "submit")]


@router.post("/traces", openapi_extra=_OTLP, responses=_ANSWERED)
async def send_traces(request: Request, live: Changes) -> Response:
    """Point an OpenTelemetry exporter at it: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://HOST/v1/traces`.

    Spans are parsed, attributes that are never stored are taken out, and the rest is kept until the request that they belong
    to is complete. Answers are those of OTLP: `partial_success` counts spans that were not taken. After 429 and 503 with
    `Retry-After` the exporter sends them again.
    """
    settings: Settings = request.app.state.settings
    form: otlp.Form = "protobuf"
    try:
        kind = media_type(request, otlp.MEDIA_TYPES, "should be OTLP, but ", _SENT_AS, encodings=_GZIP)
        form = otlp.MEDIA_TYPES[kind]
        hint = "have the exporter send fewer spans at once: OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
        pieces = arriving(request, otlp.MAX_BYTES, _ARRIVES_WITHIN_S, hint)
        body = b"".join([piece async for piece in pieces])
        gzipped = request.headers.get("content-encoding", "").lower() == "gzip"
        content = await to_thread.run_sync(
            _append_spans, live, body, form, gzipped, settings, limiter=request.app.state.span_work
        )
    except AssayError as error:
        refused = respond(error)
        headers = {"Retry-After": after} if (after := refused.headers.get("Retry-After")) else {}
        status = 400 if refused.status_code == 422 else refused.status_code  # OTLP's code for what can't be read
        return Response(otlp.status(form, str(error)), status, headers, media_type=_TYPES[form])
    return Response(content, media_type=_TYPES[form])


_SENT_AS = f"send the header: Content-Type: {' or '.join(otlp.MEDIA_TYPES)}"
_TYPES = {form: kind for kind, form in otlp.MEDIA_TYPES.items()}


def _append_spans(live: LiveTraffic, body: bytes, form: otlp.Form, gzipped: bool, settings: Settings) -> bytes:
    """Keep the spans of a body; the answer to it."""
    redacted = settings.live_redacted
    spans = otlp.read(body, form, gzipped=gzipped, limit=otlp.MAX_BYTES, redacted=redacted)
    check_memory(live.jobs.store)
    appended = live.store.append(spans.received) if spans.received else None
    refused = {
        "have no trace id or no span id": spans.unplaced,
        "came after their request was complete": appended.late if appended else 0,
        "are beyond the most spans or bytes of a trace": appended.refused if appended else 0,
    }
    why = "; ".join(f"{number} spans {what}" for what, number in refused.items() if number)
    return otlp.response(form, sum(refused.values()), why)


@router.get("/live/streams")
def list_streams(live: Reads, query: Annotated[Page, Query()]) -> StreamList:
    """The streams of live traffic by name, each with its rule and the states of today's requests."""
    streams, after = page_of(live.streams(), attrgetter("name"), form=STREAM, **dict(query))
    return StreamList(streams=streams, next=after)


@router.get("/live/streams/{stream}")
def get_stream(live: Reads, stream: Stream) -> LiveStream:
    """The stream with its rule, and the states of today's requests."""
    return live.stream(stream)


@router.put("/live/streams/{stream}", openapi_extra=takes(NewStream))
async def put_stream(
    request: Request, live: Changes, stream: Stream, new: Annotated[NewStream, json_body(NewStream)]
) -> LiveStream:
    """Say which requests of a stream are evaluated, and how. It holds for those that are complete from now on."""
    settings: Settings = request.app.state.settings

    def work() -> LiveStream:
        spec = submission.read_evaluation({"name": stream, **new.job}, settings)
        rule = LiveRule(**{name: getattr(new, name) for name in LiveRule.model_fields})
        live.store.put_stream(stream, StoredStream(rule=rule, job=new.job, spec=spec))
        return live.stream(stream)

    return await analyse(request, work)


@router.delete("/live/streams/{stream}")
def delete_stream(live: Changes, stream: Stream) -> LiveStream:
    """Forget a rule; what was received stays for its time. The answer is what it was."""
    known = live.stream(stream)
    live.store.delete_stream(stream)
    return known


class _WindowQuery(Page):
    kind: Annotated[WindowKind, Field(description="hours or days, UTC")] = "hour"
    limit: Annotated[int, Field(ge=1, le=48, description="most windows")] = 24


@router.get("/live/streams/{stream}/windows")
async def list_windows(
    request: Request, live: Reads, stream: Stream, query: Annotated[_WindowQuery, Query()]
) -> WindowPage:
    """Hours or days, the newest first: metrics with intervals, latency, cost, states, and drift against the windows before."""
    return await analyse(request, lambda: live.windows(stream, **dict(query)))


class _RequestQuery(Page):
    status: Annotated[
        RequestStatus | None, Field(description="only those in this state; a page looks at 1,000 requests")
    ] = None


@router.get("/live/streams/{stream}/requests")
def list_requests(live: Reads, stream: Stream, query: Annotated[_RequestQuery, Query()]) -> RequestPage:
    """The requests of a stream, the newest first, each with its state and why it is in it."""
    live.store.stream(stream)
    return live.store.requests(stream, **dict(query))


@router.get("/live/requests/{trace}")
def get_request(live: Reads, trace: Trace) -> LiveRequest:
    """The state of a request by its trace id, and why it is in it."""
    return live.store.request(trace)


@router.post("/live/requests/{trace}/dataset", status_code=201, openapi_extra=takes(DatasetAddition))
async def add_to_dataset(
    live: Changes, trace: Trace, given: Annotated[DatasetAddition, json_body(DatasetAddition)]
) -> DatasetVersion:
    """Put the question of an evaluated request into a dataset, as a new version of it; the answer is that version."""
    return await to_thread.run_sync(live.add_to_dataset, trace, given.dataset)
