"""The metrics that a run defines itself: criteria in the user's words, and weighted means of other metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from ragassay.core.errors import BadInput, BadSettings, UnknownName
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Result, Score, Verdict
from ragassay.judges.verdict import STEP_WORTH
from ragassay.metrics.accuracy import lacking
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.judged import EMPTY
from ragassay.metrics.metric import FIGURES, UNIT, Metric, parse

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_COLUMNS = frozenset((*FIGURES, *Result.model_fields, "row", "missing"))


def custom_metrics(run: EvalConfig) -> dict[str, Metric]:
    """The run's own metrics by name, each a metric wherever one is named.

    A composite is made of registered metrics and criteria, not of other composites. Raises BadSettings and UnknownName,
    with the place, for a composite that can't be made.
    """
    criteria = {name: criterion_metric(name) for name in run.criteria}
    custom = dict(criteria)
    for name, weights in run.composites.items():
        try:
            custom[name] = composite_metric(name, weights, lambda text: parse(text, criteria))
        except BadInput as error:
            error.where = error.where or f"composites.{name}"
            raise
    return custom


def criterion_metric(name: str) -> Metric:
    """The metric of a criterion. All that it needs to know is the name: the text is the judge's."""

    def criterion(verdict: Verdict) -> Score:
        if not verdict.sentences:
            return Score.absent(EMPTY)
        judged = next((criterion for criterion in verdict.criteria if criterion.name == name), None)
        if judged is None:
            return Score.absent(f"the judge {verdict.judge} can't judge criteria; a model can", "no_input")
        if judged.step is None:
            return Score.absent(f"the judge left the criterion {name} unanswered", "failed")
        return Score(value=STEP_WORTH[judged.step], reason=judged.why or None, details={"step": judged.step})

    return Metric(
        family=name,
        function=criterion,
        input_type="Verdict",
        better="higher",
        needs=("answer", "verdict"),
        bounds=UNIT,
        description="How far the answer meets a criterion of the run, in five steps: none, barely, partly, mostly, full.",
    )


def check_custom_metrics(run: EvalConfig) -> None:
    """Raise BadSettings, with its place, for a name that the run can't give a metric; and what ``custom_metrics`` raises."""
    for key, names in (("criteria", run.criteria), ("composites", run.composites)):
        for name in names:
            what, hint = None, "choose another name"
            if not _NAME.fullmatch(name):
                what, hint = "is no name", "write small letters, digits and _, at most 40, a letter first"
            elif _is_metric(name):
                what = "would hide the metric of that name"
            elif name in _COLUMNS or (key == "composites" and name in run.criteria):
                what = "is the name of something else in a report"
            elif key == "criteria" and not run.criteria[name].strip():
                what, hint = "has no text", "say what a good answer does, in a sentence"
            if what:
                raise BadSettings(f"{name[:60]!r} {what}", where=f"{key}.{name[:60]}", hint=hint)
    custom_metrics(run)


def _is_metric(name: str) -> bool:
    try:
        parse(name)
    except UnknownName:
        return False
    except BadSettings:  # such as a family that needs a cutoff
        return True
    return True


def composite_metric(name: str, definition: Mapping[str, float], find: Callable[[str], Metric]) -> Metric:
    """The weighted mean of the metrics in ``definition``; ``find`` returns the metric that a name in it means.

    Raises BadSettings for metrics that can't be averaged, and what ``find`` raises.
    """
    parts = {metric.name: metric for metric in map(find, definition)}
    if len(parts) < len(definition):
        raise BadSettings("names the same metric twice")
    lower = [part for part, metric in parts.items() if metric.better == "lower"]
    if 0 < len(lower) < len(parts):
        what = f"is a mean of metrics of which higher is better and {lower[0]}, of which lower is better"
        raise BadSettings(what, hint="leave it out, or write a metric of your own: @metric")
    weights = dict(zip(parts, definition.values(), strict=True))

    def mean(values: Mapping[str, float]) -> float:
        return math.fsum(weights[part] * value for part, value in values.items()) / math.fsum(weights.values())

    def composite(chunk: Chunk) -> list[Score]:
        columns = (chunk.scores.get(part, [None] * len(chunk.samples)) for part in parts)
        return [_score(dict(zip(parts, row, strict=True)), mean) for row in zip(*columns, strict=True)]

    kinds, bounds = {metric.kind for metric in parts.values()}, [metric.bounds for metric in parts.values()]
    known = [one for one in bounds if one is not None]
    extremes = (
        [mean(dict(zip(parts, end, strict=True))) for end in zip(*known, strict=True)] if known == bounds else None
    )
    return Metric(
        family=name,
        function=composite,
        input_type="Chunk",
        kind=kinds.pop() if len(kinds) == 1 else "quality",
        better=next(iter(parts.values())).better,
        bounds=(extremes[0], extremes[1]) if extremes else None,
        description=described(definition),
        parts=tuple(parts.values()),
    )


def described(definition: Mapping[str, float]) -> str:
    """``weighted mean of faithfulness 2, relevance 1``."""
    return f"weighted mean of {', '.join(f'{name} {weight:g}' for name, weight in definition.items())}"


def _score(scores: Mapping[str, Score | None], mean: Callable[[Mapping[str, float]], float]) -> Score:
    known = {name: score.value for name, score in scores.items() if score is not None and score.value is not None}
    return Score(value=mean(known), details={"parts": known}) if len(known) == len(scores) else lacking(scores)
