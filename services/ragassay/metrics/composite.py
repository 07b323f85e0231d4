"""The metrics that a run defines itself: criteria in the user's words, and weighted or harmonic means of other metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from ragassay.core.errors import BadInput, BadSettings, UnknownName
from ragassay.core.eval_config import HarmonicMean
from ragassay.core.models import Result, Score, Verdict
from ragassay.metrics.accuracy import lacking
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.judged import EMPTY, STEPS
from ragassay.metrics.metric import FIGURES, UNIT, Metric, parse

Definition = Mapping[str, float] | HarmonicMean
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
        sees="Verdict",
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


def composite_metric(name: str, definition: Definition, find: Callable[[str], Metric]) -> Metric:
    """The metric of a definition; ``find`` returns the metric that a name in it means.

    Raises BadSettings for metrics that can't be averaged, and what ``find`` raises.
    """
    harmonic = isinstance(definition, HarmonicMean)
    weights = dict.fromkeys(definition.harmonic_mean, 1.0) if isinstance(definition, HarmonicMean) else definition
    parts = {metric.name: metric for metric in map(find, weights)}
    if len(parts) < len(weights):
        raise BadSettings("names the same metric twice")
    _check(parts, harmonic=harmonic)
    weight_of = dict(zip(parts, weights.values(), strict=True))
    mean = _harmonic_mean if harmonic else _weighted_mean

    def composite(chunk: Chunk) -> list[Score]:
        return [
            _score({part: chunk.scores[part][n] if part in chunk.scores else None for part in parts}, weight_of, mean)
            for n in range(len(chunk.samples))
        ]

    kinds = {metric.kind for metric in parts.values()}
    known = [metric.bounds for metric in parts.values() if metric.bounds is not None]
    bounds = None
    if len(known) == len(parts):
        low, high = (mean(dict(zip(parts, ends, strict=True)), weight_of) for ends in zip(*known, strict=True))
        bounds = low, high
    return Metric(
        family=name,
        function=composite,
        sees="Chunk",
        kind=kinds.pop() if len(kinds) == 1 else "quality",
        better=next(iter(parts.values())).better,
        bounds=bounds,
        description=described(definition),
        parts=tuple(parts.values()),
    )


def described(definition: Definition) -> str:
    """``weighted mean of faithfulness 2, relevance 1``."""
    if isinstance(definition, HarmonicMean):
        return f"harmonic mean of {', '.join(definition.harmonic_mean)}"
    return f"weighted mean of {', '.join(f'{name} {weight:g}' for name, weight in definition.items())}"


def _check(parts: Mapping[str, Metric], *, harmonic: bool) -> None:
    lower = [name for name, metric in parts.items() if metric.better == "lower"]
    if 0 < len(lower) < len(parts):
        what = f"is a mean of metrics of which higher is better and {lower[0]}, of which lower is better"
        raise BadSettings(what, hint="leave it out, or write a metric of your own: @metric")
    if harmonic and (negative := [n for n, metric in parts.items() if metric.bounds is None or metric.bounds[0] < 0]):
        raise BadSettings(f"harmonic_mean needs metrics that are never negative, {negative[0]} may be")


def _score(
    scores: Mapping[str, Score | None],
    weights: Mapping[str, float],
    mean: Callable[[Mapping[str, float], Mapping[str, float]], float],
) -> Score:
    known = {name: score.value for name, score in scores.items() if score is not None and score.value is not None}
    if len(known) < len(scores):
        return lacking(scores)
    return Score(value=mean(known, weights), details={"parts": known})


def _weighted_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return math.fsum(weights[name] * value for name, value in values.items()) / math.fsum(weights.values())


def _harmonic_mean(values: Mapping[str, float], _: Mapping[str, float]) -> float:
    if not all(values.values()):
        return 0.0
    return len(values) / math.fsum(1 / value for value in values.values())
