"""Rows of traces: spans that OpenTelemetry's SDK makes, in each form in which they are exported."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from otlp_receiver import in_hex
from ragassay.core.errors import NothingToEvaluate
from ragassay.datasets.load import load
from ragassay.datasets.responses import join, load_responses

ASKED = "When do backups start?"
MS = 1_000_000
BEGAN = 1_000_000  # ms since 1970


class Tracing:
    """Spans with the times that are given, in ms; ``span`` nests."""

    def __init__(self):
        self.exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")

    def span(self, name, attributes, *inner, at=0, took=10, error=None):
        def make():
            with self.tracer.start_as_current_span(
                name, attributes=attributes, start_time=(BEGAN + at) * MS, end_on_exit=False
            ) as span:
                for each in inner:
                    each()
                if error:
                    span.set_status(Status(StatusCode.ERROR, error))
            span.end((BEGAN + at + took) * MS)

        return make

    def sdk_lines(self):
        return "".join(span.to_json(indent=None) + "\n" for span in self.exporter.get_finished_spans())

    def otlp(self):
        spans = self.exporter.get_finished_spans()
        return in_hex(MessageToDict(encode_spans(spans), use_integers_for_enums=True))


def in_snake_case(batch):
    """The spans as Phoenix's API has them: keys of protobuf, and null for every kind of value that it isn't."""

    def renamed(value):
        if isinstance(value, dict):
            named = {re.sub("([A-Z])", r"_\1", key).lower(): renamed(entry) for key, entry in value.items()}
            return {**named, "bytes_value": None} if "string_value" in named else named
        return [renamed(each) for each in value] if isinstance(value, list) else value

    return [
        renamed(span)
        for resource in batch["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


@pytest.fixture
def tracing():
    return Tracing()


def documents(prefix, *given):
    return {f"{prefix}.{n}.document.{key}": value for n, one in enumerate(given) for key, value in one.items()}


D1 = {"id": "d1", "content": "Backups start at 02:00 UTC.", "score": 0.9}
D2 = {"id": "d2", "content": "Kept for 30 days.", "score": 0.4}


def openinference(tracing):
    """A chain: retrieval, reranking, and a model inside a wrapper that repeats its tokens."""
    tokens = {"llm.token_count.prompt": 40, "llm.token_count.completion": 6, "llm.cost.total": 0.002}
    said = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "At 02:00."}
    model = tracing.span(
        "chat", {"openinference.span.kind": "LLM", "llm.model_name": "m-1", **tokens, **said}, at=31, took=50
    )
    tracing.span(
        "chain",
        {
            "openinference.span.kind": "CHAIN",
            "input.value": json.dumps({"question": ASKED}),
            "output.value": "At 02:00 UTC.",
            "input.mime_type": "application/json",
            "session.id": "s1",
            "metadata": json.dumps({"category": "ops", "team": "red"}),
        },
        tracing.span(
            "retrieve",
            {"openinference.span.kind": "RETRIEVER", "input.value": ASKED, **documents("retrieval.documents", D2, D1)},
            tracing.span("inner", {"openinference.span.kind": "RETRIEVER", "input.value": "x"}, at=1, took=8),
            at=1,
            took=12,
        ),
        tracing.span(
            "rerank",
            {"openinference.span.kind": "RERANKER", **documents("reranker.output_documents", {**D1, "score": 0.99})},
            at=14,
            took=3,
        ),
        tracing.span("wrapper", {"openinference.span.kind": "LLM", **tokens}, model, at=30, took=55),
        took=100,
    )()


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
    "latency_ms": 100.0,
    "retrieval_latency_ms": 15.0,  # 12 + 3; the retriever inside the retriever is not counted again
    "generation_latency_ms": 55.0,
}


def as_data_frame(line):
    """A span as Phoenix's data frame has it."""
    attributes = dict(line["attributes"])
    for prefix in ("retrieval.documents", "reranker.output_documents"):
        found = {}
        for key in [key for key in attributes if key.startswith(f"{prefix}.")]:
            n, _, name = key.removeprefix(f"{prefix}.").partition(".")
            found.setdefault(n, {})[name] = attributes.pop(key)
        attributes[prefix] = [found[n] for n in sorted(found)] or None
    ids = {f"context.{name}": line["context"][name] for name in ("trace_id", "span_id")}
    kept = {name: line[name] for name in ("name", "parent_id", "start_time", "end_time")}
    return {**kept, **ids, "status_code": "OK", **{f"attributes.{key}": value for key, value in attributes.items()}}


def as_lines(objects):
    return "".join(json.dumps(each) + "\n" for each in objects)


