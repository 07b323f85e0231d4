"""Metrics that a run makes of others: a weighted mean or a harmonic mean of their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ragassay.core.errors import BadSettings
from ragassay.core.models import Score
from ragassay.core.specification import HarmonicMean
from ragassay.metrics.accuracy import lacking
from ragassay.metrics.base import Metric
from ragassay.metrics.chunk import Chunk

Definition = Mapping[str, float] | HarmonicMean


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
