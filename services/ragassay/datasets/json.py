"""Reads JSON documents and JSON Lines. Strict where the standard library is lax: a key given twice is refused."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ragassay.core import files
from ragassay.core.errors import BadData, TooLarge
from ragassay.core.validation import is_text, shown
from ragassay.datasets import promptfoo
from ragassay.datasets.problems import ValueProblem
from ragassay.datasets.raw import SAVE_AS_UTF8, NumberedRow, RawRows, undecodable
from ragassay.datasets.spans import are_spans
from ragassay.datasets.traces import rows_of_spans

LARGEST_JSON = 2**30
_LONGEST_LINE = 2**24  # bytes of a first line that may be a span
ROW_KEYS = ("examples", "queries")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = "holds half a surrogate pair, which is no text"
_SHAPES = "the document should be a list of rows, or an object with a list of them under 'examples' or 'queries'"


def read_json(path: Path) -> RawRows:
    """A list of rows, or an object with ``examples`` or ``queries`` beside ``name``, ``description``, ``metadata``.

    Judgments may lie in a file of their own in the same folder: ``"judgments": "NAME.json"`` beside the queries names
    it, and it holds ``{"judgments": {query_id: {"relevance_scores": {...}, ...}}}``, the columns that its rows lack.
    Results of promptfoo have a row for each test.
    Spans of traces, as a batch, a list or a page of an API, are read as ``read_traces`` reads them.
    A document is read whole, so one of more than 1 GiB is TooLarge. Malformed: BadData with line and column.
    """
    raw = RawRows(path, counts_lines=False)
    document, escaped = _document(path)
    if (objects := _spans(document)) is not None:
        return rows_of_spans(raw, objects)
    rows = _rows(raw, document)
    beside = raw.metadata.get("judgments")
    if isinstance(beside, str) and beside.endswith(".json"):
        escaped |= _join_judgments(raw, beside, rows)
    for number, row in enumerate(rows, 1):
        try:
            raw.rows.append((number, _checked(row, escaped)))
        except ValueProblem as error:
            raw.refuse(number, error.what)
    header = {"name": raw.name, "description": raw.description, "metadata": raw.metadata}
    if escaped and (place := _half_a_pair(header)):
        raw.refuse(0, f"{place}: {_HALF}")
    return raw


def _document(path: Path) -> tuple[Any, bool]:
    """The value that a file holds, and whether its text has escapes that may be half a surrogate pair."""
    if path.stat().st_size > LARGEST_JSON:
        raise TooLarge(
            f"a JSON document of more than {LARGEST_JSON} bytes would have to be held whole in memory",
            where=str(path),
            hint="write it as JSON Lines, which is read line by line",
        )
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode()
        return parse(text), _SURROGATE.search(text) is not None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadData([f"{path}:{line}: {undecodable(error)}"], hint=SAVE_AS_UTF8) from None
    except NotJson as error:
        hint = "one object per line is JSON Lines: --format jsonl" if error.extra else None
        raise BadData([f"{path}:{error.line}: column {error.column}: {error.what}"], hint=hint) from None
    except ValueProblem as error:
        raise BadData([f"{path}: {error.what}"]) from None


def _join_judgments(raw: RawRows, name: str, rows: list[Any]) -> bool:
    """Add to the rows what the file of that name has about them; returns ``escaped`` as ``_document`` does.

    Only a file of the same folder is read, so that a dataset from elsewhere can't reach into other folders.
    """
    if Path(name).name != name:
        raise BadData([f"{raw.path}: judgments: {shown(name)} should be the name of a file in the same folder"])
    path = raw.path.parent / name
    try:
        document, escaped = _document(path)
    except FileNotFoundError:
        raise BadData([f"{raw.path}: judgments: there is no file {shown(name)} beside it"]) from None
    given = document.get("judgments") if isinstance(document, Mapping) else None
    if not isinstance(given, Mapping) or not all(isinstance(columns, Mapping) for columns in given.values()):
        raise BadData([f"{path}: should be {{'judgments': {{query_id: {{'relevance_scores': ...}}}}}}"])
    left = dict(given)
    for number, row in enumerate(rows, 1):
        columns = (
            left.pop(str(row.get("query_id", row.get("id", f"q_{number - 1}"))), {}) if isinstance(row, dict) else {}
        )
        if twice := sorted(columns.keys() & row.keys() if columns else ()):
            raw.refuse(number, f"{twice[0]}: is given here and in {name}")
        elif columns:
            row.update(columns)
    for query_id in left:
        raw.refuse(0, f"judgments: {name} judges {shown(query_id)}, which is no query of this file")
    return escaped


def _spans(document: object) -> list[Any] | None:
    """The objects of a document of spans: a batch, a list, or a page of an API; None for any other document."""
    listed = document.get("data") if isinstance(document, Mapping) else document
    objects = listed if isinstance(listed, list) else [document]
    return objects if objects and are_spans(objects[0]) else None


def read_traces(path: Path) -> RawRows:
    """The rows of spans, or of batches of spans: JSON Lines, whose bad lines are problems, or one JSON document."""
    if not isinstance(_first_row(path), Mapping):
        return read_json(path)
    raw = RawRows(path)
    return rows_of_spans(raw, (value for _, value in jsonl_rows(raw)))


def begins_with_a_span(path: Path) -> bool:
    """Is the first row of a JSON Lines file a span?"""
    return are_spans(_first_row(path))


def _first_row(path: Path) -> object:
    """The value in the first line that is not blank; None if it is not JSON."""
    with path.open("rb") as file:
        line = next((line for line in iter(partial(file.readline, _LONGEST_LINE), b"") if line.strip()), b"")
    try:
        return parse(line.decode("utf-8-sig"))
    except (ValueProblem, UnicodeDecodeError):
        return None


def jsonl_rows(raw: RawRows) -> Iterator[NumberedRow]:
    """The rows of a JSON Lines file, one by one: an object per line. Blank lines are passed over, bad ones are problems."""

    def refuse(number: int, error: ValueError) -> None:
        if isinstance(error, UnicodeDecodeError):
            raw.refuse(number, undecodable(error))
            raw.hint = raw.hint or SAVE_AS_UTF8
        elif isinstance(error, NotJson):
            raw.refuse(number, f"column {error.column}: {error.what}")
            if number == 1 and error.text.strip() in ("[", "{"):
                raw.hint = "the file looks like one JSON document: --format json"
        else:
            raw.refuse(number, str(error))

    return files.read_jsonl(raw.path, _parse_line, refuse)


def _parse_line(line: bytes) -> dict[str, Any]:
    text = line.decode()
    return _checked(parse(text), _SURROGATE.search(text) is not None)


def _checked(row: Any, escaped: bool) -> dict[str, Any]:
    """The row, which should be an object. ``escaped``: its text has escapes that may be half a surrogate pair."""
    if not isinstance(row, dict):
        raise ValueProblem(f"should be an object, is {shown(row)}")
    if escaped and (place := _half_a_pair(row)):
        raise ValueProblem(f"{place}: {_HALF}")
    return row


def _half_a_pair(value: Any) -> str | None:
    """The place of a text that no encoding can write; None where there is none. Any depth."""
    left = [("", value)]
    while left:
        at, each = left.pop()
        if isinstance(each, str) and not is_text(each):
            return at.lstrip(".")
        if isinstance(each, dict):
            if bad := next((key for key in each if not is_text(key)), None):
                return f"{at}[{shown(bad)}]".lstrip(".")
            left += [(f"{at}.{key}", entry) for key, entry in each.items()]
        elif isinstance(each, list):
            left += [(f"{at}[{n}]", entry) for n, entry in enumerate(each)]
    return None


class NotJson(ValueProblem):
    """Where and why a text is not JSON; line and column count from 1."""

    def __init__(self, error: json.JSONDecodeError) -> None:
        self.text, self.line, self.column = error.doc, error.lineno, error.colno
        self.extra = error.msg == "Extra data"
        end = error.pos >= len(error.doc.rstrip())
        reason = "the text ends too early" if end and error.doc.strip() else f"{error.msg[0].lower()}{error.msg[1:]}"
        super().__init__(f"is not valid JSON: {reason}")


def parse(text: str) -> Any:
    """The value of a JSON text; raises NotJson, or ValueProblem for JSON that we refuse."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise NotJson(error) from None
    except RecursionError:
        raise ValueProblem("is nested too deeply") from None
    except ValueProblem:
        raise
    except ValueError:  # the interpreter's limit on the length of whole numbers
        raise ValueProblem("holds a whole number that is too long to be one; write it as text") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueProblem(f"the key {shown(twice)} is given twice in one object")
    return entries


def _rows(raw: RawRows, document: object) -> list[Any]:
    """The rows of a document; what stands beside them becomes their name, description and metadata."""
    if isinstance(document, list):
        return document
    if (results := promptfoo.results_in(document)) is not None:
        return promptfoo.rows_in(results)
    given = [key for key in ROW_KEYS if isinstance(document, Mapping) and key in document]
    if not isinstance(document, Mapping) or len(given) != 1 or not isinstance(document[given[0]], list):
        raise BadData([f"{raw.path}: {_SHAPES}; it is {shown(document)}"])
    for key in ("name", "description"):
        if not isinstance(document.get(key, ""), str | None):
            raw.refuse(0, f"{key}: should be text, is {shown(document[key])}")
    if not isinstance(document.get("metadata") or {}, Mapping):
        raw.refuse(0, f"metadata: should be an object, is {shown(document['metadata'])}")
    else:
        known = ("name", "description", "metadata", given[0])
        others = {key: value for key, value in document.items() if key not in known}
        raw.metadata = {**others, **(document.get("metadata") or {})}
    if not raw.refused:
        raw.name, raw.description = document.get("name"), document.get("description")
    rows: list[Any] = document[given[0]]
    return rows
