"""What the labelling page says of labels: counts, the corrected mean, the judge's agreement, and what to do with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragassay.core.formatting import interval, number, percent
from ragassay.core.models import Result
from ragassay.core.report import Report
from ragassay.core.statistics import Interval
from ragassay.evaluation.labelling import HumanLabel, LabelProgress
from ragassay.judges.agreement import FROM

ANSWERS = {
    "faithfulness": {"1": "supported", "0.5": "partly", "0": "not supported"},
    "correctness": {"1": "correct", "0.5": "partly", "0": "wrong"},
    "completeness": {"1": "all covered", "0.5": "partly", "0": "not covered"},
    "relevance": {"1": "addressed", "0.5": "partly", "0": "not addressed"},
    "accurate": {"1": "accurate", "0": "not accurate"},
}
"""What can be said, by metric: the value of each answer, and its words."""


def progress_lines(progress: LabelProgress) -> Iterator[tuple[str, str]]:
    """What the labels say so far: how many there are, the corrected mean or why there is none, and the judge's agreement."""
    skipped = f", {progress.skipped:,} skipped" if progress.skipped else ""
    yield "Labels", f"{progress.labelled:,} of {progress.asked:,} rows labelled{skipped}"
    mean = progress.mean
    if mean.mean is None:
        yield "Mean by labels", f"none: {mean.reason}"
    else:
        own = "" if mean.judged is None else f"; the judge's own is {number(mean.judged)}"
        yield "Mean by labels", f"{number(mean.mean)}, {_ends(mean.interval)}{own}"
    if found := progress.agreement:
        for name, words in (("balanced_accuracy", "balanced accuracy"), ("kappa", "kappa")):
            value = getattr(found, name)
            known = None if value is None else f"{number(value, 2)}, {_ends(found.intervals[name], 2)}"
            yield f"Judge's {words}", known or "people gave all one label"


def _ends(ends: Interval, digits: int = 3) -> str:
    return interval(ends, lambda end: number(end, digits), f"{percent(ends.level)} interval {{}} to {{}}")


def answered(label: HumanLabel) -> str:
    """A label in the words of its answer."""
    if label.value is None:
        return "skipped"
    return ANSWERS[label.metric].get(f"{label.value:g}", number(label.value))


def beside(row: Result, label: HumanLabel) -> tuple[str, str]:
    """What the judge says of a labelled row, and the tone of it: good where both say yes or both no."""
    value = row.scores[label.metric].value or 0.0
    chance = row.verdict.probability.get(label.metric) if row.verdict else None
    said = f"The judge: {number(value)}"
    if chance is not None:
        said += f", with a chance of {number(chance)} that people say yes"
    if label.value is None:
        return said, "none"
    alike = ((value if chance is None else chance) >= FROM) is (label.value >= FROM)
    return f"{said}: {'as you' if alike else 'other than you'}", "good" if alike else "bad"


def commands(report: Report, metric: str) -> Mapping[str, str]:
    """What to do with the exported labels, by what it gives."""
    judges = (one for one in report.provenance.configuration.scorers if one.model != "local")
    judge = "".join(f" --judge {one.as_option}" for one in judges)
    about = f"labels.jsonl --metric {metric}{judge}"
    given = {"Correct the means": f"ragassay evaluate DATA --set labels=labels.jsonl{judge}"}
    if metric != "accurate":
        given["Measure the judge"] = f"ragassay judge agreement {about}"
    return given
