"""What a terminal is sent: text from data never acts on it, whichever command prints it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import typer

from ragassay.core.formatting import json_document, printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

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


def console(width: int = 100) -> Console:
    """Rich's console on stdout for text from data; ``width`` columns where there is no terminal to fit into."""
    from rich.console import Console
    from rich.text import Text

    class PrintableConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    return PrintableConsole(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else width)


def line_writer() -> Callable[..., None]:
    """What prints a line of text from data on stdout, however long, in a style where one is given."""
    out = console()

    def write(line: str = "", style: str | None = None) -> None:
        out.print(line, soft_wrap=True, markup=False, style=style)

    return write


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, least: Sequence[str] = (), empty: str = ""
) -> None:
    """A table that fits the terminal, or the line ``empty`` if it has no row; ``least``: columns that may be left out."""
    from ragassay.reporting.tables import table

    typer.echo("\n".join(table(columns, rows, least=least)) if rows else empty)


def print_document(document: Document, *places: str) -> None:
    """The document, then where all of it lies."""
    from ragassay.reporting.text import text_lines

    write = line_writer()
    for line, is_title in text_lines(document):
        write(line, "bold" if is_title else None)
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


def print_fields(out: Console, fields: Iterable[tuple[str, str]]) -> None:
    """A line for each label and text, indented; a text that is longer than the terminal is wide stays in its column."""
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in fields:
        table.add_row(f"    {escape(label)}", escape(text))
    out.print(table)
