"""How far a judge agrees with people: arithmetic on labels and scores, with intervals that keep groups together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragassay.errors import NothingToEvaluate
from ragassay.models import Chance, FrozenModel
from ragassay.stats import Interval, clustered_intervals
from ragassay.stats.columns import Floats

FROM = 0.5  # the least score that is a yes
BINS = 10
MEASURES = ("accuracy", "balanced_accuracy", "kappa", "auc", "ece")


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """What people said of a row, 1 or 0, and the judge's score, 0 to 1; None with the reason where it gave none.

    Rows with the same ``item`` are one, of which the highest score counts; items of a ``group`` are drawn together.
    ``weight``: how many rows it stands for, where some were likelier to be labelled than others.
    """

    label: int
    score: float | None
    item: str
    group: str
    reason: str = ""
    weight: float = 1.0


class ReliabilityBin(FrozenModel):
    """The items whose score lies from ``low`` to ``high``: mean score, and the share of which people say yes."""

    low: float
    high: float
    n: int
    mean_score: float | None
    share_yes: float | None


class Agreement(FrozenModel):
    """A judge beside people, over ``n`` items; a score from 0.5 on is a yes.

    ``missing`` items have no score, and ``reasons`` counts why. A measure is None where people gave all items one label.
    ``ece`` is the expected calibration error in ten bins of equal width: the mean distance between the score and the
    share of yes. ``intervals`` come from drawing groups with replacement; those of ``ece`` lie high, since drawing adds
    noise to every bin.
    """

    n: int
    missing: int
    reasons: dict[str, int]
    groups: int
    share_yes: Chance
    mean_score: Chance
    accuracy: Chance
    balanced_accuracy: Chance | None
    kappa: float | None
    auc: Chance | None
    ece: Chance
    intervals: dict[str, Interval]
    reliability: tuple[ReliabilityBin, ...]


def agreement(rows: Sequence[LabelledScore], *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> Agreement:
    """Judge against people; an item with a row without a score is missing. Raises NothingToEvaluate without a score."""
    items = ScoredItems(rows)
    labels, scores, groups, weights = items.labels, items.scores, items.groups, items.weights
    measures = Measures(labels, scores)
    whole = measures.weighted(weights)
    intervals = clustered_intervals(
        lambda drawn: measures.weighted(drawn * weights), groups, level=level, resamples=resamples, seed=seed
    )
    found = {name: None if np.isnan(value) else float(value) for name, value in zip(MEASURES, whole, strict=True)}
    return Agreement.model_validate(
        {
            "n": len(labels),
            "missing": items.missing,
            "reasons": dict(items.reasons),
            "groups": len(set(groups)),
            "share_yes": float(np.average(labels, weights=weights)),
            "mean_score": float(np.average(scores, weights=weights)),
            **found,
            "intervals": dict(zip(MEASURES, intervals, strict=True)),
            "reliability": measures.reliability(weights),
        }
    )


class ScoredItems:
    """Labels, scores, groups and weights of the items that have a score; of the others the number and the reasons.

    Raises NothingToEvaluate where none has a score.
    """

    def __init__(self, rows: Sequence[LabelledScore]) -> None:
        items: dict[str, list[LabelledScore]] = {}
        for row in rows:
            items.setdefault(row.item, []).append(row)
        unscored = {item: row.reason for item, of in items.items() for row in of if row.score is None}
        scored = [of for item, of in items.items() if item not in unscored]
        self.missing, self.reasons = len(unscored), Counter(unscored.values())
        if not scored:
            raise NothingToEvaluate(f"the judge gave no score: {next(iter(self.reasons), 'there are no rows')}")
        self.labels: Floats = np.array([max(row.label for row in of) for of in scored], dtype=np.float64)
        self.scores: Floats = np.array([max(row.score or 0.0 for row in of) for of in scored])
        self.groups = [of[0].group for of in scored]
        self.weights: Floats = np.array([of[0].weight for of in scored])


class Measures:
    """Labels, 0 or 1, and scores, 0 to 1, of the same items; what is measured of them with a weight for each item."""

    def __init__(self, labels: Floats, scores: Floats) -> None:
        self._labels, self._scores = labels, scores
        self._said = scores >= FROM
        self._bin = np.minimum((scores * BINS).astype(np.intp), BINS - 1)
        self._order = np.argsort(scores, kind="stable")
        _, self._starts = np.unique(scores[self._order], return_index=True)

    def weighted(self, weights: Floats) -> Floats:
        """The numbers that ``MEASURES`` names; NaN where they are undefined."""
        yes, said = self._labels == 1, self._said
        hit, false_alarm = weights[yes & said].sum(), weights[~yes & said].sum()
        all_yes, total = weights[yes].sum(), weights.sum()
        all_no, all_said = weights[~yes].sum(), hit + false_alarm
        accuracy = (hit + all_no - false_alarm) / total
        chance = (all_yes * all_said + all_no * (total - all_said)) / total**2
        gaps = np.bincount(self._bin, weights * (self._scores - self._labels), BINS)
        both = all_yes > 0 and all_no > 0
        measured: Floats = np.array(
            [
                accuracy,
                (hit / all_yes + 1 - false_alarm / all_no) / 2 if both else np.nan,
                (accuracy - chance) / (1 - chance) if chance < 1 else np.nan,
                self._auc(weights) if both else np.nan,
                np.abs(gaps).sum() / total,
            ]
        )
        measured.clip(-1.0, 1.0, out=measured)  # sums of weights are rounded
        return measured

    def _auc(self, weights: Floats) -> float:
        """Chance that a yes of people scores above a no; equal scores count half."""
        ordered, yes = weights[self._order], self._labels[self._order]
        positive = np.add.reduceat(ordered * yes, self._starts)
        negative = np.add.reduceat(ordered * (1 - yes), self._starts)
        below = np.cumsum(negative) - negative
        return float((positive * (below + negative / 2)).sum() / (positive.sum() * negative.sum()))

    def reliability(self, weights: Floats) -> list[ReliabilityBin]:
        """Score and share of yes in each of the bins."""
        bins = []
        for number in range(BINS):
            held = self._bin == number
            n = int(held.sum())
            columns = self._scores, self._labels
            means = [float(np.average(one[held], weights=weights[held])) if n else None for one in columns]
            low, high = number / BINS, (number + 1) / BINS
            bins.append(ReliabilityBin(low=low, high=high, n=n, mean_score=means[0], share_yes=means[1]))
        return bins
