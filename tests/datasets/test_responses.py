"""A system's recorded responses are joined to the dataset on query_id, and nothing is joined by guess."""

# ruff: noqa: E501 - tables are read by their rows

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragassay.core.errors import BadData
from ragassay.datasets.load import load
from ragassay.datasets.responses import join, load_responses

Write = Callable[[str, Any], Path]

DATA = [
    {"query_id": "a", "query": "A?"},
    {"query_id": "b", "query": "B?", "answer": "old"},
    {"query_id": "c", "query": "C?"},
]


def test_every_sample_gets_its_response_or_none(write: Write) -> None:
    dataset = load(write("data.json", DATA))
    responses = load_responses(write("s.jsonl", '{"id": "b", "output": "new"}\n{"id": "a", "latency_ms": 2}\n'))
    joined = join(dataset, responses, "s")
    assert [sample.query_id for sample in joined] == ["a", "b", "c"]
    assert [sample.answer for sample in joined] == [None, "new", None]
    assert joined[0].response is not None
    assert joined[0].response.latency_ms == 2.0
    assert joined[2].response is None
    assert dataset.samples[1].answer == "old"


def test_columns_of_the_query_are_ignored_and_unknown_ones_kept(write: Write) -> None:
    rows = [
        {"query_id": "a", "question": "A?", "reference": "t", "ground_truth": "u", "category": "x", "answer": "r",
         "metadata": {"category": "mine"}, "seed": 3},
    ]  # fmt: skip
    responses = load_responses(write("s.json", rows))
    assert responses.by_id["a"].answer == "r"
    assert responses.by_id["a"].metadata == {"category": "mine", "seed": 3}
    assert responses.mapped == {"query_id": "query_id", "answer": "answer"}
    assert responses.ignored == ("question", "reference", "category", "ground_truth")
    assert responses.kept == ("seed",)


def test_rows_with_nested_responses_are_read_and_the_rest_of_the_row_is_not(write: Write) -> None:
    rows = [{"query_id": "a", "query": "A?", "team": "x", "metadata": {"y": 1},
             "response": {"answer": "r", "metadata": {"z": 2}, "seed": 3}}]  # fmt: skip
    responses = load_responses(write("s.json", rows))
    assert responses.by_id["a"].answer == "r"
    assert responses.by_id["a"].metadata == {"z": 2, "seed": 3}
    assert responses.mapped["answer"] == "response.answer"
    assert responses.ignored == ("query", "team")


def test_an_id_that_the_dataset_does_not_have_is_an_error_that_lists_up_to_five(write: Write) -> None:
    dataset = load(write("data.json", DATA))
    text = "query_id,answer\na,x\n" + "".join(f"x{n},y\n" for n in range(7))
    with pytest.raises(BadData) as caught:
        join(dataset, load_responses(write("s.csv", text)), "mine")
    assert str(caught.value) == (
        "s.csv: query_id: system 'mine' answers 'x0', 'x1', 'x2', 'x3' and 3 more: not in the dataset data.json"
    )


def test_an_unknown_id_where_the_dataset_has_no_ids_says_so(write: Write) -> None:
    dataset = load(write("data.json", [{"query": "q"}]))
    assert join(dataset, load_responses(write("s.json", [{"id": "q_0", "answer": "r"}])), "s")[0].answer == "r"
    with pytest.raises(
        BadData, match=r"answers 'a': not in .*; the dataset has no query_id column, so its ids are q_0, q_1"
    ):
        join(dataset, load_responses(write("t.json", [{"id": "a", "answer": "r"}])), "s")


def test_responses_without_ids_join_on_the_text_of_the_query(write: Write) -> None:
    dataset = load(write("data.json", DATA))
    responses = load_responses(write("s.json", [{"question": "C?", "answer": "z"}, {"question": "A?", "answer": "x"}]))
    assert responses.by_id == {}
    assert [sample.answer for sample in join(dataset, responses, "s")] == ["x", None, "z"]


def test_a_text_that_several_queries_share_joins_nothing(write: Write) -> None:
    dataset = load(write("data.json", [*DATA, {"query_id": "d", "query": "A?"}]))
    other = load_responses(write("t.json", [{"query": "B?", "answer": "x"}]))
    assert [sample.answer for sample in join(dataset, other, "s")] == [None, "x", None, None]
    with pytest.raises(
        BadData, match=r"query_id: not both files have ids, and the query 'A\?' is 2 times in the dataset"
    ):
        join(dataset, load_responses(write("s.json", [{"query": "A?", "answer": "x"}])), "s")


def test_a_dataset_without_ids_is_joined_on_the_text_of_responses_that_have_some(write: Write) -> None:
    dataset = load(write("data.json", [{"query": "A?"}, {"query": "B?"}]))
    rows = [{"id": "x", "query": " B? ", "answer": "b"}, {"id": "y", "query": "A?", "answer": "a"}]
    assert [s.answer for s in join(dataset, load_responses(write("s.json", rows)), "s")] == ["a", "b"]
    with pytest.raises(BadData, match="the query 'A\\?' is 1 times in the dataset and 2 times in the responses"):
        join(dataset, load_responses(write("t.json", [*rows, {"id": "z", "query": "A?", "answer": "c"}])), "s")
    numbered = load_responses(write("u.json", [{"id": "q_1", "query": "B, please?", "answer": "b"}]))
    assert [s.answer for s in join(dataset, numbered, "s")] == [None, "b"]  # the ids say it


BROKEN: dict[str, tuple[Any, str]] = {
    "neither id nor query": ([{"answer": "r"}], "s.json: query_id: no column holds it, nor the query's text, so no response can be joined; say which: --map query_id=COLUMN"),
    "no response": ([{"id": "a", "reply": "r"}], "s.json: answer: no column holds any part of a response; the columns are 'id' and 'reply'; say which: --map answer=COLUMN"),
    "an id twice": ([{"id": "a", "answer": "r"}, {"id": "a", "answer": "s"}], "s.json: row 2: query_id (column id): 'a' is used already in row 1"),
    "an id missing": ([{"id": "a", "answer": "r"}, {"answer": "s"}], "s.json: row 2: query_id (column id): is missing"),
    "text among nested responses": ([{"id": "a", "response": {"answer": "r"}}, {"id": "b", "response": "s"}], "s.json: row 2: response: should be an object, as in other rows, is 's'"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "line"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_responses_give_one_clear_line(rows: Any, line: str, write: Write) -> None:
    with pytest.raises(BadData) as caught:
        load_responses(write("s.json", rows))
    assert line in str(caught.value)
