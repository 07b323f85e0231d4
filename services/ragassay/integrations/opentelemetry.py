"""Scores as the evaluation events of OpenTelemetry's conventions for generative AI, on the traces that rows came from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from importlib import metadata
from itertools import islice
from typing import TYPE_CHECKING

from ragassay.core.errors import MissingExtra, Unavailable

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from ragassay.core.models import Result
    from ragassay.core.report import ReportWithResults

EVENT = "gen_ai.evaluation.result"
_EVENTS_PER_REQUEST = 500
_LABELS: dict[tuple[str, float | None], str] = {
    ("accurate", 1.0): "pass",
    ("accurate", 0.0): "fail",
}  # of the one metric that is a verdict


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
    at = int(datetime.fromisoformat(report.run.finished_at).timestamp() * 1e9)
    records = (
        ReadableLogRecord(
            LogRecord(timestamp=at, context=_span_of(row), event_name=EVENT, attributes=dict(attributes)),
            resource,
            scope,
        )
        for row, attributes in _events(report)
    )
    exporter, sent = OTLPLogExporter(endpoint=f"{endpoint.rstrip('/')}/v1/logs" if endpoint else None), 0
    try:
        while batch := list(islice(records, _EVENTS_PER_REQUEST)):
            if exporter.export(batch) is not LogRecordExportResult.SUCCESS:
                what = f"the collector took {sent} of {sent + len(batch)} events"
                raise Unavailable(what, hint="is OTEL_EXPORTER_OTLP_ENDPOINT right?")
            sent += len(batch)
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return sent


def _events(report: ReportWithResults) -> Iterator[tuple[Result, dict[str, str | float]]]:
    """Rows with name, value, label of pass or fail and explanation of each score; never a question or an answer."""
    about = {"ragassay.run": report.run.id, "ragassay.judge": report.provenance.judge["name"]}
    for row in (row for system in report.systems for row in report.results_of(system)):
        for metric, score in row.scores.items():
            attributes = {
                "gen_ai.evaluation.name": metric,
                "gen_ai.evaluation.score.value": score.value,
                "gen_ai.evaluation.score.label": _LABELS.get((metric, score.value)),
                "gen_ai.evaluation.explanation": score.reason,
                "error.type": score.missing,
                "ragassay.query_id": row.query_id,
                "ragassay.system": row.system,
            }
            if score.value is not None or score.missing == "failed":
                yield row, {**about, **{name: value for name, value in attributes.items() if value is not None}}


def _span_of(row: Result) -> Context | None:
    """The span that a row came from; None without its ids, in hexadecimal, or for ids that are none."""
    from opentelemetry import trace

    try:
        trace_id, span_id = (int(str(row.metadata.get(key)), 16) for key in ("trace_id", "span_id"))
    except ValueError:
        return None
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    span = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=sampled)
    return trace.set_span_in_context(trace.NonRecordingSpan(span)) if span.is_valid else None
