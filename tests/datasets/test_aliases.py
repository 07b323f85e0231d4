"""Native fields are read as they are, and so are the names that other tools use for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragassay.core.models import Message, Sample
from ragassay.datasets.cells import KINDS
from ragassay.datasets.columns import ALIASES, FIELDS
from ragassay.datasets.load import load

Write = Callable[[str, Any], Path]

Q = {"query": "Where is Paris?"}


def only(path: Path, **options: Any) -> Sample:
    (sample,) = load(path, **options).samples
    return sample


VALUES: dict[str, tuple[Any, Any]] = {
    "key_facts": (["f", "g"], ("f", "g")),
    "ground_truth_answer": ("t", ("t",)),
    "history": ([{"role": "assistant", "content": "Hello."}], (Message(role="assistant", content="Hello."),)),
    "contexts": ([{"page_content": "c"}, {"text": "d"}], ("c", "d")),
    "reference_contexts": ([{"content": "c", "doc_uri": "d"}], ("c",)),
    "relevance_scores": ({"d": 2, "e": 0, "f": None}, {"d": 2.0, "e": 0.0}),
    "input_tokens": (5, 5),
    "output_tokens": (6, 6),
    "cost_usd": (0.5, 0.5),
    "latency_ms": (1.5, 1500.0),  # DeepEval gives seconds
    **dict.fromkeys(("relevant_doc_ids", "retrieved_doc_ids", "doc_ids_before_reranking"), (["d", 2], ("d", "2"))),
}
"""What a field is given, and what it becomes; texts otherwise."""


@pytest.mark.parametrize(("ours", "alias"), [(ours, alias) for ours in ALIASES for alias in ALIASES[ours]])
def test_load_accepts_the_names_of_other_tools(ours: str, alias: str, write: Write) -> None:
    given, expected = VALUES.get(ours, ("x", "x"))
    nested: Any = given
    for key in reversed(alias.split(".")):
        nested = {key: nested}
    for row in ({alias: given}, nested):
        sample = only(write("a.json", [row if ours == "query" else {**Q, **row}]))
        value = getattr(sample, ours) if ours in Sample.model_fields else getattr(sample.response, ours)
        assert value == expected
        assert sample.metadata == {}
        assert (sample.response is not None) == (ours not in Sample.model_fields)


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
