"""Grids as sheets of a workbook, each cell of its type; no text is ever a formula."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ragassay.core.errors import TooLarge
from ragassay.core.report import ReportWithResults
from ragassay.reporting.csv import as_text
from ragassay.reporting.tabular import Grid, kind_with, provenance, row_grid, summary, time

if TYPE_CHECKING:
    from xlsxwriter import Workbook

MAX_ROWS = 1_000_000  # of a sheet, of 1,048,576 that there are
LONGEST_CELL = 32_767  # in UTF-16
_CUT = " ... (cut: a cell holds no more)"
_NEVER = datetime(1980, 1, 1, tzinfo=UTC)  # the first day that an archive can say
_A_PART = 2**20
_WIDTHS = {"query": 40, "answer": 60, "ground_truth_answer": 40, "why": 40, "value": 66, "name": 24, "figure": 30}


def export(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The sheets Summary, Rows (the columns of ``row_grid``) and Provenance. Raises TooLarge for more rows than fit."""
    if sum(map(len, report.results.values())) > MAX_ROWS:
        raise TooLarge(f"a sheet holds {MAX_ROWS:,} rows, and there are more", hint="write csv or parquet")
    grids = [summary(report), row_grid(report, fields), provenance(report)]
    return workbook(grids, time(report.run.created_at))


def workbook(grids: Sequence[Grid], created: datetime | None = None) -> Iterator[bytes]:
    """The grids as sheets of a workbook, in parts."""
    from xlsxwriter import Workbook

    with tempfile.TemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
        options = {"constant_memory": True, "tmpdir": folder, "strings_to_urls": False, "strings_to_formulas": False}
        book = Workbook(file, options | {"default_date_format": "yyyy-mm-dd hh:mm:ss"})
        book.set_properties({"created": created or _NEVER, "comments": "made by ragassay"})
        for grid in grids:
            _sheet(book, grid)
        book.close()
        file.seek(0)
        yield from iter(lambda: file.read(_A_PART), b"")


def _sheet(book: Workbook, grid: Grid) -> None:
    sheet, bold = book.add_worksheet(grid.title), book.add_format({"bold": True, "bottom": 1})
    sheet.freeze_panes(1, 0)
    for column, name in enumerate(grid.columns):
        sheet.set_column(column, column, _WIDTHS.get(name, 16))
        sheet.write_string(0, column, _text(name), bold)
    last = 0
    for last, row in enumerate(grid.rows, 1):
        for column, value in enumerate(row):
            if isinstance(value, datetime):
                sheet.write_datetime(last, column, value)
            elif isinstance(value, bool):
                sheet.write_boolean(last, column, value)
            elif kind_with(None, value) in ("integer", "number"):
                sheet.write_number(last, column, value)
            elif value is not None:
                sheet.write_string(last, column, _text(value))
    sheet.autofilter(0, 0, last, len(grid.columns) - 1)


def _text(value: Any) -> str:
    units = as_text(value).encode("utf-16-le")  # what a cell counts: two for an emoji
    if len(units) > 2 * LONGEST_CELL:
        return units[: 2 * (LONGEST_CELL - len(_CUT))].decode("utf-16-le", "ignore") + _CUT
    return units.decode("utf-16-le")
