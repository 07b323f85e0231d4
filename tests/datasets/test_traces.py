"""Rows of traces, in each form in which programs and tools export their spans."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from live_traffic import otlp_lines
from ragassay.core.errors import NothingToEvaluate
from ragassay.datasets.load import load
from ragassay.datasets.traces import TraceSpan

ASKED = "When do backups start?"
D1 = {"id": "d1", "content": "Backups start at 02:00 UTC.", "score": 0.9}
D2 = {"id": "d2", "content": "Kept for 30 days.", "score": 0.4}


def span(name, kind, parent=None, attributes=(), *, at=0, took=10, error=None, trace="f0"):
    began = 1e9 + at  # ns of it are whole numbers as floats
    return TraceSpan(trace, name, parent, kind, began, began + took, dict(attributes), error, name)


def documents(prefix, *given):
    return {f"{prefix}.{n}.document.{key}": value for n, one in enumerate(given) for key, value in one.items()}


def openinference():
    """A chain: retrieval, reranking, and a model inside a wrapper that repeats its tokens."""
    tokens = {"llm.token_count.prompt": 40, "llm.token_count.completion": 6, "llm.cost.total": 0.002}
    reply = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "At 02:00."}
    root = {
        "input.value": json.dumps({"question": ASKED}),
        "input.mime_type": "application/json",
        "output.value": "At 02:00 UTC.",
        "session.id": "s1",
        "metadata": json.dumps({"category": "ops", "team": "red"}),
    }
    found = {"input.value": ASKED, **documents("retrieval.documents", D2, D1)}
    best = documents("reranker.output_documents", {**D1, "score": 0.99})
    return [
        span("chain", "CHAIN", None, root, took=100),
        span("retrieve", "RETRIEVER", "chain", found, at=1, took=12),
        span("inner", "RETRIEVER", "retrieve", {"input.value": "x"}, at=1, took=8),
        span("rerank", "RERANKER", "chain", best, at=14, took=3),
        span("wrapper", "LLM", "chain", tokens, at=30, took=55),
        span("chat", "LLM", "wrapper", {"llm.model_name": "m-1", **tokens, **reply}, at=31, took=50),
    ]


EXPECTED = {
    "answer": "At 02:00 UTC.",
    "contexts": (D1["content"],),
    "retrieved_doc_ids": ("d1",),
    "doc_ids_before_reranking": ("d2", "d1"),
    "retrieved_scores": (0.99,),
    "model": "m-1",
    "input_tokens": 40,
    "output_tokens": 6,
    "cost_usd": 0.002,
    "latency_ms": pytest.approx(100),
    "retrieval_latency_ms": pytest.approx(15),  # 12 + 3; the retriever inside the retriever is not counted again
    "generation_latency_ms": pytest.approx(55),
}


def in_json(span):
    """As the console exporter of OpenTelemetry's SDK writes a span."""
    began, ended = (datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (span.began_ms, span.ended_ms))
    return {
        "name": span.name,
        "context": {"trace_id": f"0x{span.trace}", "span_id": f"0x{span.id}"},
        "parent_id": span.parent and f"0x{span.parent}",
        "start_time": began,
        "end_time": ended,
        "status": {"status_code": "ERROR", "description": span.error} if span.error else {"status_code": "OK"},
        "attributes": {"openinference.span.kind": span.kind, **span.attributes},
    }


def of_frame(span):
    """As Phoenix's data frame has it: dotted columns, and lists of documents."""
    line, attributes = in_json(span), {}
    for key, value in line.pop("attributes").items():
        prefix, _, rest = key.partition("documents.")
        if rest:
            n, _, name = rest.partition(".")
            entries = attributes.setdefault(f"attributes.{prefix}documents", [])
            entries += [{} for _ in range(int(n) + 1 - len(entries))]
            entries[int(n)][name] = value
        else:
            attributes[f"attributes.{key}"] = value
    ids = {f"context.{name}": value for name, value in line.pop("context").items()}
    del line["status"]
    return {**line, **ids, "status_code": "OK", **attributes}


def lines_of(objects):
    return "".join(json.dumps(each) + "\n" for each in objects)


FORMS = {
    "sdk lines": lambda spans: ("t.jsonl", lines_of(map(in_json, spans))),
    "otlp lines": lambda spans: ("t.jsonl", "\n" + otlp_lines([spans])),
    "otlp document": lambda spans: ("t.json", json.loads(otlp_lines([spans]))),
    "data frame": lambda spans: pd.DataFrame(map(of_frame, spans)),
}


@pytest.mark.parametrize("form", FORMS)
def test_load_a_trace_of_openinference_is_a_row_in_each_form(form, write):
    given = FORMS[form](openinference())
    (sample,) = load(write(*given) if isinstance(given, tuple) else given).samples
    assert (sample.query, sample.query_id, sample.category, sample.conversation_id) == (ASKED, "f0", "ops", "s1")
    assert sample.metadata == {"team": "red", "trace_id": "f0", "span_id": "chain"}
    assert sample.response.model_dump(exclude_none=True, exclude={"metadata", "reference_labels"}) == EXPECTED


