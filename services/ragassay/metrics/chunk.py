"""A chunk of samples, and how a metric of each kind scores it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.ranked import Ranked
from ragassay.models import LARGEST_NUMBER, Judgement, Sample, Score
from ragassay.options import HALF_LIFE_DAYS
from ragassay.protocols import Embedder

if TYPE_CHECKING:
    from ragassay.metrics.base import Metric

NOTHING_RETRIEVED = "the system gave no response, which counts as nothing retrieved"


@dataclass(frozen=True)
class Chunk:
    """Up to a chunk of samples and the results of the stages before; all sequences are parallel."""

    samples: Sequence[Sample]
    judgements: Sequence[Judgement | None] = ()
    embedder: Embedder | None = None
    no_embedder: str = "no embedding model is set up"
    max_grade: float = 3.0
    relevant_from: float | None = None
    half_life_days: float = HALF_LIFE_DAYS
    rule: AccuracyRule | None = None
    scores: dict[str, list[Score]] = field(default_factory=dict)

    @cached_property
    def ranked(self) -> Ranked:
        """The chunk's ranked gains; built once, shared by all retrieval metrics."""
        return Ranked.of(self.samples, relevant_from=self.relevant_from, max_grade=self.max_grade)

    def only(self, rows: Sequence[int]) -> Chunk:
        """The chunk cut down to some of its rows."""
        return replace(
            self,
            samples=[self.samples[n] for n in rows],
            judgements=[self.judgements[n] for n in rows] if self.judgements else (),
            scores={name: [scores[n] for n in rows] for name, scores in self.scores.items()},
        )


def score(metric: Metric, chunk: Chunk) -> list[Score]:
    """One Score per sample, in order. A row without the input it needs is missing with that reason."""
    from_chunk = _ADAPTERS[metric.sees]
    lacks = [metric.lacks(sample) for sample in chunk.samples]
    complete = [n for n, reason in enumerate(lacks) if reason is None]
    scores: dict[int, Score] = {}
    if complete and (metric.sees == "Ranked" or len(complete) == len(lacks)):  # gains are shared: built for all rows
        scores = dict(enumerate(from_chunk(metric, chunk)))
    elif complete:
        scores = dict(zip(complete, from_chunk(metric, chunk.only(complete)), strict=True))
    for n in complete:
        if chunk.samples[n].response is None and scores[n].value is not None:
            scores[n] = scores[n].model_copy(update={"reason": NOTHING_RETRIEVED})
    return [scores[n] if reason is None else Score.absent(reason, "no_input") for n, reason in enumerate(lacks)]


def _from_ranked(metric: Metric, chunk: Chunk) -> Sequence[Score]:
    values = metric.values(chunk.ranked)
    details = chunk.ranked.details(metric.arguments.get("k"))
    return [
        Score(value=v, details=d) if _is_usable(v) else Score.absent(f"{metric.name} is undefined here")
        for v, d in zip(values.tolist(), details, strict=True)
    ]


def _from_chunk(metric: Metric, chunk: Chunk) -> Sequence[Score]:
    scores: Sequence[Score] = metric.function(chunk, **metric.arguments)
    return scores


def _from_verdict(metric: Metric, chunk: Chunk) -> Sequence[Score]:
    scores = []
    for judgement in chunk.judgements or [None] * len(chunk.samples):
        if judgement is None:
            scores.append(Score.absent("no judge was asked", "no_input"))
        elif judgement.verdict is None:
            scores.append(Score.absent(judgement.reason or "the judge failed", "failed"))
        else:
            scores.append(metric.function(judgement.verdict))
    return scores


def _from_sample(metric: Metric, chunk: Chunk) -> Sequence[Score]:
    return [_as_score(metric, metric.function(sample, **metric.arguments)) for sample in chunk.samples]


def _as_score(metric: Metric, value: Score | float | bool | None) -> Score:
    if isinstance(value, Score):
        return value
    if value is None:
        return Score.absent(f"{metric.name} is undefined here")
    if not _is_usable(value):
        return Score.absent(f"{metric.name} returned {value}", "failed")
    return Score(value=float(value))


def _is_usable(value: float) -> bool:
    """Is it a number that sums over many rows can take?"""
    return math.isfinite(value) and abs(value) <= LARGEST_NUMBER


_ADAPTERS: dict[str, Callable[[Metric, Chunk], Sequence[Score]]] = {
    "Ranked": _from_ranked,
    "Chunk": _from_chunk,
    "Verdict": _from_verdict,
    "Sample": _from_sample,
}
