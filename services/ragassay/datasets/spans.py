"""Spans of traces, as OTLP/JSON, Phoenix, Langfuse and OpenTelemetry's own exporters write them, in one form."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_DEEPEST = 32  # objects and lists inside an attribute
_OF_DATA_FRAME = "attributes."
_STRUCTURED = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.retrieval.documents", "retrieval.documents")
_OPERATIONS = {"retrieval": "RETRIEVER", "embeddings": "EMBEDDING", "chat": "LLM", "text_completion": "LLM"}
_OPERATIONS |= {"generate_content": "LLM", "completion": "LLM"}
_OF_LANGFUSE = {"GENERATION": "LLM", "SPAN": "CHAIN"}


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One span. ``kind`` as OpenInference names it; times are ms since 1970; ``attributes`` have dotted names.

    Lists of objects are numbered in the names: ``retrieval.documents.0.document.id``. ``error``: why it failed.
    """

    trace: str
    id: str
    parent: str | None
    name: str
    kind: str
    began_ms: float
    ended_ms: float | None
    attributes: Mapping[str, Any]
    error: str | None = None

    @property
    def ms(self) -> float | None:
        """How long it took."""
        return None if self.ended_ms is None else max(0.0, self.ended_ms - self.began_ms)


def are_spans(value: object) -> bool:
    """Is this object, the first of a file, a span or a batch of spans, rather than a row of a dataset?"""
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("resourceSpans"), list) or _is_of_otlp(value):
        return True
    context = value.get("context")
    named = context if isinstance(context, Mapping) else value
    of_phoenix = {"trace_id", "span_id"} <= named.keys() and named is context
    of_frame = {"context.trace_id", "context.span_id"} <= value.keys()
    of_langfuse = {"traceId", "id", "type", "startTime"} <= value.keys()
    return of_phoenix or of_frame or of_langfuse


def spans_in(value: Mapping[str, Any]) -> Iterator[TraceSpan | None]:
    """The spans of an object that is one, or a batch of them; None for one without a trace id or a span id."""
    if "resourceSpans" in value:
        for resource in _objects(value, "resourceSpans"):
            for scope in _objects(resource, "scopeSpans"):
                yield from map(_of_otlp, _objects(scope, "spans"))
    elif _is_of_otlp(value):
        yield _of_otlp(value)
    elif "traceId" in value:
        yield _of_langfuse(value)
    else:
        yield _of_phoenix(value)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    entries = value.get(key) or ()
    return (entry for entry in entries if isinstance(entry, Mapping)) if isinstance(entries, list) else iter(())


def _is_of_otlp(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("attributes"), list) and ("spanId" in value or "span_id" in value)


def _of_otlp(given: Mapping[str, Any]) -> TraceSpan | None:
    """With the keys of JSON or, as Phoenix's API has them, those of protobuf."""
    span = {_in_camel_case(key): entry for key, entry in given.items()}
    status = _object(span.get("status"))
    failed = status.get("code") in (2, "STATUS_CODE_ERROR")
    return _span(
        (span.get("traceId"), span.get("spanId"), span.get("parentSpanId")),
        span.get("name"),
        _pairs(span.get("attributes")),
        (_from_nanoseconds(span.get("startTimeUnixNano")), _from_nanoseconds(span.get("endTimeUnixNano"))),
        (status.get("message") or "the span has an error") if failed else None,
    )


def _in_camel_case(key: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), key)


def _of_phoenix(span: Mapping[str, Any]) -> TraceSpan | None:
    """As Phoenix's API and client, its data frame (dotted columns), and the console exporter of the SDK write it."""
    inner, status = _object(span.get("context")), _object(span.get("status"))
    code = status.get("status_code") or span.get("status_code")
    said = status.get("description") or span.get("status_message")
    of_frame = {
        key.removeprefix(_OF_DATA_FRAME): entry for key, entry in span.items() if key.startswith(_OF_DATA_FRAME)
    }
    kind = span.get("span_kind")
    return _span(
        (
            inner.get("trace_id", span.get("context.trace_id")),
            inner.get("span_id", span.get("context.span_id")),
            span.get("parent_id"),
        ),
        span.get("name"),
        {
            **({"openinference.span.kind": kind} if kind else {}),
            **_object(span.get("attributes")),
            **of_frame,
        },
        (_from_time(span.get("start_time")), _from_time(span.get("end_time"))),
        (said or "the span has an error") if code == "ERROR" else None,
    )


