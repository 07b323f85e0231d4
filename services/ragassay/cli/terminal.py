"""What a terminal is sent: text from data never acts on it, whichever command prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from ragassay.render import printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from ragassay.documents import Report


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


def console(width: int = 100) -> Console:
    """Rich's console on stdout for text from data; ``width`` columns where there is no terminal to fit into."""
    from rich.console import Console
    from rich.text import Text

    class PrintableConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    return PrintableConsole(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else width)


def print_report(report: Report, place: str, outputs: Sequence[Path]) -> None:
    """Systems side by side, what is missing, and where the report lies."""
    from rich.markup import escape
    from rich.table import Table

    from ragassay.exporters.summary import interrupted, missing, sections, stopped, suspicious

    out = console()
    source = report.provenance
    out.print(
        f"{escape(source.dataset.name)}: {source.dataset.rows} queries, judge {escape(str(source.judge['name']))}, "
        f"{source.configuration.confidence:.0%} intervals"
    )
    if early := stopped(report):
        out.print(escape(early))
    for section in sections(report):
        table = Table(title=section.title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.add_column("")
        for name in report.systems:
            table.add_column(escape(name))
        for label, cells in section.rows:
            table.add_row(label, *map(escape, cells))
        out.print()
        out.print(table)
    if lost := interrupted(report):
        out.print(f"\n{lost}")
    out.print("\n[bold]Missing[/bold]")
    gaps = list(missing(report))
    for gap in gaps or ["nothing: every row has every score"]:
        out.print(f"  {escape(gap)}")
    if marked := list(suspicious(report)):
        out.print("\n[bold]Suspicious[/bold]")
        for line in marked:
            out.print(f"  {escape(line)}")
    out.print(f"\nreport: {escape(place)}")
    for output in outputs:
        out.print(f"also: {escape(str(output))}")
