"""A few labels by people and a judge's scores of all rows, together: prediction-powered inference with power tuning."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.statistics import CorrectedMean, Interval
from ragassay.stats.intervals import (
    Bounds,
    Floats,
    Values,
    averaged,
    columns,
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


def corrected_mean(
    labels: Values, scores: Values, others: Values, *, bounds: Bounds, level: float = 0.95, differences: bool = False
) -> CorrectedMean:
    """The mean label that all rows would have: ``lambda_`` x mean of ``others`` + mean of (label - ``lambda_`` x score).

    ``labels`` and ``scores`` have shape (n,), the judge's score of each labelled row; ``others`` (m,), its scores of the
    rows without a label. The labelled rows are taken for a random part of all. ``lambda_`` is the weight of least
    variance, from 0 (the labels alone) to 1: however bad the judge, the mean is right. If the interval would be no narrower
    than that of the labels alone, they are used alone.

    The interval is Student's with n - 1 degrees of freedom, of a variance to which one further label adds its disagreement
    with the judge: the largest one seen, or the whole range of ``bounds`` if none was, since ten labels that all agree do
    not show that the judge never errs. Means get the quasi-binomial form (``mean_interval``); with ``differences``, of
    scores within ``bounds``, the usual one, and a p of no difference, at which the interval would begin to hold 0. Labels
    that are all equal say nothing about how judge and labels go together: then they are used alone. Below 10 labels there
    is no mean, with the reason.

    Source: Angelopoulos, Duchi and Zrnic, "PPI++: efficient prediction-powered inference" (2023), arXiv 2311.01453.
    """
    y, f = columns(labels, scores)
    (g,) = columns(others)
    n, m = len(y), len(g)
    if n < FEWEST_LABELS:
        of_what = "questions with labels on both sides" if differences else "questions with a label and a score"
        why = f"a correction needs {FEWEST_LABELS} {of_what}, there {'is 1' if n == 1 else f'are {n}'}"
        return CorrectedMean(labels=n, rows=n + m, interval=Interval.absent(why, level, METHOD), reason=why)
    span = span_of(bounds) if differences else bounds
    labels_only = student(y, level, span) if differences else mean_interval(y, level=level, bounds=span)
    interval, lambda_, mean, error = labels_only, 0.0, float(y.mean()), standard_error(y)
    if is_constant(y):
        # at this p so many equal labels, with the rest of all rows at the far end, would leave 0 possible
        p = (1 + abs(mean) / span[1]) ** -n
    else:
        tuned = _lambda(y, f, g)
        better, its_error = _estimate(y, f, g, tuned, bounds)
        low, high = _ends(better, t_quantile(n - 1, level) * its_error, bounds, level, differences)
        if m and high - low < (labels_only.width or 0.0):
            interval = Interval(low=low, high=high, level=level, method=METHOD)
            lambda_, mean, error = tuned, better, its_error
        p = 2 * float(scipy.special.stdtr(n - 1, -abs(mean) / error))
    return CorrectedMean(
        labels=n,
        rows=n + m,
        mean=mean,
        judged=float(np.concatenate([f, g]).mean()),
        lambda_=lambda_,
        interval=interval,
        labels_only_interval=labels_only,
        p=never_zero(p) if differences else None,
    )


def corrected_by_labels(
    labels: Floats,
    scores: Floats,
    questions: npt.NDArray[np.int64] | None,
    *,
    level: float,
    differences: bool = False,
    failed: str | None = None,
) -> CorrectedMean:
    """The corrected mean of rows by their labels and scores, from 0 to 1, NaN if there is none. Shape of each: (rows,).

    Rows without a score are left out. ``questions`` has the number of each row's question, None if each has its own: several
    answers to one question are averaged first, of a question with labels those that have one. ``differences``: labels and
    scores are those of two systems, one taken from the other. ``failed``: why labels that there are may be no random part of
    the rows, so that they correct nothing.
    """
    scored = np.isfinite(scores)
    labels, scores = labels[scored], scores[scored]
    labelled = np.isfinite(labels)
    if failed is not None:
        absent = Interval.absent(failed, level, METHOD)
        return CorrectedMean(labels=int(labelled.sum()), rows=len(scores), interval=absent, reason=failed)
    y, f, g, judged = labels[labelled], scores[labelled], scores[~labelled], scores
    if questions is not None:
        of_row = questions[scored]
        of_labelled = of_row[labelled]
        others = ~np.isin(of_row, of_labelled)
        y, f, g = averaged(y, of_labelled), averaged(f, of_labelled), averaged(scores[others], of_row[others])
        judged = averaged(scores, of_row)
    corrected = corrected_mean(y, f, g, bounds=(0.0, 1.0), level=level, differences=differences)
    update: dict[str, object] = {"labels": int(labelled.sum()), "rows": len(scores)}
    if corrected.mean is not None:
        update["judged"] = float(judged.mean())
    return corrected.model_copy(update=update)


def _lambda(y: Floats, f: Floats, g: Floats) -> float:
    """cov(label, score) / ((1 + n/m) var(score)), within 0 and 1; 0 without other rows."""
    spread = float(np.concatenate([f, g]).var(ddof=1))
    if spread == 0 or not len(g):
        return 0.0
    return min(max(float(np.cov(y, f)[0, 1]) / ((1 + len(y) / len(g)) * spread), 0.0), 1.0)


def _estimate(y: Floats, f: Floats, g: Floats, lambda_: float, bounds: Bounds) -> tuple[float, float]:
    """Mean and standard error at this weight of the judge."""
    if lambda_ == 0:
        return float(y.mean()), standard_error(y)
    rests = y - lambda_ * f
    doubt = lambda_ * (float(np.abs(y - f).max()) or bounds[1] - bounds[0]) / len(y)
    of_others = lambda_ * standard_error(g) if len(g) > 1 else 0.0
    error = math.sqrt(standard_error(rests) ** 2 + of_others**2 + doubt**2)
    return float(rests.mean()) + lambda_ * float(g.mean()), error


def _ends(mean: float, half: float, bounds: Bounds, level: float, differences: bool) -> tuple[float, float]:
    """The ends of an interval of so much to each side, within what is possible; all of that for a mean at its end."""
    span = span_of(bounds) if differences else bounds
    if not span[0] < mean < span[1]:
        return span
    if differences:
        return max(mean - half, span[0]), min(mean + half, span[1])
    low, high = quasi_binomial(mean, half, bounds, level)
    return max(low, bounds[0]), min(high, bounds[1])
