"""What operators see of the work: spans of OpenTelemetry, counters, and log lines with the fields of the work under way.

Costs next to nothing when it is off: without a tracer a span records nothing, and to count is an addition in memory. Spans go to
a collector over OTLP/HTTP; OpenTelemetry's SDK, imported then, reads its own variables (``OTEL_EXPORTER_OTLP_ENDPOINT``,
``OTEL_TRACES_SAMPLER``, ``OTEL_RESOURCE_ATTRIBUTES`` and so on). ``service/counters`` keeps what was counted.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from ragassay.core.errors import AssayError, MissingExtra
from ragassay.core.formatting import bounded, printable
from ragassay.core.settings import Settings, has_collector, secrets, sends_trace_headers, without

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

Attributes = Mapping[str, str | int | float | bool | tuple[str, ...]]
SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
SEPARATOR = "\x1f"  # between the name of a counter and the values of its labels
BUCKETS_S = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
MAX_TRACEBACK = 8000  # characters
LAST_SPANS_S = 1.0  # for which the end of a process waits until the last spans are sent

logger = logging.getLogger("ragassay")
_NOTHING: Mapping[str, Any] = {}
_FIELDS_OF_RECORDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}
_fields: ContextVar[Mapping[str, str]] = ContextVar("fields of log lines", default=_NOTHING)
_counted: defaultdict[str, float] = defaultdict(float)
_provider: TracerProvider | None = None
_tracer: Tracer | None = None  # the provider's, made once: our version is read from a file

# --- spans ------------------------------------------------------------------------------------------------------------


def start_tracing(part: str) -> None:
    """Send spans of this process, ``api``, ``worker`` or ``beat``; after a fork, not before it: a thread sends them.

    Without OpenTelemetry installed that is a line in the log: OTEL_EXPORTER_OTLP_ENDPOINT may be set for a whole machine.
    """
    global _provider, _tracer
    if not has_collector():
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        missing = MissingExtra("sending traces", "traces")
        logger.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set and nothing is traced: %s", missing)
        return
    version = metadata.version("ragassay")
    own = {"service.name": f"ragassay-{part}", "service.version": version}
    resource = Resource.create(own).merge(OTELResourceDetector().detect())  # what the operator's variables say wins
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = _provider.get_tracer("ragassay", version)


def stop_tracing() -> None:
    """Send the spans that are left, and make no more; the SDK would wait half a minute for a collector that is away."""
    global _provider, _tracer
    if _provider is None:
        return
    ending = threading.Thread(target=_provider.shutdown, daemon=True, name="last spans")
    _provider = _tracer = None
    ending.start()
    ending.join(LAST_SPANS_S)


@contextmanager
def span(
    name: str,
    kind: SpanKind = "internal",
    attributes: Attributes = _NOTHING,
    *,
    parent: str | None = None,
    began_ms: int | None = None,
) -> Iterator[Span]:
    """A span for the length of the block, below the one that is under way, or ``parent``, a ``traceparent``.

    ``began_ms``: milliseconds since 1970. Attributes never hold text of a question, an answer or a document. An error that
    passes through is named by its code, without its message.
    """
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    if _tracer is None:
        yield trace.INVALID_SPAN
        return
    with _tracer.start_as_current_span(
        name,
        context=TraceContextTextMapPropagator().extract({"traceparent": parent}) if parent else None,
        kind=trace.SpanKind[kind.upper()],
        attributes=attributes,
        start_time=None if began_ms is None else began_ms * 1_000_000,
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        try:
            yield started
        except BaseException as error:
            fail(started, error.code if isinstance(error, AssayError) else type(error).__name__)
            raise


def fail(span: Span, why: str) -> None:
    """Note that it came to nothing; ``why`` is a word such as an error's code."""
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", why)
    span.set_status(StatusCode.ERROR)


def traceparent() -> str | None:
    """The span that is under way, as W3C Trace Context writes it, for what goes on elsewhere; None without traces."""
    if _provider is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


def headers() -> Mapping[str, str]:
    """What a request to a provider or a system carries; nothing without traces."""
    parent = traceparent() if sends_trace_headers() else None
    return {"traceparent": parent} if parent else {}


# --- counters ---------------------------------------------------------------------------------------------------------


