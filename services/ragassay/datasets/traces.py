"""Rows of traces, as OTLP/JSON, Phoenix, Langfuse and OpenTelemetry's own exporters write them: one for each trace.

By the semantic conventions of OpenInference and of OpenTelemetry for generative AI. What a trace lacks is
absent from its row, and the warnings count what could not be read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from ragassay.core.errors import NothingToEvaluate
from ragassay.core.models import FrozenModel
from ragassay.datasets.columns import value_at
from ragassay.datasets.source import NumberedRow, Source

_MAX_DEPTH = 32  # objects and lists inside an attribute
_MAX_NAME = 1000  # characters of an attribute's dotted name: each entry of a list repeats the name of the list
_YEAR_10000_MS = 253_402_300_800_000
_STRUCTURED = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.retrieval.documents", "retrieval.documents")
# kinds of other conventions, as OpenInference's
_KINDS = {"RETRIEVAL": "RETRIEVER", "EMBEDDINGS": "EMBEDDING", "SPAN": "CHAIN"}
_KINDS |= dict.fromkeys(("CHAT", "TEXT_COMPLETION", "GENERATE_CONTENT", "COMPLETION", "GENERATION"), "LLM")
# what OTLP in JSON, Phoenix, OpenTelemetry's console exporter and Langfuse call the parts of a span
_SPAN = {
    "trace": ("traceId", "trace_id", "context.trace_id"),
    "id": ("spanId", "span_id", "context.span_id", "id"),
    "parent": ("parentSpanId", "parent_span_id", "parent_id", "parentObservationId"),
    "name": ("name",),
    "status": ("status.code", "status.status_code", "status_code", "level"),
    "message": ("status.message", "status.description", "status_message", "statusMessage"),
}
_NANOSECONDS = ("startTimeUnixNano", "start_time_unix_nano"), ("endTimeUnixNano", "end_time_unix_nano")
_TIMES = ("start_time", "startTime"), ("end_time", "endTime")
_FAILED = (2, "STATUS_CODE_ERROR", "ERROR")
# attributes by the keys of an observation, of which the first with a value counts
_OF_LANGFUSE = {
    "openinference.span.kind": ("type",),
    "input.value": ("input",),
    "output.value": ("output",),
    "llm.model_name": ("model", "providedModelName"),
    "llm.token_count.prompt": ("usageDetails.input", "usage.input", "promptTokens"),
    "llm.token_count.completion": ("usageDetails.output", "usage.output", "completionTokens"),
    "llm.cost.total": ("totalCost", "calculatedTotalCost", "costDetails.total"),
    "session.id": ("sessionId",),
    "metadata": ("metadata",),
}
_DOCUMENT = {"content": ("page_content", "pageContent", "content", "text"), "id": ("id", "doc_id"), "score": ("score",)}
_DOCUMENTS = ("retrieval.documents", "gen_ai.retrieval.documents", "reranker.output_documents")
_ASKED = ("llm.input_messages", "gen_ai.input.messages", "gen_ai.prompt")
_SAID = ("llm.output_messages", "gen_ai.output.messages", "gen_ai.completion")
_QUESTION = ("query", "question", "user_input", "input", "query_bundle", "query_str", "text", "prompt")
_ANSWER = ("answer", "response", "output", "result", "content", "text")
_ASKING, _ANSWERING = ("user", "human"), ("assistant", "ai", "model")
_TOKENS_IN = ("llm.token_count.prompt", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_TOKENS_OUT = ("llm.token_count.completion", "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_COST = ("llm.cost.total", "gen_ai.usage.cost")
_MODEL = ("gen_ai.response.model", "llm.model_name", "gen_ai.request.model")
_SESSION = ("session.id", "gen_ai.conversation.id")
_PART = re.compile(r"(?:parts|contents)\.(\d+)\.(?:content|message_content\.text)")
FAILED_SPAN = "the span has an error"
_MAX_WRAPPED = 5  # objects around the text of an input or output


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One span. ``kind`` as OpenInference names it; times are ms since 1970; ``attributes`` have dotted names.

    Lists of objects are numbered in the names: ``retrieval.documents.0.document.id``. ``error``: why it failed; ``name``: as
    its program calls it.
    """

    trace: str
    id: str
    parent: str | None
    kind: str
    began_ms: float
    ended_ms: float | None
    attributes: Mapping[str, Any]
    error: str | None = None
    name: str = ""

    @property
    def ms(self) -> float | None:
        """How long it took."""
        return None if self.ended_ms is None else max(0.0, self.ended_ms - self.began_ms)


