"""How far a judge agrees with people: arithmetic on labels and scores, with intervals that keep groups together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.errors import NothingToEvaluate
from ragassay.core.models import Chance, FrozenModel
from ragassay.core.statistics import Interval
from ragassay.stats.intervals import Floats, clustered_intervals, wilson_ends

FROM = 0.5  # the least score that is a yes
BINS = 10
MEASURES = ("accuracy", "balanced_accuracy", "kappa", "auc", "ece")


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """What people said of a row, 1 or 0, and the judge's score, 0 to 1; None with the reason where it gave none.

    Rows with the same ``item`` are one, of which the highest score counts; items of a ``group`` are drawn together.
    """

    label: int
    score: float | None
    item: str
    group: str
    reason: str = ""


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
    share of yes. ``threshold``: the least score that is best taken for a yes, with the balanced accuracy
    ``at_threshold`` on these same labels. ``intervals``: Wilson's for shares, groups counted once; for the other measures
    from drawing groups with replacement, which puts those of ``ece`` high, since drawing adds noise to every bin.
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
    threshold: Chance | None
    at_threshold: Chance | None
    intervals: dict[str, Interval]
    reliability: tuple[ReliabilityBin, ...]


def agreement(rows: Sequence[LabelledScore], *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> Agreement:
    """Judge against people; an item with a row without a score is missing. Raises NothingToEvaluate without a score."""
    items = ScoredItems(rows)
    labels, scores, groups = items.labels, items.scores, items.groups
    measures = Measures(labels, scores)
    whole = measures.weighted(np.ones(len(labels)))
    drawn = clustered_intervals(measures.weighted, groups, level=level, resamples=resamples, seed=seed)
    found = {name: None if np.isnan(value) else float(value) for name, value in zip(MEASURES, whole, strict=True)}
    intervals = dict(zip(MEASURES, drawn, strict=True)) | measures.shares(len(set(groups)) / len(labels), level)
    for name in ("kappa", "auc"):
        if found[name] == 1.0:  # each draw says so too, however few the items are
            intervals[name] = Interval.absent(f"no disagreement among {len(labels)}", level, intervals[name].method)
    threshold, at_threshold = measures.threshold()
    return Agreement.model_validate(
        {
            "n": len(labels),
            "missing": items.missing,
            "reasons": dict(items.reasons),
            "groups": len(set(groups)),
            "share_yes": float(labels.mean()),
            "mean_score": float(scores.mean()),
            **found,
            "threshold": threshold,
            "at_threshold": at_threshold,
            "intervals": intervals,
            "reliability": measures.reliability(),
        }
    )


class ScoredItems:
    """Labels, scores and groups of the items that have a score; of the others the number and the reasons.

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

    def shares(self, independent: float, level: float) -> dict[str, Interval]:
        """Wilson's intervals of the two accuracies, of which only a share of the items counts as ``independent``.

        That of the balanced accuracy joins those of its two shares (MOVER; Newcombe, Statistics in Medicine 17, 1998).
        """
        z = float(scipy.special.ndtri((1 + level) / 2))

        def ends(right: npt.NDArray[np.bool_]) -> tuple[float, float, float]:
            share = float(right.mean())
            return share, *wilson_ends(share, len(right) * independent, z)

        yes, right = self._labels == 1, (self._labels == 1) == self._said
        _, low, high = ends(right)
        found = {"accuracy": Interval(low=low, high=high, level=level, method="wilson")}
        if yes.any() and not yes.all():
            (a, low_a, high_a), (b, low_b, high_b) = ends(right[yes]), ends(right[~yes])
            middle = (a + b) / 2
            found["balanced_accuracy"] = Interval(
                low=max(0.0, middle - math.hypot(a - low_a, b - low_b) / 2),
                high=min(1.0, middle + math.hypot(high_a - a, high_b - b) / 2),
                level=level,
                method="wilson",
            )
        return found

    def threshold(self) -> tuple[float | None, float | None]:
        """The score from which on a yes gives the best balanced accuracy, of equals the one nearest to 0.5, and that accuracy."""
        yes = self._labels == 1
        if yes.all() or not yes.any():
            return None, None
        candidates, place = np.unique(self._scores, return_inverse=True)
        hits, false_alarms = (np.bincount(place, of)[::-1].cumsum()[::-1] for of in (yes, ~yes))
        balanced = (hits / yes.sum() + 1 - false_alarms / (~yes).sum()) / 2
        best = balanced.max()
        nearest = min(np.flatnonzero(balanced >= best - 1e-12), key=lambda n: abs(candidates[n] - FROM))
        return float(candidates[nearest]), float(best)

    def _auc(self, weights: Floats) -> float:
        """Chance that a yes of people scores above a no; equal scores count half."""
        ordered, yes = weights[self._order], self._labels[self._order]
        positive = np.add.reduceat(ordered * yes, self._starts)
        negative = np.add.reduceat(ordered * (1 - yes), self._starts)
        below = np.cumsum(negative) - negative
        return float((positive * (below + negative / 2)).sum() / (positive.sum() * negative.sum()))

    def reliability(self) -> list[ReliabilityBin]:
        """Score and share of yes in each of the bins."""
        bins = []
        for number in range(BINS):
            held = self._bin == number
            n = int(held.sum())
            columns = self._scores, self._labels
            means = [float(one[held].mean()) if n else None for one in columns]
            low, high = number / BINS, (number + 1) / BINS
            bins.append(ReliabilityBin(low=low, high=high, n=n, mean_score=means[0], share_yes=means[1]))
        return bins
