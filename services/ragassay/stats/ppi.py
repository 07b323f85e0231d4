"""A few labels by people and a judge's scores of all rows, together: prediction-powered inference with power tuning."""

from __future__ import annotations

import math

import numpy as np
import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.statistics import Estimate, Interval
from ragassay.stats.intervals import (
    Bounds,
    Floats,
    Questions,
    averaged,
    is_constant,
    mean_interval,
    quasi_binomial,
    span_of,
    standard_error,
    student,
    t_quantile,
)
from ragassay.stats.tests import never_zero

FEWEST_LABELS = 10
METHOD = "prediction-powered"
UNIT: Bounds = (0.0, 1.0)


def corrected_mean(
    labels: Floats, scores: Floats, questions: Questions = None, *, level: float = 0.95, failed: str | None = None
) -> Estimate:
    """The mean label that all rows would have: lambda x mean of the other scores + mean of (label - lambda x score).

    ``labels`` by people or by a reference judge and ``scores`` of the judge have shape (rows,), are from 0 to 1, and NaN if
    there is none. Rows without a score are left out; the labelled rows are taken for a random part of all. ``questions``:
    the number of each row's question, None if each has its own; several answers to one question are averaged first, of a
    question with labels those that have one. ``failed``: why labels may be no random part, so that they correct nothing.

    ``n`` is the number of rows with a score, ``corrected_by`` of labels among these, ``uncorrected`` the judge's own mean.
    lambda is the weight of least variance, from 0 (the labels alone) to 1: however bad the judge, the mean is right. If the
    interval would be no narrower than that of the labels alone, they are used alone.

    The interval is Student's with n - 1 degrees of freedom, in the quasi-binomial form (``mean_interval``), of a variance
    to which one further label adds its disagreement with the judge: the largest one seen, or the whole range if none was,
    since ten labels that all agree do not show that the judge never errs. Labels that are all equal say nothing about how
    judge and labels go together: then they are used alone. Below 10 labels there is no mean, with the reason.

    Source: Angelopoulos, Duchi and Zrnic, "PPI++: efficient prediction-powered inference" (2023), arXiv 2311.01453.
    """
    return _corrected(labels, scores, questions, level, failed, UNIT)[0]


def corrected_difference(
    labels: Floats, scores: Floats, questions: Questions = None, *, level: float = 0.95, failed: str | None = None
) -> tuple[Estimate, float | None]:
    """``corrected_mean`` of what two systems differ by in labels and scores, and the p of no difference; None without a mean.

    The interval is Student's; at a level of 1 - p it would begin to hold 0.
    """
    return _corrected(labels, scores, questions, level, failed, span_of(UNIT))


def _corrected(
    labels: Floats, scores: Floats, questions: Questions, level: float, failed: str | None, span: Bounds
) -> tuple[Estimate, float | None]:
    differences, known = span != UNIT, np.isfinite(scores)
    labels, scores = labels[known], scores[known]
    labelled = np.isfinite(labels)
    y, f, g, judged = labels[labelled], scores[labelled], scores[~labelled], scores
    if questions is not None:
        of_row = questions[known]
        of_labelled = of_row[labelled]
        others = ~np.isin(of_row, of_labelled)
        y, f, g = averaged(y, of_labelled), averaged(f, of_labelled), averaged(scores[others], of_row[others])
        judged = averaged(scores, of_row)
    n, about = len(y), {"n": len(scores), "corrected_by": int(labelled.sum())}
    if failed is None and n < FEWEST_LABELS:
        of_what = "questions with labels on both sides" if differences else "questions with a label and a score"
        failed = f"a correction needs {FEWEST_LABELS} {of_what}, there {'is 1' if n == 1 else f'are {n}'}"
    if failed is not None:
        return Estimate(value=None, interval=Interval.absent(failed, level, METHOD), reason=failed, **about), None
    interval = student(y, level, span) if differences else mean_interval(y, level=level, bounds=span)
    mean, error = float(y.mean()), standard_error(y)
    if is_constant(y):
        # at this p so many equal labels, with the rest of all rows at the far end, would leave 0 possible
        p = (1 + abs(mean) / span[1]) ** -n
    else:
        better, its_error = _tuned(y, f, g)
        low, high = _ends(better, t_quantile(n - 1, level) * its_error, span, level)
        if len(g) and high - low < (interval.width or 0.0):
            interval = Interval(low=low, high=high, level=level, method=METHOD)
            mean, error = better, its_error
        p = 2 * float(scipy.special.stdtr(n - 1, -abs(mean) / error))
    estimate = Estimate(value=mean, uncorrected=float(judged.mean()), interval=interval, **about)
    return estimate, never_zero(p)


def _tuned(y: Floats, f: Floats, g: Floats) -> tuple[float, float]:
    """Mean and standard error at the judge's best weight, cov(label, score) / ((1 + n/m) var(score)) within 0 and 1."""
    spread = float(np.concatenate([f, g]).var(ddof=1))
    if spread == 0 or not len(g):
        return float(y.mean()), standard_error(y)
    lambda_ = min(max(float(np.cov(y, f)[0, 1]) / ((1 + len(y) / len(g)) * spread), 0.0), 1.0)
    rests = y - lambda_ * f
    doubt = lambda_ * (float(np.abs(y - f).max()) or 1.0) / len(y)
    of_others = lambda_ * standard_error(g) if len(g) > 1 else 0.0
    error = math.sqrt(standard_error(rests) ** 2 + of_others**2 + doubt**2)
    return float(rests.mean()) + lambda_ * float(g.mean()), error


def _ends(mean: float, half: float, span: Bounds, level: float) -> tuple[float, float]:
    """The ends of an interval of so much to each side, within what is possible; all of that for a mean at its end."""
    if not span[0] < mean < span[1]:
        return span
    low, high = quasi_binomial(mean, half, span, level) if span == UNIT else (mean - half, mean + half)
    return max(low, span[0]), min(high, span[1])
