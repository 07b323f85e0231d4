"""A few labels by people and a judge's scores of all rows, together: prediction-powered inference with power tuning."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ragassay.stats.columns import Bounds, Values, check_lengths, count_of, is_constant, mean_error, numbers, share_of
from ragassay.stats.distributions import t_quantile
from ragassay.stats.intervals import mean_interval, quasi_binomial
from ragassay.stats.results import CorrectedMean, Interval

FEWEST_LABELS = 10
METHOD = "prediction-powered"


def corrected_mean(
    labels: Values, scores: Values, others: Values, *, bounds: Bounds, level: float = 0.95, differences: bool = False
) -> CorrectedMean:
    """The mean label that all rows would have: ``weight`` x mean of ``others`` + mean of (label - ``weight`` x score).

    ``labels`` and ``scores`` have shape (n,), the judge's score of each labelled row; ``others`` (m,), its scores of the
    rows without a label. The labelled rows are taken for a random part of all. The weight is the one of least variance,
    from 0 (the labels alone) to 1: however bad the judge, the mean is right, and the interval about as narrow as that
    of the labels alone.

    The interval is Student's with n - 1 degrees of freedom, of a variance to which two further labels, one at either end
    of ``bounds``, add their disagreement with the judge: ten labels that all agree do not show that it never errs. Means
    get the quasi-binomial form (``mean_interval``); with ``differences``, of scores within ``bounds``, the usual one.
    Labels that are all equal tell nothing of how judge and labels go together: then they are used alone. Below 10 labels
    there is no mean, with the reason.

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
    known = {"labels": n, "rows": n + m}
    if n < FEWEST_LABELS:
        why = f"a correction needs {FEWEST_LABELS} labels of rows with a score, there are {n}"
        return CorrectedMean(**known, interval=Interval.absent(why, level, METHOD), reason=why)
    span = (bounds[0] - bounds[1], bounds[1] - bounds[0]) if differences else bounds
    alone = mean_interval(y, level=level, bounds=span, method="t" if differences else "quasi-binomial")
    judged = float(np.concatenate([f, g]).mean())
    if m == 0 or is_constant(y, span[1] - span[0]):
        return CorrectedMean(**known, mean=float(y.mean()), judged=judged, weight=0.0, interval=alone, alone=alone)
    weight = _weight(y, f, g)
    rest = y - weight * f
    mean, error = mean_error(rest)
    mean += weight * float(g.mean())
    doubt = weight * (bounds[1] - bounds[0]) / n
    variance = error**2 + weight**2 * (float(g.var(ddof=1)) / m if m > 1 else 0.0) + 2 * doubt**2
    half = t_quantile((1 + level) / 2, n - 1) * math.sqrt(variance)
    mean = min(max(mean, span[0]), span[1])
    low, high = mean - half, mean + half
    if not differences:
        low, high = quasi_binomial(mean, half, bounds, level)
    low, high = max(low, span[0]), min(high, span[1])
    interval = Interval(low=low, high=high, level=level, method=METHOD)
    return CorrectedMean(**known, mean=mean, judged=judged, weight=weight, interval=interval, alone=alone)


def _weight(y: np.ndarray, f: np.ndarray, g: np.ndarray) -> float:
    """cov(label, score) / ((1 + n/m) var(score)), within 0 and 1."""
    spread = float(np.concatenate([f, g]).var(ddof=1))
    if spread == 0:
        return 0.0
    together = float(np.cov(y, f)[0, 1])
    return min(max(together / ((1 + len(y) / len(g)) * spread), 0.0), 1.0)


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
        return t_quantile((1 + level) / 2, n - 1) * sd * math.sqrt((1 - gain) / n)

    if rows < FEWEST_LABELS or reached(rows) > half_width:
        return None
    low, high = FEWEST_LABELS - 1, rows
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= half_width else (middle, high)
    return high
