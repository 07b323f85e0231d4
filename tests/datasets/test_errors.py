"""Every broken file gives one clear line: the file, where in it, the field, and what is wrong; and no file anything else."""

# ruff: noqa: E501 - a table is read by its rows

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragassay.core import files
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
from ragassay.datasets.columns import ALIASES, FIELDS
from ragassay.datasets.describe import describe
from ragassay.datasets.load import load, load_responses


def _row(fields):
    return '{"query": "What is it?", ' + fields + "}"


BROKEN = [
    ("json cut off", "a.json", '[{"query": "a"},\n {"query"', "a.json:2: column 10: ", BadData),
    ("json of one object", "a.json", '{"query": "a"}', "a.json: the document should be a list of rows", BadData),
    ("a number that is none", "a.json", '[{"query": "a", "cost_usd": NaN}]', "a.json:1: column 29: ", BadData),
    ("a list of rows in a .jsonl", "a.jsonl", '[\n {"query": "a"}\n]', "looks like one JSON document: format=json", BadData),
    ("jsonl with a bad line", "a.jsonl", '{"query": "a"}\n{"query": \n', "a.jsonl:2: column 1: ", BadData),
    ("latin-1 in json", "a.json", b'[\n{"query": "caf\xe9"}]', "a.json:2: byte 0xe9 at byte 15", BadData),
    ("csv under the name parquet", "a.parquet", "query\na\n", "a.parquet: is not a Parquet file", BadData),
    ("csv with too few cells", "a.csv", 'query,answer\n"a\nb",c\nd\n', "a.csv:4: has 1 cell", BadData),
    ("csv with a column twice", "a.csv", "query,answer,answer\na,b,c\n", "a.csv: 'answer': ", BadData),
    ("csv with an open quote", "a.csv", 'query,answer\na,b\n"c,d\ne,f\n', "a.csv:3: is not valid CSV", BadData),
    ("csv with semicolons, and commas in cells", "a.csv", "query;answer\na;b\na;b, c\na;d, e\n", "a.csv:1: the header has 1 cell, line 3 has 2; are the columns separated by ';'?", BadData),
    ("csv with semicolons and quotes", "a.csv", '"query";"answer"\n"a, b";"c"\n', "separated by ';'?", BadData),
    ("csv whose list is no list", "a.csv", 'query,relevant_doc_ids\na,"[d1, d2]"\n', "a.csv:2: relevant_doc_ids: ", BadData),
    ("csv with a row without a query", "a.csv", "query,answer\na,b\n,c\n", "a.csv:3: query: is missing", BadData),
    ("csv with a million columns", "a.csv", ",".join(f"c{n}" for n in range(1_000_000)) + "\n", "has 1,000,000 columns", TooLarge),
    ("no query at all", "a.jsonl", '{"text": "a", "answer": "b"}', "map query=COLUMN", BadData),
    ("an id twice", "a.jsonl", '{"id": "x", "query": "a"}\n\n{"id": "x", "query": "b"}', "a.jsonl:3: query_id (column id): 'x'", BadData),
    ("a context without text", "a.jsonl", _row('"contexts": [{"body": "b"}]'), "a.jsonl:1: contexts[0]: ", BadData),
    ("a reference that is a number", "a.jsonl", _row('"reference": 5'), "a.jsonl:1: ground_truth_answer (column reference): should be a text or a list of texts, is the number 5", BadData),
    ("a reference that is an object", "a.jsonl", _row('"reference": {"text": "He is Ann.", "score": 1}'), "a.jsonl:1: ground_truth_answer (column reference): should be a text or a list of texts, is an object with the keys 'text', 'score'; map ground_truth_answer=reference.text", BadData),
    ("a reference that is an object, and no query", "a.jsonl", '{"user_question": "a", "reference": {"text": "b"}}', "map query=user_question map ground_truth_answer=reference.text", BadData),
    ("a document retrieved twice", "a.jsonl", _row('"retrieved_doc_ids": ["d", "d"]'), "duplicates=keep_first", BadData),
    ("a grade in words", "a.jsonl", _row('"relevance_scores": {"d": "high"}'), "a.jsonl:1: relevance_scores.d: ", BadData),
    ("an unknown column nested deeply", "a.jsonl", _row('"extra": ' + "[" * 80 + "]" * 80), "a.jsonl:1: metadata: ", BadData),
    ("a response among objects that is text", "a.jsonl", _row('"response": {"answer": "b"}') + "\n" + _row('"response": "b"'), "a.jsonl:2: response: ", BadData),
    ("an unknown extension", "a.xlsx", "x", "a.xlsx: the extension '.xlsx' names no supported format; supported are json (.json), ", BadInput),
    ("an empty jsonl", "a.jsonl", b"\xef\xbb\xbf\n\n", "a.jsonl: the file is empty", NothingToEvaluate),
    ("a header alone", "a.csv", "query,answer\n", "a.csv: there are no rows", NothingToEvaluate),
]  # fmt: skip


