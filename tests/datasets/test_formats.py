"""The same rows are the same dataset, whatever file they come in."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragassay.core.errors import MissingExtra, NothingToEvaluate
from ragassay.core.models import Sample
from ragassay.datasets.dataset import canonical
from ragassay.datasets.load import load

Write = Callable[[str, Any], Path]
Save = Callable[[Sequence[dict[str, Any]], Path], Path]

FORMATS = ["json", "jsonl", "csv", "tsv", "parquet"]

ROWS: list[dict[str, Any]] = [
    {
        "query_id": "007", "query": 'Where is "Paris", exactly?\nTell me.', "ground_truth_answer": ["In France", "Europe"],
        "key_facts": ["it is in France"], "relevant_doc_ids": ["d1", "d|2", "d,3"], "relevance_scores": {"d1": 3, "d|2": 0.5},
        "category": "factual", "difficulty": "easy", "answerable": True, "metadata": {"team": "a", "n": {"deep": [1, 2]}},
        "answer": "12", "contexts": ["Paris lies on the Seine.", "A | B, [1]"], "retrieved_doc_ids": ["d1", "d9"],
        "retrieved_scores": [0.75, 0.5], "latency_ms": 12, "cost_usd": 0.001, "input_tokens": 90,
    },
    {"query": "Was ist ein Übergang – 渡り? 🙂", "ground_truth_answer": ["x"], "relevant_doc_ids": [], "latency_ms": 0.5},
]  # fmt: skip


@pytest.mark.parametrize("extension", FORMATS)
def test_five_formats_give_the_same_samples_and_digest(extension: str, tmp_path: Path, save: Save) -> None:
    dataset = load(save(ROWS, tmp_path / f"rows.{extension}"))
    response_fields = ("answer", "contexts", "retrieved_doc_ids", "retrieved_scores", "latency_ms", "cost_usd")
    expected = []
    for n, row in enumerate(ROWS):
        response = {name: row[name] for name in (*response_fields, "input_tokens") if name in row}
        rest = {name: value for name, value in row.items() if name not in response}
        expected.append(Sample.model_validate({"query_id": f"q_{n}", **rest, "response": response}))
    assert dataset.samples == tuple(expected)
    assert dataset.name == "rows"
    reference = load(save(ROWS, tmp_path / "reference.json"))
    assert dataset.digest == reference.digest
    assert len(dataset.digest) == 64


ASKED = [{"query_id": "a", "query": "Why?", "ground_truth": "So."}, {"query_id": "b", "query": "Who?"}]


@pytest.mark.parametrize(
    ("rows", "same"),
    [
        (ASKED[::-1], True),
        ([{**row, "answer": "No.", "latency_ms": 1, "trace": 17} for row in ASKED], True),
        ([{key: value for key, value in row.items() if key != "query_id"} for row in ASKED], True),
        (ASKED[:1], False),
        ([ASKED[0], {**ASKED[1], "query": "How?"}], False),
        ([ASKED[0], {**ASKED[1], "ground_truth": "I."}], False),
        ([ASKED[0], {**ASKED[1], "relevant_doc_ids": ["d"]}], False),
        ([ASKED[0], {**ASKED[1], "category": "x"}], False),
    ],
)
def test_the_digest_is_of_questions_truths_and_labels_not_of_answers_ids_or_order(write: Write, rows, same) -> None:
    assert (load(write("a.json", ASKED)).digest == load(write("b.json", {"examples": rows})).digest) is same


def test_a_document_carries_its_name_description_and_metadata(write: Write) -> None:
    content = {"name": "N", "description": "D", "metadata": {"a": 1}, "version": 2, "queries": [{"query": "q"}]}
    dataset = load(write("a.json", content))
    assert (dataset.name, dataset.description, dataset.metadata) == ("N", "D", {"version": 2, "a": 1})
    nameless = load(write("b.json", {"name": None, "metadata": None, "examples": [{"query": "q"}]}))
    assert (nameless.name, nameless.metadata) == ("b", {})


def test_text_may_start_with_a_byte_order_mark_and_end_lines_as_windows_does(write: Write) -> None:
    for name, content in (
        ("a.json", '[{"query": "q"}]'),
        ("a.jsonl", '{"query": "q"}\r\n\r\n{"query": "r"}\r\n'),
        ("a.csv", 'query,answer\r\nq,"two\r\nlines"\r\n\r\n'),
        ("a.tsv", "query\tanswer\r\nq\tr\r\n"),
    ):
        assert load(write(name, b"\xef\xbb\xbf" + content.encode())).samples[0].query == "q"
    assert load(Path("a.csv")).samples[0].answer == "two\r\nlines"


CELLS: list[tuple[str, str, Any]] = [
    ("relevant_doc_ids", '["a", "b"]', ("a", "b")),
    ("relevant_doc_ids", "['a', 'b']", ("a", "b")),
    ("relevant_doc_ids", "a|b", ("a", "b")),
    ("relevant_doc_ids", "[]", ()),
    ("relevant_doc_ids", "", None),
    ("qrels", '{"a": 2}', {"a": 2.0}),
    ("qrels", "{'a': 2, 'b': None}", {"a": 2.0}),
    ("contexts", '["one, two", "three"]', ("one, two", "three")),
    ("contexts", "[\n 'one',  # as printed\n 'two']", ("one", "two")),
    ("contexts", "| a | b |\n|---|---|\n| 1 | 2 |", ("| a | b |\n|---|---|\n| 1 | 2 |",)),
    ("contexts", "[1] Paris is a city.", ("[1] Paris is a city.",)),
    ("ground_truth_answer", "Use `ps | grep x`", ("Use `ps | grep x`",)),
    ("answer", "12", "12"),
    ("answer", " a, b|c ", " a, b|c "),
    ("latency_ms", " 1.5 ", 1.5),
    ("cost_usd", "1e-3", 0.001),
    ("answerable", "True", True),
    ("subtopics", '{"d": ["s"]}', {"d": ("s",)}),
    ("metadata.a", "1", {"a": "1"}),
    ("inputs", "{'user': 'u'}", {"inputs": {"user": "u"}}),
    ("inputs", "{broken", {"inputs": "{broken"}),
]


@pytest.mark.parametrize(("column", "cell", "value"), CELLS, ids=[f"{c} {v!r}"[:40] for c, v, _ in CELLS])
def test_a_cell_is_read_by_what_its_column_needs(column: str, cell: str, value: Any, write: Write) -> None:
    path = write("a.csv", "")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["query", column], ["q", cell]])
    (sample,) = load(path).samples
    names = {
        "qrels": "relevance_scores" if cell.startswith("{") else "relevant_doc_ids",
        "completion_time": "latency_ms",
    }
    name = names.get(column, column)
    if name in ("metadata.a", "owner", "inputs"):
        name = "metadata"
    given = (
        getattr(sample, name)
        if hasattr(Sample, name) or name in Sample.model_fields
        else getattr(sample.response, name)
    )
    assert given == value


def test_the_objects_of_csv_are_opened_for_the_names_inside_them(write: Write) -> None:
    text = 'inputs,metadata,expectations\n"{""question"": ""q"", ""user"": ""u""}","{""category"": ""factual"", ""x"": 1}",'
    (sample,) = load(write("a.csv", text + "\"{'expected_facts': ['f']}\"\n")).samples
    assert (sample.query, sample.category, sample.key_facts) == ("q", "factual", ("f",))
    assert sample.metadata == {"x": 1, "inputs.user": "u"}


def test_a_cell_may_be_long(write: Write) -> None:
    long = "x" * 300_000  # above the csv module's own limit of 131,072
    before = csv.field_size_limit()
    assert load(write("a.csv", f"query,answer\nq,{long}\n")).samples[0].answer == long
    assert csv.field_size_limit() == before


def test_typed_values_of_parquet_become_what_json_has(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    moment = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    table = pa.table(
        {
            "query": pa.array([b"q"], pa.binary()),
            "relevance_scores": pa.array([[("d", 2.0)]], pa.map_(pa.string(), pa.float64())),
            "cost_usd": pa.array([Decimal("0.50")]),
            "when": pa.array([moment]),
            "day": pa.array([date(2024, 1, 2)]),
            "rank": pa.array([Decimal("3")]),
            "labels": pa.array([{"a": 1, "b": None}]),
            "nothing": pa.array([None], pa.string()),
            "response": pa.array([{"answer": "r", "contexts": ["c"]}]),
        }
    )
    pq.write_table(table, path)
    dataset = load(path)
    (sample,) = dataset.samples
    assert (sample.query, sample.relevance_scores, sample.labels, sample.answer) == ("q", {"d": 2.0}, {"a": 1}, "r")
    assert sample.response is not None
    assert sample.response.cost_usd == 0.5
    assert sample.metadata == {"when": moment.isoformat(), "day": "2024-01-02", "rank": 3}


def test_a_limit_keeps_the_first_rows_and_remembers_the_ids_of_the_others(write: Write) -> None:
    lines = ['{"id": 0, "query": "a"}', '{"query": "b"}', '{"id": 5, "query": "c"}', '{"query": null}']
    dataset = load(write("a.jsonl", "\n".join(lines)), limit=2)
    assert [sample.query_id for sample in dataset.samples] == ["0", "q_1"]
    assert dataset.beyond_limit == {"5": "c", "q_3": ""}
    assert dataset.mapped == {"query_id": "id", "query": "query"}


def test_repeated_documents_are_dropped_with_their_scores_when_the_user_says_so(write: Write) -> None:
    rows = [
        {"query": "a", "retrieved_doc_ids": ["d", 1, "d", "1", "e"], "retrieved_scores": [5, 4, 3, 2, 1]},
        {"query": "b", "retrieved_doc_ids": ["d", "d"], "contexts": ["x", "y"]},
        {"query": "c", "retrieved_doc_ids": ["d", "e"]},
        {"query": "d"},
    ]
    dataset = load(write("a.json", rows), duplicates="keep_first")
    first, second, third, _ = (sample.response for sample in dataset.samples)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.retrieved_doc_ids, first.retrieved_scores) == (("d", "1", "e"), (5.0, 4.0, 1.0))
    assert (second.retrieved_doc_ids, second.contexts) == (("d",), ("x", "y"))
    assert third.retrieved_doc_ids == ("d", "e")
    assert dataset.warnings == (
        "repeated document ids dropped: 3 in 2 rows; the first of each stays, contexts stay all",
    )


ALWAYS_A_LIST = ("ground_truth_answer", "key_facts")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30)
IDS = st.lists(TEXT, max_size=4, unique=True)
NUMBERS = st.just(0.0) | st.floats(1e-60, 1000, allow_nan=False)
PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(TEXT, inner, min_size=1, max_size=3),
    max_leaves=6,
)


@st.composite
def samples(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for n in range(draw(st.integers(1, 4))):
        retrieved = draw(st.none() | IDS)
        scores = st.lists(NUMBERS, min_size=len(retrieved or ()), max_size=len(retrieved or ()))
        made.append(
            {
                "query_id": f"id {n}",
                "query": draw(TEXT.filter(str.strip)),
                "ground_truth_answer": draw(st.lists(TEXT, max_size=3)),
                "key_facts": draw(st.lists(TEXT, max_size=3)),
                "relevant_doc_ids": draw(st.none() | IDS),
                "relevance_scores": draw(st.none() | st.dictionaries(TEXT, NUMBERS, min_size=1, max_size=4)),
                "answerable": draw(st.none() | st.booleans()),
                "description": draw(st.none() | TEXT),
                "answer": draw(st.none() | TEXT),
                "contexts": draw(st.none() | st.lists(TEXT, max_size=3)),
                "retrieved_doc_ids": retrieved,
                "retrieved_scores": draw(st.none() | scores) if retrieved is not None else None,
                "input_tokens": draw(st.none() | st.integers(0, 10**12)),
                "latency_ms": draw(st.none() | NUMBERS),
            }
        )
    return made


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=samples(), metadata=st.dictionaries(TEXT, PLAIN, max_size=3))
def test_what_is_written_is_read_back(
    rows: list[dict[str, Any]], metadata: dict[str, Any], tmp_path: Path, save: Save
) -> None:
    for row in rows:
        row["metadata"] = metadata or None
    given = [{name: value for name, value in row.items() if value is not None} for row in rows]
    loaded = {
        extension: load(save(given, tmp_path / f"a.{extension}")) for extension in ("json", "jsonl", "csv", "tsv")
    }
    for dataset in loaded.values():
        for sample, row in zip(dataset.samples, given, strict=True):
            back = json.loads(json.dumps(canonical(sample)))
            back |= back.pop("response", {})
            assert back == {name: value for name, value in row.items() if value != [] or name not in ALWAYS_A_LIST}
    assert len({dataset.digest for dataset in loaded.values()}) == 1


def test_without_pyarrow_the_error_holds_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(MissingExtra, match=r"reading Parquet needs the extra 'parquet'; .* 'ragassay\[parquet\]'"):
        load(path)


def test_load_parquet_without_row_groups_holds_no_rows(tmp_path: Path) -> None:
    schema = pa.schema([("query", pa.string())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema):
        pass
    with pytest.raises(NothingToEvaluate, match="there are no rows"):
        load(tmp_path / "a.parquet")
