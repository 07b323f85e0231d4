"""Reads JSON documents and JSON Lines. Strict where the standard library is lax: a key given twice is refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragassay.data.problems import Misfit, is_text, shown
from ragassay.data.source import BOM, SAVE_AS_UTF8, Source, undecodable
from ragassay.errors import BadData, TooLarge

LARGEST_JSON = 2**30
ROW_KEYS = ("examples", "queries")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = "holds half a surrogate pair, which is no text"
_SHAPES = "the document should be a list of rows, or an object with a list of them under 'examples' or 'queries'"


def read_json(path: Path) -> Source:
    """A list of rows, or an object with ``examples`` or ``queries`` beside ``name``, ``description``, ``metadata``.

    Judgments may lie in a file of their own in the same folder: ``"judgments": "NAME.json"`` beside the queries names
    it, and it holds ``{"judgments": {query_id: {"relevance_scores": {...}, ...}}}``, the columns that its rows lack.
    A document is read whole, so one of more than 1 GiB is TooLarge. Malformed: BadData with line and column.
    """
    source = Source(path, counts_lines=False)
    document, escaped = _document(path)
    rows = _rows(source, document)
    beside = source.metadata.get("judgments")
    if isinstance(beside, str) and beside.endswith(".json"):
        escaped |= _join_judgments(source, beside, rows)
    for number, row in enumerate(rows, 1):
        _add(source, number, row, escaped)
    header = {"name": source.name, "description": source.description, "metadata": source.metadata}
    if escaped and (place := _half_a_pair(header)):
        source.refuse(0, f"{place}: {_HALF}")
    return source


def _document(path: Path) -> tuple[Any, bool]:
    """The value that a file holds, and whether its text has escapes that may be half a surrogate pair."""
    if path.stat().st_size > LARGEST_JSON:
        raise TooLarge(
            f"a JSON document of more than {LARGEST_JSON} bytes would have to be held whole in memory",
            where=str(path),
            hint="write it as JSON Lines, which is read line by line",
        )
    content = path.read_bytes().removeprefix(BOM)
    try:
        text = content.decode()
        return parse(text), _SURROGATE.search(text) is not None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadData([f"{path}:{line}: {undecodable(content, error)}"], hint=SAVE_AS_UTF8) from None
    except NotJson as error:
        raise BadData([f"{path}:{error.line}: column {error.column}: {error.what}"], hint=_hint(error)) from None
    except Misfit as error:
        raise BadData([f"{path}: {error.what}"]) from None


def _join_judgments(source: Source, name: str, rows: list[Any]) -> bool:
    """Give the rows what the file of that name says about them; returns ``escaped`` as ``_document`` does.

    Only a file of the same folder is read, so that a dataset from elsewhere can't reach into other folders.
    """
    if Path(name).name != name:
        raise BadData([f"{source.path}: judgments: {shown(name)} should be the name of a file in the same folder"])
    path = source.path.parent / name
    try:
        document, escaped = _document(path)
    except FileNotFoundError:
        raise BadData([f"{source.path}: judgments: there is no file {shown(name)} beside it"]) from None
    given = document.get("judgments") if isinstance(document, Mapping) else None
    if not isinstance(given, Mapping) or not all(isinstance(columns, Mapping) for columns in given.values()):
        raise BadData([f"{path}: should be {{'judgments': {{query_id: {{'relevance_scores': ...}}}}}}"])
    left = dict(given)
    for number, row in enumerate(rows, 1):
        columns = (
            left.pop(str(row.get("query_id", row.get("id", f"q_{number - 1}"))), {}) if isinstance(row, dict) else {}
        )
        if twice := sorted(columns.keys() & row.keys() if columns else ()):
            source.refuse(number, f"{twice[0]}: is given here and in {name}")
        elif columns:
            row.update(columns)
    for query_id in left:
        source.refuse(0, f"judgments: {name} judges {shown(query_id)}, which is no query of this file")
    return escaped


def read_jsonl(path: Path) -> Source:
    """One object per line; blank lines are passed over. Every bad line becomes a problem; the others are read on."""
    source = Source(path)
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            line = raw.removeprefix(BOM) if number == 1 else raw
            if line.isspace():
                continue
            try:
                text = line.decode()
                row = parse(text)
            except UnicodeDecodeError as error:
                source.refuse(number, undecodable(line, error))
                source.hint = source.hint or SAVE_AS_UTF8
            except NotJson as error:
                source.refuse(number, f"column {error.column}: {error.what}")
                if number == 1 and line.strip() in (b"[", b"{"):
                    source.hint = "the file looks like one JSON document: --format json"
            except Misfit as error:
                source.refuse(number, error.what)
            else:
                _add(source, number, row, _SURROGATE.search(text) is not None)
    return source


def _add(source: Source, number: int, row: Any, escaped: bool) -> None:
    """Take in a row, or refuse it. ``escaped``: its text has escapes that may be half a surrogate pair."""
    if not isinstance(row, dict):
        source.refuse(number, f"should be an object, is {shown(row)}")
    elif escaped and (place := _half_a_pair(row)):
        source.refuse(number, f"{place}: {_HALF}")
    else:
        source.rows.append((number, row))


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


class NotJson(Exception):
    """Where and why a text is not JSON; line and column count from 1."""

    def __init__(self, error: json.JSONDecodeError) -> None:
        self.line, self.column = error.lineno, error.colno
        self.extra = error.msg == "Extra data"
        end = error.pos >= len(error.doc.rstrip())
        reason = "the text ends too early" if end and error.doc.strip() else f"{error.msg[0].lower()}{error.msg[1:]}"
        self.what = f"is not valid JSON: {reason}"
        super().__init__(self.what)


def _hint(error: NotJson) -> str | None:
    return "one object per line is JSON Lines: --format jsonl" if error.extra else None


def parse(text: str) -> Any:
    """The value of a JSON text; raises NotJson, or Misfit for JSON that we refuse."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise NotJson(error) from None
    except RecursionError:
        raise Misfit("is nested too deeply") from None
    except Misfit:
        raise
    except ValueError:  # the interpreter's limit on the length of whole numbers
        raise Misfit("holds a whole number that is too long to be one; write it as text") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise Misfit(f"the key {shown(twice)} is given twice in one object")
    return found


def _rows(source: Source, document: object) -> list[Any]:
    """The rows of a document; what stands beside them becomes the source's name, description and metadata."""
    if isinstance(document, list):
        return document
    given = [key for key in ROW_KEYS if isinstance(document, Mapping) and key in document]
    if not isinstance(document, Mapping) or len(given) != 1 or not isinstance(document[given[0]], list):
        raise BadData([f"{source.path}: {_SHAPES}; it is {shown(document)}"])
    for key in ("name", "description"):
        if not isinstance(document.get(key, ""), str | None):
            source.refuse(0, f"{key}: should be text, is {shown(document[key])}")
    if not isinstance(document.get("metadata") or {}, Mapping):
        source.refuse(0, f"metadata: should be an object, is {shown(document['metadata'])}")
    else:
        known = ("name", "description", "metadata", given[0])
        others = {key: value for key, value in document.items() if key not in known}
        source.metadata = {**others, **(document.get("metadata") or {})}
    if not source.findings:
        source.name, source.description = document.get("name"), document.get("description")
    rows: list[Any] = document[given[0]]
    return rows
