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
    found = rows.compared(run)
    show(found, _document, as_json=as_json, places=["", f"verdicts: ragassay show {found.run} --rows"])
    refuse_unscored(report)


def _document(found: JudgeAgreement) -> Document:
    from ragassay.reporting.document import Document, Table

    items = f"{found.n} items" if found.n == found.rows else f"{found.n} items of {found.rows} rows"
    of_all = found.n + found.missing
    answer = [
        f"judge {found.judge['name']} against people: {found.metric} on {found.data}, {items}, {found.groups} groups",
        *(f"no score: {count} of {of_all} items: {reason}" for reason, count in found.reasons.items()),
        f"people say yes to {percent(found.share_yes)}, the judge's mean score is {number(found.mean_score)}",
        "a score from 0.5 on is a yes",
    ]
    best = ""
    if found.threshold is not None:
        value = f"balanced accuracy of {number(found.at_threshold)} on these labels"
        best = f"best threshold: {number(found.threshold)}, with a {value}"
    level = next(iter(found.intervals.values())).level
    rows = [(shown, number(getattr(found, name)), interval(found.intervals[name])) for name, shown in _SHOWN.items()]
    table = Table("Agreement", ("", "value", f"{level:.0%} interval"), tuple(rows), best)
    return Document("", answer=tuple(answer), blocks=(table,))
