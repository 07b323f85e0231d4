"""The examples for LangChain and LlamaIndex, and a trace that OpenInference makes of LangChain's, read as a row."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ragassay

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = {"kept": "Daily backups are kept for 30 days.", "start": "Backups start at 02:00 UTC.", "key": "Keys expire."}
ASKED = "When do backups start?"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def traced(exporter):
    """Spans by OpenInference's instrumentation of LangChain."""
    from openinference.instrumentation.langchain import LangChainInstrumentor

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield
    instrumentor.uninstrument()


def rows_of(exporter, folder):
    path = folder / "traces.jsonl"
    path.write_text("".join(span.to_json(indent=None) + "\n" for span in exporter.get_finished_spans()))
    return ragassay.load(path)


def chain():
    from langchain_core.documents import Document

    module = example("langchain_system")
    documents = [Document(id=name, page_content=text, metadata={"id": name}) for name, text in TEXTS.items()]
    return module.system(module.Words(documents=documents), module.FirstDocument())


@pytest.mark.parametrize("name", ["langchain_system", "llamaindex_system"])
def test_the_example_prints_a_report(name, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=True
    )
    assert "recall@2  1.000" in done.stdout


def test_a_chain_of_langchain_is_a_system_and_its_trace_is_the_same_row(traced, exporter, tmp_path):
    questions = [{"question": ASKED, "relevant_docs": ["start"], "reference": "At 02:00 UTC."}]
    report = ragassay.evaluate(questions, systems={"chain": chain()}, metrics=["recall@1", "correctness"])
    (row,) = report.rows
    assert (row["recall@1"], row["correctness"], row["answer"]) == (1.0, 1.0, TEXTS["start"])
    assert (row["model"], row["output_tokens"]) == ("first-document", 5)
    (sample,) = rows_of(exporter, tmp_path).samples
    assert (sample.query, sample.contexts) == (ASKED, (TEXTS["start"], TEXTS["kept"]))
    assert sample.retrieved_doc_ids == ("start", "kept")
    response = sample.response
    assert (response.answer, response.input_tokens, response.output_tokens) == (
        row["answer"], row["input_tokens"], row["output_tokens"],
    )  # fmt: skip
    assert 0 < response.retrieval_latency_ms < response.latency_ms <= row["latency_ms"]
