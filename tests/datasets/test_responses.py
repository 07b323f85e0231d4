"""A system's recorded responses are joined to the dataset on query_id, and nothing is joined by guess."""

# ruff: noqa: E501 - tables are read by their rows

import pytest

from ragassay.core.errors import BadData
from ragassay.datasets.load import join, load, load_responses

DATA = [
    {"query_id": "a", "query": "A?"},
    {"query_id": "b", "query": "B?", "answer": "old"},
    {"query_id": "c", "query": "C?"},
]


@pytest.fixture
def joined(write):
    """The answers that a dataset has after responses were joined to it."""

    def joined(rows, responses):
        dataset = load(write("data.json", rows))
        answered = join(dataset, load_responses(write("s.json", responses)), "s")
        return [answered[sample.query_id].answer if sample.query_id in answered else None for sample in dataset]

    return joined


def test_join_gives_every_sample_its_response_or_none(write):
    dataset = load(write("data.json", DATA))
    responses = load_responses(write("s.jsonl", '{"id": "b", "output": "new"}\n{"id": "a", "latency_ms": 2}\n'))
    joined = join(dataset, responses, "s")
    assert {query_id: response.answer for query_id, response in joined.items()} == {"a": None, "b": "new"}
    assert joined["a"].latency_ms == 2.0
    assert dataset.samples[1].answer == "old"


def test_load_responses_ignores_columns_of_the_query_and_keeps_unknown_ones(write):
    row = {"query_id": "a", "question": "A?", "reference": "t", "ground_truth": "u", "category": "x", "answer": "r"}
    responses = load_responses(write("s.json", [{**row, "metadata": {"category": "mine"}, "seed": 3}]))
    assert responses.by_id["a"].answer == "r"
    assert responses.by_id["a"].metadata == {"category": "mine", "seed": 3, "ground_truth": "u"}


@pytest.mark.parametrize(
    ("rows", "responses", "answers"),
    [
        ([{"query": "q"}], [{"id": "q_0", "answer": "r"}], ["r"]),
        (DATA, [{"question": "C?", "answer": "z"}, {"question": "A?", "answer": "x"}], ["x", None, "z"]),
        ([*DATA, {"query_id": "d", "query": "A?"}], [{"query": "B?", "answer": "x"}], [None, "x", None, None]),
        ([{"query": "A?"}, {"query": "B?"}], [{"id": "x", "query": " B? ", "answer": "b"}, {"id": "y", "query": "A?", "answer": "a"}], ["a", "b"]),
        ([{"query": "A?"}, {"query": "B?"}], [{"id": "q_1", "query": "B, please?", "answer": "b"}], [None, "b"]),
    ],
    ids=["numbers", "texts", "a text that several share", "texts, although there are ids", "numbers, although texts differ"],
)  # fmt: skip
def test_join_by_ids_or_by_texts(joined, rows, responses, answers):
    assert joined(rows, responses) == answers


def test_join_by_texts_in_columns_that_differ_by_file(write):
    mapping = {"query": ["user_question", "Frage"]}
    dataset = load(write("data.json", [{"user_question": "A?"}, {"user_question": "B?"}]), mapping=mapping)
    responses = load_responses(write("s.csv", "Frage,answer\nB?,b\n"), mapping=mapping)
    assert {query_id: response.answer for query_id, response in join(dataset, responses, "s").items()} == {"q_1": "b"}


A = [{"query": "A?", "answer": "x"}]


@pytest.mark.parametrize(
    ("rows", "responses", "line"),
    [
        (DATA, [{"query_id": i, "answer": "y"} for i in ("a", *(f"x{n}" for n in range(7)))],
         "s.json: query_id: system 's' answers 'x0', 'x1', 'x2', 'x3' and 3 more: not in the dataset data.json"),
        ([{"query": "q"}], [{"id": "a", "answer": "r"}], "; the dataset has no query_id column, so its ids are q_0, q_1"),
        ([{"query": "A?"}], [{"id": "y", **A[0]}, {"id": "z", **A[0]}], "the query 'A?' is 1 times in the dataset and 2 times in the responses"),
        (DATA, [{"answer": "r"}], "s.json: query_id: no column holds it, nor the query's text, so no response can be joined; say which: map query_id=COLUMN"),
        (DATA, [{"id": "a", "reply": "r"}], "s.json: answer: no column holds any part of a response; the columns are 'id' and 'reply'; name the columns: map answer=reply"),
        (DATA, [{"id": "a", "answer": "r"}, {"id": "a", "answer": "s"}], "s.json: row 2: query_id (column id): 'a' is used already in s.json: row 1"),
    ],
)  # fmt: skip
def test_join_responses_that_do_not_fit_is_one_clear_line(joined, rows, responses, line):
    with pytest.raises(BadData) as caught:
        joined(rows, responses)
    assert line in str(caught.value)
