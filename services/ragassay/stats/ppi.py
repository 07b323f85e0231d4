"""A few labels by people and a judge's scores of all rows, together: prediction-powered inference with power tuning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from ragassay.stats.columns import (
    Bounds,
    Floats,
    Values,
    check_lengths,
    count_of,
    is_constant,
    mean_error,
    never_zero,
    numbers,
    share_of,
)
from ragassay.stats.costs import increment_of
from ragassay.stats.intervals import mean_interval, quasi_binomial
from ragassay.stats.ratios import RatioSums
from ragassay.stats.results import CorrectedMean, IncrementalCost, Interval

FEWEST_LABELS = 10
METHOD = "prediction-powered"


def corrected_mean(
    labels: Values, scores: Values, others: Values, *, bounds: Bounds, level: float = 0.95, differences: bool = False
) -> CorrectedMean:
    """The mean label that all rows would have: ``weight`` x mean of ``others`` + mean of (label - ``weight`` x score).

    ``labels`` and ``scores`` have shape (n,), the judge's score of each labelled row; ``others`` (m,), its scores of the
    rows without a label. The labelled rows are taken for a random part of all. The weight is the one of least variance,
    from 0 (the labels alone) to 1: however bad the judge, the mean is right. Where the interval would be no narrower than
    that of the labels alone, they are used alone.

    The interval is Student's with n - 1 degrees of freedom, of a variance to which two further labels, one at either end
    of ``bounds``, add their disagreement with the judge: ten labels that all agree do not show that it never errs. Means
    get the quasi-binomial form (``mean_interval``); with ``differences``, of scores within ``bounds``, the usual one, and a
    p of no difference, at which the interval would begin to hold 0. Labels that are all equal tell nothing of how judge
    and labels go together: then they are used alone. Below 10 labels there is no mean, with the reason.

    Source: Angelopoulos, Duchi and Zrnic, "PPI++: efficient prediction-powered inference" (2023), arXiv 2311.01453.
    """
    y, f, g, level = (
        numbers(labels, "labels"),
        numbers(scores, "scores"),
        numbers(others, "others"),
        share_of(level, "level"),
    )
    check_lengths(y, f, ("labels", "scores"))
    n, m = len(y), len(g)
    if n < FEWEST_LABELS:
        of_what = "queries with labels on both sides" if differences else "labels of rows with a score"
        why = f"a correction needs {FEWEST_LABELS} {of_what}, there {'is 1' if n == 1 else f'are {n}'}"
        return CorrectedMean(labels=n, rows=n + m, interval=Interval.absent(why, level, METHOD), reason=why)
    span = (bounds[0] - bounds[1], bounds[1] - bounds[0]) if differences else bounds
    alone = mean_interval(y, level=level, bounds=span, method="t" if differences else "quasi-binomial")
    by_labels = CorrectedMean(
        labels=n,
        rows=n + m,
        mean=float(y.mean()),
        judged=float(np.concatenate([f, g]).mean()),
        weight=0.0,
        interval=alone,
        alone=alone,
    )
    if is_constant(y, span[1] - span[0]):
        # at this p so many equal labels, with the rest of all rows at the far end, would leave 0 possible
        p = never_zero((1 + abs(float(y.mean())) / span[1]) ** -n) if differences else None
        return by_labels.model_copy(update={"p": p})
    found = _estimate(y, f, g, _weight(y, f, g) if m else 0.0, bounds)
    ends = _ends(found.mean, float(stdtrit(n - 1, (1 + level) / 2)) * found.error, bounds, level, differences)
    interval, narrowest = alone, alone.width or 0.0
    if m == 0 or ends[1] - ends[0] >= narrowest:
        found = _estimate(y, f, g, 0.0, bounds)
    else:
        interval = Interval(low=ends[0], high=ends[1], level=level, method=METHOD)
    of_all = float(stdtrit(n + m - 1, (1 + level) / 2)) * float(y.std(ddof=1)) / math.sqrt(n + m)
    all_labelled = _ends(found.mean, of_all, bounds, level, differences)
    corrected = {
        "mean": found.mean,
        "weight": found.weight,
        "interval": interval,
        "p": found.p if differences else None,
        "width_of_all": all_labelled[1] - all_labelled[0],
        "worth": round(n * (narrowest / (interval.width or narrowest)) ** 2),
    }
    return by_labels.model_copy(update=corrected)


@dataclass(frozen=True)
class _Estimate:
    """``rests`` are label - weight x score of each labelled row."""

    mean: float
    error: float
    weight: float
    rests: Floats

    @property
    def p(self) -> float:
        """Of a true mean of 0, by Student's t."""
        return never_zero(2 * float(stdtr(len(self.rests) - 1, -abs(self.mean) / self.error)))


def _estimate(y: Floats, f: Floats, g: Floats, weight: float, bounds: Bounds) -> _Estimate:
    rests = y - weight * f
    mean, error = mean_error(rests)
    if weight == 0:
        return _Estimate(mean, error, 0.0, rests)
    doubt = weight * (bounds[1] - bounds[0]) / len(y)
    variance = error**2 + weight**2 * (float(g.var(ddof=1)) / len(g) if len(g) > 1 else 0.0) + 2 * doubt**2
    return _Estimate(mean + weight * float(g.mean()), math.sqrt(variance), weight, rests)


