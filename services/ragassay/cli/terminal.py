"""What a terminal is sent: text from data never acts on it, whichever command prints it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import typer

from ragassay.core.formatting import json_document, printable

if TYPE_CHECKING:
    from pathlib import Path

    from ragassay.core.report import ReportWithResults
    from ragassay.reporting.document import Document


class _Printable:
    """A text stream that shows control characters; its buffer takes bytes as they are."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # where rich writes, whose own control codes are meant

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def printable_streams() -> Iterator[None]:
    """Within the block, ``sys.stdout`` and ``sys.stderr`` show control characters instead of sending them."""
    streams = sys.stdout, sys.stderr  # either is None in a process that was started without it
    sys.stdout, sys.stderr = (stream and cast("TextIO", _Printable(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def print_json(document: object) -> None:
    """A document on stdout as ``json_document`` writes it."""
    typer.echo(json_document(document), nl=False)


def write(line: str = "", *, bold: bool = False) -> None:
    """A line of text from data on stdout, however long; bold on a terminal."""
    stream = getattr(sys.stdout, "rich_proxied_file", sys.stdout)
    bold = bold and stream.isatty() and not os.environ.get("NO_COLOR")
    stream.write(f"\033[1m{printable(line)}\033[0m\n" if bold else f"{printable(line)}\n")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, least: Sequence[str] = (), empty: str = ""
) -> None:
    """A table that fits the terminal, or the line ``empty`` if it has no row; ``least``: columns that may be left out."""
    from ragassay.reporting.tables import table

    typer.echo("\n".join(table(columns, rows, least=least)) if rows else empty)


def print_document(document: Document, *places: str) -> None:
    """The document, then where all of it lies."""
    from ragassay.reporting.text import text_lines

    for line, is_title in text_lines(document):
        write(line, bold=is_title)
    for place in places:
        write(place)


def print_report(report: ReportWithResults, place: str, outputs: Sequence[Path], server: str | None = None) -> None:
    """A sentence on each system, its figures, which rows failed and why, and last where it all lies."""
    from ragassay.reporting.failing import failure_causes
    from ragassay.reporting.report import in_short

    failed = failure_causes(report) or any(system.failed_responses for system in report.systems.values())
    rows = f"rows: ragassay show {report.run.id} {'--wrong' if failed else '--worst 10'}"
    at = f" --server {server}" if server else ""
    also = [f"also: {output}" for output in outputs]
    print_document(in_short(report), "", f"report: {place}", *also, f"{rows}{at}")


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """A line for each label and text, indented; a text that is longer than the terminal is wide stays in its column."""
    from textwrap import wrap

    from ragassay.reporting.tables import width

    pairs = list(fields)
    column = max(len(label) for label, _ in pairs) + 6
    for label, text in pairs:
        first, *more = wrap(text, max(30, width() - column)) or [""]
        write(f"    {label}".ljust(column) + first)
        for line in more:
            write(" " * column + line)
