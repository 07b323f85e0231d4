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
    from ragassay.reporting.tables import Table


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


def print_document(document: Document, *places: str) -> None:
    """The document, then where all of it lies."""
    from ragassay.reporting.text import text_lines

    write = line_writer()
    for line, is_title in text_lines(document):
        write(line, "bold" if is_title else None)
    for place in places:
        write(place)


def print_report(report: ReportWithResults, place: str, outputs: Sequence[Path], server: str | None = None) -> None:
    """Systems side by side, what is missing, which rows failed and why, and last the headline and where it all lies."""
    from rich.markup import escape

    from ragassay.reporting.failing import failure_causes, headline
    from ragassay.reporting.summary import (
        interrupted,
        missing,
        partial,
        sections,
        suspicious,
    )

    out = console()
    source = report.provenance
    out.print(
        f"{escape(source.dataset.name)}: {source.dataset.rows} queries, judge {escape(str(source.judge['name']))}, "
        f"{source.configuration.confidence:.0%} intervals"
    )
    if part := partial(report):
        out.print(f"[bold]{escape(part)}[/bold]")
    for section in sections(report):
        _print_section(out, section)
    if line := interrupted(report):
        out.print(f"\n{escape(line)}")
    for title, lines in (("Missing", missing(report)), ("Suspicious", suspicious(report))):
        if shown := list(lines):
            out.print(f"\n[bold]{title}[/bold]")
            for line in shown:
                out.print(f"  {escape(line)}")
    failed = failure_causes(report)
    unanswered = any(system.failed_responses for system in report.systems.values())
    if failed:
        _print_section(out, failed)
    _print_worst(out, report)
    _print_slices(out, report)
    out.print()
    for name, system in report.systems.items():
        out.print(f"[bold]{escape(name)}[/bold]: {escape(headline(system))}")
    for caution in report.cautions:
        out.print(f"caution: {escape(caution)}")
    out.print(f"\nreport: {escape(place)}")
    for output in outputs:
        out.print(f"also: {escape(str(output))}")
    which = "--wrong" if failed or unanswered else "--worst 10"
    out.print(f"rows: ragassay show {escape(report.run.id)} {which}{f' --server {escape(server)}' if server else ''}")


def _print_section(out: Console, section: Table) -> None:
    from rich.markup import escape
    from rich.table import Table as RichTable

    out.print()
    if not section.rows:
        out.print(f"[bold]{escape(section.title)}[/bold]: {escape(section.note)}")
        return
    out.print(f"[bold]{escape(section.title)}[/bold]")
    table = RichTable(*map(escape, section.columns), box=None, pad_edge=False)
    for row in section.rows:
        table.add_row(*map(escape, row))
    out.print(table)
    if section.note:
        out.print(escape(section.note))


def _print_worst(out: Console, report: ReportWithResults) -> None:
    from rich.markup import escape

    from ragassay.reporting.failing import worst_rows

    if rows := worst_rows(report):
        out.print("\n[bold]Worst rows[/bold]")
    for row in rows:
        out.print(f"  {escape(row.system)} {escape(row.query_id)}: {escape(row.query)}")
        print_fields(out, row.texts)


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


def _print_slices(out: Console, report: ReportWithResults) -> None:
    """By category and difficulty; of the other fields only their names."""
    from rich.markup import escape

    from ragassay.core.formatting import listed
    from ragassay.reporting.failing import MOST_SLICES_SHOWN, slice_fields, slice_section

    ours, own = (fields := slice_fields(report))[:2], fields[2:]
    for field in ours:
        if section := slice_section(report, field, MOST_SLICES_SHOWN):
            _print_section(out, section)
    if own:
        out.print(f"\nalso by {escape(listed(own))}: -o FILE.md has them")
