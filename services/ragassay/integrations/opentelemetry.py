"""Scores as the evaluation events of OpenTelemetry's conventions for generative AI, on the traces that rows came from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from importlib import metadata
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ragassay.core.errors import MissingExtra, Unavailable

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from ragassay.core.models import Result, Score
    from ragassay.core.report import ReportWithResults

EVENT = "gen_ai.evaluation.result"
_EVENTS_PER_REQUEST = 500


class TraceEvent(NamedTuple):
    """Something that is known of a span, after it ended: ``trace`` and ``span`` are its ids in hexadecimal, if known."""

    attributes: dict[str, str | float]
    unix_nano: int
    trace: str
    span: str


def log(report: ReportWithResults, *, endpoint: str | None = None) -> int:
    """Send an event for each score of each row, and for each that failed; returns how many.

    endpoint: of a collector, such as "http://127.0.0.1:4318"; default: OTEL_EXPORTER_OTLP_ENDPOINT. Rows that were read from
    traces are about the span that they came from. Raises MissingExtra without OpenTelemetry, and Unavailable if the
    collector did not take all.
    """
    try:
        from opentelemetry._logs import LogRecord
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.sdk._logs.export import LogRecordExportResult
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    except ImportError:
        raise MissingExtra("sending events", "traces") from None
    version = metadata.version("ragassay")
    resource = Resource.create({"service.name": "ragassay", "service.version": version})
    resource, scope = resource.merge(OTELResourceDetector().detect()), InstrumentationScope("ragassay", version)

    def record(event: TraceEvent) -> ReadableLogRecord:
        context = _context(event.trace, event.span)
        log_record = LogRecord(
            timestamp=event.unix_nano, context=context, event_name=EVENT, attributes=dict(event.attributes)
        )
        return ReadableLogRecord(log_record, resource, scope)

    exporter = OTLPLogExporter(endpoint=f"{endpoint.rstrip('/')}/v1/logs" if endpoint else None)
    every, sent = events(report), 0
    try:
        while batch := [record(event) for event in islice(every, _EVENTS_PER_REQUEST)]:
            if exporter.export(batch) is not LogRecordExportResult.SUCCESS:
                what = f"the collector took {sent} of {sent + len(batch)} events"
                raise Unavailable(what, hint="is OTEL_EXPORTER_OTLP_ENDPOINT right?")
            sent += len(batch)
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return sent


def events(report: ReportWithResults) -> Iterator[TraceEvent]:
    """``gen_ai.evaluation.result``: name, value, label of pass or fail, explanation; never a question or an answer."""
    at = int(datetime.fromisoformat(report.run.finished_at).timestamp() * 1e9)
    about = {"ragassay.run": report.run.id, "ragassay.judge": report.provenance.judge["name"]}
    for system in report.systems:
        for row in report.results_of(system):
            trace, span = (str(row.metadata.get(key) or "") for key in ("trace_id", "span_id"))
            for metric, score in row.scores.items():
                if score.value is not None or score.missing == "failed":
                    yield TraceEvent({**about, **_attributes(row, metric, score)}, at, trace, span)


def _attributes(row: Result, metric: str, score: Score) -> dict[str, str | float]:
    given = {
        "gen_ai.evaluation.name": metric,
        "gen_ai.evaluation.score.value": score.value,
        "gen_ai.evaluation.score.label": _label(metric, score),
        "gen_ai.evaluation.explanation": score.reason,
        "error.type": score.missing,
        "ragassay.query_id": row.query_id,
        "ragassay.system": row.system,
    }
    return {name: value for name, value in given.items() if value is not None}


def _label(metric: str, score: Score) -> str | None:
    """Of the one metric that is a verdict."""
    return {1.0: "pass", 0.0: "fail"}.get(score.value) if metric == "accurate" and score.value is not None else None


def _context(trace_id: str, span_id: str) -> Context | None:
    """That of a span elsewhere; None for ids that are none."""
    from opentelemetry import trace

    try:
        ids = int(trace_id, 16), int(span_id, 16)
    except ValueError:
        return None
    of_span = trace.SpanContext(*ids, is_remote=True, trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED))
    return trace.set_span_in_context(trace.NonRecordingSpan(of_span)) if of_span.is_valid else None