@pytest.mark.parametrize(("_", "name", "content", "where", "error"), BROKEN, ids=[row[0] for row in BROKEN])
def test_load_names_file_place_and_field(_, name, content, where, error, write):
    with pytest.raises(AssayError) as caught:
        load(write(name, content))
    message = str(caught.value)
    assert (type(caught.value), message.startswith(name), "\n" in message) == (error, True, False)
    assert where in message


@pytest.mark.parametrize(
    ("path", "options", "line", "error"),
    [
        ("missing.jsonl", {}, "missing.jsonl", NotFound),
        (".", {}, ".: ", BadInput),
        ("a.jsonl", {"format": "jsonll"}, "format: unknown format 'jsonll'; did you mean jsonl", UnknownName),
        ("a.jsonl", {"mapping": {"answer": "reply"}}, "answer=reply: a.jsonl has no column 'reply'", BadSettings),
        ("a.jsonl", {"limit": 0}, "--limit: should be at least 1, is 0", BadSettings),
        ("a.jsonl", {"duplicates": "drop"}, "duplicates: should be error or keep_first", BadSettings),
    ],
)
def test_load_refuses_paths_and_options_that_do_not_fit(path, options, line, error, write):
    write("a.jsonl", '{"query": "a"}')
    with pytest.raises(error) as caught:
        load(path, **options)
    assert line in str(caught.value)


def test_load_reports_every_bad_row_in_the_order_of_the_file(write):
    lines = ['{"query": ""}', "not json", '{"query": "fine"}', '{"query": "a", "latency_ms": -1, "answer": 3}', "[1]"]
    with pytest.raises(BadData) as caught:
        load(write("a.jsonl", "\n".join(lines)))
    assert caught.value.problems == (
        "a.jsonl:1: query: is empty",
        "a.jsonl:2: column 1: is not valid JSON: invalid literal, expected 'null'",
        "a.jsonl:4: answer: should be text, is the number 3",
        "a.jsonl:4: latency_ms: should be greater than or equal to 0, is the number -1",
        "a.jsonl:5: should be an object, is a list of 1",
    )
    assert str(caught.value) == "a.jsonl:1: query: is empty (and 4 more)"


def test_load_stops_reading_after_max_problems(write):
    with pytest.raises(BadData) as caught:
        load(write("a.jsonl", "not json\n" * 1000), max_problems=5)
    assert len(caught.value.problems) == 6


def test_load_shows_a_text_short_and_safe_to_print(write):
    with pytest.raises(BadData) as caught:
        load(write("a.csv", "query,latency_ms\na,\x1b[31m" + "x" * 200 + "\n"))
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 110


def test_load_parquet_takes_nan_as_missing_and_refuses_bytes_that_are_no_text(write):
    table = pa.table({"query": ["a", "b"], "latency_ms": [float("nan"), 1.0], "x": [b"ok", b"\xff"]})
    pq.write_table(table, write("a.parquet", ""))
    with pytest.raises(BadData) as caught:
        load("a.parquet")
    assert caught.value.problems == (
        "a.parquet: row 2: metadata.x: is a value of type bytes, which JSON does not have",
    )


