"""Native fields are read as they are, and so are the names that other tools use for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragassay.core.models import Sample
from ragassay.datasets.load import load
from ragassay.datasets.mapping import ALIASES, FIELDS
from ragassay.datasets.values import KINDS

Write = Callable[[str, Any], Path]

Q = {"query": "Where is Paris?"}

SAMPLE_ALIASES: list[tuple[dict[str, Any], str, Any]] = [
    ({**Q, "id": "a"}, "query_id", "a"),
    ({**Q, "request_id": 7}, "query_id", "7"),
    ({**Q, "example id": "a"}, "query_id", "a"),
    ({**Q, "example_id": "a"}, "query_id", "a"),
    ({"user_input": "q"}, "query", "q"),
    ({"question": "q"}, "query", "q"),
    ({"input": "q"}, "query", "q"),
    ({"inputs": {"question": "q"}}, "query", "q"),
    ({"inputs": {"query": "q"}}, "query", "q"),
    ({"vars": {"query": "q"}}, "query", "q"),
    ({"vars": {"question": "q"}}, "query", "q"),
    ({"inputs.question": "q"}, "query", "q"),
    ({**Q, "reference": "t"}, "ground_truth_answer", ("t",)),
    ({**Q, "ground_truth": ["t", "u"]}, "ground_truth_answer", ("t", "u")),
    ({**Q, "expected_output": "t"}, "ground_truth_answer", ("t",)),
    ({**Q, "expectedOutput": "t"}, "ground_truth_answer", ("t",)),
    ({**Q, "expected_response": "t"}, "ground_truth_answer", ("t",)),
    ({**Q, "expectations": {"expected_response": "t"}}, "ground_truth_answer", ("t",)),
    ({**Q, "reference_answer": ["t"]}, "ground_truth_answer", ("t",)),
    ({**Q, "expectations": {"expected_facts": ["f", "g"]}}, "key_facts", ("f", "g")),
    ({**Q, "expected_facts": ["f"]}, "key_facts", ("f",)),
    ({**Q, "expected_retrieved_context": [{"content": "c", "doc_uri": "d"}]}, "reference_contexts", ("c",)),
    ({**Q, "expectations": {"expected_retrieved_context": ["c"]}}, "reference_contexts", ("c",)),
    ({**Q, "expected_chunks": ["c"]}, "reference_contexts", ("c",)),
    ({**Q, "reference_context_ids": ["d", 2]}, "relevant_doc_ids", ("d", "2")),
    ({**Q, "relevant_docs": ["d"]}, "relevant_doc_ids", ("d",)),
    ({**Q, "qrels": ["d"]}, "relevant_doc_ids", ("d",)),
    ({**Q, "relevant_docs": {"d": 2}}, "relevance_scores", {"d": 2.0}),
    ({**Q, "qrels": {"d": 2, "e": 0, "f": None}}, "relevance_scores", {"d": 2.0, "e": 0.0}),
    ({**Q, "metadata": {"category": "factual"}}, "category", "factual"),
    ({**Q, "metadata": {"difficulty": 2}}, "difficulty", "2"),
    ({**Q, "metadata": {"description": "d"}}, "description", "d"),
    ({**Q, "metadata": {"split": "test"}}, "split", "test"),
    ({**Q, "query_style": "troubleshoot"}, "category", "troubleshooting"),
]
RESPONSE_ALIASES: list[tuple[dict[str, Any], str, Any]] = [
    ({**Q, "response": "r"}, "answer", "r"),
    ({**Q, "actual_output": "r"}, "answer", "r"),
    ({**Q, "actualOutput": "r"}, "answer", "r"),
    ({**Q, "outputs": "r"}, "answer", "r"),
    ({**Q, "output": "r", "reference": "t"}, "answer", "r"),
    ({**Q, "retrieved_contexts": ["c", "d"]}, "contexts", ("c", "d")),
    ({**Q, "retrieval_context": ["c"]}, "contexts", ("c",)),
    ({**Q, "retrievalContext": ["c"]}, "contexts", ("c",)),
    ({**Q, "answer": "r", "context": ["c"]}, "contexts", ("c",)),
    ({**Q, "contexts": [{"page_content": "c"}, {"text": "d"}]}, "contexts", ("c", "d")),
    ({**Q, "retrieved_context_ids": ["d", 3]}, "retrieved_doc_ids", ("d", "3")),
    ({**Q, "doc_uri": ["d"]}, "retrieved_doc_ids", ("d",)),
    ({**Q, "reranked_doc_ids": ["d"]}, "retrieved_doc_ids", ("d",)),
    ({**Q, "ranking_before_reranking": ["d"]}, "doc_ids_before_reranking", ("d",)),
    ({**Q, "document.id": ["d"]}, "retrieved_doc_ids", ("d",)),
    ({**Q, "document": {"id": "d"}}, "retrieved_doc_ids", ("d",)),
    ({**Q, "input_token_count": 5}, "input_tokens", 5),
    ({**Q, "output_token_count": 6}, "output_tokens", 6),
    ({**Q, "token_cost": 0.5}, "cost_usd", 0.5),
    ({**Q, "llm": {"cost": {"total": 0.25}}}, "cost_usd", 0.25),
    ({**Q, "llm.cost.total": 0.25}, "cost_usd", 0.25),
    ({**Q, "completion_time": 1.5}, "latency_ms", 1500.0),  # DeepEval gives seconds
]


def _name(case: tuple[dict[str, Any], str, Any]) -> str:
    return " ".join(name for name in case[0] if name != "query") + " as " + case[1]


def only(path: Path, **options: Any) -> Sample:
    (sample,) = load(path, **options).samples
    return sample


@pytest.mark.parametrize("case", SAMPLE_ALIASES, ids=_name)
def test_a_name_of_another_tool_is_accepted(case: tuple[dict[str, Any], str, Any], write: Write) -> None:
    row, ours, value = case
    sample = only(write("a.json", [row]))
    assert getattr(sample, ours) == value
    assert sample.metadata == {}
    assert sample.response is None


@pytest.mark.parametrize("case", RESPONSE_ALIASES, ids=_name)
def test_a_name_of_another_tool_for_a_response_is_accepted(case: tuple[dict[str, Any], str, Any], write: Write) -> None:
    row, ours, value = case
    sample = only(write("a.json", [row]))
    assert sample.response is not None
    assert getattr(sample.response, ours) == value
    assert sample.metadata == {}


def test_every_field_of_a_sample_and_a_response_has_a_kind_and_the_aliases_name_fields() -> None:
    assert set(KINDS) == {*FIELDS, "metadata"}
    assert set(ALIASES) <= set(FIELDS)


def test_all_native_fields_are_read(write: Write) -> None:
    row = {
        "query_id": "a", "query": "q", "ground_truth_answer": ["t"], "key_facts": ["f"], "relevant_doc_ids": ["d"],
        "relevance_scores": {"d": 3}, "primary_relevant": "d", "reference_contexts": ["c"], "category": "factual",
        "difficulty": "easy", "description": "x", "split": "test", "answerable": True, "best_route": "vector",
        "retrieval_needed": False, "subtopics": {"d": ["s"]}, "doc_timestamps": {"d": "2024-01-01", "e": 5},
        "labels": {"human": 1}, "metadata": {"team": "a"},
    }  # fmt: skip
    response = {
        "answer": "r", "contexts": ["c"], "retrieved_doc_ids": ["d"], "retrieved_scores": [0.5], "model": "m",
        "doc_ids_before_reranking": ["d"],
        "input_tokens": 1, "output_tokens": 2, "cost_usd": 0.1, "latency_ms": 9, "retrieval_latency_ms": 4,
        "generation_latency_ms": 5, "route": "vector", "clicks": ["d"], "dwell_ms": 10, "error": "e",
    }  # fmt: skip
    flat = only(write("a.json", [{**row, **response}]))
    nested = only(write("b.json", [{**row, "response": {**response, "metadata": {"run": 1}}}]))
    assert flat == Sample.model_validate({**row, "response": response})
    assert nested == Sample.model_validate({**row, "response": {**response, "metadata": {"run": 1}}})


def test_names_of_other_tools_are_accepted_inside_a_nested_response(write: Write) -> None:
    rows = [{**Q, "response": {"output": "r", "context": ["c"], "completion_time": 2, "seed": 1}}]
    dataset = load(write("a.json", rows))
    response = dataset.samples[0].response
    assert response is not None
    assert (response.answer, response.contexts, response.latency_ms) == ("r", ("c",), 2000.0)
    assert response.metadata == {"seed": 1}
    assert dataset.mapped["answer"] == "response.output"


def test_an_empty_nested_response_is_a_response_and_a_null_one_is_none(write: Write) -> None:
    rows = [{**Q, "response": {}}, {**Q, "response": None}, {**Q, "response": {"answer": "r"}}]
    first, second, third = load(write("a.json", rows)).samples
    assert first.response is not None
    assert first.response.answer is None
    assert second.response is None
    assert third.answer == "r"


def test_a_row_without_any_value_of_a_response_has_none(write: Write) -> None:
    rows = [{**Q, "answer": "r", "latency_ms": 1}, {**Q, "answer": None}, {**Q, "retrieved_doc_ids": []}]
    given = [sample.response is not None for sample in load(write("a.json", rows)).samples]
    assert given == [True, False, True]
