"""``ragassay compare``: which system is better, how sure that is, and how many queries it takes to know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ragassay.cli.options import (
    AsJson,
    Config,
    Outputs,
    Server,
    configured,
    import_plugins,
    overrides,
    takes_options,
    used,
)
from ragassay.cli.terminal import Terminal, print_document, refuse_unscored, show
from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.formatting import split_names

if TYPE_CHECKING:
    from ragassay.analysis.difference import Difference
    from ragassay.analysis.models import Comparison
    from ragassay.config import ProjectConfig

_CORRECTIONS = ("holm", "bh", "bonferroni", "none")
_TWO = "ragassay compare A.jsonl B.jsonl; of one file with two columns of answers, evaluate each: --map answer=COLUMN --name NAME"

# Those of ``evaluate`` that have another meaning here, or none.
_NOT_TAKEN = ("dataset", "system", "output", "name", "metrics", "baseline")
_NOT_PAIRWISE = ("statistics", "metrics", "baseline", "judge", "judges", "map")  # keys without a meaning there

Runs = Annotated[
    list[str],
    Argument(
        metavar="RUN[#SYSTEM]|FILE...",
        help="Run ids or names, 'last', run folders, report files, ids of jobs; data files and datasets are evaluated first.",
    ),
]
BaselineName = Annotated[str | None, Option("--baseline", metavar="NAME", help="Compare with this system. [the first]")]
Metrics = Annotated[str | None, Option("--metrics", metavar="A,B", help="Metrics to compare. [all in common]")]
Alpha = Annotated[
    float | None, Option("--alpha", metavar="X", help="Chance of a false finding that is accepted. [the baseline's]")
]
Correct = Annotated[
    str | None,
    Option("--correction", metavar="NAME", help=f"For many tests: {', '.join(_CORRECTIONS)}. [the baseline's]"),
]
Examples = Annotated[int, Option("--examples", metavar="N", min=0, help="Examples listed for each metric.")]
Detect = Annotated[
    float | None, Option("--detect", metavar="X", help="Instead, say how many queries show a mean difference of X.")
]
Pairwise = Annotated[
    str | None,
    Option("--pairwise", metavar="MODEL", help="Instead, this model says which answer is better, query by query."),
]
DryRun = Annotated[
    bool, Option("--dry-run", help="With --pairwise: print calls, tokens and the most it can cost; make no call.")
]
Power = Annotated[float, Option("--power", metavar="X", help="With --detect: the chance of showing it.")]


@takes_options(without=_NOT_TAKEN)
def compare(
    runs: Runs,
    baseline: BaselineName = None,
    metrics: Metrics = None,
    alpha: Alpha = None,
    correction: Correct = None,
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
    """Compare systems of runs, jobs and data files with the first one.

    Data files have questions and answers: ragassay compare old.jsonl new.jsonl. If the questions are in another file:
    ragassay evaluate questions.jsonl --system old=old.jsonl --system new=new.jsonl.
    """
    from ragassay.reporting.comparison import EXPORTERS, of_comparison
    from ragassay.sdk.compare import Unevaluated, compared, sides_of
    from ragassay.stats.tests import correction_named

    if pairwise is not None:
        from ragassay.cli.pairwise import prefer

        _refuse_unused({"--baseline": baseline, "--metrics": metrics, "--detect": detect}, options)
        terms: dict[str, Any] = {"alpha": alpha, "correction": correction, "examples": examples}
        prefer(runs, pairwise, server, config, options, output or [], terms, as_json=as_json, dry_run=dry_run)
        return
    if dry_run:
        raise BadSettings("--dry-run is about the calls of --pairwise", hint="add --pairwise MODEL, or leave it out")
    EXPORTERS.check(output or ())
    import_plugins(options.pop("plugins", None))
    asked = None if metrics is None else split_names(metrics)

    def configure(data: str) -> ProjectConfig:
        if len(runs) == 1:
            raise BadInput(f"a comparison needs two systems, {data} is one", hint=_TWO)
        configuration = configured(config, {**options, "metrics": metrics}, data=Path(data))
        return configuration.model_copy(update={"systems": {}})

    if correction is not None:
        correction_named(correction, where="--correction")
    if detect is not None and (output or as_json):
        option = "--output" if output else "--json"
        raise BadSettings(f"{option}: --detect prints a table and writes nothing else", hint="leave one of them out")

    reporter = Terminal(quiet=as_json)
    sides = sides_of(runs, configure, reporter, server)
    unused = [*used(options), *(["--config"] if config else [])]
    if unused and not any(isinstance(side, Unevaluated) for side in sides):
        raise BadSettings(f"{', '.join(unused)}: all that is named is evaluated already", hint="leave it out")

    def evaluating(side: Unevaluated) -> None:
        rows = f"{len(side.inputs.samples)} queries, judge {side.spec.judged_by}"
        typer.echo(f"evaluating {side.name}: {rows}", err=True)

    terms = {"alpha": alpha, "correction": correction if detect is None else "none", "examples": examples}
    result, made = compared(sides, reporter, evaluating, baseline=baseline, metrics=asked, **terms)
    if detect is None:
        show(result, of_comparison, EXPORTERS, output or [], as_json=as_json)
    else:
        _print_needed(result, detect, power)
    for report in made:
        refuse_unscored(report)


def _refuse_unused(own: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise BadSettings for what has no meaning with ``--pairwise``, which takes its model and two evaluated systems."""
    flags = [name for name, value in own.items() if value is not None]
    if unused := [*flags, *(one.source for one in overrides(options) if one.location[0] in _NOT_PAIRWISE)]:
        raise BadSettings(f"--pairwise has no use for {', '.join(unused)}", hint="leave out one or the other")


def _print_needed(found: Comparison, difference: float, power: float) -> None:
    """How many queries show a difference, from the spread between the systems that are compared."""
    from ragassay.reporting.document import Document, Table

    to_show = f"to show a difference of {difference:g} with a chance of {power:.0%}"
    columns = ("metric", "sd", "queries", "chance", "needed")
    tables = []
    for pair in found.pairs:
        rows = [(name, *_needed(delta, difference, found.alpha, power)) for name, delta in pair.metrics.items()]
        tables.append(Table(f"{pair.b} against {pair.a}: {to_show}", columns, tuple(rows)))
    print_document(Document("", blocks=tuple(tables)))


def _needed(delta: Difference, difference: float, alpha: float, power: float) -> tuple[str, ...]:
    """Spread and number of the questions at hand, the chance that so many show the difference, and how many would."""
    from ragassay.stats.power import needed_n, power_of

    if not delta.sd:
        return ("no spread" if delta.paired else "no shared query", "", "", "")
    chance = power_of(difference, delta.questions, delta.sd, alpha=alpha)
    return (
        f"{delta.sd:.3g}",
        str(delta.questions),
        f"{chance:.0%}",
        str(needed_n(difference, delta.sd, alpha=alpha, power=power)),
    )
