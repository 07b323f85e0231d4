"""The rows of a report for a spreadsheet: one header, one line for each query and system."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain

import orjson

from ragassay.documents import Report
from ragassay.exporters.rows import flat_rows

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?")


def export(report: Report) -> Iterator[bytes]:
    """The columns of ``flat_rows``, row by row; what is missing is an empty cell."""
    rows = flat_rows(report)
    first = next(rows, {})
    yield line(first)
    for row in chain([first] if first else (), rows):
        yield line(row.values())


def line(cells: Iterable[object]) -> bytes:
    """One line of cells, with its end."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(map(cell, cells))
    return out.getvalue().encode()


def cell(value: object) -> str:
    """Text that a spreadsheet will not run: what could start a formula gets a quote, unless it is a number."""
    if isinstance(value, dict | list | tuple):
        value = orjson.dumps(value).decode()
    text = "" if value is None else str(value)
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") and text and not _NUMBER.fullmatch(text) else text