class SpanRule(FrozenModel):
    """Which spans retrieve and which answer, by name, where the conventions don't say it."""

    retrieval: str | None = Field(
        None, max_length=200, description="name of the spans whose documents are the contexts"
    )
    answer: str | None = Field(None, max_length=200, description="name of the span whose output is the answer")


@dataclass(frozen=True, slots=True)
class TraceRow:
    """What a trace says of its request. ``values``: the columns of its row, None without a question.

    ``lacks``: what was not found. ``read_from``: by ``query``, ``answer`` and ``contexts``, the spans that they were read from.
    """

    values: dict[str, Any] | None
    lacks: tuple[str, ...]
    read_from: Mapping[str, str]


def row_of_trace(spans: Sequence[TraceSpan], rule: SpanRule = SpanRule()) -> TraceRow:  # noqa: B008 - frozen
    """The row of the spans of one trace, of which there is at least one."""
    return _Trace(spans, rule).row()


def are_spans(value: object) -> bool:
    """Is this object, the first of a file, a span or a batch of spans, rather than a row of a dataset?"""
    return isinstance(value, Mapping) and (isinstance(value.get("resourceSpans"), list) or _is_span(value))


def spans_in(value: Mapping[str, Any]) -> Iterator[TraceSpan | None]:
    """The spans of an object that is one, or a batch of them; None for one without a trace id or a span id."""
    if _is_span(value):
        yield _from_object(value)
    for resource in _objects(value, "resourceSpans"):
        for scope in _objects(resource, "scopeSpans"):
            yield from map(_from_object, _objects(scope, "spans"))


def _is_span(value: Mapping[str, Any]) -> bool:
    is_otlp = isinstance(value.get("attributes"), list) and ("spanId" in value or "span_id" in value)
    in_context = {"trace_id", "span_id"} <= _object(value.get("context")).keys()
    return is_otlp or in_context or {"context.trace_id", "context.span_id"} <= value.keys() or _is_observation(value)


def _is_observation(value: Mapping[str, Any]) -> bool:
    return {"traceId", "id", "type", "startTime"} <= value.keys()


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    entries = value.get(key) or ()
    return (entry for entry in entries if isinstance(entry, Mapping)) if isinstance(entries, list) else iter(())


def _from_object(value: Mapping[str, Any]) -> TraceSpan | None:
    """A span by the names of any of its exporters (``_SPAN``); the columns of a data frame may be dotted."""
    trace, own, parent, name, status, message = (_named(value, names) for names in _SPAN.values())
    nanoseconds, times = ([_named(value, names) for names in pair] for pair in (_NANOSECONDS, _TIMES))
    began, ended = (_ms(time) if ns is None else _ms(ns, 1e6) for ns, time in zip(nanoseconds, times, strict=True))
    attributes = value.get("attributes")
    if _is_observation(value):
        attributes = _attributes_of_observation(value)
    elif isinstance(attributes, list):
        attributes = pairs(attributes)
    else:
        columns = {key.removeprefix("attributes."): v for key, v in value.items() if key.startswith("attributes.")}
        attributes = {"openinference.span.kind": value.get("span_kind"), **_object(attributes), **columns}
    error = (message or FAILED_SPAN) if status in _FAILED else None
    return make_span((trace, own, parent), attributes, (began, ended), error, name)


