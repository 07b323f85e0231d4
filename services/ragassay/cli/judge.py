"""``ragassay judge``: how far a judge can be trusted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ragassay.cli.options import AsJson, configured, takes_options
from ragassay.cli.terminal import Terminal, refuse_unscored, show
from ragassay.core.formatting import interval, number, percent

if TYPE_CHECKING:
    from ragassay.evaluation.labels import JudgeAgreement
    from ragassay.reporting.document import Document

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
    Argument(
        metavar="DATA", help="Rows with an answer and a label, or a column named as the metric: 1 is a yes, 0 a no."
    ),
]
About = Annotated[
    str | None,
    Option(
        "--metric",
        metavar="NAME",
        help="What the label is about. [faithfulness with contexts, correctness with ground truth, else relevance]",
    ),
]

judge = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@judge.command("agreement")
@takes_options(without=_NOT_TAKEN)
def agreement(data: Labelled, metric: About = None, as_json: AsJson = False, **options: Any) -> None:
    """Measure how far a judge agrees with labels by people."""
    from ragassay.evaluation.labels import LabelledRows
    from ragassay.sdk.evaluation import evaluated, runtime_for
    from ragassay.sdk.loop import finished

    configuration = configured(None, options, data=data)
    reading = {key: value for key, value in configuration.reading.items() if key != "max_grade"}
    rows = LabelledRows(data, metric, **reading)
    spec = configuration.evaluation.model_copy(update={"metrics": (rows.metric.name,)})
    reporter = Terminal(quiet=as_json)
    run, report = finished(partial(evaluated, runtime_for(), spec, rows.inputs, reporter, kind="agreement"))
    measured = rows.compared(run)
    show(measured, _document, as_json=as_json, places=["", f"verdicts: ragassay show {measured.run} --rows"])
    refuse_unscored(report)


def _document(measured: JudgeAgreement) -> Document:
    from ragassay.reporting.document import Document, Table

    all_items = measured.accuracy
    items = f"{all_items.n} items" if all_items.n == measured.rows else f"{all_items.n} items of {measured.rows} rows"
    answer = [
        f"judge {measured.judge['name']} against people: {measured.metric} on {measured.data}, {items}, {measured.groups} groups",
        *(f"no score: {count} of {all_items.rows} items: {reason}" for reason, count in all_items.missing.items()),
        f"people say yes to {percent(measured.share_yes)}, the judge's mean score is {number(measured.mean_score)}",
        "a score from 0.5 on is a yes",
    ]
    best = ""
    if measured.threshold is not None:
        value = f"balanced accuracy of {number(measured.at_threshold)} on these labels"
        best = f"best threshold: {number(measured.threshold)}, with a {value}"
    shown = {name: getattr(measured, measure) for measure, name in _SHOWN.items()}
    rows = [(name, number(one.value), interval(one.interval)) for name, one in shown.items()]
    table = Table("Agreement", ("", "value", f"{all_items.interval.level:.0%} interval"), tuple(rows), best)
    return Document("", answer=tuple(answer), blocks=(table,))
