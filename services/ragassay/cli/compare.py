"""``ragassay compare``: which system is better, how sure that is, and how many queries it takes to know."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragassay.analysis import comparison
from ragassay.analysis.difference import Difference
from ragassay.analysis.models import Comparison
from ragassay.analysis.sides import Side
from ragassay.cli.options import (
    AsJson,
    Config,
    Outputs,
    Server,
    configured,
    import_plugins,
    takes_options,
    used,
)
from ragassay.cli.pairwise import prefer
from ragassay.cli.terminal import Terminal, print_document, refuse_unscored, show
from ragassay.config import ProjectConfig
from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.formatting import split_names
from ragassay.reporting.comparison import EXPORTERS, of_comparison
from ragassay.reporting.document import Document, Table
from ragassay.sdk.compare import Unevaluated, compared, sides_of
from ragassay.sdk.evaluation import Given
from ragassay.sdk.progress import Reporter
from ragassay.sdk.references import resolve
from ragassay.stats.power import needed_n, power_of
from ragassay.stats.tests import correction_named

_CORRECTIONS = ("holm", "bh", "bonferroni", "none")

# Those of ``evaluate`` that have another meaning here, or none.
_NOT_TAKEN = ("dataset", "system", "output", "name", "metrics", "baseline")

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN[#SYSTEM]|FILE...",
        help="Run ids or names, 'last', run folders, report files, ids of jobs; data files and datasets are evaluated first.",
    ),
]
BaselineName = Annotated[
    str | None, typer.Option("--baseline", metavar="NAME", help="Compare with this system. [the first]")
]
Metrics = Annotated[str | None, typer.Option("--metrics", metavar="A,B", help="Metrics to compare. [all in common]")]
Alpha = Annotated[float, typer.Option("--alpha", metavar="X", help="Chance of a false finding that is accepted.")]
Correct = Annotated[
    str, typer.Option("--correction", metavar="NAME", help=f"For many tests: {', '.join(_CORRECTIONS)}.")
]
Examples = Annotated[
    int, typer.Option("--examples", metavar="N", min=0, help="Examples listed for each metric and cause.")
]
Detect = Annotated[
    float | None,
    typer.Option("--detect", metavar="X", help="Instead, say how many queries show a mean difference of X."),
]
Pairwise = Annotated[
    str | None,
    typer.Option(
        "--pairwise", metavar="MODEL", help="Instead, this model says which answer is better, query by query."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="With --pairwise: print calls, tokens and the most it can cost; make no call.")
]
Power = Annotated[float, typer.Option("--power", metavar="X", help="With --detect: the chance of showing it.")]


@takes_options(without=_NOT_TAKEN)
def compare(
    runs: Runs,
    baseline: BaselineName = None,
    metrics: Metrics = None,
    alpha: Alpha = 0.05,
    correction: Correct = "holm",
    examples: Examples = 3,
    detect: Detect = None,
    power: Power = 0.8,
    pairwise: Pairwise = None,
    dry_run: DryRun = False,
    output: Outputs = None,
    as_json: AsJson = False,
    server: Server = None,
    config: Config = None,
    **options: Any,
) -> None:
    """Compare the systems of a run, or of several runs, jobs and data files, with the first one."""
    if pairwise is not None:
        prefer(runs, pairwise, server, config, options, output or [], as_json=as_json, dry_run=dry_run)
        return
    if dry_run:
        raise BadSettings("--dry-run is about the calls of --pairwise", hint="add --pairwise MODEL, or leave it out")
    EXPORTERS.check(output or ())
    import_plugins(options.pop("plugins", None))
    reporter, asked = Terminal(quiet=as_json), None if metrics is None else split_names(metrics)
    if detect is not None:
        sides = [resolve(run, server).side() for run in runs]
        found = comparison.compare(sides, baseline=baseline, metrics=asked, alpha=alpha, correction="none")
        _print_needed(found, detect, power)
        return
    result, made = compared(
        _sides(runs, server, config, {**options, "metrics": metrics}, reporter),
        reporter,
        evaluating=lambda side: typer.echo(
            f"evaluating {side.name}: {len(side.inputs.samples)} queries, judge {side.spec.judged_by}", err=True
        ),
        baseline=baseline,
        metrics=asked,
        alpha=alpha,
        correction=correction_named(correction, where="--correction"),
        examples=examples,
    )
    show(result, of_comparison, EXPORTERS, output or [], as_json=as_json)
    for report in made:
        refuse_unscored(report)


def _sides(
    references: list[str], server: str | None, config: Path | None, options: dict[str, Any], reporter: Reporter
) -> list[Side | Unevaluated]:
    """``sides_of`` what the command line names; ``config`` and ``options`` are about data files only."""

    def configure(data: str) -> tuple[ProjectConfig, Given]:
        if len(references) == 1:
            what = f"a comparison needs two systems, {references[0]} is one"
            raise BadInput(what, hint="ragassay compare A.jsonl B.jsonl")
        configuration = configured(config, options, data=Path(data))
        return configuration.model_copy(update={"systems": {}}), Given()

    sides = sides_of(references, configure, reporter, server)
    flags = used({key: value for key, value in options.items() if key != "metrics"})
    given = [*flags, *(["--config"] if config else [])]
    if given and not any(isinstance(side, Unevaluated) for side in sides):
        raise BadSettings(f"{', '.join(given)}: all that is named is evaluated already", hint="leave it out")
    return sides


def _print_needed(found: Comparison, difference: float, power: float) -> None:
    """How many queries show a difference, from the spread between the systems that are compared."""
    to_show = f"to show a difference of {difference:g} with a chance of {power:.0%}"
    columns = ("metric", "sd", "queries", "chance", "needed")
    tables = [
        Table(
            f"{pair.b} against {pair.a}: {to_show}",
            columns,
            tuple((name, *_needed(delta, difference, found.alpha, power)) for name, delta in pair.metrics.items()),
        )
        for pair in found.pairs
    ]
    print_document(Document("", blocks=tuple(tables)))


def _needed(delta: Difference, difference: float, alpha: float, power: float) -> tuple[str, ...]:
    """Spread and number of the pairs at hand, the chance that so many show the difference, and how many would."""
    if not delta.sd:
        return ("no spread" if delta.paired else "no shared query", "", "", "")
    chance = power_of(difference, delta.n, delta.sd, alpha=alpha)
    needed = needed_n(difference, delta.sd, alpha=alpha, power=power)
    return f"{delta.sd:.3g}", str(delta.n), f"{chance:.0%}", str(needed)
