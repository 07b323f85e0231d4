"""``ragassay compare``: which system is better, by how much, and how sure that is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.errors import BadSettings

if TYPE_CHECKING:
    from ragassay.comparisons import Comparison
    from ragassay.stats import Correction

_CORRECTIONS = ("holm", "bh", "bonferroni", "none")

Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUN[#SYSTEM]...", help="Run ids, 'last', run folders, report files, ids of jobs."),
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="NAME", help="Compare with this system. [the first]")
]
Metrics = Annotated[str | None, typer.Option("--metrics", metavar="A,B", help="Metrics to compare. [all in common]")]
Alpha = Annotated[float, typer.Option("--alpha", metavar="X", help="Chance of a false finding that is accepted.")]
Correct = Annotated[
    str, typer.Option("--correction", metavar="NAME", help=f"For many tests: {', '.join(_CORRECTIONS)}.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Examples listed for each metric and cause.")]
Outputs = Annotated[list[Path] | None, typer.Option("-o", "--output", metavar="FILE", help="Also write .json, .md.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")]
Server = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="The service that jobs are of. [http://127.0.0.1:8400]")
]


def compare(
    runs: Runs,
    baseline: Baseline = None,
    metrics: Metrics = None,
    alpha: Alpha = 0.05,
    correction: Correct = "holm",
    limit: Limit = 3,
    output: Outputs = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Compare the systems of a run, or of several runs and jobs, with the first one."""
    from ragassay import comparison
    from ragassay.cli.evaluate import names
    from ragassay.cli.reports import chosen
    from ragassay.exporters.comparison import export, exporter_for, to_json

    for path in output or ():
        exporter_for(path)
    if limit < 0:
        raise BadSettings(f"--limit must not be negative, not {limit}")
    found = comparison.compare(
        comparison.entrants([chosen(reference, server) for reference in runs]),
        baseline=baseline,
        metrics=names(metrics),
        alpha=alpha,
        correction=_correction(correction),
        examples=limit,
    )
    for path in output or ():
        export(found, path)
    if as_json:
        sys.stdout.buffer.write(to_json(found))
        sys.stdout.buffer.flush()
    else:
        _print(found, output or [])


def _correction(name: str) -> Correction:
    """The correction of that name; ``bh`` is short for Benjamini-Hochberg."""
    known: dict[str, Correction] = {
        "holm": "holm",
        "bh": "benjamini_hochberg",
        "benjamini_hochberg": "benjamini_hochberg",
        "bonferroni": "bonferroni",
        "none": "none",
    }
    if name not in known:
        raise BadSettings(f"--correction: unknown {name!r}", hint=f"one of: {', '.join(_CORRECTIONS)}")
    return known[name]


def _print(found: Comparison, outputs: list[Path]) -> None:
    """The verdict first, then the tables behind it."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ragassay.exporters.comparison import tables

    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=120)
    for sentence in found.verdict:
        console.print(escape(sentence), soft_wrap=True)
    for warning in found.warnings:
        console.print(f"warning: {escape(warning)}", soft_wrap=True)
    for shown in tables(found):
        table = Table(title=escape(shown.title), title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in shown.columns:
            table.add_column(escape(column), overflow="fold")
        for row in shown.rows:
            table.add_row(*map(escape, row))
        console.print()
        console.print(table)
        if shown.note:
            console.print(escape(shown.note), soft_wrap=True)
    for output in outputs:
        console.print(f"also: {escape(str(output))}", soft_wrap=True)
