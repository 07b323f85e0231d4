"""Criteria in the user's own words: each is a metric of its run, judged in five steps with the rest of the verdict."""

from __future__ import annotations

from ragassay.metrics.base import UNIT, Metric
from ragassay.metrics.judged import EMPTY, STEPS
from ragassay.models import Score, Verdict


def criterion_metric(name: str) -> Metric:
    """The metric of a criterion. All that it needs to know is the name: the text is the judge's."""

    def criterion(verdict: Verdict) -> Score:
        return _criterion(verdict, name)

    return Metric(
        family=name,
        function=criterion,
        kind="quality",
        better="higher",
        needs=("answer", "verdict"),
        bounds=UNIT,
        description="How far the answer meets a criterion of the run, in five steps: none, barely, partly, mostly, full.",
    )


def _criterion(verdict: Verdict, name: str) -> Score:
    if not verdict.sentences:
        return Score.absent(EMPTY)
    judged = next((criterion for criterion in verdict.criteria if criterion.name == name), None)
    if judged is None:
        return Score.absent(f"the judge {verdict.judge} can't judge criteria; a model can: --judge MODEL", "no_input")
    if judged.step is None:
        return Score.absent(f"the judge left the criterion {name} unanswered", "failed")
    return Score(value=STEPS[judged.step], reason=judged.why or None, details={"step": judged.step})