def _named(value: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The first of these that has a value."""
    return next((found for name in names if (found := value_at(value, name))), None)


def _attributes_of_observation(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of Langfuse, as its API and its export write them."""
    observation = {key: decoded(value) for key, value in given.items()}
    attributes = {ours: _named(observation, theirs) for ours, theirs in _OF_LANGFUSE.items()}
    if attributes["openinference.span.kind"] == "RETRIEVER":
        output = attributes["output.value"]
        lists = [output] if isinstance(output, list) else [*_object(output).values()]
        documents = next((each for each in lists if isinstance(each, list)), ())
        attributes["retrieval.documents"] = [{"document": _document(each)} for each in documents]
    return attributes


def _document(value: object) -> dict[str, Any]:
    """What LangChain, LlamaIndex and people call the parts of a document."""
    if not isinstance(value, Mapping):
        return {"content": value}
    parts = {ours: next((value[name] for name in theirs if name in value), None) for ours, theirs in _DOCUMENT.items()}
    return {**parts, "metadata": json.dumps(_object(value.get("metadata")))}


def make_span(
    ids: tuple[Any, Any, Any],
    attributes: Mapping[str, Any],
    times: tuple[float | None, float | None],
    error: str | None,
    name: object,
) -> TraceSpan | None:
    """The span with these ids (trace, own, parent) and times (ms since 1970, 0 if unset); None without a trace id or its own."""
    trace, own, parent = (str(each).removeprefix("0x") if each else None for each in ids)
    if not trace or not own:
        return None
    flat: dict[str, Any] = {}
    for key, value in attributes.items():
        _flatten(str(key), value, flat)
    kind = str(flat.get("openinference.span.kind") or flat.get("gen_ai.operation.name") or "CHAIN").upper()
    began_ms, ended_ms = (time if time is not None and 0 < time < _YEAR_10000_MS else None for time in times)
    ended_ms = None if began_ms is None else ended_ms  # without a start it would have lasted since 1970
    return TraceSpan(
        trace, own, parent, _KINDS.get(kind, kind), began_ms or 0.0, ended_ms, flat, error, str(name or "")
    )


def _flatten(name: str, value: Any, into: dict[str, Any], depth: int = 0) -> None:
    """Objects, and lists with objects in them, under dotted names; what the reader itself parses stays whole."""
    if depth > _MAX_DEPTH or len(name) > _MAX_NAME:
        return
    whole = name.endswith((".value", "metadata"))
    if name in _STRUCTURED and isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, Mapping) and value and not whole:
        for key, entry in value.items():
            _flatten(f"{name}.{key}", entry, into, depth + 1)
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value) and not whole:
        for n, entry in enumerate(value):
            _flatten(f"{name}.{n}", entry, into, depth + 1)
    elif value is not None:
        into[name] = value


def pairs(attributes: Any, depth: int = 0) -> dict[str, Any]:
    """OTLP's list of keys and values."""
    listed = attributes if isinstance(attributes, list) else ()
    return {
        str(each["key"]): _from_any_value(each.get("value"), depth)
        for each in listed
        if isinstance(each, Mapping) and "key" in each
    }


def _from_any_value(value: Any, depth: int = 0) -> Any:
    kinds = value.items() if isinstance(value, Mapping) and depth <= _MAX_DEPTH else ()
    for kind, inner in kinds:
        if inner is None:
            continue
        entries = _object(inner).get("values")
        if kind in ("arrayValue", "array_value"):
            return [_from_any_value(entry, depth + 1) for entry in entries] if isinstance(entries, list) else None
        if kind in ("kvlistValue", "kvlist_value"):
            return pairs(entries, depth + 1)
        is_text = kind in ("intValue", "int_value") and isinstance(inner, str)  # as 64 bits are in JSON
        return _parsed(inner) if is_text else inner
    return None


