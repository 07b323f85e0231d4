"""File formats, and which of them a file has: opens a file, a BEIR folder or a table in memory as one source of rows."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadData, BadInput, MissingExtra, NotFound, NothingToEvaluate, TooLarge, UnknownName
from ragassay.core.files import LONGEST_LINE
from ragassay.core.validation import shown
from ragassay.datasets import promptfoo
from ragassay.datasets.cells import open_cells
from ragassay.datasets.frames import rows_in, to_json
from ragassay.datasets.ir import PREFIX, read_ir
from ragassay.datasets.judgments import beir_folder, read_beir, read_trec
from ragassay.datasets.source import (
    MAX_UNPACKED,
    SAVE_AS_UTF8,
    NumberedRow,
    Source,
    ValueProblem,
    max_unpacked,
    read_errors,
    text_lines,
    too_large_unpacked,
    undecodable,
)
from ragassay.datasets.strict_json import NotJson, jsonl_rows, object_of, parse
from ragassay.datasets.traces import are_spans, rows_of_spans

LARGEST_JSON = 2**30
ROW_KEYS = ("examples", "queries")
_HEAD = 4096
_PARQUET_BATCH = 256  # rows
_PARQUET_ROW = 100  # bytes that a row takes at least, whatever its columns hold
_SHAPES = "the document should be a list of rows, or an object with a list of them under 'examples' or 'queries'"


def open_source(data: Any, format: str = "auto", max_problems: int | None = None) -> Source:  # noqa: A002
    """The rows of a file in that format, a BEIR folder, ``ir:NAME`` or a table in memory; ``auto``: by the extension.

    Rows that are spans of traces are read as traces. ``max_problems``: see ``Source``.
    Raises NotFound, UnknownName (no such format), BadInput (a folder,
    an unknown extension, no permission), NothingToEvaluate (an empty file) or BadData (malformed as a whole).
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, str | Path) and str(data).startswith(PREFIX):
        source = read_ir(str(data))
    elif isinstance(data, str | Path):
        path = Path(data)
        with read_errors(path):
            source = _open_file(path, format)
    else:
        source = rows_in(data)
    source.max_problems = max_problems  # counts from the first row, which is looked at now
    if format == "auto" and not isinstance(source.rows, list):
        rows = iter(source)
        first = next(rows, None)
        if first and are_spans(first[1]):
            return rows_of_spans(source, (values for _, values in chain([first], rows)))
        source.rows = chain([first] if first else [], rows)
    return source


def read_rows(path: Path, format: str = "auto") -> list[dict[str, Any]]:  # noqa: A002
    """The rows of a file as they are; raises what ``open_source`` does, BadData, and NothingToEvaluate without rows."""
    source = open_source(path, format)
    rows = [values for _, values in source]
    source.check()
    if not rows:
        raise NothingToEvaluate("there are no rows", where=str(path))
    return rows


def _open_file(path: Path, format: str) -> Source:  # noqa: A002
    if format != "auto" and format not in FORMATS:
        raise UnknownName("format", format, ["auto", *FORMATS], where="format")
    folder = beir_folder(path) if path.is_dir() or format in ("auto", "trec") else None
    if folder is not None:
        return read_beir(folder, path)
    if path.is_dir():
        raise BadInput("is a folder, not a file", where=str(path), hint=f"supported are {_supported()}")
    chosen = FORMATS[format] if format != "auto" else _by_extension(path)
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if len(head) < _HEAD and not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise NothingToEvaluate("the file is empty", where=str(path))
    if chosen.is_text and b"\x00" in head:
        hint = f"is it compressed, UTF-16, or a spreadsheet? unpack or save it as one of: {_supported()}"
        raise BadData([f"{path}: is not text: byte {head.index(0) + 1} is zero"], hint=hint)
    return chosen.open(path)


def _by_extension(path: Path) -> Format:
    extension = path.suffix.lower()
    for each in FORMATS.values():
        if extension in each.extensions:
            return each
    if not path.exists():
        raise NotFound("there is no such file", where=str(path))
    what = f"the extension {extension!r} names no supported format" if extension else "the file has no extension"
    raise BadInput(what, where=str(path), hint=f"supported are {_supported()}; format=NAME sets it")


def _supported() -> str:
    extensions = ", ".join(f"{each.name} ({' '.join(each.extensions)})" for each in FORMATS.values() if each.extensions)
    return f"{extensions}, and BEIR folders"


def read_jsonl(path: Path) -> Source:
    """JSON Lines: an object per line."""
    source = Source(path, hint=_hint_of_one_document(path))
    source.rows = jsonl_rows(source)
    return source


def _hint_of_one_document(path: Path) -> str | None:
    with path.open("rb") as file:
        first = file.readline(8).removeprefix(codecs.BOM_UTF8).strip()
    return "the file looks like one JSON document: format=json" if first in (b"[", b"{") else None


def read_csv(path: Path, delimiter: str = ",") -> Source:
    """CSV with a header. Cells stay text: which of them are numbers or lists, the columns decide."""
    source = Source(path, cells=True)
    records = _csv_records(path, delimiter)
    _, header = next(records, (1, []))
    source.set_columns(name.strip() or f"column {n}" for n, name in enumerate(header, 1))
    source.rows = _csv_rows(source, records)
    return source


