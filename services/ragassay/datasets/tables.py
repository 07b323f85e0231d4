"""Tables: CSV, TSV and Parquet files, and what is in memory: lists of dicts, data frames, Arrow tables, Hugging Face datasets.

Cells of CSV stay text: which of them are numbers or lists, the columns decide. The libraries of tables in memory are
not imported: a table is known by its methods.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadData, BadInput, MissingExtra, NothingToEvaluate
from ragassay.core.files import LARGEST_UNPACKED, LONGEST_LINE, most_unpacked, too_large_unpacked
from ragassay.core.models import Sample
from ragassay.core.validation import shown
from ragassay.datasets.cells import open_cells
from ragassay.datasets.source import NumberedRow, Source, text_lines
from ragassay.datasets.traces import are_spans, rows_of_spans

_PARQUET_BATCH = 256  # rows
_PARQUET_ROW = 100  # bytes that a row takes at least, whatever its columns hold
_CSV_ERRORS = {
    "unexpected end of data": "a quoted cell that opens in this row never ends",
    "field larger than": f"a cell is longer than {LONGEST_LINE:,} characters; is a quote in it never closed?",
    "expected after": "text follows a closing quote; a quote inside a quoted cell is written twice",
    "new-line character": "a lone carriage return; lines end with a line feed, or with both",
}


def csv_rows(source: Source, delimiter: str = ",") -> Iterator[NumberedRow]:
    """The rows of a CSV file with a header, one by one; quoted cells may hold line breaks. An empty cell is an absent value.

    A row's number is the physical line on which it starts. Rows with too many or too few cells become problems.
    """
    path = source.path
    records = _csv_records(path, delimiter)
    at, header = next(records, (1, []))
    source.check_width(len(header))
    names = [name.strip() or f"column {n}" for n, name in enumerate(header, 1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadData([f"{path}:{at}: {shown(name)}: the header names this column twice" for name in twice])
    source.columns = tuple(names)
    for number, record in records:
        if len(record) == len(names):
            values: dict[str, Any] = {name: cell for name, cell in zip(names, record, strict=True) if cell}
            open_cells(values)
            yield number, values
        else:
            cells = "1 cell" if len(record) == 1 else f"{len(record)} cells"
            source.add_problem(number, f"has {cells}, the header has {len(names)}")


def tsv_rows(source: Source) -> Iterator[NumberedRow]:
    """The rows of a file with tabs between its columns, one by one."""
    return csv_rows(source, "\t")


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
        what = next((ours for theirs, ours in _CSV_ERRORS.items() if theirs in str(error)), str(error))
        raise BadData([f"{path}:{start}: is not valid CSV: {what}"]) from None


def parquet_rows(source: Source) -> Iterator[NumberedRow]:
    """The rows of a Parquet file, read in batches. Nulls are absent values; entries of a struct that are null are left out.

    Raises MissingExtra without pyarrow, BadData for a file that is none, TooLarge where it unpacks into more than
    ``most_unpacked``: a value that repeats is stored once, so that few bytes may stand for many.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("reading Parquet", "parquet") from None

    path = source.path
    limit, unpacked, number = most_unpacked(path.stat().st_size), 0, 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            source.check_width(len(names))
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise BadData([f"{path}: {shown(name)}: two columns have this name" for name in twice])
            source.columns = tuple(names)
            maps = {f.name for f in file.schema_arrow if pa.types.is_map(f.type)}
            groups = [file.metadata.row_group(n).total_byte_size for n in range(file.num_row_groups)]
            if sum(groups) > limit or file.metadata.num_rows * _PARQUET_ROW > limit:
                raise too_large_unpacked(path, limit)
            rows = max(
                1, min(_PARQUET_BATCH, LARGEST_UNPACKED // max(groups, default=1))
            )  # all may have the largest value
            for batch in file.iter_batches(batch_size=rows):
                unpacked += batch.nbytes
                if unpacked > limit:
                    raise too_large_unpacked(path, limit)
                for row in batch.to_pylist():
                    number += 1
                    yield number, {n: to_json(dict(v) if n in maps and v is not None else v) for n, v in row.items()}
    except MemoryError:
        raise too_large_unpacked(path, limit) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise BadData([f"{path}: is not a Parquet file that can be read: {reason[:160]}"]) from None


def to_json(value: Any) -> Any:
    """A value of a table as JSON would have it; None for one that is missing. What has no such form stays, to be refused.

    NaN, NaT and NA are missing values, arrays lists, dates ISO 8601.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        entries = {str(key): to_json(entry) for key, entry in value.items()}
        return {key: entry for key, entry in entries.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(map(to_json, value), key=str)
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas'
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return to_json(value.tolist()) if callable(getattr(value, "tolist", None)) else value


_TAKEN = "a list of dicts or Samples, a pandas, polars or Arrow table, a Hugging Face Dataset, or a path"


def rows_in(data: object, name: str = "data") -> Source:
    """The rows of an object in memory; ``name`` stands for a file in errors, where rows count from 1.

    NaN, NaT and NA are absent values, arrays lists, dates ISO 8601. Raises BadInput for what
    is no table of rows, NothingToEvaluate for one without rows.
    """
    source = Source(Path(name), name=name, counts_lines=False)
    for number, row in enumerate(_records(data, name), 1):
        if isinstance(row, Sample):
            row = row.model_dump(exclude_defaults=True)
        if isinstance(row, Mapping):
            values = {str(key): to_json(value) for key, value in row.items()}
            source.rows.append((number, values))
            source.columns = source.columns or tuple(values)
        else:
            source.add_problem(number, f"should be a dict or a Sample, is {_described(row)}")
    if not (source.rows or source.problems):
        raise NothingToEvaluate("there are no rows", where=name)
    source.check_width(len(source.columns))
    if source.rows and are_spans(source.rows[0][1]):
        spans = [values for _, values in source.rows]
        source.rows, source.columns = [], ()
        return rows_of_spans(source, spans)
    return source


def _records(data: Any, name: str) -> Iterable[object]:
    """Its rows, one after the other."""
    if isinstance(data, Mapping | str | bytes):
        hint = f"give {_TAKEN}"
        if isinstance(data, Mapping) and data and all(_reader(part) for part in data.values()):
            hint = f"it has several tables; name one, such as [{next(iter(data))!r}]"
        raise BadInput(f"{_described(data)} is no table of rows", where=name, hint=hint)
    if callable(getattr(data, "collect", None)) and hasattr(data, "lazy"):
        data = data.collect()  # polars' LazyFrame
    if reader := _reader(data):
        return reader(data)
    if isinstance(data, Iterable):
        return data
    raise BadInput(f"{_described(data)} is no table of rows", where=name, hint=f"give {_TAKEN}")


def _reader(data: Any) -> Callable[[Any], Iterable[object]] | None:
    """What reads the rows of a table; None for what is none."""
    if isinstance(data, type):
        return None
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return _of_pandas
    for method in ("to_dicts", "to_pylist"):  # polars; Arrow
        if callable(getattr(data, method, None)):
            return lambda table: getattr(table, method)()
    if hasattr(data, "__arrow_c_stream__"):
        return _of_arrow
    if hasattr(data, "column_names") and hasattr(data, "features"):
        return iter  # Hugging Face
    return None


def _of_pandas(frame: Any) -> Iterable[object]:
    if twice := next((name for name in frame.columns if list(frame.columns).count(name) > 1), None):
        raise BadInput(f"two columns are called {shown(str(twice))}")
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    records: Iterable[object] = frame.to_dict("records")
    return records


def _of_arrow(table: Any) -> Iterable[object]:
    import pyarrow

    rows: Iterable[object] = pyarrow.table(table).to_pylist()
    return rows


def _described(value: object) -> str:
    kind = type(value)
    if kind.__module__ == "builtins":
        return "None" if value is None else shown(value)
    return f"a {kind.__module__}.{kind.__name__}"
