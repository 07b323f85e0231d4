"""Every broken file gives one clear line: the file, where in it, the field, and what is wrong."""

# ruff: noqa: E501 - a table is read by its rows

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragassay.core.errors import (
    AssayError,
    BadData,
    BadInput,
    BadSettings,
    NotFound,
    NothingToEvaluate,
    TooLarge,
    UnknownName,
)
from ragassay.datasets.load import load

Write = Callable[[str, Any], Path]


def _row(fields: str) -> str:
    return '{"query": "What is it?", ' + fields + "}"


BROKEN: list[tuple[str, str, str | bytes, str, type[AssayError]]] = [
    ("json cut off", "a.json", '[{"query": "a"},\n {"query"', "a.json:2: column 10: ", BadData),
    ("json lines in a .json", "a.json", '{"query": "a"}\n{"query": "b"}', "JSON Lines: format=jsonl", BadData),
    ("json of one object", "a.json", '{"query": "a"}', "a.json: the document should be a list of rows", BadData),
    ("a number that is none", "a.json", '[{"query": "a", "cost_usd": NaN}]', "a.json:1: column 29: ", BadData),
    ("json row that is a number", "a.json", '[{"query": "a"}, 7]', "a.json: row 2: should be an object", BadData),
    ("a list of rows in a .jsonl", "a.jsonl", '[\n {"query": "a"}\n]', "looks like one JSON document: format=json", BadData),
    ("jsonl with a bad line", "a.jsonl", '{"query": "a"}\n{"query": \n', "a.jsonl:2: column 1: ", BadData),
    ("latin-1 in json", "a.json", b'[\n{"query": "caf\xe9"}]', "a.json:2: byte 0xe9 at byte 15", BadData),
    ("utf-16", "a.csv", "query\na\n".encode("utf-16"), "a.csv: is not text: byte ", BadData),
    ("bytes that are no text", "a.jsonl", b"\x7fELF\x00\x01", "a.jsonl: is not text", BadData),
    ("csv under the name parquet", "a.parquet", "query\na\n", "a.parquet: is not a Parquet file", BadData),
    ("csv with too few cells", "a.csv", 'query,answer\n"a\nb",c\nd\n', "a.csv:4: has 1 cell", BadData),
    ("csv with a column twice", "a.csv", "query,answer,answer\na,b,c\n", "a.csv: 'answer': ", BadData),
    ("csv with an open quote", "a.csv", 'query,answer\na,b\n"c,d\ne,f\n', "a.csv:3: is not valid CSV", BadData),
    ("csv with semicolons", "a.csv", "query;answer\na;b\n", "separated by ';'?", BadData),
    ("csv whose list is no list", "a.csv", 'query,relevant_doc_ids\na,"[d1, d2]"\n', "a.csv:2: relevant_doc_ids: ", BadData),
    ("csv whose list is a printed array", "a.csv", "query,relevant_doc_ids\na,['d1' 'd2']\n", "without a comma", BadData),
    ("csv with a row without a query", "a.csv", "query,answer\na,b\n,c\n", "a.csv:3: query: is missing", BadData),
    ("no query at all", "a.jsonl", '{"text": "a", "answer": "b"}', "--map query=COLUMN", BadData),
    ("a query misspelt", "a.jsonl", '{"qurey": "a"}', "--map query=qurey", BadData),
    ("an id that is a fraction", "a.jsonl", _row('"query_id": 1.5'), "a.jsonl:1: query_id: should be text", BadData),
    ("an id twice", "a.jsonl", '{"id": "x", "query": "a"}\n\n{"id": "x", "query": "b"}', "a.jsonl:3: query_id (column id): 'x'", BadData),
    ("a context without text", "a.jsonl", _row('"contexts": [{"body": "b"}]'), "a.jsonl:1: contexts[0]: ", BadData),
    ("a document retrieved twice", "a.jsonl", _row('"retrieved_doc_ids": ["d", "d"]'), "duplicates=keep_first", BadData),
    ("more scores than documents", "a.jsonl", _row('"retrieved_doc_ids": ["d"], "retrieved_scores": [2, 1]'), "a.jsonl:1: retrieved_scores: ", BadData),
    ("a grade in words", "a.jsonl", _row('"relevance_scores": {"d": "high"}'), "a.jsonl:1: relevance_scores.d: ", BadData),
    ("a latency that is true", "a.jsonl", _row('"latency_ms": true'), "a.jsonl:1: latency_ms: should be a number", BadData),
    ("an unknown column nested deeply", "a.jsonl", _row('"extra": ' + "[" * 80 + "]" * 80), "a.jsonl:1: metadata: ", BadData),
    ("a response among objects that is text", "a.jsonl", _row('"response": {"answer": "b"}') + "\n" + _row('"response": "b"'), "a.jsonl:2: response: ", BadData),
    ("an unknown extension", "a.xlsx", "x", "a.xlsx: the extension '.xlsx' names no supported format; supported are json (.json), ", BadInput),
    ("an empty jsonl", "a.jsonl", b"\xef\xbb\xbf\n\n", "a.jsonl: the file is empty", NothingToEvaluate),
    ("a list of nothing", "a.json", "[]", "a.json: there are no rows", NothingToEvaluate),
    ("a header alone", "a.csv", "query,answer\n", "a.csv: there are no rows", NothingToEvaluate),
]  # fmt: skip

