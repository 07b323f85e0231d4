"""``ragassay compare`` and ``ragassay power``: which system is better, how sure that is, and what it takes to know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.configured import DECLARED, AsJson, configured, import_plugins, takes_options, used
from ragassay.cli.evaluate import Config
from ragassay.cli.terminal import print_json
from ragassay.core.errors import BadInput, BadSettings

if TYPE_CHECKING:
    from ragassay.analysis.comparing import Unevaluated
    from ragassay.analysis.difference import Difference
    from ragassay.analysis.models import Comparison
    from ragassay.analysis.sides import Side
    from ragassay.config import Configuration
    from ragassay.sdk.evaluation import Given
    from ragassay.sdk.progress import Reporter

_CORRECTIONS = ("holm", "bh", "bonferroni", "none")

# Those of ``evaluate`` that have another meaning here, or none.
_NOT_TAKEN = ("datasets", "systems", "limit", "output", "name", "metrics", "baseline")

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
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Examples listed for each metric and cause.")]
Outputs = Annotated[list[Path] | None, typer.Option("-o", "--output", metavar="FILE", help="Also write .json, .md.")]
Server = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="The service that jobs are of. [http://127.0.0.1:8400]")
]
PlannedRuns = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN[#SYSTEM]...]", help="Two systems or more whose differences tell the spread."),
]
TrueDifference = Annotated[
    float | None,
    typer.Option("--difference", metavar="X", help="True mean difference to be shown, in units of the metric."),
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


@takes_options(without=_NOT_TAKEN)
def compare(
    runs: Runs,
    baseline: BaselineName = None,
    metrics: Metrics = None,
    alpha: Alpha = 0.05,
    correction: Correct = "holm",
    limit: Limit = 3,
    output: Outputs = None,
    as_json: AsJson = False,
    server: Server = None,
    config: Config = None,
    **options: Any,
) -> None:
    """Compare the systems of a run, or of several runs, jobs and data files, with the first one."""
    from ragassay.cli.evaluate import Terminal, refuse_unscored
    from ragassay.metrics.names import split_names
    from ragassay.reporting.comparison import EXPORTERS
    from ragassay.sdk.comparing import compared
    from ragassay.stats.tests import correction_named

    EXPORTERS.check(output or ())
    import_plugins(options.pop("plugins", None))
    if limit < 0:
        raise BadSettings(f"--limit must not be negative, not {limit}")
    reporter, asked = Terminal(quiet=as_json), None if metrics is None else split_names(metrics)
    result, made = compared(
        _sides(runs, server, config, {**options, "metrics": metrics}, reporter),
        reporter,
        evaluating=lambda side, spec: typer.echo(
            f"evaluating {side.name}: {len(side.inputs.samples)} queries, judge {spec.judged_by}", err=True
        ),
        baseline=baseline,
        metrics=asked,
        alpha=alpha,
        correction=correction_named(correction, where="--correction"),
        examples=limit,
    )
    show_comparison(result, output or [], as_json=as_json)
    for report in made:
        refuse_unscored(report, report.provenance.configuration.max_missing)


def _sides(
    references: list[str], server: str | None, config: Path | None, options: dict[str, Any], reporter: Reporter
) -> list[Side | Unevaluated]:
    """``sides_of`` what the command line names; ``config`` and ``options`` are about data files only."""
    from ragassay.analysis.comparing import Unevaluated
    from ragassay.sdk.comparing import sides_of
    from ragassay.sdk.evaluation import Given

    def configure(data: str) -> tuple[Configuration, Given]:
        if len(references) == 1:
            what = f"a comparison needs two systems, {references[0]} is one"
            raise BadInput(what, hint="ragassay compare A.jsonl B.jsonl")
        configuration = configured(config, options, data=Path(data))
        return configuration.model_copy(update={"systems": {}}), Given()

    sides = sides_of(references, configure, reporter, server)
    flags = [DECLARED[key].option.flags[-1] for key in used(options) if key != "metrics"]
    given = [*flags, *(["--config"] if config else [])]
    if given and not any(isinstance(side, Unevaluated) for side in sides):
        raise BadSettings(f"{', '.join(given)}: all that is named is evaluated already", hint="leave it out")
    return sides


def show_comparison(result: Comparison, outputs: list[Path], *, as_json: bool, **written: Any) -> None:
    """Write the files, of the form and with the fields ``written``, and print the verdict and the tables behind it."""
    from ragassay.cli.evaluate import warnings_shown
    from ragassay.cli.terminal import print_document
    from ragassay.reporting.comparison import EXPORTERS, of_comparison

    with warnings_shown("ragassay.exporters"):
        for path in outputs:
            EXPORTERS.write(result, path, **written)
    if as_json:
        print_json(result)
    else:
        print_document(of_comparison(result), *(f"also: {output}" for output in outputs))


def power(
    difference: TrueDifference = None,
    runs: PlannedRuns = None,
    sd: Sd = None,
    baseline: BaselineName = None,
    metrics: PlannedMetrics = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    tests: Tests = 1,
) -> None:
    """Say how many queries show a difference, from the spread in a run of two systems or from --sd."""
    from ragassay.stats.power import needed_n

    if difference is None:
        raise BadSettings("--difference is missing", hint="for example: ragassay power last --difference 0.1")
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
    from ragassay.analysis import comparison
    from ragassay.metrics.names import split_names
    from ragassay.sdk.stored import chosen

    sides = [chosen(run) for run in runs or ()]
    result = comparison.compare(
        sides,
        baseline=baseline,
        metrics=None if metrics is None else split_names(metrics),
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


def _row(delta: Difference, difference: float, alpha: float, power: float) -> str:
    """Spread and number of the pairs at hand, the chance that so many show the difference, and how many would."""
    from ragassay.stats.power import needed_n, power_of

    sd = delta.sd
    if not sd:
        return f"  {'the systems share no query' if not delta.paired else 'its differences have no spread'}"
    chance = power_of(difference, delta.n, sd, alpha=alpha)
    return f"{sd:8.3g}{delta.n:9}{chance:>9.0%}{needed_n(difference, sd, alpha=alpha, power=power):9}"