FORMS = {
    "sdk lines": lambda lines, _: ("t.jsonl", as_lines(lines)),
    "otlp lines": lambda _, batch: ("t.jsonl", "\n" + json.dumps(batch) + "\n"),
    "otlp document": lambda _, batch: ("t.json", batch),
    "otlp page": lambda _, batch: ("t.json", {"data": in_snake_case(batch)}),
    "phoenix page": lambda lines, _: (
        "t.json",
        {"data": [{**x, "status_code": "OK", "span_kind": x["attributes"]["openinference.span.kind"]} for x in lines]},
    ),
    "data frame": lambda lines, _: pd.DataFrame(map(as_data_frame, lines)),
    "data frame's lines": lambda lines, _: ("t.jsonl", as_lines(map(as_data_frame, lines))),
}


@pytest.mark.parametrize("form", FORMS)
def test_load_a_trace_of_openinference_is_a_row_in_each_form(form, tracing, write):
    openinference(tracing)
    lines = [json.loads(line) for line in tracing.sdk_lines().splitlines()]
    given = FORMS[form](lines, tracing.otlp())
    (sample,) = load(write(*given) if isinstance(given, tuple) else given).samples
    root = next(line for line in lines if line["name"] == "chain")["context"]
    trace, span = (root[name].removeprefix("0x") for name in ("trace_id", "span_id"))
    assert (sample.query, sample.query_id, sample.category, sample.conversation_id) == (ASKED, trace, "ops", "s1")
    assert sample.metadata == {"team": "red", "trace_id": trace, "span_id": span}
    found = sample.response.model_dump(exclude_none=True, exclude={"metadata", "reference_labels"})
    assert found == EXPECTED | {name: pytest.approx(EXPECTED[name]) for name in EXPECTED if name.endswith("_ms")}


