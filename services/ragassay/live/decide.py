"""Spans of one request -> what becomes of it: the row, if it has one, and whether the rule of its stream has it evaluated."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragassay.core.errors import AssayError
from ragassay.core.formatting import listed
from ragassay.core.models import Sample
from ragassay.core.text import content
from ragassay.datasets.load import load
from ragassay.datasets.source import Source
from ragassay.datasets.traces import SpanRule, TraceRow, TraceSpan, row_of_trace
from ragassay.live.models import Cause, LiveRule, RequestStatus

_SHOWN = 12  # names of attributes
_NOT_SHOWN = ("openinference.", "telemetry.", "service.")


@dataclass(frozen=True)
class Decision:
    """The state of a request and why; ``sample`` if it is to be evaluated, and ``cause``: what chose it."""

    status: RequestStatus
    reason: str
    sample: Sample | None = None
    cause: Cause | None = None
    read_from: dict[str, str] = field(default_factory=dict)


def has_root(spans: Sequence[TraceSpan]) -> bool:
    """Is there a span without a parent, which has ended?"""
    return any(span.parent is None and span.ended_ms is not None for span in spans)


def decide(spans: Sequence[TraceSpan], rule: LiveRule | None, stream: str) -> Decision:
    """What becomes of a request that is complete: ``evaluating``, ``not_sampled``, ``no_answer`` or ``failed``."""
    row = row_of_trace(spans, rule.spans if rule else SpanRule())
    values, read_from = row.values, dict(row.read_from)
    if values is None or (values.get("answer") is None and "error" not in values):
        return Decision("no_answer", _nothing_found(spans, row), read_from=read_from)
    if rule is None:
        return Decision("not_sampled", f"stream {stream} has no rule", read_from=read_from)
    cause = _cause(values, rule)
    if cause is None:
        return Decision("not_sampled", f"not among the {rule.rate:.4g} of the requests", read_from=read_from)
    try:
        source = Source(Path("trace"), rows=[(1, values)], counts_lines=False, name=stream)
        sample = load(source, duplicates="keep_first").samples[0]
    except AssayError as error:
        return Decision("failed", f"its row can't be read: {error}", cause=cause, read_from=read_from)
    return Decision("evaluating", _CHOSEN[cause], sample, cause, read_from)


_CHOSEN: dict[Cause, str] = {
    "sampled": "chosen by the rate",
    "error": "chosen because it failed",
    "low_score": "chosen because few of the answer's words are in the contexts",
}


def is_sampled(trace: str, rate: float) -> bool:
    """Is a trace among the share ``rate``? Always the same for the same id, in every process."""
    return int.from_bytes(hashlib.sha256(trace.encode()).digest()[:8]) < rate * 2**64


def share_in_contexts(answer: str, contexts: Sequence[str]) -> float:
    """The cheap score: the share of the answer's words that carry meaning which are in the contexts."""
    answer_words = content(answer)
    return len(answer_words & frozenset().union(*map(content, contexts))) / len(answer_words) if answer_words else 1.0


def _cause(values: dict[str, object], rule: LiveRule) -> Cause | None:
    answer, contexts = values.get("answer"), values.get("contexts")
    if is_sampled(str(values["query_id"]), rule.rate):
        return "sampled"
    if rule.errors and "error" in values:
        return "error"
    if rule.low_score is not None and isinstance(answer, str) and isinstance(contexts, list):
        return "low_score" if share_in_contexts(answer, contexts) < rule.low_score else None
    return None


def _nothing_found(spans: Sequence[TraceSpan], row: TraceRow) -> str:
    """Why there is no row, with the names of the attributes that were seen."""
    seen = dict.fromkeys(name for span in spans for name in span.attributes if not name.startswith(_NOT_SHOWN))
    shown = [*list(seen)[:_SHOWN], *([f"{len(seen) - _SHOWN} more"] if len(seen) > _SHOWN else [])]
    root = "" if has_root(spans) else "its root span did not come, and "
    what = "no question is found" if row.values is None else "no answer is found"
    kinds = listed(sorted({span.kind for span in spans}))
    return f"{root}{what}; spans are of kind {kinds}; attributes seen: {', '.join(shown) or 'none'}"