def genai(trace, **content):
    """By OpenTelemetry's own conventions: an agent, its retrieval, and a chat whose messages are JSON in a text."""

    def message(role, text):
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    found = json.dumps([{"id": "d1", "score": 0.9, **content}])
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "m-2",
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.input.messages": message("user", f"Answer from this: {D1['content']} {ASKED}"),
        "gen_ai.output.messages": message("assistant", "At 02:00."),
    }
    search = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": ASKED}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c1"}
    return [
        span("agent", "", None, agent, took=20, trace=trace),
        span("search", "", "agent", {**search, "gen_ai.retrieval.documents": found}, took=4, trace=trace),
        span("chat", "", "agent", chat, at=5, trace=trace),
    ]


def test_load_a_trace_of_the_genai_conventions_is_a_row_and_counts_what_it_lacks(write):
    dataset = load(write("t.jsonl", otlp_lines([genai("t1", content=D1["content"]), genai("t2")])))
    first, second = dataset.samples
    assert (first.query, first.answer, first.conversation_id) == (ASKED, "At 02:00.", "c1")
    assert (first.contexts, first.retrieved_doc_ids) == ((D1["content"],), ("d1",))
    assert (first.response.model, first.response.input_tokens) == ("m-2", 30)
    assert first.response.latency_ms == pytest.approx(20)
    assert (second.contexts, second.retrieved_doc_ids, second.response.retrieved_scores) == (None, ("d1",), (0.9,))
    assert dataset.warnings == ("a retrieved document has no text in 1 of 2 traces, such as t2",)


def nested(attributes):
    """An object for each part of the dotted names."""
    whole = {}
    for name, value in attributes.items():
        *parts, last = name.split(".")
        inner = whole
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return whole


@pytest.mark.parametrize("prefix", ["", "attributes."], ids=["one object", "a column for each first part"])
def test_load_attributes_that_are_nested_are_as_those_with_dotted_names(write, prefix):
    lines = [in_json(span) for span in genai("t1", content=D1["content"])]
    (expected,) = load(write("dotted.jsonl", lines_of(lines))).samples
    for line in lines:
        attributes = nested(line.pop("attributes"))
        line |= (
            {f"{prefix}{name}": value for name, value in attributes.items()} if prefix else {"attributes": attributes}
        )
    (sample,) = load(write("nested.jsonl", lines_of(lines))).samples
    assert (sample.query, sample.answer, sample.contexts) == (ASKED, "At 02:00.", (D1["content"],))
    assert sample == expected


def test_load_a_trace_that_failed_has_an_error_and_one_without_a_question_is_left_out(write):
    failed = span("chain", "CHAIN", None, {"input.value": ASKED}, error="the index is away", trace="t1")
    empty = in_json(span("embed", "EMBEDDING", trace="t2"))
    others = [{"name": "no ids", "context": {"trace_id": None, "span_id": "1"}}, {"resourceMetrics": []}]
    dataset = load(write("t.jsonl", lines_of([in_json(failed), empty, *others])))
    (sample,) = dataset.samples
    assert (sample.response.error, sample.answer) == ("the index is away", None)
    assert dataset.warnings[1:] == (
        "no question is found (left out) in 1 of 2 traces, such as t2",
        "1 spans have no trace id or no span id",
        "1 lines hold no spans",
    )
    with pytest.raises(NothingToEvaluate, match=r"t\.jsonl: holds 1 traces, and none of them a question"):
        load(write("t.jsonl", lines_of([empty])))


def test_load_attributes_of_any_shape_are_no_error(write):
    deep = {"stringValue": "x"}
    for n in range(150):
        pair = {"kvlistValue": {"values": [{"key": "k", "value": deep}]}} if n < 9 else {}
        deep = {"arrayValue": {"values": [deep, pair]}}
    odd = [deep, None, "x", {}, {"intValue": "many"}, {"arrayValue": 1}, {"kvlistValue": {"values": 2}}, {"nothing": 1}]
    attributes = [{"key": f"odd.{n}", "value": value} for n, value in enumerate(odd)]
    attributes += ["x", {"value": 1}, {"key": "retrieval.documents", "value": {"stringValue": "[[1], 2"}}]
    given = [*attributes, {"key": "input.value", "value": {"stringValue": ASKED}}]
    spans = [
        {"traceId": "t", "spanId": "a", "parentSpanId": "b", "attributes": given, "startTimeUnixNano": "soon"},
        {"traceId": "t", "spanId": "b", "parentSpanId": "a", "attributes": "none"},  # each is the other's parent
        {"traceId": "t"},
    ]
    batch = {"resourceSpans": [{"scopeSpans": [{"spans": spans}, 1]}, None, {"scopeSpans": 5}]}
    ids = {"context": {"trace_id": "u", "span_id": "c"}}
    of_phoenix = {**ids, "status": "bad", "attributes": 3, "start_time": "soon", "end_time": [], "parent_id": 5}
    of_langfuse = {"traceId": "u", "id": 1, "type": None, "startTime": None, "usageDetails": 4, "costDetails": "x"}
    (sample,) = load(write("t.jsonl", lines_of((batch, of_phoenix, of_langfuse)))).samples
    assert (sample.query, sample.answer, sample.contexts) == (ASKED, None, None)


