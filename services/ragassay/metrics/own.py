"""The metrics that a run defines itself: criteria in the user's words, and composites of other metrics."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Protocol

from ragassay.core.errors import BadInput, BadSettings, UnknownName
from ragassay.core.models import Result, Score, Verdict
from ragassay.metrics import Metric, parse
from ragassay.metrics.base import FIGURES, UNIT
from ragassay.metrics.composites import Definition, composite_metric
from ragassay.metrics.judged import EMPTY, STEPS

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_COLUMNS = frozenset((*Result.model_fields, "row", "missing"))


class Definitions(Protocol):
    """What defines metrics: a specification, a configuration."""

    @property
    def criteria(self) -> Collection[str]:
        """Names of criteria, or their texts by name."""

    @property
    def composites(self) -> Mapping[str, Definition]:
        """What each composite is made of, by its name."""


def own_metrics(run: Definitions) -> dict[str, Metric]:
    """The run's own metrics by name, each a metric wherever one is named.

    A composite is made of registered metrics and criteria, not of other composites. Raises BadSettings and UnknownName,
    with the place, for a composite that can't be made.
    """
    criteria = {name: criterion_metric(name) for name in run.criteria}
    own = dict(criteria)
    for name, definition in run.composites.items():
        try:
            own[name] = composite_metric(name, definition, lambda text: parse(text, criteria))
        except BadInput as error:
            error.where = error.where or f"composites.{name}"
            raise
    return own


def criterion_metric(name: str) -> Metric:
    """The metric of a criterion. All that it needs to know is the name: the text is the judge's."""

    def criterion(verdict: Verdict) -> Score:
        if not verdict.sentences:
            return Score.absent(EMPTY)
        judged = next((criterion for criterion in verdict.criteria if criterion.name == name), None)
        if judged is None:
            return Score.absent(
                f"the judge {verdict.judge} can't judge criteria; a model can: --judge MODEL", "no_input"
            )
        if judged.step is None:
            return Score.absent(f"the judge left the criterion {name} unanswered", "failed")
        return Score(value=STEPS[judged.step], reason=judged.why or None, details={"step": judged.step})

    return Metric(
        family=name,
        function=criterion,
        kind="quality",
        better="higher",
        needs=("answer", "verdict"),
        bounds=UNIT,
        description="How far the answer meets a criterion of the run, in five steps: none, barely, partly, mostly, full.",
    )


def check_own(run: Definitions) -> None:
    """Raise BadSettings, with its place, for a name that the run can't give a metric; and what ``own_metrics`` raises."""
    for key, names in (("criteria", run.criteria), ("composites", run.composites)):
        word = "criterion" if key == "criteria" else "composite"
        for name in names:
            what, hint = None, "choose another name"
            if not _NAME.fullmatch(name):
                what = f"{name[:60]!r} can't be the name of a {word}"
                hint = "write small letters, digits and _, at most 40, a letter first"
            elif _is_metric(name):
                what = f"the {word} {name!r} would hide the metric of that name"
            elif name in FIGURES or name in _COLUMNS:
                what = f"the {word} {name!r} would have the name of something else in a report"
            elif key == "composites" and name in run.criteria:
                what = f"the composite {name!r} has the name of a criterion"
            elif isinstance(run.criteria, Mapping) and key == "criteria" and not run.criteria[name].strip():
                what, hint = f"the criterion {name!r} has no text", "say what a good answer does, in a sentence"
            if what:
                raise BadSettings(what, where=f"{key}.{name[:60]}", hint=hint)
    own_metrics(run)


def _is_metric(name: str) -> bool:
    try:
        parse(name)
    except UnknownName:
        return False
    except BadSettings:  # such as a family that needs a cutoff
        return True
    return True
