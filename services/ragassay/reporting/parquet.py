"""Rows as Parquet: typed columns, and what they are of in the metadata of the file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice

from ragassay.core.report import ReportWithResults
from ragassay.reporting.csv import as_text
from ragassay.reporting.tabular import Grid, row_grid

_A_GROUP = 5000  # rows
_A_PART = 2**20


def export(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The columns of ``row_grid``; the report without its rows is the metadata ``ragassay``, as JSON."""
    return _file(report, row_grid(report, fields))  # so that a bad field is an error at once


def _file(report: ReportWithResults, grid: Grid) -> Iterator[bytes]:
    import pyarrow
    import pyarrow.parquet

    types = {"text": pyarrow.string(), "number": pyarrow.float64(), "integer": pyarrow.int64(), "flag": pyarrow.bool_()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in grid.columns.items()])
    texts = [kind == "text" for kind in grid.columns.values()]
    rows = iter(grid.rows)
    with tempfile.TemporaryFile() as file:
        with pyarrow.parquet.ParquetWriter(file, schema) as writer:
            while group := list(islice(rows, _A_GROUP)):
                columns = zip(zip(*group, strict=True), texts, strict=True)
                cells = [_texts(column) if is_text else column for column, is_text in columns]
                arrays = [pyarrow.array(column, field.type) for column, field in zip(cells, schema, strict=True)]
                writer.write_table(pyarrow.table(arrays, schema))
            writer.add_key_value_metadata({"ragassay": report.without_rows.model_dump_json()})
        file.seek(0)
        yield from iter(lambda: file.read(_A_PART), b"")


def _texts(column: Sequence[object]) -> list[str | None]:
    return [None if value is None else as_text(value) for value in column]