def _parsed(text: str) -> Any:
    """What a JSON text holds; any other text as it is."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return text


def decoded(value: Any) -> Any:
    """An input or output, which may be JSON in a text."""
    return _parsed(value) if isinstance(value, str) and re.match(r'\s*["\[{]', value) else value


def _ms(time: Any, per_ms: float = 1.0) -> float | None:
    """ms since 1970 of a number, such as the ms that pandas writes, or of an ISO 8601 time."""
    if (number := _number(time)) is not None:
        return number / per_ms
    with suppress(TypeError, ValueError):
        instant = datetime.fromisoformat(time)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000
    return None


def rows_of_spans(source: Source) -> Source:
    """``source``, whose rows are spans, with one row for each trace that has a question, in the order of the file.

    Raises NothingToEvaluate where none has one.
    """
    traces: dict[str, list[TraceSpan]] = {}
    unplaced = others = 0
    for _, value in source:
        if not are_spans(value):
            others += 1
            continue
        for span in spans_in(value):
            if span is None:
                unplaced += 1
            else:
                traces.setdefault(span.trace, []).append(span)
    unread: dict[str, list[str]] = {}
    source.counts_lines, source.of_traces, source.columns = False, True, ()
    rows: list[NumberedRow] = []
    for number, (name, spans) in enumerate(traces.items(), 1):
        row = row_of_trace(spans)
        for what in row.lacks:
            unread.setdefault(what, []).append(name)
        if row.values:
            rows.append((number, row.values))
    lines = [f"{what} in {len(names)} of {len(traces)} traces, such as {names[0]}" for what, names in unread.items()]
    lines += [f"{unplaced} spans have no trace id or no span id"] if unplaced else []
    lines += [f"{others} lines hold no spans"] if others else []
    source.warnings += lines
    source.rows = rows
    if not rows and not source.problems:
        what = f"holds {len(traces)} traces, and none of them a question"
        raise NothingToEvaluate(what, where=str(source.path), hint="; ".join(lines) or None)
    return source


class _Trace:
    """The spans of one trace, by when they began."""

    def __init__(self, spans: Sequence[TraceSpan], rule: SpanRule) -> None:
        self._by_id = {span.id: _renamed(span, rule) for span in spans}
        self._spans = sorted(self._by_id.values(), key=lambda span: span.began_ms)
        self._root = next((span for span in self._spans if span.parent not in self._by_id), self._spans[0])
        self._lacks: list[str] = []
        self._answering = rule.answer
        self._read_from: dict[str, str] = {}

    def row(self) -> TraceRow:
        """The row, if the trace has a question, and what it lacks."""
        query = self._query()
        if query is None:
            return TraceRow(None, ("no question is found (left out)",), {})
        root, models = self._root, self._outer("LLM")
        row = {
            "query_id": root.trace,
            "query": query,
            "answer": self._answer(models),
            **self._retrieved(),
            "model": next(
                (name for span in reversed(self._spans) if span.kind == "LLM" and (name := _first(span, _MODEL))), None
            ),
            "input_tokens": self._sum(_TOKENS_IN, int),
            "output_tokens": self._sum(_TOKENS_OUT, int),
            "cost_usd": self._sum(_COST, float),
            "latency_ms": root.ms,
            "generation_latency_ms": _total(models),
            "error": root.error,
            "metadata": self._metadata(),
        }
        values = {key: value for key, value in row.items() if value is not None}
        return TraceRow(values, tuple(self._lacks), self._read_from)

    def _query(self) -> str | None:
        """Of the root, else of the retrieval, else of what the first model was asked."""
        for span in (self._root, *self._outer("RETRIEVER", "RERANKER"), *self._outer("LLM")):
            messages, value = _numbered(span, *_ASKED), span.attributes.get("input.value")
            text = _last(messages, _ASKING) or _text(value, _QUESTION, _ASKING)
            if text := text or span.attributes.get("gen_ai.retrieval.query.text"):
                if span.kind == "LLM":
                    self._lacks.append("the question is read from a model's prompt, which may hold more,")
                self._read_from["query"] = span.name
                return str(text)
        return None

    def _answer(self, models: Sequence[TraceSpan]) -> str | None:
        """Of the root, else of the model that was called last; of the last span of a name, if the answer's is given."""
        if self._root.error:
            return None
        named = [span for span in reversed(self._spans) if span.name == self._answering]
        for span in named if self._answering else (self._root, *reversed(models)):
            messages, value = _numbered(span, *_SAID), span.attributes.get("output.value")
            if text := _last(messages, _ANSWERING) or _text(value, _ANSWER, _ANSWERING):
                self._read_from["answer"] = span.name
                return text
        self._lacks.append("no answer is found")
        return None

    def _retrieved(self) -> dict[str, Any]:
        """Contexts, ids and scores: what the last reranker left, else what all retrievals found, in their order."""
        searches = [span for span in self._outer("RETRIEVER") if _documents(span)]
        rerankers = [span for span in self._outer("RERANKER") if _documents(span)]
        if not searches and not rerankers:
            self._lacks.append("no retrieved document is found")
            return {}
        found = _merged([_documents(span) for span in searches])
        final = _documents(rerankers[-1]) if rerankers else found
        self._read_from["contexts"] = ", ".join(dict.fromkeys(span.name for span in rerankers[-1:] or searches))
        texts, ids, scores = (_column(final, part) for part in ("content", "id", "score"))
        self._lacks += ["a retrieved document has no text"] if texts is None else []
        self._lacks += ["a retrieved document has no id"] if ids is None else []
        return {
            "contexts": texts,
            "retrieved_doc_ids": ids,
            "retrieved_scores": scores if ids is not None and (rerankers or len(searches) == 1) else None,
            "doc_ids_before_reranking": _column(found, "id") if ids is not None and rerankers and found else None,
            "retrieval_latency_ms": _total(self._outer("RETRIEVER", "RERANKER")),
        }

    def _metadata(self) -> dict[str, Any]:
        """The user's own of the root, and by which ids the trace is found again."""
        session = next((name for span in self._spans if (name := _first(span, _SESSION))), None)
        ids = {"trace_id": self._root.trace, "span_id": self._root.id, "session_id": session}
        return {
            **_metadata_of(self._root.attributes),
            **{key: value for key, value in ids.items() if value is not None},
        }

    def _outer(self, *kinds: str) -> list[TraceSpan]:
        """The spans of these kinds that are inside no other of them."""
        return [s for s in self._spans if s.kind in kinds and not any(a.kind in kinds for a in self._above(s))]

    def _above(self, span: TraceSpan) -> Iterator[TraceSpan]:
        seen = {span.id}
        while (parent := self._by_id.get(span.parent or "")) and parent.id not in seen:
            seen.add(parent.id)
            yield parent
            span = parent

    def _sum(self, names: Sequence[str], as_number: type[int] | type[float]) -> float | None:
        """Over the innermost spans that have the number: what is around them repeats it, or adds it up."""
        numbers = {span.id: number for span in self._spans if (number := _number(_first(span, names))) is not None}
        around = {above.id for id_ in numbers for above in self._above(self._by_id[id_])}
        counted = [number for id_, number in numbers.items() if id_ not in around]
        return as_number(math.fsum(counted)) if counted else None


