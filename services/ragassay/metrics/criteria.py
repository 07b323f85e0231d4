"""Criteria in the user's own words: each is a metric of its run, judged in five steps with the rest of the verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragassay.errors import BadSettings, UnknownName
from ragassay.metrics import Metric, parse
from ragassay.metrics.base import FIGURES, UNIT
from ragassay.metrics.judged import EMPTY, STEPS
from ragassay.models import Result, Score, Verdict

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_COLUMNS = frozenset((*Result.model_fields, "row", "missing"))


def check_criteria(criteria: Mapping[str, str]) -> None:
    """Raise BadSettings, with its place, for a criterion whose name or text can't be used."""
    for name, text in criteria.items():
        what, hint = None, "choose another name"
        if not _NAME.fullmatch(name):
            what = f"{name[:60]!r} can't be the name of a criterion"
            hint = "write small letters, digits and _, at most 40, a letter first"
        elif _is_metric(name):
            what = f"the criterion {name!r} would hide the metric of that name"
        elif name in FIGURES or name in _COLUMNS:
            what = f"the criterion {name!r} would have the name of something else in a report"
        elif not text.strip():
            what, hint = f"the criterion {name!r} has no text", "say what a good answer does, in a sentence"
        if what:
            raise BadSettings(what, where=f"criteria.{name[:60]}", hint=hint)


def _is_metric(name: str) -> bool:
    try:
        parse(name)
    except UnknownName:
        return False
    except BadSettings:  # such as a family that needs a cutoff
        return True
    return True


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