def _ends(mean: float, half: float, bounds: Bounds, level: float, differences: bool) -> tuple[float, float]:
    """The ends of an interval of so much to each side, within what is possible; all of that for a mean at its end."""
    span = (bounds[0] - bounds[1], bounds[1] - bounds[0]) if differences else bounds
    if not span[0] < mean < span[1]:
        return span
    if differences:
        return max(mean - half, span[0]), min(mean + half, span[1])
    low, high = quasi_binomial(mean, half, bounds, level)
    return max(low, bounds[0]), min(high, bounds[1])


def _weight(y: Floats, f: Floats, g: Floats) -> float:
    """cov(label, score) / ((1 + n/m) var(score)), within 0 and 1."""
    spread = float(np.concatenate([f, g]).var(ddof=1))
    if spread == 0:
        return 0.0
    together = float(np.cov(y, f)[0, 1])
    return min(max(together / ((1 + len(y) / len(g)) * spread), 0.0), 1.0)


def corrected_sums(
    costs: Values,
    labels: Sequence[float | None],
    scores: Values,
    *,
    level: float = 0.95,
    differences: bool = False,
) -> tuple[CorrectedMean, RatioSums | None]:
    """The corrected mean of rows with ``scores`` from 0 to 1, some with a label, and sums that ``sums_interval`` takes.

    In the place of each row's accuracy stands what it adds to the corrected mean, n rows times: so mean and variance of
    the sums are those of the corrected mean, and the products with the costs hold how both go together. Columns have shape
    (n,); with ``differences`` each is that of two systems. No sums below 10 labels, nor where these are all equal: how far
    those may be off has no place in sums of squares.
    """
    cost, score = numbers(costs, "costs"), numbers(scores, "scores")
    check_lengths(cost, score, ("costs", "scores"))
    labelled = np.array([label is not None for label in labels], dtype=bool)
    y = np.array([label for label in labels if label is not None], dtype=float)
    f, g = score[labelled], score[~labelled]
    mean = corrected_mean(y, f, g, bounds=(0.0, 1.0), level=level, differences=differences)
    if mean.mean is None or is_constant(y, 1.0):
        return mean, None
    found, rows = _estimate(y, f, g, mean.weight or 0.0, (0.0, 1.0)), len(score)
    away = np.empty(rows)
    away[labelled] = rows / len(y) * (found.rests - found.rests.mean())
    away[~labelled] = rows / len(g) * found.weight * (g - g.mean()) if len(g) else 0.0
    wider = float(stdtrit(len(y) - 1, (1 + level) / 2)) / float(stdtrit(rows - 1, (1 + level) / 2))
    return mean, RatioSums(
        n=rows,
        cost_usd=math.fsum(cost),
        accurate=rows * mean.mean,
        cost_usd_squared=math.fsum(cost * cost),
        cost_usd_times_accurate=mean.mean * math.fsum(cost) + math.fsum(cost * away),
        accurate_squared=rows * mean.mean**2 + rows * (rows - 1) * (found.error * wider) ** 2,
    )


def corrected_increment(
    costs: Values,
    labels: Sequence[float | None],
    gains: Values,
    *,
    names: tuple[str, str] = ("A", "B"),
    level: float = 0.95,
) -> IncrementalCost | None:
    """As ``incremental_cost``, of differences B - A of each row, with the accurate answers gained by labels.

    None where the labels are too few, or all equal.
    """
    mean, sums = corrected_sums(costs, labels, gains, level=level, differences=True)
    return None if sums is None else increment_of(sums, names, level=level, corrected_by=mean.labels)


@dataclass(frozen=True)
class PlannedLabels:
    """How many labels an interval takes, with a judge's scores and without; None where all rows are not enough."""

    correlation: float
    with_judge: int | None
    alone: int | None


def planned_labels(
    labels: Values, scores: Values, rows: int, half_width: float, *, level: float = 0.95
) -> PlannedLabels:
    """The labels that are needed for an interval of ``half_width`` on each side, from those that there are.

    ``labels`` and ``scores`` have shape (n,); ``rows`` is how many the judge will have scored. Raises BadSettings for
    fewer than 10 labels.
    """
    y, f = numbers(labels, "labels"), numbers(scores, "scores")
    count_of(len(y), "the number of labels", FEWEST_LABELS)
    spreads = float(y.std(ddof=1)), float(f.std(ddof=1))
    correlation = float(np.cov(y, f)[0, 1]) / (spreads[0] * spreads[1]) if min(spreads) > 0 else 0.0
    needed = [needed_labels(half_width, spreads[0], max(r, 0.0), rows, level=level) for r in (correlation, 0.0)]
    return PlannedLabels(correlation, *needed)


def needed_labels(half_width: float, sd: float, correlation: float, rows: int, *, level: float = 0.95) -> int | None:
    """The fewest labels for an interval of ``half_width`` on each side, of ``rows`` rows that a judge has scored.

    ``sd`` is the standard deviation of the labels, ``correlation`` that of labels and scores, 0 for none. None where not
    even a label on each row is enough.
    """

    def reached(n: int) -> float:
        m = rows - n
        gain = correlation**2 * m / rows if m else 0.0
        return float(stdtrit(n - 1, (1 + level) / 2)) * sd * math.sqrt((1 - gain) / n)

    if rows < FEWEST_LABELS or reached(rows) > half_width:
        return None
    low, high = FEWEST_LABELS - 1, rows
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= half_width else (middle, high)
    return high
