"""File formats, and which of them a file has: opens a file, a BEIR folder or a table in memory as one source of rows."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from ragassay.core.errors import AssayError, BadData, BadInput, MissingExtra, NothingToEvaluate, TooLarge, UnknownName
from ragassay.core.files import LONGEST_LINE
from ragassay.core.models import Sample
from ragassay.core.validation import shown
from ragassay.datasets import promptfoo
from ragassay.datasets.cells import joined_columns, open_cells
from ragassay.datasets.frames import numbered_rows, rows_in, to_json
from ragassay.datasets.ir import PREFIX, read_ir
from ragassay.datasets.judgments import beir_folder, read_beir, read_trec
from ragassay.datasets.source import (
    MAX_UNPACKED,
    NotJson,
    NumberedRow,
    Source,
    ValueProblem,
    jsonl_rows,
    max_unpacked,
    object_of,
    parse,
    read_errors,
    separator_hint,
    text_lines,
    too_large_unpacked,
)
from ragassay.datasets.traces import are_spans, rows_of_spans

LARGEST_JSON = 2**30
ROW_KEYS = ("examples", "queries")
# of rows in a page of an API; metadata if ROW_KEYS has the rows
PAGE_KEYS = ("data", "rows", "results", "items", "records", "samples", "questions")
_HEAD = 4096
_PARQUET_BATCH = 256  # rows
_PARQUET_ROW = 100  # bytes that a row takes at least, whatever its columns hold
_SHAPES = (
    f"the document should be a list of rows, or an object with a list of them under {', '.join(ROW_KEYS + PAGE_KEYS)}"
)


def open_source(data: Any, format: str = "auto", max_problems: int | None = None) -> Source:  # noqa: A002
    """The rows of a file in that format, a BEIR folder, ``ir:NAME`` or a table in memory; ``auto``: by the extension.

    Rows that are spans of traces are read as traces. ``max_problems``: see ``Source``. Raises NotFound, UnknownName (no
    such format), BadInput (a folder, an unknown extension, no permission), NothingToEvaluate (an empty file) or BadData.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, list | tuple) and data and all(isinstance(row, Sample) for row in data):
        return Source(Path("data"), enumerate(data, 1), name="data", counts_lines=False, canonical=True)
    if isinstance(data, Mapping) and any(isinstance(data.get(key), list) for key in ROW_KEYS):
        source = Source(Path("data"), counts_lines=False)
        source.rows = numbered_rows(source, _rows(source, dict(data)))
    elif not isinstance(data, str | Path):
        source = rows_in(data)
    elif str(data).startswith(PREFIX):
        source = read_ir(str(data))
    else:
        with read_errors(Path(data)):
            source = _open_file(Path(data), format)
    source.max_problems = max_problems  # counts from the first row, which is looked at now
    rows = iter(source)
    first = list(islice(rows, 1))
    source.rows = chain(first, rows)
    if promptfoo.are_results([row for _, row in first]):
        source.rows = every = list(source)
        if promptfoo.are_results(results := [row for _, row in every]):
            tests, source.systems = promptfoo.read_results(results)
            source.rows, source.counts_lines = enumerate(tests, 1), False
    is_traces = format == "traces" or (first and are_spans(first[0][1]))
    return rows_of_spans(source) if is_traces else source


def read_rows(path: Path, format: str = "auto") -> list[tuple[str, dict[str, Any]]]:  # noqa: A002
    """The rows of a file as they are, each with its place; raises what ``open_source`` does, BadData, and NothingToEvaluate."""
    source = open_source(path, format)
    rows = [(source.place(number), values) for number, values in source]
    source.check()
    if not rows:
        raise NothingToEvaluate("there are no rows", where=str(path))
    return rows


def _open_file(path: Path, format: str) -> Source:  # noqa: A002
    if format != "auto" and format not in FORMATS:
        raise UnknownName("format", format, ["auto", *FORMATS], where="format")
    if format in ("auto", "trec") and (folder := beir_folder(path)):
        return read_beir(folder, path)
    known = ", ".join(f"{name} ({' '.join(each.extensions)})" for name, each in FORMATS.items() if each.extensions)
    known += ", and BEIR folders"
    if path.is_dir():
        raise BadInput("is a folder, not a file", where=str(path), hint=f"supported are {known}")
    with path.open("rb") as file:
        head = file.read(_HEAD)
    extension = path.suffix.lower()
    by_extension = (name for name, each in FORMATS.items() if extension in each.extensions)
    name = format if format != "auto" else next(by_extension, None)
    if name is None:
        what = f"the extension {extension!r} names no supported format" if extension else "the file has no extension"
        raise BadInput(what, where=str(path), hint=f"supported are {known}; format=NAME sets it")
    if len(head) < _HEAD and not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise NothingToEvaluate("the file is empty", where=str(path))
    return FORMATS[name].open(path)


