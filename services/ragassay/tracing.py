"""The only importer of OpenTelemetry: spans, and events about the spans of others, to a collector over OTLP/HTTP.

The SDK reads its own variables: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_TRACES_SAMPLER``,
``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_SERVICE_NAME``, ``OTEL_BSP_SCHEDULE_DELAY`` and so on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ragassay import telemetry
from ragassay.errors import AssayError, MissingExtra, Unavailable
from ragassay.settings import Settings, traces_wanted

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExportResult
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as SdkSpan

logger = logging.getLogger("ragassay")
_EVENTS_A_REQUEST = 500


def set_up(settings: Settings, part: str) -> None:
    """Send spans of this process, ``api``, ``worker`` or ``beat``; after a fork, not before it: a thread sends them.

    Raises MissingExtra where RAGASSAY_TRACES asks for traces and OpenTelemetry is not installed. Where only
    OTEL_EXPORTER_OTLP_ENDPOINT does, which may be set for a whole machine, that is a line in the log.
    """
    if not traces_wanted(settings):
        return
    try:
        telemetry.trace_with(_OpenTelemetry(_provider(part), propagates=settings.trace_headers))
    except ImportError:
        missing = MissingExtra("sending traces", "traces")
        if settings.traces:
            raise missing from None
        logger.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set and nothing is traced: %s", missing)


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


class _SdkSpan(telemetry.Span):
    def __init__(self, span: SdkSpan) -> None:
        self._span = span

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def set(self, attributes: telemetry.Attributes) -> None:
        self._span.set_attributes(attributes)

    def fail(self, why: str) -> None:
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("error.type", why)
        self._span.set_status(StatusCode.ERROR)


class _OpenTelemetry:
    """Spans of the SDK."""

    def __init__(self, provider: TracerProvider, *, propagates: bool) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider, self._propagates = provider, propagates
        self._tracer = provider.get_tracer("ragassay", metadata.version("ragassay"))
        self._context, self._api = TraceContextTextMapPropagator(), trace

    @contextmanager
    def span(
        self,
        name: str,
        kind: telemetry.SpanKind,
        attributes: telemetry.Attributes,
        parent: str | None,
        began_ms: int | None,
    ) -> Iterator[telemetry.Span]:
        """As ``telemetry.Tracer``; an error that passes through is named by its code, without its message."""
        with self._tracer.start_as_current_span(
            name,
            context=self._context.extract({"traceparent": parent}) if parent else None,
            kind=self._api.SpanKind[kind.upper()],
            attributes=attributes,
            start_time=None if began_ms is None else began_ms * 1_000_000,
            record_exception=False,
            set_status_on_exception=False,
        ) as started:
            made = _SdkSpan(started)
            try:
                yield made
            except BaseException as error:
                made.fail(error.code if isinstance(error, AssayError) else type(error).__name__)
                raise

    def traceparent(self) -> str | None:
        """As ``telemetry.Tracer``."""
        carrier: dict[str, str] = {}
        self._context.inject(carrier)
        return carrier.get("traceparent")

    def headers(self) -> Mapping[str, str]:
        """As ``telemetry.Tracer``."""
        parent = self.traceparent() if self._propagates else None
        return {"traceparent": parent} if parent else {}

    def close(self, within_s: float) -> None:
        """As ``telemetry.Tracer``; the SDK itself would wait for half a minute."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True, name="last spans")
        ending.start()
        ending.join(within_s)