def count(name: str, *labels: str, amount: float = 1) -> None:
    """Add to a counter of ``service/counters``, which has the names; written down with the next call that is settled."""
    _counted[SEPARATOR.join((name, *labels))] += amount


def observe(name: str, *labels: str, seconds: float) -> None:
    """Add a time to a histogram: to its bucket alone, ``+Inf`` beyond the largest, and to its sum."""
    bucket = next((str(bound) for bound in BUCKETS_S if seconds <= bound), "+Inf")
    count(name, *labels, bucket)
    count(f"{name}_sum", *labels, amount=seconds)


def take_counted() -> dict[str, float]:
    """What was counted since the last time, by name and labels."""
    taken = dict(_counted)
    _counted.clear()
    return {name: amount for name, amount in taken.items() if amount}


# --- log lines --------------------------------------------------------------------------------------------------------


@contextmanager
def about(**fields: str | None) -> Iterator[None]:
    """Within the block log lines have these fields: ``job``, ``chunk``, ``system``, ``project``, ``request`` ..."""
    token = _fields.set({**_fields.get(), **{name: value for name, value in fields.items() if value is not None}})
    try:
        yield
    finally:
        _fields.reset(token)


def note(**fields: str) -> None:
    """For the rest of the block of ``about`` log lines have these fields too."""
    _fields.set({**_fields.get(), **fields})


class JsonLines(logging.Formatter):
    """One JSON object: time, level, logger, message, the event's own fields, and those of the work under way."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. ASCII only, so that no reader of lines takes a character of the data for an end."""
        parent = traceparent()
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": bounded(record.getMessage()),
            **_fields.get(),
            **({"trace": parent.split("-")[1]} if parent else {}),
            **{name: _plain(value) for name, value in _extra(record).items() if value is not None},
        }
        if record.exc_info:
            line["traceback"] = bounded(record.exc_text or self.formatException(record.exc_info), MAX_TRACEBACK)
        return json.dumps(line)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of the event: what ``extra`` of the call gave."""
    return {name: value for name, value in vars(record).items() if name not in _FIELDS_OF_RECORDS}


def _plain(value: object) -> object:
    is_number = isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_number else bounded(str(value))


class WithoutSecrets(logging.Filter):
    """Takes keys, tokens and passwords of this process's settings out of what any library logs."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        own = settings.api_key, settings.bootstrap_key, settings.key_pepper, settings.server_key, settings.metrics_key
        passwords = (urlsplit(address).password for address in (settings.state, settings.broker))
        self._secrets = {*secrets(), *filter(None, (*own, *passwords))}

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets everything pass, changed where it has to be."""
        text = record.getMessage()
        if (cleaned := without(text, self._secrets)) != text:
            record.msg, record.args = cleaned, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = without(logging.Formatter().formatException(record.exc_info), self._secrets)
        for name, value in _extra(record).items():
            if isinstance(value, str):
                setattr(record, name, without(value, self._secrets))
        return True


def _one_line(record: logging.LogRecord) -> bool:
    """A filter of handlers: text from data stays on its line and acts on no terminal."""
    record.msg, record.args = printable(record.getMessage()).replace("\n", "\\n"), ()
    return True


def prepare_handler(handler: logging.Handler, settings: Settings) -> None:
    """Make a handler write lines of the form that the settings name."""
    handler.addFilter(WithoutSecrets(settings))
    if settings.log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.addFilter(_one_line)


def set_log_levels(settings: Settings) -> None:
    """Log our events from the level of the settings on; libraries say no more than INFO of what they do."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    logging.getLogger("ragassay").setLevel(level)
    logging.getLogger().setLevel(max(level, logging.INFO))


def start_logging(settings: Settings) -> None:
    """Log to stderr. Not for a worker, whose log Celery sets up."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    prepare_handler(handler, settings)
    logging.getLogger().handlers[:] = [handler]
    set_log_levels(settings)


def log_line(settings: Settings, level: int, message: str) -> str:
    """A line for what is written past the loggers: as it is, or as JSON."""
    if settings.log_format == "text":
        return message
    fields = {"name": "ragassay", "levelno": level, "levelname": logging.getLevelName(level), "msg": message}
    return JsonLines().format(logging.makeLogRecord(fields))