def read_jsonl(path: Path, *, canonical: bool = False) -> Source:
    """JSON Lines: an object per line; ``canonical``: with the keys of a Sample."""
    with path.open("rb") as file:
        first = file.readline(8).removeprefix(codecs.BOM_UTF8).strip()
    hint = "the file looks like one JSON document: format=json" if first in (b"[", b"{") else None
    source = Source(path, hint=hint, canonical=canonical)
    source.rows = jsonl_rows(source)
    return source


def read_csv(path: Path, delimiter: str = ",") -> Source:
    """CSV with a header. Cells stay text: which of them are numbers or lists, the columns decide."""
    source = Source(path, cells=True)
    records = _csv_records(path, delimiter)
    _, header = next(records, (1, []))
    source.set_columns(name.strip() or f"column {n}" for n, name in enumerate(header, 1))
    source.rows = _csv_rows(source, records)
    return source


def _csv_rows(source: Source, records: Iterator[tuple[int, list[str]]]) -> Iterator[NumberedRow]:
    """The rows with as many cells as the header; an empty cell is an absent value."""
    joined = joined_columns(source.columns)
    for number, record in records:
        if len(record) == len(source.columns):
            values = {name: cell for name, cell in zip(source.columns, record, strict=True) if cell}
            yield number, open_cells(values, joined)
        elif len(source.columns) == 1 and (hint := separator_hint(source.columns[0])):
            raise BadData([f"{source.path}:1: the header has 1 cell, line {number} has {len(record)}"], hint=hint)
        else:
            cells = "1 cell" if len(record) == 1 else f"{len(record)} cells"
            source.add_problem(number, f"has {cells}, the header has {len(source.columns)}")


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
        _, header = next(text_lines(path))
        hint = None if delimiter in header else separator_hint(header)
        hint = hint or "is a quote never closed, or not written twice inside a quoted cell?"
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
    source.rows = _parquet_rows(path)
    return source


