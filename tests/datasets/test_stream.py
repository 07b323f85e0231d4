"""Rows that are read one by one are those that are read at once, and don't fill the memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ragassay.core.errors import BadData, NothingToEvaluate
from ragassay.datasets.load import load
from ragassay.datasets.stream import SampleStream

NATIVE = [
    {
        "query_id": "a",
        "query": "What is one?",
        "relevant_doc_ids": ["d1", "d2"],
        "metadata": {"category": "x", "from": "f"},
    },
    {
        "query_id": "b",
        "query": "What is two?",
        "ground_truth_answer": ["2", "two"],
        "category": "y",
        "odd": {"k": [1, None]},
    },
]
FOREIGN = [
    {"question": "q1", "contexts": ["c"], "ground_truth": "g", "answer": "a"},
    {"question": "q2", "user_input": "q2", "answer": "b", "completion_time": 0.5, "anwser": "c"},
]
CASES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "native": ("rows.jsonl", NATIVE),
    "other tools' names": ("rows.jsonl", FOREIGN),
    "cells": ("rows.csv", FOREIGN),
    "cells with objects": ("rows.csv", [{"inputs": "{'question': 'q'}", "outputs": "a"}]),
    "tabs": ("rows.tsv", FOREIGN),
    "Parquet": ("rows.parquet", [{"query": "q", "relevance_scores": {"d": 2.0}}, {"query": "r", "category": "x"}]),
    "a document": ("rows.json", NATIVE),
    "nested responses": ("rows.jsonl", [{"query": "q", "response": {"answer": "a", "context": ["c"]}}]),
    "a reference called output": ("rows.jsonl", [{"input": "q", "output": "a"}]),
    "gold contexts": ("rows.jsonl", [{"input": "q", "actual_output": "a", "context": ["c"], "retrieval_context": ["d"]}]),
    "judgments as objects": ("rows.jsonl", [{"query": "q", "qrels": {"d": 1}}]),
    "judgments as lists": ("rows.jsonl", [{"query": "q", "qrels": ["d"]}]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "rows"), CASES.values(), ids=CASES.keys())
def test_a_stream_has_the_samples_columns_and_warnings_of_a_loaded_file(name, rows, save, tmp_path: Path) -> None:
    path = save(rows, tmp_path / name)
    stream, loaded = SampleStream([path]), load(path)
    assert tuple(stream) == loaded.samples
    assert stream.mapped == dict(loaded.mapped)
    assert tuple(stream.warnings) == loaded.warnings


BROKEN: dict[str, tuple[str, str]] = {
    "bad rows": ("rows.jsonl", '{"query": ""}\n{"query": "q", "cost_usd": "x"}\nnothing\n'),
    "an id twice": ("rows.jsonl", '{"query_id": "a", "query": "q"}\n{"query_id": "a", "query": "r"}\n'),
    "context that may mean two things": ("rows.jsonl", '{"query": "q", "context": "c"}\n'),
    "nested beyond reading": ("rows.jsonl", '{"query": "q", "x": ' + '{"x": ' * 5000 + "1" + "}" * 5001 + "\n"),
}


@pytest.mark.parametrize(("name", "content"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong_with_a_file_is_said_in_the_same_words(name: str, content: str, write) -> None:
    path = write(name, content)
    with pytest.raises((BadData, NothingToEvaluate)) as loaded:
        load(path)
    with pytest.raises((BadData, NothingToEvaluate)) as streamed:
        list(SampleStream([path]))
    assert str(streamed.value) == str(loaded.value)
    assert getattr(streamed.value, "problems", None) == getattr(loaded.value, "problems", None)


def test_files_without_ids_are_numbered_through_and_an_id_of_two_files_is_refused(write) -> None:
    a, b = write("a.jsonl", '{"query": "a"}\n{"query": "b"}\n'), write("b.csv", "question\nc\n")
    assert [(s.query_id, s.query) for s in SampleStream([a, b])] == [("q_0", "a"), ("q_1", "b"), ("q_2", "c")]
    again = write("c.jsonl", '{"query_id": "q_1", "query": "d"}\n')
    with pytest.raises(BadData, match=r"c\.jsonl: query_id: 'q_1' is used already in a\.jsonl"):
        list(SampleStream([a, again]))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet"])
def test_memory_does_not_grow_with_the_file(name: str, save, tmp_path: Path) -> None:
    """3,000 rows of 5 KB each are 15 MB; both passes together stay below 5 MB."""
    path = save([{"query": f"{n} " + "x" * 5_000, "category": str(n % 3)} for n in range(3_000)], tmp_path / name)
    sum(1 for _ in SampleStream([path]))  # what is imported at first use is not counted
    tracemalloc.start()
    try:
        assert sum(1 for _ in SampleStream([path])) == 3_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def test_a_column_that_begins_late_is_read_and_a_late_contradiction_is_a_bad_row(save, tmp_path: Path) -> None:
    rows = [{"question": f"q{n}"} for n in range(1_500)]
    rows[1_200]["reference"] = "late"
    path = save(rows, tmp_path / "late.jsonl")
    assert next(s for s in SampleStream([path]) if s.query == "q1200").ground_truth_answer == ("late",)
    twice = save(
        [{**row, "user_input": row["question"]} for row in rows[:-1]] + [{"question": "x", "user_input": "y"}],
        tmp_path / "twice.jsonl",
    )
    with pytest.raises(BadData, match=r"twice\.jsonl:1500: query.*: the columns user_input and question differ here"):
        list(SampleStream([twice]))
