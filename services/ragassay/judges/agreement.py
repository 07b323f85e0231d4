"""How far raters agree: a judge with people, by its scores, and the judges of a jury with its vote, by their labels."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # loads scipy.special and scipy.stats at the first use

from ragassay.core.errors import NothingToEvaluate
from ragassay.core.models import Chance, FrozenModel, Result, Usage
from ragassay.core.report import Jury, JuryJudge
from ragassay.core.statistics import Estimate, Interval
from ragassay.judges.combine import by_judge, disagreements
from ragassay.judges.verdict import labels as labels_of
from ragassay.stats.intervals import Floats, clustered_intervals, wilson_ends

FROM = 0.5  # the least score that is a yes
BINS = 10
ONE_LABEL = "people gave all rows one label"
MEASURES = ("accuracy", "balanced_accuracy", "kappa", "auc", "ece")


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """The label of people, 1 or 0, and the judge's score, 0 to 1; None with the reason if it gave none.

    Rows of a ``group`` are drawn together.
    """

    label: int
    score: float | None
    group: str
    reason: str = ""


class Measure(Estimate):
    """A number that says how far two raters agree."""

    interval: Interval


class Agreement(FrozenModel):
    """A judge and people; a score from 0.5 on is a yes.

    ``ece`` is the expected calibration error in ten bins of equal width: the mean distance between the score and the
    share of yes. ``threshold``: the score from which on a yes gives the best balanced accuracy, which is ``at_threshold``
    on these same labels. Intervals are Wilson's for shares, groups counted once; of the other measures from drawing
    groups with replacement, which puts those of ``ece`` high, since drawing adds noise to every bin.
    """

    groups: int
    share_yes: Chance
    mean_score: Chance
    accuracy: Measure
    balanced_accuracy: Measure
    kappa: Measure
    auc: Measure
    ece: Measure
    threshold: Chance | None
    at_threshold: Chance | None


def agreement(rows: Sequence[LabelledScore], *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> Agreement:
    """A judge against people; a row without a score is missing. Raises NothingToEvaluate if none has a score."""
    reasons = Counter(row.reason for row in rows if row.score is None)
    if len(rows) == reasons.total():
        raise NothingToEvaluate(f"the judge gave no score: {next(iter(reasons), 'there are no rows')}")
    labels, scores = columns(rows)
    groups = [row.group for row in rows if row.score is not None]

    def drawn(times: Floats) -> Floats:
        repeats = times.astype(np.intp)
        return measures(np.repeat(labels, repeats), np.repeat(scores, repeats))

    values = dict(zip(MEASURES, measures(labels, scores).tolist(), strict=True))
    drawn_intervals = clustered_intervals(drawn, groups, level=level, resamples=resamples, seed=seed)
    independent = len(set(groups)) / len(labels)
    intervals = dict(zip(MEASURES, drawn_intervals, strict=True)) | _wilson(labels, scores, independent, level)
    for name in ("kappa", "auc"):
        if values[name] == 1.0:  # each draw says so too, however few the items are
            intervals[name] = Interval.absent(f"no disagreement among {len(labels)}", level, intervals[name].method)
    if min(len(np.unique(labels)), len(np.unique(scores >= FROM))) == 1:
        reason = "people or the judge gave one answer only"
        intervals["kappa"] = Interval.absent(reason, level, intervals["kappa"].method)
    threshold, at_threshold = best_threshold(labels, scores)
    about: dict[str, Any] = {"n": len(labels), "missing": dict(reasons), "failed": reasons.total()}
    return Agreement(
        groups=len(set(groups)),
        share_yes=float(labels.mean()),
        mean_score=float(scores.mean()),
        threshold=threshold,
        at_threshold=at_threshold,
        **{
            name: Measure(value=value, interval=intervals[name], **about)
            if not math.isnan(value)
            else Measure(value=None, interval=intervals[name], reason=ONE_LABEL, **about)
            for name, value in values.items()
        },
    )


def columns(rows: Iterable[LabelledScore]) -> tuple[Floats, Floats]:
    """Labels and scores of the rows that have a score."""
    scored = [(row.label, row.score) for row in rows if row.score is not None]
    return np.array([label for label, _ in scored], np.float64), np.array([score for _, score in scored], np.float64)


def measures(labels: Floats, scores: Floats) -> Floats:
    """The numbers that ``MEASURES`` names; NaN if undefined. ``labels``: 1 or 0; ``scores``: 0 to 1; of the same items."""
    yes, said = labels == 1, scores >= FROM
    n, n_yes, n_said, hits = len(labels), yes.sum(), said.sum(), (yes & said).sum()
    accuracy, balanced, auc = (yes == said).mean(), np.nan, np.nan
    if 0 < n_yes < n:
        balanced = (hits / n_yes + 1 - (n_said - hits) / (n - n_yes)) / 2
        ranks = scipy.stats.rankdata(scores)  # Mann and Whitney's U, of which equal scores count half
        auc = (ranks[yes].sum() - n_yes * (n_yes + 1) / 2) / (n_yes * (n - n_yes))
    chance = (n_yes * n_said + (n - n_yes) * (n - n_said)) / n**2
    kappa = (accuracy - chance) / (1 - chance) if chance < 1 else np.nan
    error = np.abs(np.bincount(_bins(scores), scores - labels)).sum() / n
    return np.array([accuracy, balanced, kappa, auc, error])


def _bins(scores: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    return np.minimum((scores * BINS).astype(np.intp), BINS - 1)


def best_threshold(labels: Floats, scores: Floats) -> tuple[float | None, float | None]:
    """The score from which on a yes gives the best balanced accuracy, of equals the one nearest to 0.5; and that accuracy."""
    yes, no = np.sort(scores[labels == 1]), np.sort(scores[labels == 0])
    if not len(yes) or not len(no):
        return None, None
    candidates = np.unique(scores)
    hits, rejected = 1 - np.searchsorted(yes, candidates) / len(yes), np.searchsorted(no, candidates) / len(no)
    balanced = (hits + rejected) / 2
    best = candidates[balanced >= balanced.max() - 1e-12]
    return float(best[np.argmin(np.abs(best - FROM))]), float(balanced.max())


def _wilson(labels: Floats, scores: Floats, independent: float, level: float) -> dict[str, Interval]:
    """Wilson's intervals of the two accuracies, of which only a share of the rows counts as ``independent``.

    That of the balanced accuracy joins those of its two shares (MOVER; Newcombe, Statistics in Medicine 17, 1998).
    """
    z = float(scipy.special.ndtri((1 + level) / 2))
    yes = labels == 1
    right = (yes == (scores >= FROM)).astype(float)

    def ends(of: Floats) -> tuple[float, float, float]:
        share = float(of.mean())
        return share, *wilson_ends(share, len(of) * independent, z)

    _, low, high = ends(right)
    intervals = {"accuracy": Interval(low=low, high=high, level=level, method="wilson")}
    if yes.any() and not yes.all():
        (a, low_a, high_a), (b, low_b, high_b) = ends(right[yes]), ends(right[~yes])
        middle = (a + b) / 2
        intervals["balanced_accuracy"] = Interval(
            low=max(0.0, middle - math.hypot(a - low_a, b - low_b) / 2),
            high=min(1.0, middle + math.hypot(high_a - a, high_b - b) / 2),
            level=level,
            method="wilson",
        )
    return intervals


class JuryCount:
    """Counts over the rows of one system that several judges judged, each added once."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._labels = defaultdict[str, Counter[str]](Counter)
        self._reasons = defaultdict[str, Counter[str]](Counter)
        self._spent = defaultdict[str, tuple[Usage, Usage]](lambda: (Usage(), Usage()))

    def add(self, row: Result) -> None:
        """The next row; one that no jury judged counts nothing."""
        if len(ratings := by_judge(row.ratings)) < 2:
            return
        differ = any(True for _ in disagreements(row.ratings))
        self._counts.update(rows=1, disagreement=differ, without_verdict=row.verdict is None)
        elected = labels_of(row.verdict) if row.verdict else {}
        for name, one in ratings.items():
            usage, waste = self._spent[name]
            self._spent[name] = usage + one.usage, waste + one.waste
            if one.verdict is None:
                self._reasons[name][one.reason or "no verdict"] += 1
                continue
            alike = [label == elected[unit] for unit, label in labels_of(one.verdict).items() if unit in elected]
            self._labels[name].update(judged=1, labels=len(alike), agreed=sum(alike))

    @property
    def jury(self) -> Jury | None:
        """The figures; None if no jury judged."""
        if not self._counts:
            return None
        judges = []
        for name, (usage, waste) in self._spent.items():
            counts = {field: self._labels[name][field] for field in ("judged", "labels", "agreed")}
            reasons = self._reasons[name]
            counts |= {"failed": reasons.total()}
            judges.append(
                JuryJudge(judge=name, **counts, reasons=dict(sorted(reasons.items())), usage=usage, waste=waste)
            )
        return Jury.model_validate({**self._counts, "judges": judges})
