"""File formats, and which of them a file has: opens a file, a BEIR folder, a table in memory or rows as one source."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadData, BadInput, NotFound, NothingToEvaluate, TooLarge, UnknownName
from ragassay.core.validation import shown
from ragassay.datasets import promptfoo
from ragassay.datasets.judgments import beir_folder, read_beir, read_trec
from ragassay.datasets.source import SAVE_AS_UTF8, Source, ValueProblem, read_errors, undecodable
from ragassay.datasets.strict_json import NotJson, jsonl_rows, object_of, parse_text
from ragassay.datasets.tables import csv_rows, parquet_rows, rows_in, tsv_rows
from ragassay.datasets.traces import are_spans, rows_of_spans

LARGEST_JSON = 2**30
ROW_KEYS = ("examples", "queries")
_LONGEST_LINE = 2**24  # bytes of a first line that may be a span
_HEAD = 4096
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}(?:/.*)?")  # an address without its http://
_SHAPES = "the document should be a list of rows, or an object with a list of them under 'examples' or 'queries'"
_NOT_TEXT = (
    (b"PAR1", "is a Parquet file", "--format parquet"),
    (b"\x1f\x8b", "is compressed with gzip", "unpack it first"),
    (b"(\xb5/\xfd", "is compressed with zstandard", "unpack it first"),
    (b"PK\x03\x04", "is a zip archive or a spreadsheet", "unpack it, or save the sheet as CSV"),
    (b"\xff\xfe", "is UTF-16 text", SAVE_AS_UTF8),
    (b"\xfe\xff", "is UTF-16 text", SAVE_AS_UTF8),
)


def open_source(data: Any, format: str = "auto") -> Source:  # noqa: A002 - the name of the option
    """The rows of a file in that format, of a BEIR folder, or of a table in memory; ``auto`` goes by the extension.

    Raises NotFound, UnknownName (no such format), BadInput (a folder, an unknown extension, no permission),
    NothingToEvaluate (an empty file) or BadData (malformed as a whole).
    """
    if isinstance(data, Source):
        return data
    if not isinstance(data, str | Path):
        return rows_in(data)
    path = Path(data)
    if format != "auto" and format not in FORMATS:
        raise UnknownName("format", format, ["auto", *FORMATS], where="--format")
    folder = beir_folder(path) if path.is_dir() or format in ("auto", "trec") else None
    if path.is_dir() and folder is None:
        raise BadInput("is a folder, not a file", where=str(path), hint=f"supported are {_supported()}")
    with read_errors(path):
        return read_beir(folder, path) if folder is not None else _format(path, format).open(path)


def read_rows(path: Path, format: str = "auto") -> list[dict[str, Any]]:  # noqa: A002
    """The rows of a file as they are; raises what ``open_source`` does, BadData, and NothingToEvaluate without rows."""
    source = open_source(path, format).in_memory()
    source.check()
    return [values for _, values in source]


def _format(path: Path, name: str) -> Format:
    """The format of a file that is not empty and may have it."""
    chosen = FORMATS[name] if name != "auto" else _by_extension(path)
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if len(head) < _HEAD and not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise NothingToEvaluate("the file is empty", where=str(path))
    for magic, what, hint in _NOT_TEXT if chosen.is_text else ():
        if head.startswith(magic):
            raise BadData([f"{path}: {what}"], hint=hint)
    if chosen.is_text and b"\x00" in head:
        raise BadData([f"{path}: is not text: byte {head.index(0) + 1} is zero"], hint=f"supported are {_supported()}")
    is_traces = name == "auto" and chosen.name == "jsonl" and are_spans(_first_row(path))
    return FORMATS["traces"] if is_traces else chosen


def _by_extension(path: Path) -> Format:
    extension = path.suffix.lower()
    for each in FORMATS.values():
        if extension in each.extensions:
            return each
    if not path.exists():
        hint = f"did you mean http://{path}?" if _HOST_AND_PORT.fullmatch(str(path)) else None
        raise NotFound("there is no such file", where=str(path), hint=hint)
    what = f"the extension {extension!r} names no supported format" if extension else "the file has no extension"
    raise BadInput(what, where=str(path), hint=f"supported are {_supported()}; --format names the format")


def _supported() -> str:
    extensions = ", ".join(f"{each.name} ({' '.join(each.extensions)})" for each in FORMATS.values() if each.extensions)
    return f"{extensions}, and BEIR folders"


def read_json(path: Path) -> Source:
    """A list of rows, or an object with ``examples`` or ``queries`` and ``name``, ``description``, ``metadata``.

    Judgments may be in a file of their own in the same folder: ``"judgments": "NAME.json"`` next to the queries names
    it, and it holds ``{"judgments": {query_id: {"relevance_scores": {...}, ...}}}``, the columns that its rows lack.
    Results of promptfoo have a row for each test.
    Spans of traces, as a batch, a list or a page of an API, are read as ``read_traces`` reads them.
    A document is read whole, so one of more than 1 GiB is TooLarge. Malformed: BadData with line and column.
    """
    source = Source(path, counts_lines=False)
    document = _document(path)
    if (spans := _spans(document)) is not None:
        return rows_of_spans(source, spans)
    rows = _rows(source, document)
    judgments = source.metadata.get("judgments")
    if isinstance(judgments, str) and judgments.endswith(".json"):
        _join_judgments(source, judgments, rows)
    for number, row in enumerate(rows, 1):
        try:
            source.rows.append((number, object_of(row)))
        except ValueProblem as error:
            source.add_problem(number, error.what)
    return source


def _document(path: Path) -> Any:
    if path.stat().st_size > LARGEST_JSON:
        raise TooLarge(
            f"a JSON document of more than {LARGEST_JSON} bytes would have to be held whole in memory",
            where=str(path),
            hint="write it as JSON Lines, which is read line by line",
        )
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        return parse_text(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadData([f"{path}:{line}: {undecodable(error)}"], hint=SAVE_AS_UTF8) from None
    except NotJson as error:
        hint = "one object per line is JSON Lines: --format jsonl" if error.extra else None
        raise BadData([f"{path}:{error.line}: column {error.column}: {error.what}"], hint=hint) from None
    except ValueProblem as error:
        raise BadData([f"{path}: {error.what}"]) from None


def _rows(source: Source, document: object) -> list[Any]:
    """The rows of a document; its other entries become the source's name, description and metadata."""
    if isinstance(document, list):
        return document
    if (results := promptfoo.results_in(document)) is not None:
        return promptfoo.rows_in(results)
    keys = [key for key in ROW_KEYS if isinstance(document, Mapping) and key in document]
    if not isinstance(document, Mapping) or len(keys) != 1 or not isinstance(document[keys[0]], list):
        raise BadData([f"{source.path}: {_SHAPES}; it is {shown(document)}"])
    for key, kind, what in (("name", str, "text"), ("description", str, "text"), ("metadata", Mapping, "an object")):
        if not isinstance(document.get(key), kind | None):
            source.add_problem(0, f"{key}: should be {what}, is {shown(document[key])}")
            return []
    others = {k: value for k, value in document.items() if k not in ("name", "description", "metadata", keys[0])}
    source.name, source.description = document.get("name"), document.get("description")
    source.metadata = {**others, **(document.get("metadata") or {})}
    rows: list[Any] = document[keys[0]]
    return rows


