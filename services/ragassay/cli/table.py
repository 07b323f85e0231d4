"""A report in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ragassay.documents import Report
from ragassay.exporters.summary import missing, sections


def print_report(report: Report, path: Path, outputs: Sequence[Path]) -> None:
    """Systems side by side, what is missing, and where the report lies."""
    console = Console(highlight=False, soft_wrap=not _is_wide_enough())
    source = report.provenance
    console.print(
        f"{escape(source.dataset.name)}: {source.dataset.rows} queries, judge {escape(str(source.judge['name']))}, "
        f"{source.configuration.confidence:.0%} intervals"
    )
    for section in sections(report):
        table = Table(title=section.title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.add_column("")
        for name in report.systems:
            table.add_column(escape(name))
        for label, cells in section.rows:
            table.add_row(label, *map(escape, cells))
        console.print()
        console.print(table)
    console.print("\n[bold]Missing[/bold]")
    gaps = list(missing(report))
    for gap in gaps or ["nothing: every row has every score"]:
        console.print(f"  {escape(gap)}")
    console.print(f"\nreport: {escape(str(path))}")
    for output in outputs:
        console.print(f"also: {escape(str(output))}")


def _is_wide_enough() -> bool:
    return Console().width >= 100
