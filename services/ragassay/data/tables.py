"""Reads CSV, TSV and Parquet. Cells of CSV stay text: which of them are numbers or lists, the columns decide."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from ragassay.data.problems import shown
from ragassay.data.source import Source, lines
from ragassay.errors import BadData

_LARGEST_CELL = 2**31 - 1
_PARQUET_BATCH = 2048
_CSV_SAYS = {
    "unexpected end of data": "a quoted cell that opens in this row never ends",
    "expected after": "text follows a closing quote; a quote inside a quoted cell is written twice",
    "new-line character": "a lone carriage return; lines end with a line feed, or with both",
}


def read_csv(path: Path) -> Source:
    """Comma-separated, with a header; quoted cells may hold line breaks. An empty cell is an absent value.

    A row's number is the physical line on which it starts. Rows with too many or too few cells become problems.
    """
    return _separated(path, ",")


def read_tsv(path: Path) -> Source:
    """As CSV, separated by tabs."""
    return _separated(path, "\t")


def _separated(path: Path, delimiter: str) -> Source:
    source = Source(path, cells=True)
    records = _records(path, delimiter)
    at, header = next(records, (1, []))
    names = [name.strip() or f"column {n}" for n, name in enumerate(header, 1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadData([f"{path}:{at}: {shown(name)}: the header names this column twice" for name in twice])
    source.columns = tuple(names)
    for number, record in records:
        if len(record) == len(names):
            source.rows.append((number, {name: cell for name, cell in zip(names, record, strict=True) if cell}))
        else:
            cells = "1 cell" if len(record) == 1 else f"{len(record)} cells"
            source.refuse(number, f"has {cells}, the header has {len(names)}")
    return source


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the line each starts on; blank lines are passed over."""
    limit = csv.field_size_limit(_LARGEST_CELL)  # process-wide in the csv module, so it is put back
    reader = csv.reader((line for _, line in lines(path)), delimiter=delimiter, strict=True)
    start = 1
    try:
        for record in reader:
            if record:
                yield start, record
            start = reader.line_num + 1
    except csv.Error as error:
        what = next((plain for said, plain in _CSV_SAYS.items() if said in str(error)), str(error))
        raise BadData([f"{path}:{start}: is not valid CSV: {what}"]) from None
    finally:
        csv.field_size_limit(limit)


def read_parquet(path: Path) -> Source:
    """A Parquet file, in batches. Nulls are absent values; entries of a struct that are null are left out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = Source(path, counts_lines=False)
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise BadData([f"{path}: {shown(name)}: two columns have this name" for name in twice])
            source.columns = tuple(names)
            maps = {f.name for f in file.schema_arrow if pa.types.is_map(f.type)}
            for batch in file.iter_batches(batch_size=_PARQUET_BATCH):
                for row in batch.to_pylist():
                    values = {n: _plain(dict(v) if n in maps and v is not None else v) for n, v in row.items()}
                    source.rows.append((len(source.rows) + 1, values))
    except (pa.ArrowException, OSError, ValueError) as error:
        said = " ".join(str(error).split())
        raise BadData([f"{path}: is not a Parquet file that can be read: {said[:160]}"]) from None
    return source


def _plain(value: Any) -> Any:
    """An Arrow value as JSON would have it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value