# --- files that are small and become large ---


@pytest.mark.parametrize("column", [["x" * 2**20] * 100, pa.nulls(1_000_000, pa.int8())], ids=["long", "nulls"])
def test_load_parquet_that_unpacks_into_too_much_is_refused(write, column):
    path = write("bomb.parquet", "")
    pq.write_table(pa.table({"query": column}), path, compression="zstd")
    with pytest.raises(TooLarge, match=r"^bomb\.parquet: holds more than "):
        load(path)


def test_load_a_line_may_have_the_largest_length_and_no_more(write, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    line = b"x" * 99 + b"\n"
    path = write("a.jsonl", line * 2)
    assert [len(each) for _, each in files.numbered_lines(path, 100)] == [100] * 2
    write("a.jsonl", line * 2 + b"y" + line)
    with pytest.raises(TooLarge, match=r"a\.jsonl:3: the line is longer than"):
        list(files.numbered_lines(path, 100))


def test_load_csv_with_a_quote_that_is_never_closed_is_refused(write, monkeypatch):
    before = csv.field_size_limit(2**17)
    monkeypatch.setattr("ragassay.datasets.readers.LONGEST_LINE", 2**17)
    with pytest.raises(BadData, match="is a quote never closed"):
        load(write("a.csv", 'query\n"' + ("x" * 2**10 + "\n") * 2**8))
    csv.field_size_limit(before)


def test_load_a_json_document_that_would_not_fit_into_memory_is_too_large(write, monkeypatch):
    monkeypatch.setattr("ragassay.datasets.readers.LARGEST_JSON", 10)
    with pytest.raises(TooLarge, match=r"^a\.json: .*; write it as JSON Lines, which is read line by line$"):
        load(write("a.json", '[{"query": "a"}]'))


# --- any input ---

COLUMNS = sorted(
    {*FIELDS, "metadata", "response", "context", "output", *(a for names in ALIASES.values() for a in names)}
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["d1", "[1,", "{'a': 1}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
quietly = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def _loads_or_refuses(path, loading, **options):
    try:
        loaded = loading(path, **options)
    except AssayError as error:
        message = str(error)
        message.encode()
        assert "\n" not in message
    else:
        if loading is load:
            assert len(loaded.digest) == 64
            describe(loaded).model_dump_json()


@quietly
@given(content=st.binary(max_size=60), name=st.sampled_from(["json", "jsonl", "csv", "tsv", "parquet"]))
@example(content=b"PAR1" + b"\x00" * 20 + b"PAR1", name="parquet")
@example(content=b"query\n\x00", name="csv")
def test_load_of_any_bytes(content, name, tmp_path):
    path = tmp_path / f"a.{name}"
    path.write_bytes(content)
    _loads_or_refuses(path, load)


@quietly
@given(rows=st.lists(st.dictionaries(st.sampled_from(COLUMNS), VALUES, max_size=6), max_size=3))
@example(rows=[{"query": "q", "response": {"response": 1, "context": {"a": [1]}}}])
@example(rows=[{"id": [], "example id": False}])
def test_load_of_any_values_in_known_columns(rows, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"query": "q", **row} for row in rows]), encoding="utf-8")
    for duplicates in ("error", "keep_first"):
        _loads_or_refuses(path, load, duplicates=duplicates)
    _loads_or_refuses(path, load, limit=1)
    _loads_or_refuses(path, load_responses)


@pytest.mark.parametrize("extension", ["json", "jsonl", "csv", "tsv", "parquet"])
def test_load_of_a_file_cut_off_anywhere(extension, tmp_path, save):
    rows = [{"query": "Where?", "contexts": ["a, b", 'c "d"'], "relevance_scores": {"é": 1}}, {"query": "Why?"}]
    path = save(rows, tmp_path / f"a.{extension}")
    whole = path.read_bytes()
    for length in range(0, len(whole), 1 if extension != "parquet" else 23):
        path.write_bytes(whole[:length])
        _loads_or_refuses(path, load)
