"""Grids as CSV for a spreadsheet: one header and a line for each row; no text of it is a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import orjson

from ragassay.analysis.ab import METRICS, Trial
from ragassay.core.errors import BadInput
from ragassay.core.formatting import cut, number
from ragassay.core.report import Report, ReportWithResults
from ragassay.reporting.tabular import Grid, provenance, row_grid, summary

LONGEST_SHOWN = 300
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # some spreadsheets read full-width signs alike
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?")


def export(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The columns of ``row_grid``, row by row; what is missing is an empty cell."""
    return lines(row_grid(report, fields))


def figures(report: Report) -> Iterator[bytes]:
    """The figures of the report, then where they come from, by name with a value; ``part`` says which of both."""
    grid = summary(report)
    system, figure, *others = grid.columns
    yield line(["part", system, figure, "value", *others])
    yield from (line(["summary", *row[:2], None, *row[2:]]) for row in grid.rows)
    empty = [None] * len(others)
    yield from (line(["provenance", None, *row, *empty]) for row in provenance(report).rows)


def trial_table(trial: Trial) -> bytes:
    """Two rows for each query, A and B. Raises BadInput for an id with a space: hits are joined with spaces."""
    rows = [line(["qid", "system", *METRICS, "hits"])]
    for row in trial.per_query:
        for name, scored in (("A", row.A), ("B", row.B)):
            if spaced := next((doc for doc in scored.hits if " " in doc), None):
                hint = "leave out --csv: it joins ids with spaces"
                raise BadInput(f"document id {spaced!r} holds a space", hint=hint)
            rows.append(line([row.qid, name, *(getattr(scored, metric) for metric in METRICS), " ".join(scored.hits)]))
    return b"".join(rows)


def lines(grid: Grid) -> Iterator[bytes]:
    """A header and a line for each row."""
    yield line(grid.columns)
    yield from map(line, grid.rows)


def line(cells: Iterable[object]) -> bytes:
    """One line of cells, with its end."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(map(cell, cells))  # so that it quotes a lone carriage return too
    return out.getvalue().removesuffix("\r\n").encode() + b"\n"


def cell(value: object) -> str:
    """Text that a spreadsheet will not run: what could start a formula gets a quote, unless it is a number."""
    text = as_text(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def short_text(value: object) -> str:
    """A cell as text to be read: numbers rounded, a long text cut."""
    return number(value) if isinstance(value, float) else cut(as_text(value), LONGEST_SHOWN)


def as_text(value: object) -> str:
    """A cell as text: lists and objects as JSON, times in UTC, what is missing as nothing."""
    if isinstance(value, dict | list | tuple):
        return orjson.dumps(value).decode()
    if isinstance(value, datetime):
        return f"{value.isoformat(timespec='seconds')}Z"
    return "" if value is None else str(value)
