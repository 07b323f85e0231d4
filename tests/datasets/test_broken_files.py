"""Every broken file gives one clear line: the file, where in it, the field, and what is wrong."""

# ruff: noqa: E501 - a table is read by its rows

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from ragassay.core.formatting import shortlist
from ragassay.datasets.load import load

Write = Callable[[str, Any], Path]


@dataclass
class Broken:
    """A file, how it is loaded, and the line it must give."""

    name: str
    content: str | bytes
    line: str
    error: type[AssayError] = BadData
    options: dict[str, Any] = field(default_factory=dict)
    path: str | None = None


def _row(fields: str) -> str:
    return '{"query": "What is it?", ' + fields + "}"


BROKEN = {
    "json cut off": Broken("a.json", '[{"query": "a"},\n {"query"', "a.json:2: column 10: is not valid JSON: the text ends too early"),
    "json lines in a .json": Broken("a.json", '{"query": "a"}\n{"query": "b"}', "a.json:2: column 1: is not valid JSON: extra data; one object per line is JSON Lines: --format jsonl"),
    "json of one object": Broken("a.json", '{"query": "a"}', "a.json: the document should be a list of rows, or an object with a list of them under 'examples' or 'queries'; it is an object with the keys 'query'"),
    "json with both examples and queries": Broken("a.json", '{"examples": [], "queries": []}', "a.json: the document should be a list"),
    "json whose name is a number": Broken("a.json", '{"name": 3, "examples": [{"query": "a"}]}', "a.json: name: should be text, is the number 3"),
    "json whose metadata is not finite": Broken("a.json", '{"metadata": {"x": NaN}, "examples": [{"query": "a"}]}', "a.json: metadata.x: is NaN, which JSON does not have"),
    "json row that is a number": Broken("a.json", '[{"query": "a"}, 7]', "a.json: row 2: should be an object, is the number 7"),
    "json nested a hundred thousand deep": Broken("a.json", "[" * 100_000, "a.json: is nested too deeply"),
    "json with a number of 5,000 digits": Broken("a.json", f'[{{"query": "a", "x": {"9" * 5000}}}]', "a.json: holds a whole number that is too long to be one; write it as text"),
    "json with a key twice": Broken("a.json", '[{"query": "a", "query": "b"}]', "a.json: the key 'query' is given twice in one object"),
    "json with NaN as a latency": Broken("a.json", '[{"query": "a", "latency_ms": NaN}]', "a.json: row 1: latency_ms: should be a finite number, is NaN"),
    "json with infinity in metadata": Broken("a.json", '[{"query": "a", "metadata": {"x": [1, -Infinity]}}]', "a.json: row 1: metadata.x[1]: is infinity, which JSON does not have"),
    "json with a number too large for a float": Broken("a.json", '[{"query": "a", "cost_usd": 1e999}]', "a.json: row 1: cost_usd: should be a finite number, is infinity"),
    "jsonl with a bad line": Broken("a.jsonl", '{"query": "a"}\n{"query": \n', "a.jsonl:2: column 1: is not valid JSON: the text ends too early"),
    "jsonl that is one document": Broken("a.jsonl", '[\n{"query": "a"}\n]', "the file looks like one JSON document: --format json"),
    "jsonl with a key twice": Broken("a.jsonl", '{"query": "a"}\n{"query": "b", "id": 1, "id": 2}', "a.jsonl:2: the key 'id' is given twice in one object"),
    "half a surrogate pair in a text": Broken("a.jsonl", '{"query": "a", "contexts": ["b", "\\ud83d"]}', "a.jsonl:1: contexts[1]: holds half a surrogate pair, which is no text"),
    "half a surrogate pair in a key": Broken("a.jsonl", '{"query": "a", "labels": {"\\udc00": 1}}', "a.jsonl:1: labels['\\udc00']: holds half a surrogate pair"),
    "latin-1 in json": Broken("a.json", b'[\n{"query": "caf\xe9"}]', "a.json:2: byte 0xe9 at byte 15 of the line is not UTF-8; save the file as UTF-8"),
    "latin-1 in csv": Broken("a.csv", b"query,answer\na,b\ncaf\xe9,c\n", "a.csv:3: byte 0xe9 at byte 4 of the line is not UTF-8; save the file as UTF-8"),
    "utf-16": Broken("a.csv", "query\na\n".encode("utf-16"), "a.csv: is UTF-16 text; save the file as UTF-8"),
    "bytes that are no text": Broken("a.jsonl", b"\x7fELF\x00\x01", "a.jsonl: is not text: byte 5 is zero"),
    "parquet under another name": Broken("a.csv", b"PAR1\x15\x00", "a.csv: is a Parquet file; --format parquet"),
    "gzip": Broken("a.jsonl", b"\x1f\x8b\x08\x00", "a.jsonl: is compressed with gzip; unpack it first"),
    "a spreadsheet": Broken("a.csv", b"PK\x03\x04\x14", "a.csv: is a zip archive or a spreadsheet"),
    "csv under the name parquet": Broken("a.parquet", "query\na\n", "a.parquet: is not a Parquet file that can be read"),
    "csv with too few cells": Broken("a.csv", 'query,answer\n"a\nb",c\nd\n', "a.csv:4: has 1 cell, the header has 2"),
    "csv with too many cells": Broken("a.csv", "query,answer\na,b,c\n", "a.csv:2: has 3 cells, the header has 2"),
    "csv with a column twice": Broken("a.csv", "query,answer,answer\na,b,c\n", "a.csv:1: 'answer': the header names this column twice"),
    "csv with an open quote": Broken("a.csv", 'query,answer\na,b\n"c,d\ne,f\n', "a.csv:3: is not valid CSV: a quoted cell that opens in this row never ends"),
    "csv with text after a quote": Broken("a.csv", 'query,answer\n"a"b,c\n', "a.csv:2: is not valid CSV: text follows a closing quote"),
    "csv with the line ends of old": Broken("a.csv", "query\ra\rb", "a.csv:1: is not valid CSV: a lone carriage return"),
    "csv with semicolons": Broken("a.csv", "query;answer\na;b\n", "a.csv: query: no column holds it; the columns are 'query;answer'; are the columns separated by ';'?"),
    "tsv under the name csv": Broken("a.csv", "query\tanswer\na\tb\n", "write them with commas, or with tabs and --format tsv"),
    "csv whose list is no list": Broken("a.csv", 'query,relevant_doc_ids\na,"[d1, d2]"\n', "a.csv:2: relevant_doc_ids: looks like a list, but is neither JSON nor Python: '[d1, d2]'"),
    "csv whose list is a printed array": Broken("a.csv", "query,relevant_doc_ids\na,['d1' 'd2']\n", "a.csv:2: relevant_doc_ids: has texts without a comma between them, as a printed array; write it as JSON"),
    "csv whose grades are no object": Broken("a.csv", "query,relevance_scores\na,{d1\n", "a.csv:2: relevance_scores: looks like an object, but is neither"),
    "csv with half a token": Broken("a.csv", "query,input_tokens\na,1.5\n", "a.csv:2: input_tokens: should be a whole number, is '1.5'"),
    "csv with a row without a query": Broken("a.csv", "query,answer\na,b\n,c\n", "a.csv:3: query: is missing"),
    "tsv with a blank query": Broken("a.tsv", "query\tanswer\n  \tb\n", "a.tsv:2: query: the query is blank"),
    "no query at all": Broken("a.jsonl", '{"text": "a", "answer": "b"}', "a.jsonl: query: no column holds it; the columns are 'text' and 'answer'; say which: --map query=COLUMN"),
    "a query misspelt": Broken("a.jsonl", '{"qurey": "a"}', "did you mean 'qurey'? --map query=qurey"),
    "a query that is null": Broken("a.jsonl", '{"query": "a"}\n{"query": null}', "a.jsonl:2: query: is missing"),
    "an id that is empty": Broken("a.jsonl", _row('"query_id": ""'), "a.jsonl:1: query_id: is empty"),
    "an id that is a fraction": Broken("a.jsonl", _row('"query_id": 1.5'), "a.jsonl:1: query_id: should be text, is the number 1.5"),
    "an id twice": Broken("a.jsonl", '{"query_id": "x", "query": "a"}\n\n{"query_id": "x", "query": "b"}', "a.jsonl:3: query_id: 'x' is used already in line 1"),
    "an id twice in json": Broken("a.json", '[{"query_id": 7, "query": "a"}, {"query_id": "7", "query": "b"}]', "a.json: row 2: query_id: '7' is used already in row 1"),
    "an id that a default takes": Broken("a.jsonl", '{"query": "a"}\n{"query_id": "q_0", "query": "b"}', "a.jsonl:2: query_id: 'q_0' is used already in line 1"),
    "a ground truth with a number inside": Broken("a.jsonl", _row('"ground_truth_answer": ["a", 42]'), "a.jsonl:1: ground_truth_answer[1]: should be text, is the number 42"),
    "an answer that is an object": Broken("a.jsonl", _row('"outputs": {"answer": "b", "n": 1}'), "a.jsonl:1: answer (column outputs): should be text, is an object with the keys 'answer', 'n' (--map with a dotted name takes one of them)"),
    "a context without text": Broken("a.jsonl", _row('"contexts": [{"body": "b"}]'), "a.jsonl:1: contexts[0]: should be text, is an object with the keys 'body'"),
    "a document retrieved twice": Broken("a.jsonl", _row('"retrieved_doc_ids": ["d", "e", "d"]'), "a.jsonl:1: retrieved_doc_ids: document id 'd' is listed twice (option: --duplicates keep_first)"),
    "more scores than documents": Broken("a.jsonl", _row('"retrieved_doc_ids": ["d"], "retrieved_scores": [2, 1]'), "a.jsonl:1: retrieved_scores: has 2 entries, retrieved_doc_ids 1"),
    "a grade in words": Broken("a.jsonl", _row('"relevance_scores": {"d": "high"}'), "a.jsonl:1: relevance_scores.d: should be a number, is 'high'"),
    "a list of grades of nothing": Broken("a.jsonl", _row('"relevance_scores": [1]'), "a.jsonl:1: relevance_scores: is a list, so a list relevant_doc_ids has to say what each grade belongs to"),
    "grades fewer than documents": Broken("a.jsonl", _row('"relevant_doc_ids": ["d", "e"], "relevance_scores": [1]'), "a.jsonl:1: relevance_scores: has 1 entries, relevant_doc_ids 2"),
    "two grades for a document": Broken("a.jsonl", _row('"relevant_doc_ids": ["d", "d"], "relevance_scores": [1, 2]'), "a.jsonl:1: relevant_doc_ids: names a document twice"),
    "ids broken, so grades hang": Broken("a.csv", "query,relevant_doc_ids,relevance_scores\na,[d,1|2\n", "a.csv:2: relevant_doc_ids: looks like a list, but is neither"),
    "a cost below zero": Broken("a.jsonl", _row('"token_cost": -1'), "a.jsonl:1: cost_usd (column token_cost): should be at least 0, is the number -1"),
    "a latency that is true": Broken("a.jsonl", _row('"latency_ms": true'), "a.jsonl:1: latency_ms: should be a number, is true"),
    "a huge number of tokens": Broken("a.jsonl", _row(f'"input_tokens": {10**50}'), "a.jsonl:1: input_tokens: should be at most 1000000000000, is a number of more than 40 digits"),
    "a huge number in metadata": Broken("a.jsonl", _row(f'"metadata": {{"n": {10**30}}}'), "a.jsonl:1: metadata.n: holds a whole number of more than 64 bits; write it as text"),
    "an unknown column nested deeply": Broken("a.jsonl", _row('"extra": ' + "[" * 80 + "]" * 80), "a.jsonl:1: metadata: is nested more than 64 levels deep"),
    "an unknown column beside its twin": Broken("a.jsonl", _row('"metadata": {"team": "a"}, "team": "b"'), "a.jsonl:1: metadata.team: is a column and an entry of metadata, with different values"),
    "metadata that is text": Broken("a.jsonl", _row('"metadata": "x"'), "a.jsonl:1: metadata: should be an object, is 'x'"),
    "answerable perhaps": Broken("a.jsonl", _row('"answerable": "perhaps"'), "a.jsonl:1: answerable: should be true or false, is 'perhaps'"),
    "a time that is a list": Broken("a.jsonl", _row('"doc_timestamps": {"d": [1]}'), "a.jsonl:1: doc_timestamps.d: should be text or a number, is a list of 1"),
    "a response among objects that is text": Broken("a.jsonl", _row('"response": {"answer": "b"}') + "\n" + _row('"response": "b"'), "a.jsonl:2: response: should be an object, as in other rows, is 'b'"),
    "two names for one thing": Broken("a.jsonl", '{"question": "a", "input": "a"}\n{"question": "a", "input": "b"}', "a.jsonl:2: query: the columns question and input differ here; --map query=question or --map query=input decides"),
    "no such file": Broken("b.jsonl", "", "missing.jsonl: there is no such file", NotFound, path="missing.jsonl"),
    "a folder": Broken("b.jsonl", "", ".: is a folder, not a file; supported are json (.json)", BadInput, path="."),
    "an unknown extension": Broken("a.xlsx", "x", "a.xlsx: the extension '.xlsx' names no supported format; supported are json (.json), jsonl (.jsonl .ndjson), csv (.csv), tsv (.tsv .tab), parquet (.parquet .pq)", BadInput),
    "an unknown format": Broken("a.jsonl", "{}", "--format: unknown format 'jsonll'; did you mean jsonl", UnknownName, {"format": "jsonll"}),
    "an empty jsonl": Broken("a.jsonl", b"\xef\xbb\xbf\n\n", "a.jsonl: the file is empty", NothingToEvaluate),
    "an empty parquet": Broken("a.parquet", "", "a.parquet: the file is empty", NothingToEvaluate),
    "a list of nothing": Broken("a.json", "[]", "a.json: the file holds no rows", NothingToEvaluate),
    "a header alone": Broken("a.csv", "query,answer\n", "a.csv: the file holds no rows", NothingToEvaluate),
    "a map to a column that is not there": Broken("a.jsonl", '{"query": "a"}', "--map answer=reply: a.jsonl has no column 'reply'; its columns are 'query'", BadSettings, {"mapping": {"answer": "reply"}}),
    "a map of a field misspelt": Broken("a.jsonl", '{"query": "a"}', "--map anwser=query: unknown field 'anwser'; did you mean answer=query?", UnknownName, {"mapping": {"anwser": "query"}}),
    "a map of nothing we know": Broken("a.jsonl", '{"query": "a"}', "--map zzz=query: unknown field 'zzz'; known: answer, ", UnknownName, {"mapping": {"zzz": "query"}}),
    "a limit of nothing": Broken("a.jsonl", '{"query": "a"}', "--limit: should be at least 1, is 0", BadSettings, {"limit": 0}),
    "an unknown way with duplicates": Broken("a.jsonl", '{"query": "a"}', "--duplicates: should be error or keep_first, is 'drop'", BadSettings, {"duplicates": "drop"}),
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_gives_one_clear_line(broken: Broken, write: Write) -> None:
    written = write(broken.name, broken.content)
    with pytest.raises(AssayError) as caught:
        load(broken.path or written, **broken.options)
    said = str(caught.value)
    assert type(caught.value) is broken.error
    assert broken.line in said
    assert (broken.path or broken.name) in said or broken.line.startswith("--")
    assert "\n" not in said
    assert "pydantic" not in said
    assert "http" not in said
    assert caught.value.exit_code == (5 if broken.error is NothingToEvaluate else 2)


def test_every_bad_row_is_reported_in_the_order_of_the_file(write: Write) -> None:
    lines = ['{"query": ""}', "not json", '{"query": "fine"}', '{"query": "a", "latency_ms": -1, "answer": 3}', "[1]"]
    with pytest.raises(BadData) as caught:
        load(write("a.jsonl", "\n".join(lines)))
    assert caught.value.problems == (
        "a.jsonl:1: query: is empty",
        "a.jsonl:2: column 1: is not valid JSON: expecting value",
        "a.jsonl:4: answer: should be text, is the number 3",
        "a.jsonl:4: latency_ms: should be at least 0, is the number -1",
        "a.jsonl:5: should be an object, is a list of 1",
    )
    assert str(caught.value) == "a.jsonl:1: query: is empty (and 4 more)"


def test_lines_that_are_no_rows_are_reported_beside_columns_that_are_not_there(write: Write) -> None:
    with pytest.raises(BadData) as caught:
        load(write("a.jsonl", '{"text": "a"}\nnot json'))
    assert [problem.split(":")[1].strip() for problem in caught.value.problems] == ["query", "2"]


def test_a_long_list_of_problems_is_printed_in_short_and_kept_whole(write: Write) -> None:
    with pytest.raises(BadData) as caught:
        load(write("a.jsonl", '{"query": ""}\n' * 50))
    problems = caught.value.problems
    assert len(problems) == 50
    printed = shortlist(problems)
    assert printed[:20] == list(problems[:20])
    assert printed[20:] == ["... and 30 more"]
    assert shortlist(problems[:20]) == list(problems[:20])


def test_a_text_in_an_error_is_short_and_safe_to_print(write: Write) -> None:
    with pytest.raises(BadData) as caught:
        load(write("a.csv", "query,latency_ms\na,\x1b[31m" + "x" * 200 + "\n"))
    said = str(caught.value)
    assert "\x1b" not in said
    assert len(said) < 110


def test_a_file_that_may_not_be_read_is_bad_input(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.jsonl", '{"query": "a"}')

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BadInput, match=r"^a\.jsonl: can't be read: Permission denied$"):
        load(path)


def test_a_json_document_that_would_not_fit_into_memory_is_too_large(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragassay.datasets.json.LARGEST_JSON", 10)
    with pytest.raises(TooLarge, match=r"^a\.json: .*; write it as JSON Lines, which is read line by line$"):
        load(write("a.json", '[{"query": "a"}]'))
    assert len(load(write("a.jsonl", '{"query": "a"}')).samples) == 1


def test_columns_of_parquet_that_share_a_name_are_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["query", "query"]), path)
    with pytest.raises(BadData, match="'query': two columns have this name"):
        load(path)


def test_nan_and_bytes_in_parquet_are_bad_rows(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    table = pa.table({"query": ["a", "b"], "latency_ms": [float("nan"), 1.0], "x": [b"ok", b"\xff"]})
    pq.write_table(table, path)
    with pytest.raises(BadData) as caught:
        load(path)
    assert [problem.removeprefix(str(path)) for problem in caught.value.problems] == [
        ": row 1: latency_ms: should be a finite number, is NaN",
        ": row 2: metadata.x: is a value of type bytes, which JSON does not have",
    ]
