"""A few labels by people and a judge's scores of all rows, together: prediction-powered inference with power tuning."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.statistics import CorrectedMean, Interval
from ragassay.stats.columns import (
    Bounds,
    Floats,
    Values,
    check_lengths,
    is_constant,
    mean_error,
    never_zero,
    numbers,
    share_of,
)
from ragassay.stats.intervals import mean_interval, quasi_binomial

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
    ends = _ends(
        found.mean, float(scipy.special.stdtrit(n - 1, (1 + level) / 2)) * found.error, bounds, level, differences
    )
    interval = alone
    if m == 0 or ends[1] - ends[0] >= (alone.width or 0.0):
        found = _estimate(y, f, g, 0.0, bounds)
    else:
        interval = Interval(low=ends[0], high=ends[1], level=level, method=METHOD)
    corrected = {
        "mean": found.mean,
        "weight": found.weight,
        "interval": interval,
        "p": found.p if differences else None,
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
        return never_zero(2 * float(scipy.special.stdtr(len(self.rests) - 1, -abs(self.mean) / self.error)))


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