@pytest.mark.parametrize(("began", "ended"), [("5000000", "0"), ("0", "5000000")])
def test_load_a_span_whose_time_is_unset_has_no_latency(write, began, ended):
    texts = {"input.value": ASKED, "output.value": "At 02:00 UTC."}
    attributes = [{"key": name, "value": {"stringValue": text}} for name, text in texts.items()]
    ids = {"traceId": "t", "spanId": "a", "attributes": attributes}
    spans = [{**ids, "startTimeUnixNano": began, "endTimeUnixNano": ended}]
    (sample,) = load(write("t.jsonl", lines_of([{"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}]))).samples
    assert sample.response.latency_ms is None


def test_load_several_retrievals_are_one_list_and_the_last_model_call_answers(write):
    def call(name, at, text):
        reply = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": text}
        return span(name, "LLM", "chain", reply, at=at)

    spans = [
        span("chain", "CHAIN", None, {"input.value": ASKED}),
        call("rewrite", 1, "start of backups"),
        span("one", "RETRIEVER", "chain", documents("retrieval.documents", D1), at=1),
        span("two", "RETRIEVER", "chain", documents("retrieval.documents", D2, D1), at=2),
        call("chat", 3, "At 02:00."),
    ]
    (sample,) = load(write("t.jsonl", otlp_lines([spans]))).samples
    assert (sample.retrieved_doc_ids, sample.response.retrieved_scores) == (("d1", "d2"), None)
    assert sample.answer == "At 02:00."


def test_load_observations_of_langfuse_are_rows(write):
    times = {"startTime": "2026-11-23T06:00:00.000Z", "endTime": "2026-11-23T06:00:00.250Z", "traceId": "t1"}
    seen = [
        {"id": "a", "type": "SPAN", "input": {"question": ASKED}, "output": {"answer": "At 02:00."}, **times},
        {"id": "b", "type": "RETRIEVER", "parentObservationId": "a", "input": ASKED, **times,
         "output": [{"page_content": D1["content"], "metadata": {"id": "d1"}}]},
        {"id": "c", "type": "GENERATION", "parentObservationId": "a", "model": "m-3", "totalCost": 0.01, **times,
         "usageDetails": {"input": 12, "output": 3}, "output": {"role": "assistant", "content": "At 02:00."}},
    ]  # fmt: skip
    columns = list(dict.fromkeys(name for one in seen for name in one))  # of the export as CSV: objects are JSON
    cells = [
        [one.get(name, "") if isinstance(one.get(name, ""), str) else json.dumps(one[name]) for name in columns]
        for one in seen
    ]
    path = write("t.csv", "")
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *cells])
    (sample,) = load(write("t.json", {"data": seen, "meta": {"page": 1}})).samples
    (from_csv,) = load(path).samples
    counts = {"contexts", "retrieved_doc_ids", "input_tokens", "output_tokens", "cost_usd"}
    assert from_csv.response.model_dump(include=counts) == sample.response.model_dump(include=counts)
    assert (sample.query, sample.answer) == (ASKED, "At 02:00.")
    assert (sample.contexts, sample.retrieved_doc_ids) == ((D1["content"],), ("d1",))
    spent = sample.response.model_dump(include={"model", "input_tokens", "output_tokens", "cost_usd"})
    assert list(spent.values()) == ["m-3", 12, 3, 0.01]
    assert sample.response.latency_ms == pytest.approx(250)


def test_load_what_phoenix_exported():
    """Recorded from Phoenix 20.26: a chain of LangChain, a query engine of LlamaIndex, and the building of its index."""
    dataset = load(Path(__file__).parent / "phoenix_spans.json")
    assert [(sample.query, sample.retrieved_doc_ids) for sample in dataset.samples] == [
        ("How long are backups kept?", ("d1", "d2")),
        (ASKED, ("m1", "m2")),
    ]
    chain = dataset.samples[1]
    assert (chain.answer, chain.response.input_tokens, chain.response.output_tokens) == ("At 02:00 UTC.", 40, 6)
    [warning] = dataset.warnings
    assert warning.startswith("no question is found (left out) in 1 of 3 traces, such as 9c5098")


def test_load_of_rows_with_ids_of_traces_are_rows(only):
    sample = only({"question": "Who?", "answer": "I.", "trace_id": "t", "span_id": "s"})
    assert sample.metadata == {"trace_id": "t", "span_id": "s"}
