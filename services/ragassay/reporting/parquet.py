"""Rows as Parquet: typed columns, and what they are of in the metadata of the file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice

import orjson

from ragassay.core.models import FrozenModel
from ragassay.core.report import ReportWithResults
from ragassay.reporting.csv import as_text
from ragassay.reporting.grids import Grid
from ragassay.reporting.rows import row_grid

_A_GROUP = 5000  # rows
_A_PART = 2**20


def export(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The columns of ``row_grid``; the report without its rows is the metadata ``ragassay``, as JSON."""
    grid = row_grid(report, fields)
    return _file(grid, report.figures)


def _file(grid: Grid, document: FrozenModel) -> Iterator[bytes]:
    import pyarrow
    import pyarrow.parquet

    types = {"text": pyarrow.string(), "number": pyarrow.float64(), "integer": pyarrow.int64(), "flag": pyarrow.bool_()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in grid.columns.items()])
    rows = iter(grid.rows)
    with tempfile.TemporaryFile() as file:
        with pyarrow.parquet.ParquetWriter(file, schema) as writer:
            while group := list(islice(rows, _A_GROUP)):
                cells = zip(schema, zip(*group, strict=True), strict=True)
                arrays = [
                    pyarrow.array(_texts(column) if field.type == types["text"] else column, field.type)
                    for field, column in cells
                ]
                writer.write_table(pyarrow.table(arrays, schema))
            writer.add_key_value_metadata({"ragassay": orjson.dumps(document.model_dump(mode="json")).decode()})
        file.seek(0)
        yield from iter(lambda: file.read(_A_PART), b"")


def _texts(column: Sequence[object]) -> list[str | None]:
    return [None if value is None else as_text(value) for value in column]