def genai(tracing, *, content=True):
    """By OpenTelemetry's own conventions: an agent, its retrieval, and a chat whose messages are JSON in a text."""

    def message(role, text):
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    found = [{"id": "d1", "score": 0.9, **({"content": D1["content"]} if content else {})}]
    asked = {"gen_ai.input.messages": message("user", f"Answer from this: {D1['content']} {ASKED}")}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m-2", "gen_ai.usage.input_tokens": 30}
    tracing.span(
        "invoke_agent",
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c1"},
        tracing.span(
            "retrieval",
            {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": ASKED}
            | {"gen_ai.retrieval.documents": json.dumps(found)},
            took=4,
        ),
        tracing.span("chat", {**chat, **asked, "gen_ai.output.messages": message("assistant", "At 02:00.")}, at=5),
        took=20,
    )()


def test_load_a_trace_of_the_genai_conventions_is_a_row_and_counts_what_it_lacks(tracing, write):
    genai(tracing)
    genai(tracing, content=False)
    dataset = load(write("t.jsonl", json.dumps(tracing.otlp()) + "\n"))
    first, second = dataset.samples
    assert (first.query, first.answer) == (ASKED, "At 02:00.")
    assert (first.contexts, first.retrieved_doc_ids) == ((D1["content"],), ("d1",))
    assert (first.response.model, first.response.input_tokens, first.response.latency_ms) == ("m-2", 30, 20.0)
    assert (second.contexts, second.retrieved_doc_ids, second.response.retrieved_scores) == (None, ("d1",), (0.9,))
    assert dataset.warnings == (f"a retrieved document has no text in 1 of 2 traces, such as {second.query_id}",)


def test_load_a_trace_that_failed_has_an_error_and_one_without_a_question_is_left_out(tracing, write):
    chain = {"openinference.span.kind": "CHAIN", "input.value": ASKED}
    tracing.span("chain", chain, error="the index is away")()
    tracing.span("embed", {"openinference.span.kind": "EMBEDDING"})()
    lines = tracing.sdk_lines() + json.dumps({"name": "no ids", "context": {"trace_id": None, "span_id": "1"}}) + "\n"
    dataset = load(write("t.jsonl", lines + json.dumps({"resourceMetrics": []}) + "\n"))
    (sample,) = dataset.samples
    assert (sample.response.error, sample.answer) == ("the index is away", None)
    assert len(dataset.warnings) == 4
    assert dataset.warnings[1].startswith("no question is found (left out) in 1 of 2 traces, such as ")
    assert dataset.warnings[2:] == ("1 spans have no trace id or no span id", "1 lines hold no spans")
    with pytest.raises(NothingToEvaluate, match=r"t\.jsonl: holds 1 traces, and none of them a question"):
        load(write("t.jsonl", tracing.sdk_lines().splitlines()[1]))


def test_load_attributes_of_any_shape_are_no_error(write):
    deep = {"stringValue": "x"}
    for _ in range(150):
        pair = {"kvlistValue": {"values": [{"key": "k", "value": deep}]}} if _ < 9 else {}
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
    (sample,) = load(write("t.jsonl", as_lines((batch, of_phoenix, of_langfuse)))).samples
    assert (sample.query, sample.answer, sample.contexts) == (ASKED, None, None)


def test_load_several_retrievals_are_one_list_without_repetition_and_without_scores(tracing, write):
    kind = {"openinference.span.kind": "RETRIEVER", "input.value": ASKED}
    tracing.span(
        "chain",
        {"openinference.span.kind": "CHAIN", "input.value": ASKED, "output.value": "At 02:00."},
        tracing.span("one", {**kind, **documents("retrieval.documents", D1)}, at=1),
        tracing.span("two", {**kind, **documents("retrieval.documents", D2, D1)}, at=2),
    )()
    (sample,) = load(write("t.jsonl", tracing.sdk_lines())).samples
    assert (sample.retrieved_doc_ids, sample.response.retrieved_scores) == (("d1", "d2"), None)


def test_load_observations_of_langfuse_are_rows(write):
    times = {"startTime": "2026-11-23T06:00:00.000Z", "endTime": "2026-11-23T06:00:00.250Z", "traceId": "t1"}
    seen = [
        {"id": "a", "type": "SPAN", "input": {"question": ASKED}, "output": {"answer": "At 02:00."}, **times},
        {"id": "b", "type": "RETRIEVER", "parentObservationId": "a", "input": ASKED, **times,
         "output": [{"page_content": D1["content"], "metadata": {"id": "d1"}}]},
        {"id": "c", "type": "GENERATION", "parentObservationId": "a", "model": "m-3", "totalCost": 0.01, **times,
         "usageDetails": {"input": 12, "output": 3}, "output": {"role": "assistant", "content": "At 02:00."}},
    ]  # fmt: skip
    (sample,) = load(write("t.json", {"data": seen, "meta": {"page": 1}})).samples
    response = sample.response
    assert (sample.query, sample.answer, sample.contexts, sample.retrieved_doc_ids) == (
        ASKED, "At 02:00.", (D1["content"],), ("d1",),
    )  # fmt: skip
    assert (response.model, response.input_tokens, response.output_tokens, response.cost_usd, response.latency_ms) == (
        "m-3", 12, 3, 0.01, pytest.approx(250),
    )  # fmt: skip


def test_join_traces_to_a_dataset_by_the_text_of_the_question(tracing, write):
    openinference(tracing)
    questions = [{"id": "q1", "question": ASKED, "reference": "At 02:00 UTC."}, {"id": "q2", "question": "Who?"}]
    dataset = load(write("questions.json", questions))
    first, second = join(dataset, load_responses(write("t.jsonl", tracing.sdk_lines())), "prod")
    assert (first.query_id, first.answer, second.response) == ("q1", "At 02:00 UTC.", None)


def test_load_what_phoenix_exported():
    """Recorded from Phoenix 20.26: a chain of LangChain, a query engine of LlamaIndex, and the building of its index."""
    dataset = load(Path(__file__).parent / "phoenix_spans.json")
    assert [(sample.query, sample.retrieved_doc_ids) for sample in dataset.samples] == [
        ("How long are backups kept?", ("d1", "d2")),
        (ASKED, ("m1", "m2")),
    ]
    chain = dataset.samples[1]
    assert (chain.answer, chain.response.input_tokens, chain.response.output_tokens) == ("At 02:00 UTC.", 40, 6)
    assert dataset.warnings == (
        "no question is found (left out) in 1 of 3 traces, such as 9c5098ebc3437a9ec3c71cf32aa35257",
    )


def test_load_rows_with_ids_of_traces_are_rows(write):
    rows = [{"question": "Who?", "answer": "I.", "trace_id": "t", "span_id": "s"}]
    (sample,) = load(write("rows.jsonl", json.dumps(rows[0]) + "\n")).samples
    assert sample.metadata == {"trace_id": "t", "span_id": "s"}


def test_load_traces_takes_a_json_document_by_name(tmp_path):
    attributes = [{"key": "openinference.span.kind", "value": {"stringValue": "CHAIN"}}]
    attributes += [{"key": "input.value", "value": {"stringValue": "Where?"}}]
    attributes += [{"key": "output.value", "value": {"stringValue": "Here."}}]
    span = {"traceId": "t", "spanId": "s", "name": "ask", "endTimeUnixNano": "1764000000000000000"}
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [{**span, "attributes": attributes}]}]}]}
    (tmp_path / "a.json").write_text(json.dumps(document, indent=1))
    named, found = (load(tmp_path / "a.json", format=name).samples for name in ("traces", "auto"))
    assert [(s.query, s.response.answer) for s in named] == [(s.query, s.response.answer) for s in found]
    assert named[0].response.latency_ms is None  # it has no start