def _renamed(span: TraceSpan, rule: SpanRule) -> TraceSpan:
    """The span with the kind that its name gives it: if retrieval has a name, nothing of another name retrieves."""
    if rule.retrieval is None:
        return span
    if span.name == rule.retrieval:
        return replace(span, kind="RETRIEVER")
    return replace(span, kind="CHAIN") if span.kind in ("RETRIEVER", "RERANKER") else span


def _first(span: TraceSpan, names: Iterable[str]) -> Any:
    return next((span.attributes[name] for name in names if name in span.attributes), None)


def _number(value: Any) -> float | None:
    """A finite number, which is text in a CSV cell."""
    with suppress(OverflowError, ValueError):
        usable = isinstance(value, int | float | str) and not isinstance(value, bool)
        return float(value) if usable and math.isfinite(float(value)) else None
    return None


def _total(spans: Sequence[TraceSpan]) -> float | None:
    took = [span.ms for span in spans if span.ms is not None]
    return math.fsum(took) if took else None


def _numbered(span: TraceSpan, *prefixes: str) -> list[dict[str, Any]]:
    """The objects of a list whose entries are attributes: ``PREFIX.0.document.id`` and so on; of the first prefix with any."""
    for prefix in prefixes:
        entries: dict[int, dict[str, Any]] = {}
        for name, value in span.attributes.items():
            if name.startswith(f"{prefix}."):
                place, _, key = name.removeprefix(f"{prefix}.").partition(".")
                if place.isdecimal():
                    entries.setdefault(int(place), {})[re.sub(r"^(document|message)\.", "", key)] = value
        if entries:
            return [entries[place] for place in sorted(entries)]
    return []