OPTIONS: list[tuple[dict[str, Any], str, type[AssayError]]] = [
    ({"format": "jsonll"}, "format: unknown format 'jsonll'; did you mean jsonl", UnknownName),
    ({"mapping": {"answer": "reply"}}, "--map answer=reply: a.jsonl has no column 'reply'", BadSettings),
    ({"limit": 0}, "--limit: should be at least 1, is 0", BadSettings),
    ({"duplicates": "drop"}, "duplicates: should be error or keep_first", BadSettings),
]


@pytest.mark.parametrize(("_", "name", "content", "where", "error"), BROKEN, ids=[row[0] for row in BROKEN])
def test_load_names_file_place_and_field(_: str, name: str, content: Any, where: str, error: Any, write: Write) -> None:
    with pytest.raises(AssayError) as caught:
        load(write(name, content))
    said = str(caught.value)
    assert type(caught.value) is error
    assert said.startswith(name)
    assert where in said
    assert "\n" not in said
    assert "pydantic" not in said
    assert caught.value.exit_code == (5 if error is NothingToEvaluate else 2)


@pytest.mark.parametrize(("options", "line", "error"), OPTIONS)
def test_load_refuses_options_that_do_not_fit(options: dict[str, Any], line: str, error: Any, write: Write) -> None:
    with pytest.raises(AssayError) as caught:
        load(write("a.jsonl", '{"query": "a"}'), **options)
    assert type(caught.value) is error
    assert line in str(caught.value)


@pytest.mark.parametrize(("path", "error"), [("missing.jsonl", NotFound), (".", BadInput)])
def test_load_needs_a_file(path: str, error: type[AssayError], write: Write) -> None:
    write("a.jsonl", "")
    with pytest.raises(error, match=path):
        load(path)


def test_every_bad_row_is_reported_in_the_order_of_the_file(write: Write) -> None:
    lines = ['{"query": ""}', "not json", '{"query": "fine"}', '{"query": "a", "latency_ms": -1, "answer": 3}', "[1]"]
    with pytest.raises(BadData) as caught:
        load(write("a.jsonl", "\n".join(lines)))
    assert caught.value.problems == (
        "a.jsonl:1: query: is empty",
        "a.jsonl:2: column 1: is not valid JSON: invalid literal, expected 'null'",
        "a.jsonl:4: answer: should be text, is the number 3",
        "a.jsonl:4: latency_ms: should be at least 0, is the number -1",
        "a.jsonl:5: should be an object, is a list of 1",
    )
    assert str(caught.value) == "a.jsonl:1: query: is empty (and 4 more)"


@pytest.mark.parametrize("form", ["auto", "jsonl"])
def test_load_stops_reading_after_max_problems(write: Write, form: str) -> None:
    with pytest.raises(BadData) as caught:
        load(write("a.jsonl", "not json\n" * 1000), format=form, max_problems=5)
    assert len(caught.value.problems) == 6
    assert caught.value.problems[-1].endswith("reading stopped after 5 problems")


def test_a_text_in_an_error_is_short_and_safe_to_print(write: Write) -> None:
    with pytest.raises(BadData) as caught:
        load(write("a.csv", "query,latency_ms\na,\x1b[31m" + "x" * 200 + "\n"))
    said = str(caught.value)
    assert "\x1b" not in said
    assert len(said) < 110


def test_a_json_document_that_would_not_fit_into_memory_is_too_large(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragassay.datasets.readers.LARGEST_JSON", 10)
    with pytest.raises(TooLarge, match=r"^a\.json: .*; write it as JSON Lines, which is read line by line$"):
        load(write("a.json", '[{"query": "a"}]'))
    assert len(load(write("a.jsonl", '{"query": "a"}')).samples) == 1


def test_load_parquet_takes_nan_as_missing_and_refuses_bytes_that_are_no_text(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    table = pa.table({"query": ["a", "b"], "latency_ms": [float("nan"), 1.0], "x": [b"ok", b"\xff"]})
    pq.write_table(table, path)
    with pytest.raises(BadData) as caught:
        load(path)
    assert [problem.removeprefix(str(path)) for problem in caught.value.problems] == [
        ": row 2: metadata.x: is a value of type bytes, which JSON does not have",
    ]
