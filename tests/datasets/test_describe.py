"""A description says what is in a dataset, what is missing, and what looks wrong."""

# ruff: noqa: E501 - tables are read by their rows

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragassay.core.models import Sample
from ragassay.datasets.describe import Range, describe
from ragassay.datasets.load import load
from ragassay.datasets.versions import import_rows
from ragassay.storage.datasets import FolderDatasets, version_dataset

Write = Callable[[str, Any], Path]

ROWS: list[dict[str, Any]] = [
    {"id": "a", "query": "What is  ONE?", "reference": ["one two", "three"], "category": "factual", "difficulty": "easy",
     "relevance_scores": {"d1": 2, "d2": 1, "d3": 0}, "answer": "a b c", "contexts": ["x y", "z"],
     "retrieved_doc_ids": ["d1", "d9"], "anwser": 1},
    {"id": "b", "query": "what is one?", "category": "factual", "relevant_doc_ids": ["d1"], "answer": "d",
     "retrieved_doc_ids": []},
    {"id": "c", "query": "Why?", "category": "conceptual", "metadata": {"team": "x"}},
]  # fmt: skip


def test_counts_tables_and_lengths(write: Write) -> None:
    described = describe(load(write("a.json", {"name": "N", "description": "D", "examples": ROWS})))
    assert (described.name, described.path, described.description) == ("N", "a.json", "D")
    assert (described.rows, described.responses) == (3, 2)
    assert described.mapped["query_id"] == "id"
    assert described.kept_as_metadata == ("anwser",)
    assert described.fields == {
        "query_id": 3, "query": 3, "ground_truth_answer": 1, "relevant_doc_ids": 1, "relevance_scores": 1,
        "category": 3, "difficulty": 1, "answer": 2, "contexts": 1, "retrieved_doc_ids": 2, "metadata": 2,
    }  # fmt: skip
    assert list(described.categories.items()) == [("factual", 2), ("conceptual", 1)]
    assert described.difficulties == {"easy": 1}
    assert described.relevant_per_query == Range(n=2, mean=1.5, min=1, max=2)  # d1 and d2; d1
    assert described.retrieved_per_query == Range(n=2, mean=1, min=0, max=2)
    assert described.contexts_per_query == Range(n=1, mean=2, min=2, max=2)
    assert described.words == {
        "query": Range(n=3, mean=7 / 3, min=1, max=3),
        "ground_truth_answer": Range(n=2, mean=1.5, min=1, max=2),
        "contexts": Range(n=2, mean=1.5, min=1, max=2),
        "answer": Range(n=2, mean=2, min=1, max=3),
    }


def test_queries_that_read_the_same_are_listed(write: Write) -> None:
    (repeated,) = describe(load(write("a.json", ROWS))).repeated_queries
    assert (repeated.query, repeated.query_ids) == ("What is  ONE?", ("a", "b"))


def test_each_metric_says_for_how_many_rows_it_can_be_computed(write: Write) -> None:
    def lacks(sample: Sample) -> str | None:
        if sample.answer is None:
            return "no answer"
        return None if sample.contexts else "no contexts"

    faithfulness, always = describe(
        load(write("a.json", ROWS)), {"faithfulness": lacks, "always": lambda sample: None}
    ).metrics
    assert (faithfulness.metric, faithfulness.rows) == ("faithfulness", 1)
    assert faithfulness.lacking == {"no contexts": 1, "no answer": 1}
    assert (always.rows, always.lacking) == (3, {})


DOUBTS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a column misspelt": ([{"query": "q", "anwser": "r"}], "anwser is kept as metadata; did you mean answer?"),
    "judgments of nothing": (
        [{"query": "q", "relevant_doc_ids": []}, {"query": "r", "relevance_scores": {"d": 0}}, {"query": "s", "relevant_doc_ids": ["d"]}],
        "2 of 3 rows have judgments that name no relevant document; retrieval metrics are 0 there: q_0 and q_1",
    ),
    "empty answers": (
        [{"query": str(n), "answer": " "} for n in range(4)],
        "4 of 4 rows have an empty answer: q_0, q_1, q_2 and q_3",
    ),
    "ids of two kinds": (
        [{"query": "q", "relevant_doc_ids": ["doc-1"], "retrieved_doc_ids": ["1"]}],
        "in none of 1 rows is a retrieved document a judged one; are they ids of the same kind?",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "doubt"), DOUBTS.values(), ids=DOUBTS.keys())
def test_what_is_not_likely_to_be_meant_is_a_warning(rows: list[dict[str, Any]], doubt: str, write: Write) -> None:
    (warning,) = describe(load(write("a.json", rows))).warnings
    assert warning.startswith(doubt)


def test_a_sound_dataset_has_no_warnings_and_its_description_is_json(write: Write) -> None:
    rows = [{"query": "q", "relevant_doc_ids": ["d"], "primary_relevant": "d", "retrieved_doc_ids": ["d"]}]
    described = describe(load(write("a.json", rows)))
    assert described.warnings == ()
    assert json.loads(described.model_dump_json())["relevant_per_query"] == {
        "n": 1,
        "mean": 1.0,
        "min": 1.0,
        "max": 1.0,
    }
    assert described.contexts_per_query is None


def test_describe_keeps_the_description_of_a_version(tmp_path: Path) -> None:
    store = FolderDatasets(tmp_path)
    rows = [{"query": "Who IS it?"}, {"query": "who is it"}, {"query": "Who is  it here?"}]
    version = import_rows(store, "a", load(rows), description="three")
    described = describe(version_dataset(store, version), similar=0.5)
    assert described.description == "three"
    assert [each.query for each in described.similar_queries] == ["Who IS it?"]