def _documents(span: TraceSpan) -> list[dict[str, Any]]:
    """What a retriever or reranker gave, each with ``content``, ``id`` and ``score`` as far as they are there."""
    documents = _numbered(span, *_DOCUMENTS)
    for each in documents:
        metadata = _metadata_of(each)
        named = (each.get("id"), *(metadata.get(key) for key in ("id", "doc_id", "document_id")))
        each["id"] = next((str(one) for one in named if one not in (None, "")), None)
        each["content"] = text if isinstance(text := each.get("content"), str) else None
        each["score"] = score if _number(score := each.get("score")) is not None else None
    return documents


def _column(documents: Sequence[Mapping[str, Any]], part: str) -> list[Any] | None:
    """A part of all documents; None unless each has it."""
    values = [each[part] for each in documents]
    return None if None in values else values


def _metadata_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """An object, JSON in a text, or ``metadata.NAME`` for each entry."""
    whole = decoded(attributes.get("metadata"))
    flat = {key.removeprefix("metadata."): value for key, value in attributes.items() if key.startswith("metadata.")}
    return {**(whole if isinstance(whole, Mapping) else {}), **flat}


def _merged(lists: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The documents of one search as they are; of several, each once."""
    if len(lists) == 1:
        return lists[0]
    by_key: dict[object, dict[str, Any]] = {}
    for each in (each for one in lists for each in one):
        by_key.setdefault(each["id"] or each["content"], each)
    return list(by_key.values())


def _last(messages: Iterable[Mapping[str, Any]], roles: Sequence[str]) -> str | None:
    """The text of the last message of these roles."""
    texts = [
        _text_of_message(message) for message in messages if str(message.get("role") or message.get("type")) in roles
    ]
    return next((text for text in reversed(texts) if text), None)


def _text_of_message(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = [(match[1], value) for key, value in message.items() if (match := _PART.fullmatch(key))]
    return "\n".join(str(text) for n, text in parts if message.get(f"parts.{n}.type", "text") == "text")


def _text(value: Any, keys: Sequence[str], roles: Sequence[str], depth: int = 0) -> str | None:
    """The text of an input or output: itself, or what JSON has under one of the keys, or the last message of these roles."""
    value = decoded(value)
    if isinstance(value, str) or depth > _MAX_WRAPPED:
        return value.strip() or None if isinstance(value, str) else None
    if isinstance(value, list):
        entries = value[0] if len(value) == 1 and isinstance(value[0], list) else value
        return _last((entry for entry in entries if isinstance(entry, Mapping)), roles)
    if not isinstance(value, Mapping):
        return None
    named = [*(key for key in ("messages", *keys) if key in value), *(list(value) if len(value) == 1 else [])]
    return next((text for key in named if (text := _text(value[key], keys, roles, depth + 1))), None)
