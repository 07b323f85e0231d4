"""Reports as workbooks: figures, rows and provenance on sheets, typed; no text is ever a formula."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ragassay.core.errors import TooLarge
from ragassay.core.report import ReportWithResults
from ragassay.reporting.csv import as_text
from ragassay.reporting.grids import Grid, kind_with, provenance, summary, time
from ragassay.reporting.rows import row_grid

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

MOST_ROWS = 1_000_000  # of a sheet, of 1,048,576 that there are
LONGEST_CELL = 32_767
_CUT = " ... (cut: a cell holds no more)"
_NEVER = datetime(1980, 1, 1, tzinfo=UTC)  # the first day that an archive can say
_TIME = "yyyy-mm-dd hh:mm:ss"
_A_PART = 2**20
_WIDTHS = {"query": 40, "answer": 60, "ground_truth_answer": 40, "why": 40, "value": 66, "name": 24, "figure": 30}


def export(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The sheets Summary, Rows (the columns of ``row_grid``) and Provenance. Raises TooLarge for more rows than fit."""
    if sum(map(len, report.results.values())) > MOST_ROWS:
        raise TooLarge(f"a sheet holds {MOST_ROWS:,} rows, and there are more", hint="write csv or parquet")
    grids = [summary(report), row_grid(report, fields), provenance(report)]
    return workbook(grids, time(report.run.created_at))


def workbook(grids: Sequence[Grid], created: datetime | None = None) -> Iterator[bytes]:
    """The grids as sheets of a workbook, in parts."""
    from xlsxwriter import Workbook

    with tempfile.TemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
        options = {"constant_memory": True, "tmpdir": folder, "strings_to_urls": False, "strings_to_formulas": False}
        book = Workbook(file, options)
        book.set_properties({"created": created or _NEVER, "comments": "made by ragassay"})
        formats = {
            "header": book.add_format({"bold": True, "bottom": 1}),
            "time": book.add_format({"num_format": _TIME}),
        }
        for grid in grids:
            _sheet(book, grid, formats)
        book.close()
        file.seek(0)
        yield from iter(lambda: file.read(_A_PART), b"")


def _sheet(book: Workbook, grid: Grid, formats: dict[str, Format]) -> None:
    sheet = book.add_worksheet(grid.title)
    sheet.freeze_panes(1, 0)
    for column, (name, kind) in enumerate(grid.columns.items()):
        usual = 16 if kind == "text" else max(10, len(name) + 2)
        sheet.set_column(column, column, _WIDTHS.get(name, min(usual, 30)))
        sheet.write_string(0, column, _text(name), formats["header"])
    last = 0
    for last, row in enumerate(grid.rows, 1):
        for column, value in enumerate(row):
            _write(sheet, last, column, value, formats["time"])
    sheet.autofilter(0, 0, last, len(grid.columns) - 1)


def _write(sheet: Worksheet, row: int, column: int, value: Any, time_format: Format) -> None:
    if value is None:
        return
    if isinstance(value, datetime):
        sheet.write_datetime(row, column, value, time_format)
    elif isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif kind_with(None, value) in ("integer", "number"):
        sheet.write_number(row, column, value)
    else:
        sheet.write_string(row, column, _text(value))


def _text(value: object) -> str:
    text = as_text(value)
    if len(text) <= LONGEST_CELL // 2:
        return text
    units = text.encode("utf-16-le")  # what a cell counts: two for an emoji
    if len(units) <= 2 * LONGEST_CELL:
        return text
    return units[: 2 * (LONGEST_CELL - len(_CUT))].decode("utf-16-le", "ignore") + _CUT
