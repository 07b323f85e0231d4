"""What operators see of the work: which job it is about, what is counted, and which span of a trace it is in.

Next to nothing where nobody looks: without a tracer a span is OpenTelemetry's that records nothing, and to count is an
addition in memory. ``tracing`` makes the tracer, ``logs`` writes the fields, ``store/counters`` keeps what was counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

from ragassay.core.errors import AssayError

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

Attributes = Mapping[str, str | int | float | bool | tuple[str, ...]]
SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
SEPARATOR = "\x1f"  # between the name of a counter and the values of its labels
BUCKETS_S = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_NO_FIELDS: Mapping[str, str] = {}
_fields: ContextVar[Mapping[str, str]] = ContextVar("fields of log lines", default=_NO_FIELDS)
_counted: Counter[str] = Counter()

# --- spans ------------------------------------------------------------------------------------------------------------
# OpenTelemetry is imported with the first span: a command that makes none should not wait for it.

_NO_ATTRIBUTES: Attributes = {}
_tracer: Tracer | None = None
_propagates = False


def trace_with(tracer: Tracer | None, *, propagates: bool = False) -> None:
    """Make spans from now on, or none. ``propagates``: requests to other servers carry the span that is under way."""
    global _tracer, _propagates
    _tracer, _propagates = tracer, propagates


@contextmanager
def span(
    name: str,
    kind: SpanKind = "internal",
    attributes: Attributes = _NO_ATTRIBUTES,
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
    if _tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


def headers() -> Mapping[str, str]:
    """What a request to a provider or a system carries; nothing without traces."""
    parent = traceparent() if _propagates else None
    return {"traceparent": parent} if parent else {}


# --- fields of log lines ----------------------------------------------------------------------------------------------


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


def fields() -> Mapping[str, str]:
    """Those of the work that is under way, with the id of its trace."""
    current, parent = _fields.get(), traceparent()
    return current if parent is None else {**current, "trace": parent.split("-")[1]}


# --- counters ---------------------------------------------------------------------------------------------------------


def count(name: str, *labels: str, amount: float = 1) -> None:
    """Add to a counter of ``store/counters``, which has the names; written down with the next call that is settled."""
    _counted[SEPARATOR.join((name, *labels))] += amount  # type: ignore[assignment]  # floats add up as well


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
