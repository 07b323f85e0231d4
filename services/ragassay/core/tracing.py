"""What sends: spans, and events about the spans of others, to a collector over OTLP/HTTP.

The SDK reads its own variables: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_TRACES_SAMPLER``,
``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_SERVICE_NAME``, ``OTEL_BSP_SCHEDULE_DELAY`` and so on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from importlib import metadata
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ragassay.core import telemetry
from ragassay.core.errors import MissingExtra, Unavailable
from ragassay.core.settings import Settings, traces_wanted

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExportResult
    from opentelemetry.sdk.trace import TracerProvider

logger = logging.getLogger("ragassay")
_EVENTS_A_REQUEST = 500
_sending: TracerProvider | None = None


def set_up(settings: Settings, part: str) -> None:
    """Send spans of this process, ``api``, ``worker`` or ``beat``; after a fork, not before it: a thread sends them.

    Raises MissingExtra where RAGASSAY_TRACES asks for traces and OpenTelemetry is not installed. Where only
    OTEL_EXPORTER_OTLP_ENDPOINT does, which may be set for a whole machine, that is a line in the log.
    """
    global _sending
    if not traces_wanted(settings):
        return
    try:
        _sending = _provider(part)
    except ImportError:
        missing = MissingExtra("sending traces", "traces")
        if settings.traces:
            raise missing from None
        logger.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set and nothing is traced: %s", missing)
    else:
        tracer = _sending.get_tracer("ragassay", metadata.version("ragassay"))
        telemetry.trace_with(tracer, propagates=settings.trace_headers)


def close(within_s: float = 1.0) -> None:
    """Send the spans that are left, and make no more.

    A process that ends must not wait long for a collector that is away; the SDK would wait for half a minute.
    """
    global _sending
    if _sending is None:
        return
    ending = threading.Thread(target=_sending.shutdown, daemon=True, name="last spans")
    _sending = None
    telemetry.trace_with(None)
    ending.start()
    ending.join(within_s)


def _provider(part: str) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    own = {"service.name": f"ragassay-{part}", "service.version": metadata.version("ragassay")}
    resource = Resource.create(own).merge(OTELResourceDetector().detect())  # what the operator's variables say wins
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class TraceEvent(NamedTuple):
    """Something that is known of a span, after it ended: ``trace`` and ``span`` are its ids in hexadecimal, where known."""

    name: str
    attributes: telemetry.Attributes
    unix_nano: int
    trace: str | None = None
    span: str | None = None


def send_events(events: Iterable[TraceEvent], endpoint: str | None = None) -> int:
    """Send log records to ``endpoint``, or where the SDK's variables say; returns how many.

    Raises MissingExtra without OpenTelemetry, Unavailable where the collector did not take all.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExportResult
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    except ImportError:
        raise MissingExtra("sending events", "traces") from None
    taken = 0

    class Counted(OTLPLogExporter):
        """Notes what the collector took."""

        def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
            nonlocal taken
            result = super().export(batch)
            taken += len(batch) if result is LogRecordExportResult.SUCCESS else 0
            return result

    own = {"service.name": "ragassay", "service.version": metadata.version("ragassay")}
    provider = LoggerProvider(Resource.create(own).merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    exporter = Counted(endpoint=f"{endpoint.rstrip('/')}/v1/logs" if endpoint else None)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter, max_export_batch_size=_EVENTS_A_REQUEST))
    every, sent = iter(events), 0
    try:
        while (some := list(islice(every, _EVENTS_A_REQUEST))) and taken == sent:
            _emit(provider, some)
            sent += len(some)
            provider.force_flush()
    finally:
        provider.shutdown()
    if taken < sent:
        raise Unavailable(f"the collector took {taken} of {sent} events", hint="is OTEL_EXPORTER_OTLP_ENDPOINT right?")
    return sent


def _emit(provider: LoggerProvider, events: Iterable[TraceEvent]) -> None:
    from opentelemetry._logs import LogRecord

    log = provider.get_logger("ragassay", metadata.version("ragassay"))
    for event in events:
        log.emit(
            LogRecord(
                timestamp=event.unix_nano,
                context=_context(event.trace, event.span),
                event_name=event.name,
                attributes=dict(event.attributes),
            )
        )


def _context(trace_id: str | None, span_id: str | None) -> Context | None:
    """That of a span elsewhere; None for ids that are none."""
    from opentelemetry import trace

    try:
        ids = int(trace_id or "", 16), int(span_id or "", 16)
    except ValueError:
        return None
    of_span = trace.SpanContext(*ids, is_remote=True, trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED))
    return trace.set_span_in_context(trace.NonRecordingSpan(of_span)) if of_span.is_valid else None