def _parquet_rows(path: Path) -> Iterator[NumberedRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    except AssayError:
        raise
    except MemoryError:
        raise too_large_unpacked(path, max_unpacked(path.stat().st_size)) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise BadData([f"{path}: is not a Parquet file that can be read: {reason[:160]}"]) from None


def read_json(path: Path) -> Source:
    """A list of rows, or an object with ``examples`` or ``queries`` and ``name``, ``description``, ``metadata``.

    Judgments may stand next to the queries under ``judgments``, or in a file of the same folder that is named there
    (``"judgments": "NAME.json"``): ``{query_id: {"relevance_scores": {...}, ...}}``, the columns that the queries lack, or a
    list of such objects with a ``query_id``.
    Results of promptfoo have a row for each test; a batch of spans, or a page of an API with its rows under one of
    ``PAGE_KEYS``, is read too. A document is read whole, so one of more than 1 GiB is TooLarge. Malformed: BadData
    with line and column.
    """
    source = Source(path, counts_lines=False)
    source.rows = _objects(source, _rows(source, _document(path)))
    return source


def _objects(source: Source, rows: Iterable[Any]) -> Iterator[NumberedRow]:
    for number, row in enumerate(rows, 1):
        try:
            yield number, object_of(row)
        except ValueProblem as error:
            source.add_problem(number, error.what)


def _document(path: Path) -> Any:
    if path.stat().st_size > LARGEST_JSON:
        what = f"a JSON document of more than {LARGEST_JSON} bytes would have to be held whole in memory"
        raise TooLarge(what, where=str(path), hint="write it as JSON Lines, which is read line by line")
    try:
        return parse(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except NotJson as error:
        raise BadData([f"{path}:{error.line}: {error.what}"], hint=error.hint) from None
    except ValueProblem as error:
        raise BadData([f"{path}: {error.what}"]) from None


def _rows(source: Source, document: Any) -> Sequence[Any]:
    """The rows of a document; its other entries become the source's name, description and metadata."""
    if isinstance(document, list):
        return document
    if are_spans(document):
        return [document]
    if (results := promptfoo.results_in(document)) is not None:
        return results
    lists = [key for key, value in document.items() if isinstance(value, list)] if isinstance(document, dict) else []
    keys = [key for key in lists if key in ROW_KEYS] or [key for key in lists if key in PAGE_KEYS]
    keys = keys or [key for key in lists if key == "judgments"]
    if len(keys) != 1:
        raise BadData([f"{source.path}: {_SHAPES}; it is {shown(document)}"])
    rows: list[Any] = document.pop(keys[0])
    for key, kind, what in (("name", str, "text"), ("description", str, "text"), ("metadata", dict, "an object")):
        if not isinstance(value := document.pop(key, None), kind | None):
            raise BadData([f"{source.path}: {key}: should be {what}, is {shown(value)}"])
        setattr(source, key, value or ({} if kind is dict else None))
    source.metadata = {**document, **source.metadata}
    judgments, name = source.metadata.get("judgments"), "judgments"
    if isinstance(judgments, str) and judgments.endswith(".json"):
        name, path = judgments, source.path.parent / judgments
        if Path(name).name != name or not path.is_file():
            raise BadData([f"{source.path}: judgments: there is no file {shown(name)} in its folder"])
        document = _document(path)
        judgments = document.get("judgments") if isinstance(document, Mapping) else document
        return _with_judgments(source, name, _by_query(source, str(path), judgments), rows)
    if isinstance(judgments, list | Mapping):
        del source.metadata["judgments"]
        return _with_judgments(source, name, _by_query(source, f"{source.path}: judgments", judgments), rows)
    return rows


def _by_query(source: Source, where: str, judgments: Any) -> dict[str, Any]:
    """Judgments as ``{query_id: columns}``, which may also be a list of columns with a ``query_id``; raises BadData."""
    if isinstance(judgments, list) and all(isinstance(one, Mapping) and "query_id" in one for one in judgments):
        by_query: dict[str, Any] = {}
        for one in judgments:
            query_id, columns = str(one["query_id"]), {key: value for key, value in one.items() if key != "query_id"}
            if by_query.setdefault(query_id, columns) is not columns:
                source.add_problem(0, f"judgments: query {shown(query_id)} is judged twice")
        return by_query
    if not isinstance(judgments, Mapping) or not all(isinstance(one, Mapping) for one in judgments.values()):
        what = "{query_id: {'relevance_scores': ...}}, or a list of {'query_id': ..., 'relevant_chunk_ids': [...]}"
        raise BadData([f"{where}: should be {what}"])
    return {str(query_id): columns for query_id, columns in judgments.items()}


def _with_judgments(source: Source, name: str, by_query: dict[str, Any], rows: list[Any]) -> list[Any]:
    """The rows with what is judged of them; ``name`` is said of where that stands."""
    joined = list(rows)
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            columns = by_query.pop(str(row.get("query_id", row.get("id", f"q_{number - 1}"))), {})
            if twice := sorted(columns.keys() & row.keys()):
                source.add_problem(number, f"{twice[0]}: is given here and in {name}")
            joined[number - 1] = {**row, **columns}
    for query_id in by_query:
        source.add_problem(0, f"{name}: {shown(query_id)} is no query of this file")
    return joined


def read_traces(path: Path) -> Source:
    """Spans, or batches of spans, in one JSON document or, whatever else the file is called, in JSON Lines."""
    return (read_json if path.suffix.lower() == ".json" else read_jsonl)(path)


class Format(NamedTuple):
    """A file format: its extensions, in lower case, and what opens a file of it."""

    extensions: tuple[str, ...]
    open: Callable[[Path], Source]


FORMATS = {
    "json": Format((".json",), read_json),
    "jsonl": Format((".jsonl", ".ndjson"), read_jsonl),
    "csv": Format((".csv",), read_csv),
    "tsv": Format((".tsv", ".tab"), partial(read_csv, delimiter="\t")),
    "parquet": Format((".parquet", ".pq"), read_parquet),
    "trec": Format((".qrels", ".run", ".trec", ".txt"), read_trec),
    "traces": Format((), read_traces),
    "samples": Format((), partial(read_jsonl, canonical=True)),
}
