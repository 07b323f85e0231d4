"""``ragassay compare`` and ``ragassay power``: which system is better, how sure that is, and what it takes to know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.configured import AsJson, Plugins, import_plugins
from ragassay.errors import BadSettings

if TYPE_CHECKING:
    from ragassay.compare.models import Comparison, Delta
    from ragassay.stats import Correction

_CORRECTIONS = ("holm", "bh", "bonferroni", "none")

Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUN[#SYSTEM]...", help="Run ids, 'last', run folders, report files, ids of jobs."),
]
BaselineName = Annotated[
    str | None, typer.Option("--baseline", metavar="NAME", help="Compare with this system. [the first]")
]
Metrics = Annotated[str | None, typer.Option("--metrics", metavar="A,B", help="Metrics to compare. [all in common]")]
Alpha = Annotated[float, typer.Option("--alpha", metavar="X", help="Chance of a false finding that is accepted.")]
Correct = Annotated[
    str, typer.Option("--correction", metavar="NAME", help=f"For many tests: {', '.join(_CORRECTIONS)}.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Examples listed for each metric and cause.")]
Outputs = Annotated[list[Path] | None, typer.Option("-o", "--output", metavar="FILE", help="Also write .json, .md.")]
Server = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="The service that jobs are of. [http://127.0.0.1:8400]")
]
PlannedRuns = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN[#SYSTEM]...]", help="Two systems or more whose differences tell the spread."),
]
Difference = Annotated[
    float, typer.Option("--difference", metavar="X", help="True mean difference to be shown, in units of the metric.")
]
Sd = Annotated[
    float | None,
    typer.Option("--sd", metavar="X", help="Standard deviation of the differences, where there is no run."),
]
PlannedMetrics = Annotated[
    str | None, typer.Option("--metrics", metavar="A,B", help="Metrics to plan for. [all in common]")
]
Power = Annotated[float, typer.Option("--power", metavar="X", help="Chance of showing the difference that is wanted.")]
Tests = Annotated[
    int, typer.Option("--tests", metavar="N", help="Metrics x systems that will be compared: alpha is divided by it.")
]


def compare(
    runs: Runs,
    baseline: BaselineName = None,
    metrics: Metrics = None,
    alpha: Alpha = 0.05,
    correction: Correct = "holm",
    limit: Limit = 3,
    output: Outputs = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Compare the systems of a run, or of several runs and jobs, with the first one."""
    from ragassay.cli.reports import chosen
    from ragassay.compare import comparison
    from ragassay.config import names
    from ragassay.exporters.comparison import EXPORTERS
    from ragassay.render import json_document

    for path in output or ():
        EXPORTERS.for_file(path)
    import_plugins(plugin)
    if limit < 0:
        raise BadSettings(f"--limit must not be negative, not {limit}")
    result = comparison.compare(
        [chosen(reference, server) for reference in runs],
        baseline=baseline,
        metrics=None if metrics is None else names(metrics),
        alpha=alpha,
        correction=_correction(correction),
        examples=limit,
    )
    for path in output or ():
        EXPORTERS.write(result, path)
    if as_json:
        typer.echo(json_document(result), nl=False)
    else:
        _print(result, output or [])


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


def _print(result: Comparison, outputs: list[Path]) -> None:
    """The verdict first, then the tables behind it."""
    from rich.markup import escape
    from rich.table import Table

    from ragassay.cli.terminal import console
    from ragassay.exporters.comparison import tables

    out = console(width=120)
    for sentence in result.verdict:
        out.print(escape(sentence), soft_wrap=True)
    for warning in result.warnings:
        out.print(f"warning: {escape(warning)}", soft_wrap=True)
    for shown in tables(result):
        table = Table(title=escape(shown.title), title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in shown.columns:
            table.add_column(escape(column), overflow="fold")
        for row in shown.rows:
            table.add_row(*map(escape, row))
        out.print()
        out.print(table)
        if shown.note:
            out.print(escape(shown.note), soft_wrap=True)
    for output in outputs:
        out.print(f"also: {escape(str(output))}", soft_wrap=True)


def power(
    difference: Difference,
    runs: PlannedRuns = None,
    sd: Sd = None,
    baseline: BaselineName = None,
    metrics: PlannedMetrics = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    tests: Tests = 1,
) -> None:
    """Say how many queries show a difference, from the spread in a run of two systems or from --sd."""
    from ragassay.stats import needed_n

    if (sd is None) is (not runs):
        raise BadSettings(
            "give a run with two systems, or --sd", hint="for example: ragassay power last --difference 0.1"
        )
    if tests < 1:
        raise BadSettings(f"--tests must be at least 1, not {tests}")
    if sd is not None:
        needed = needed_n(difference, sd, alpha=alpha / tests, power=power)
        typer.echo(f"{needed} queries show a difference of {difference:g} with a chance of {power:.0%}")
        return
    from ragassay.cli.reports import chosen
    from ragassay.compare import comparison
    from ragassay.config import names

    result = comparison.compare(
        [chosen(run) for run in runs or ()],
        baseline=baseline,
        metrics=None if metrics is None else names(metrics),
        alpha=alpha,
        correction="none",
    )
    lines = []
    for pair in result.pairs:
        lines += [f"{pair.b} against {pair.a}: to show a difference of {difference:g} with a chance of {power:.0%}", ""]
        lines += [f"{'metric':24}{'sd':>8}{'queries':>9}{'chance':>9}{'needed':>9}"]
        lines += [f"{name:24}{_row(delta, difference, alpha / tests, power)}" for name, delta in pair.metrics.items()]
        lines += [""]
    typer.echo("\n".join(lines[:-1]))


def _row(delta: Delta, difference: float, alpha: float, power: float) -> str:
    """Spread and number of the pairs at hand, the chance that so many show the difference, and how many would."""
    from ragassay.stats import needed_n, power_of

    sd = delta.paired.sd if delta.paired else None
    if not sd:
        return f"  {'the systems share no query' if delta.paired is None else 'its differences have no spread'}"
    chance = power_of(difference, delta.n, sd, alpha=alpha)
    return f"{sd:8.3g}{delta.n:9}{chance:>9.0%}{needed_n(difference, sd, alpha=alpha, power=power):9}"
