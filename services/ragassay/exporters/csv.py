"""The rows of a report for a spreadsheet: one header, one line for each query and system."""

from __future__ import annotations

import csv
import io
import re

import orjson

from ragassay.documents import Report
from ragassay.exporters.rows import flat_rows

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?")


def export(report: Report) -> bytes:
    """The columns of ``flat_rows``; what is missing is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows = flat_rows(report)
    writer.writerow(map(cell, rows[0] if rows else ()))
    writer.writerows(map(cell, row.values()) for row in rows)
    return out.getvalue().encode()


def cell(value: object) -> str:
    """Text that a spreadsheet will not run: what could start a formula gets a quote, unless it is a number."""
    if isinstance(value, dict | list | tuple):
        value = orjson.dumps(value).decode()
    text = "" if value is None else str(value)
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") and text and not _NUMBER.fullmatch(text) else text