def _join_judgments(source: Source, name: str, rows: Iterable[Any]) -> None:
    """Add to the rows what the file of that name has about them.

    Only a file of the same folder is read, so that a dataset from elsewhere can't reach into other folders.
    """
    if Path(name).name != name:
        raise BadData([f"{source.path}: judgments: {shown(name)} should be the name of a file in the same folder"])
    path = source.path.parent / name
    if not path.is_file():
        raise BadData([f"{source.path}: judgments: there is no file {shown(name)} in its folder"])
    document = _document(path)
    columns_by_id = document.get("judgments") if isinstance(document, Mapping) else None
    if not isinstance(columns_by_id, dict) or not all(isinstance(each, Mapping) for each in columns_by_id.values()):
        raise BadData([f"{path}: should be {{'judgments': {{query_id: {{'relevance_scores': ...}}}}}}"])
    for number, row in enumerate(rows, 1):
        query_id = str(row.get("query_id", row.get("id", f"q_{number - 1}"))) if isinstance(row, dict) else ""
        columns = columns_by_id.pop(query_id, {})
        if twice := sorted(columns.keys() & row.keys() if columns else ()):
            source.add_problem(number, f"{twice[0]}: is given here and in {name}")
        elif columns:
            row.update(columns)
    for query_id in columns_by_id:
        source.add_problem(0, f"judgments: {name} judges {shown(query_id)}, which is no query of this file")


def _spans(document: object) -> list[Any] | None:
    """The objects of a document of spans: a batch, a list, or a page of an API; None for any other document."""
    entries = document.get("data") if isinstance(document, Mapping) else document
    objects = entries if isinstance(entries, list) else [document]
    return objects if objects and are_spans(objects[0]) else None


def read_traces(path: Path) -> Source:
    """The rows of spans, or of batches of spans: JSON Lines, whose bad lines are problems, or one JSON document."""
    if not isinstance(_first_row(path), Mapping):
        return read_json(path)
    source = Source(path)
    return rows_of_spans(source, (value for _, value in jsonl_rows(source)))


def _first_row(path: Path) -> object:
    """The value in the first line that is not blank; None if it is not JSON."""
    with path.open("rb") as file:
        line = next((line for line in iter(partial(file.readline, _LONGEST_LINE), b"") if line.strip()), b"")
    try:
        return parse_text(line.decode("utf-8-sig"))
    except (ValueProblem, UnicodeDecodeError):
        return None


@dataclass(frozen=True)
class Format:
    """A file format: its extensions, in lower case, and what opens a file of it."""

    name: str
    extensions: tuple[str, ...]
    open: Callable[[Path], Source]
    is_text: bool = True


FORMATS = {
    each.name: each
    for each in (
        Format("json", (".json",), read_json),
        Format("jsonl", (".jsonl", ".ndjson"), partial(Source, reader=jsonl_rows)),
        Format("csv", (".csv",), partial(Source, reader=csv_rows, cells=True)),
        Format("tsv", (".tsv", ".tab"), partial(Source, reader=tsv_rows, cells=True)),
        Format("parquet", (".parquet", ".pq"), partial(Source, reader=parquet_rows, counts_lines=False), is_text=False),
        Format("trec", (".qrels", ".run", ".trec", ".txt"), read_trec),
        Format("traces", (), read_traces),
    )
}
