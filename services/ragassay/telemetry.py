"""What operators see of the work: which job it is about, what is counted, and which span of a trace it is in.

Next to nothing where nobody looks: without a tracer ``span`` hands out one object that does nothing, and to count is an
addition in memory. ``tracing`` makes the tracer, ``logs`` writes the fields, ``store/counters`` keeps what was counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Literal, Protocol

Attributes = Mapping[str, str | int | float | bool | tuple[str, ...]]
SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
SEPARATOR = "\x1f"  # between the name of a counter and the values of its labels
BUCKETS_S = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_NO_FIELDS: Mapping[str, str] = {}
_fields: ContextVar[Mapping[str, str]] = ContextVar("fields of log lines", default=_NO_FIELDS)
_counted: Counter[str] = Counter()


class Span:
    """A part of the work, while it is under way; this one is of no trace."""

    def name(self, name: str) -> None:
        """Call it otherwise, now that more is known."""

    def set(self, attributes: Attributes) -> None:
        """Note these about it; never text of a question, an answer or a document."""

    def fail(self, why: str) -> None:
        """It came to nothing; ``why`` is a word such as an error's code."""


class Tracer(Protocol):
    """Makes spans. Times are milliseconds since 1970."""

    def span(
        self, name: str, kind: SpanKind, attributes: Attributes, parent: str | None, began_ms: int | None
    ) -> AbstractContextManager[Span]:
        """A span for the length of the block, below the one that is under way, or ``parent``, a ``traceparent``."""

    def traceparent(self) -> str | None:
        """The span that is under way, as W3C Trace Context writes it."""

    def headers(self) -> Mapping[str, str]:
        """What a request to another server carries."""

    def close(self, within_s: float) -> None:
        """Send what is left, and make no more."""


_NO_SPAN: AbstractContextManager[Span] = nullcontext(Span())
_NO_ATTRIBUTES: Attributes = {}
_NO_HEADERS: Mapping[str, str] = {}
_tracer: Tracer | None = None


def trace_with(tracer: Tracer | None) -> None:
    """Make spans from now on, or none."""
    global _tracer
    _tracer = tracer


def span(
    name: str,
    kind: SpanKind = "internal",
    attributes: Attributes = _NO_ATTRIBUTES,
    *,
    parent: str | None = None,
    began_ms: int | None = None,
) -> AbstractContextManager[Span]:
    """A span for the length of the block; see ``Tracer.span``."""
    return _NO_SPAN if _tracer is None else _tracer.span(name, kind, attributes, parent, began_ms)


def traceparent() -> str | None:
    """The span that is under way, for what goes on elsewhere; None without traces."""
    return None if _tracer is None else _tracer.traceparent()


def headers() -> Mapping[str, str]:
    """What a request to a provider or a system carries; nothing without traces."""
    return _NO_HEADERS if _tracer is None else _tracer.headers()


def close(within_s: float = 1.0) -> None:
    """Send the spans that are left; a process that ends must not wait long for a collector that is away."""
    if _tracer is not None:
        _tracer.close(within_s)
        trace_with(None)


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