def _csv_rows(source: Source, records: Iterable[tuple[int, list[str]]]) -> Iterator[NumberedRow]:
    """The rows with as many cells as the header; an empty cell is an absent value."""
    names = source.columns
    for number, record in records:
        if len(record) == len(names):
            values: dict[str, Any] = {name: cell for name, cell in zip(names, record, strict=True) if cell}
            open_cells(values)
            yield number, values
        else:
            cells = "1 cell" if len(record) == 1 else f"{len(record)} cells"
            source.add_problem(number, f"has {cells}, the header has {len(names)}")


def _csv_records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the line each starts on; blank lines are passed over."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # of the process: another thread may read as well
    reader = csv.reader((line for _, line in text_lines(path)), delimiter=delimiter, strict=True)
    start = 1
    try:
        for record in reader:
            if record:
                yield start, record
            start = reader.line_num + 1
    except csv.Error as error:
        hint = "is a quote never closed, or not written twice inside a quoted cell?"
        raise BadData([f"{path}:{start}: is not valid CSV: {error}"], hint=hint) from None


def read_parquet(path: Path) -> Source:
    """Parquet, read in batches; nulls are absent values. Raises MissingExtra without pyarrow."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("reading Parquet", "parquet") from None
    source = Source(path, counts_lines=False)
    with _parquet_errors(path):
        source.set_columns(pq.read_schema(path).names)
    source.rows = _parquet_rows(source)
    return source


def _parquet_rows(source: Source) -> Iterator[NumberedRow]:
    """Raises TooLarge if the file unpacks into more than ``max_unpacked``: a value that repeats is stored once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = source.path
    limit, unpacked, number = max_unpacked(path.stat().st_size), 0, 0
    with _parquet_errors(path), pq.ParquetFile(path) as file:
        maps = {f.name for f in file.schema_arrow if pa.types.is_map(f.type)}
        groups = [file.metadata.row_group(n).total_byte_size for n in range(file.num_row_groups)]
        if sum(groups) > limit or file.metadata.num_rows * _PARQUET_ROW > limit:
            raise too_large_unpacked(path, limit)
        size = min(_PARQUET_BATCH, MAX_UNPACKED // max([1, *groups]))  # all rows may have the largest value
        for batch in file.iter_batches(batch_size=max(1, size)):
            unpacked += batch.nbytes
            if unpacked > limit:
                raise too_large_unpacked(path, limit)
            for row in batch.to_pylist():
                number += 1
                yield number, {n: to_json(dict(v) if n in maps and v is not None else v) for n, v in row.items()}


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except MemoryError:
        raise too_large_unpacked(path, max_unpacked(path.stat().st_size)) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise BadData([f"{path}: is not a Parquet file that can be read: {reason[:160]}"]) from None


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
    source.rows = _objects(source, rows)
    return source


def _objects(source: Source, rows: Iterable[Any]) -> Iterator[NumberedRow]:
    for number, row in enumerate(rows, 1):
        try:
            yield number, object_of(row)
        except ValueProblem as error:
            source.add_problem(number, error.what)


def _document(path: Path) -> Any:
    if path.stat().st_size > LARGEST_JSON:
        raise TooLarge(
            f"a JSON document of more than {LARGEST_JSON} bytes would have to be held whole in memory",
            where=str(path),
            hint="write it as JSON Lines, which is read line by line",
        )
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        return parse(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadData([f"{path}:{line}: {undecodable(error)}"], hint=SAVE_AS_UTF8) from None
    except NotJson as error:
        hint = "one object per line is JSON Lines: format=jsonl" if error.extra else None
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
    """Add to the rows what the file of that name, in the same folder, has about them."""
    path = source.path.parent / name
    if Path(name).name != name or not path.is_file():
        raise BadData([f"{source.path}: judgments: there is no file {shown(name)} in its folder"])
    document = _document(path)
    columns_by_id = document.get("judgments") if isinstance(document, Mapping) else None
    if not isinstance(columns_by_id, dict) or not all(isinstance(each, Mapping) for each in columns_by_id.values()):
        raise BadData([f"{path}: should be {{'judgments': {{query_id: {{'relevance_scores': ...}}}}}}"])
    for number, row in enumerate(rows, 1):
        query_id = row.get("query_id", row.get("id", f"q_{number - 1}")) if isinstance(row, dict) else None
        columns = columns_by_id.pop(str(query_id), {}) if isinstance(row, dict) else {}
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
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")
    try:
        lines = isinstance(parse(first.removeprefix(codecs.BOM_UTF8)), Mapping)
    except ValueProblem:
        lines = False
    source = read_jsonl(path) if lines else read_json(path)
    return source if source.of_traces else rows_of_spans(source, (values for _, values in source))


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
        Format("jsonl", (".jsonl", ".ndjson"), read_jsonl),
        Format("csv", (".csv",), read_csv),
        Format("tsv", (".tsv", ".tab"), partial(read_csv, delimiter="\t")),
        Format("parquet", (".parquet", ".pq"), read_parquet, is_text=False),
        Format("trec", (".qrels", ".run", ".trec", ".txt"), read_trec),
        Format("traces", (), read_traces),
    )
}