def _of_langfuse(seen: Mapping[str, Any]) -> TraceSpan | None:
    """An observation of Langfuse, as its API and its export write it."""
    kind = _OF_LANGFUSE.get(str(seen["type"]), str(seen["type"]))
    usage = _object(seen.get("usageDetails") or seen.get("usage"))
    cost = seen.get("totalCost") or seen.get("calculatedTotalCost") or _object(seen.get("costDetails")).get("total")
    given = {
        "openinference.span.kind": kind,
        "input.value": decoded(seen.get("input")),
        "output.value": decoded(seen.get("output")),
        "llm.model_name": seen.get("model") or seen.get("providedModelName"),
        "llm.token_count.prompt": usage.get("input") or seen.get("promptTokens"),
        "llm.token_count.completion": usage.get("output") or seen.get("completionTokens"),
        "llm.cost.total": cost,
        "session.id": seen.get("sessionId"),
        "metadata": decoded(seen.get("metadata")),
    }
    documents = given["output.value"]
    if kind == "RETRIEVER" and isinstance(documents, Mapping):
        documents = next((entry for entry in documents.values() if isinstance(entry, list)), None)
    if kind == "RETRIEVER" and isinstance(documents, list):
        given["retrieval.documents"] = [{"document": _document(each)} for each in documents]
    return _span(
        (seen["traceId"], seen.get("id"), seen.get("parentObservationId")),
        seen.get("name"),
        {key: value for key, value in given.items() if value is not None},
        (_from_time(seen.get("startTime")), _from_time(seen.get("endTime"))),
        (seen.get("statusMessage") or "the observation has an error") if seen.get("level") == "ERROR" else None,
    )


def _document(value: object) -> dict[str, Any]:
    """What LangChain, LlamaIndex and people call the parts of a document."""
    if not isinstance(value, Mapping):
        return {"content": value}
    names = {"content": ("page_content", "pageContent", "content", "text"), "id": ("id", "doc_id"), "score": ("score",)}
    found = {ours: next((value[name] for name in theirs if name in value), None) for ours, theirs in names.items()}
    metadata = value.get("metadata")
    return {**found, **({"metadata": json.dumps(metadata)} if isinstance(metadata, Mapping) else {})}


def _span(
    ids: tuple[Any, Any, Any],
    name: Any,
    attributes: Mapping[str, Any],
    times: tuple[float | None, float | None],
    error: str | None,
) -> TraceSpan | None:
    trace, own, parent = (str(each).removeprefix("0x") if each else None for each in ids)
    if not trace or not own:
        return None
    flat: dict[str, Any] = {}
    for key, value in attributes.items():
        _flatten(str(key), _parsed(value) if key in _STRUCTURED and isinstance(value, str) else value, flat)
    kind = flat.get("openinference.span.kind") or _OPERATIONS.get(str(flat.get("gen_ai.operation.name")), "CHAIN")
    began_ms, ended_ms = times
    ended_ms = None if began_ms is None else ended_ms  # without a start it would have lasted since 1970
    return TraceSpan(trace, own, parent, str(name or ""), str(kind).upper(), began_ms or 0.0, ended_ms, flat, error)


def _flatten(name: str, value: Any, into: dict[str, Any], depth: int = 0) -> None:
    """Objects, and lists with objects in them, under dotted names; what the reader itself parses stays whole."""
    if depth > _DEEPEST:
        return
    whole = name.endswith((".value", "metadata"))
    if isinstance(value, Mapping) and value and not whole:
        for key, entry in value.items():
            _flatten(f"{name}.{key}", entry, into, depth + 1)
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value) and not whole:
        for n, entry in enumerate(value):
            _flatten(f"{name}.{n}", entry, into, depth + 1)
    elif value is not None:
        into[name] = value


def _pairs(attributes: Any, depth: int = 0) -> dict[str, Any]:
    """OTLP's list of keys and values."""
    listed = attributes if isinstance(attributes, list) else ()
    return {
        str(each["key"]): _of_any_value(each.get("value"), depth)
        for each in listed
        if isinstance(each, Mapping) and "key" in each
    }


def _of_any_value(value: Any, depth: int = 0) -> Any:
    given = value.items() if isinstance(value, Mapping) and depth <= _DEEPEST else ()
    for kind, inner in ((_in_camel_case(kind), inner) for kind, inner in given if inner is not None):
        entries = _object(inner).get("values")
        if kind == "arrayValue":
            return [_of_any_value(entry, depth + 1) for entry in entries] if isinstance(entries, list) else None
        if kind == "kvlistValue":
            return _pairs(entries, depth + 1)
        return _parsed(inner) if kind == "intValue" and isinstance(inner, str) else inner  # 64 bits are text there
    return None


def _parsed(text: str) -> Any:
    """What a JSON text holds; any other text as it is."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return text


def decoded(value: Any) -> Any:
    """An input or output, which may be JSON in a text."""
    return _parsed(value) if isinstance(value, str) and re.match(r'\s*["\[{]', value) else value


def _from_nanoseconds(value: Any) -> float | None:
    with suppress(TypeError, ValueError):
        return int(value) / 1e6
    return None


def _from_time(value: Any) -> float | None:
    """ms since 1970 of an ISO 8601 time, or of a number of ms, as pandas writes times."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else None
    with suppress(TypeError, ValueError):
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000
    return None
