"""Judgments in a file of their own are joined to the queries that name the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragassay.core.errors import BadData
from ragassay.datasets.load import load

Write = Callable[[str, Any], Path]

QUERIES: dict[str, Any] = {
    "judgments": "grades.json",
    "queries": [{"query_id": query_id, "query": text} for query_id, text in (("Q1", "a"), (2, "b"), ("Q3", "c"), ("Q4", "d"))],
}  # fmt: skip
GRADES: dict[str, Any] = {
    "judgments": {
        "2": {"relevance_scores": {"d2": 1, "d3": 0}},
        "Q1": {"relevance_scores": {"d1": 3}, "primary_relevant": "d1"},
        "Q3": {"relevant_doc_ids": ["d4"]},
    }
}


def test_judgments_from_the_file_beside_it_are_those_of_the_row(write: Write) -> None:
    write("grades.json", GRADES)
    dataset = load(write("queries.json", QUERIES))
    assert [sample.judgments for sample in dataset.samples] == [{"d1": 3}, {"d2": 1, "d3": 0}, {"d4": 1}, None]
    assert dataset.samples[0].primary_relevant == "d1"
    rows = [{**QUERIES["queries"][0], **GRADES["judgments"]["Q1"]}, *QUERIES["queries"][1:]]
    rows[1:3] = [{**rows[1], **GRADES["judgments"]["2"]}, {**rows[2], **GRADES["judgments"]["Q3"]}]
    assert dataset.digest == load(write("whole.json", rows)).digest


@pytest.mark.parametrize("row", [{"id": "q_0"}, {}])
def test_judgments_from_the_file_beside_it_are_joined_by_the_id_that_the_row_has(
    write: Write, row: dict[str, str]
) -> None:
    write("grades.json", {"judgments": {"q_0": {"relevance_scores": {"d1": 3}}}})
    dataset = load(write("queries.json", {"judgments": "grades.json", "queries": [{**row, "query": "a"}]}))
    assert [(sample.query_id, sample.judgments) for sample in dataset.samples] == [("q_0", {"d1": 3})]


def test_without_a_name_of_a_file_judgments_beside_the_queries_are_metadata(write: Write) -> None:
    write("judgments.json", GRADES)
    dataset = load(write("queries.json", {**QUERIES, "judgments": "by two annotators"}))
    assert dataset.samples[0].judgments is None
    assert dataset.metadata == {"judgments": "by two annotators"}


@pytest.mark.parametrize(
    ("name", "grades", "line"),
    [
        ("none.json", GRADES, "queries.json: judgments: there is no file 'none.json' in its folder"),
        ("../grades.json", GRADES, "queries.json: judgments: there is no file '../grades.json' in its folder"),
        ("grades.json", "[", "grades.json:1: column 2: is not valid JSON"),
        ("grades.json", {"judgments": {"Q1": 3}}, "grades.json: should be {'judgments': {query_id: "),
        ("grades.json", {"judgments": {"Q9": {}}}, "queries.json: judgments: grades.json judges 'Q9', which is no query"),
        ("grades.json", {"judgments": {"Q1": {"query": "x"}}}, "queries.json: row 1: query: is given here and in grades.json"),
    ],
)  # fmt: skip
def test_a_broken_file_of_judgments_is_one_clear_line(write: Write, name: str, grades: Any, line: str) -> None:
    write("grades.json", grades)
    with pytest.raises(BadData) as caught:
        load(write("queries.json", {**QUERIES, "judgments": name}))
    assert line in str(caught.value)
