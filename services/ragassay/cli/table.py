"""A report in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ragassay.data.describe import Description
from ragassay.documents import Report
from ragassay.exporters.summary import missing, sections, stopped

_WIDTH = 100


def print_report(report: Report, place: str, outputs: Sequence[Path]) -> None:
    """Systems side by side, what is missing, and where the report lies."""
    console = _console()
    source = report.provenance
    console.print(
        f"{escape(source.dataset.name)}: {source.dataset.rows} queries, judge {escape(str(source.judge['name']))}, "
        f"{source.configuration.confidence:.0%} intervals"
    )
    if early := stopped(report):
        console.print(escape(early))
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
    console.print(f"\nreport: {escape(place)}")
    for output in outputs:
        console.print(f"also: {escape(str(output))}")


def print_description(found: Description) -> None:
    """What a dataset holds."""
    console = _console()
    console.print(
        f"{escape(found.path)}: {found.rows} rows, {found.responses} with a response, digest {found.digest[:12]}"
    )
    fields = Table(box=None, pad_edge=False)
    for column in ("field", "column", "rows", "null"):
        fields.add_column(column, justify="right" if column in ("rows", "null") else "left")
    for name, rows in found.fields.items():
        fields.add_row(name, escape(found.mapped.get(name, "")), str(rows), str(found.rows - rows))
    console.print(fields)
    if found.kept_as_metadata:
        console.print(f"kept as metadata: {escape(', '.join(found.kept_as_metadata))}")
    for label, table in (("categories", found.categories), ("difficulties", found.difficulties)):
        if table:
            console.print(f"{label}: {escape(', '.join(f'{name} {rows}' for name, rows in table.items()))}")
    spreads = {
        "relevant documents": found.relevant_per_query,
        "retrieved documents": found.retrieved_per_query,
        "contexts": found.contexts_per_query,
        **{f"words of {name}": spread for name, spread in found.words.items()},
    }
    for label, spread in spreads.items():
        if spread:
            console.print(f"{label}: {spread.mean:.1f} on average, {spread.min:g} to {spread.max:g}")
    for repeated in found.repeated_queries:
        console.print(f"asked more than once: {escape(repeated.query)} ({escape(', '.join(repeated.query_ids))})")
    _print_computable(console, found)
    for warning in found.warnings:
        console.print(f"warning: {escape(warning)}")


def _print_computable(console: Console, found: Description) -> None:
    """Metrics by how many rows have their input; what the others lack is said once per reason."""
    groups: dict[tuple[int, str], list[str]] = {}
    for metric in found.metrics:
        counted = (f"{reason} ({rows})" if metric.rows else reason for reason, rows in metric.lacking.items())
        lacking = "; ".join(counted)
        groups.setdefault((metric.rows, lacking), []).append(metric.metric)
    console.print("\nmetrics that can be computed")
    for (rows, lacking), names in sorted(groups.items(), key=lambda group: -group[0][0]):
        if rows:
            console.print(
                f"  {rows} of {found.rows} rows: {', '.join(names)}" + (f" - {escape(lacking)}" if lacking else "")
            )
    none = [f"{', '.join(names)} ({escape(lacking)})" for (rows, lacking), names in groups.items() if not rows]
    if none:
        console.print(f"  no row: {'; '.join(none)}")


def _console() -> Console:
    """A console that is wide enough for two systems where there is no terminal to fit into."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_WIDTH)
