"""``ragassay judge``: how far a judge can be trusted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.options import AsJson, configured, takes_options
from ragassay.cli.terminal import print_json

if TYPE_CHECKING:
    from ragassay.evaluation.agreement import JudgeAgreement

_NOT_TAKEN = ("system", "dataset", "output", "metrics", "baseline")  # they have no meaning here
_SHOWN = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "kappa": "kappa",
    "auc": "AUC",
    "ece": "ECE",
}

Labelled = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Rows with an answer and a label, or a column named as the metric: 1 is a yes, 0 a no.",
    ),
]
About = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="What the label is about. [faithfulness with contexts, correctness with ground truth, else relevance]",
    ),
]

judge = typer.Typer(help="Measure a judge.", no_args_is_help=True, rich_markup_mode=None)


@judge.command("agreement")
@takes_options(without=_NOT_TAKEN)
def agreement(
    data: Labelled,
    metric: About = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Say how far a judge agrees with labels that people gave."""
    from ragassay.cli.running import Terminal, refuse_unscored
    from ragassay.core.settings import Settings
    from ragassay.evaluation.agreement import LabelledRows
    from ragassay.sdk.evaluation import evaluated, runtime_of
    from ragassay.sdk.loop import finished

    configuration = configured(None, options, data=data)
    rows = LabelledRows(
        data, metric, **{key: value for key, value in configuration.reading.items() if key != "max_grade"}
    )
    settings, reporter = Settings(), Terminal(quiet=as_json)
    spec = configuration.evaluation.model_copy(update={"metrics": (rows.metric.name,)})
    run, report = finished(
        partial(evaluated, runtime_of(settings), settings, spec, rows.inputs, reporter, kind="agreement")
    )
    found = rows.compared(run)
    if as_json:
        print_json(found)
    else:
        _print(found)
    refuse_unscored(report, report.provenance.configuration.max_missing)


def _print(found: JudgeAgreement) -> None:
    from ragassay.core.formatting import interval, number, percent
    from ragassay.reporting.tables import table

    items = f"{found.n} items" if found.n == found.rows else f"{found.n} items of {found.rows} rows"
    typer.echo(
        f"judge {found.judge['name']} beside people: {found.metric} on {found.data}, {items}, {found.groups} groups"
    )
    for reason, count in found.reasons.items():
        typer.echo(f"no score: {count} of {found.n + found.missing} items: {reason}")
    said = f"people say yes to {percent(found.share_yes)}, the judge's mean score is {number(found.mean_score)}"
    typer.echo(f"{said}; a score from 0.5 on is a yes\n")
    level = next(iter(found.intervals.values())).level
    rows = [[shown, number(getattr(found, name)), interval(found.intervals[name])] for name, shown in _SHOWN.items()]
    typer.echo("\n".join([*table(["", "value", f"{level:.0%} interval"], rows), ""]))
    if found.threshold is not None:
        best = f"{number(found.threshold)}, with a balanced accuracy of {number(found.at_threshold)} on these labels"
        typer.echo(f"best threshold: {best}\n")
    bins = [
        [f"{b.low:.1f} to {b.high:.1f}", str(b.n), number(b.mean_score), number(b.share_yes)]
        for b in found.reliability
        if b.n
    ]
    typer.echo("\n".join(table(["score", "items", "mean score", "share of yes"], bins)))
    typer.echo(f"\nverdicts: ragassay show {found.run} --rows")
