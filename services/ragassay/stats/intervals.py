"""Confidence intervals of means, shares, paired differences and grouped figures: one method for each kind of data."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.errors import BadInput
from ragassay.core.statistics import Interval

Floats: TypeAlias = npt.NDArray[np.float64]
Values: TypeAlias = Sequence[float] | npt.NDArray[np.floating] | npt.NDArray[np.integer] | npt.NDArray[np.bool_]
Bounds: TypeAlias = tuple[float, float]
Questions: TypeAlias = npt.NDArray[np.int64] | None
"""The number of each row's question; None: each row has its own."""

SAME = 1e-12  # a relative difference below this is rounding, not data
FEWEST = 8  # with fewer rows resampling shows too little of what else might have been seen
MAX_RESAMPLED = 10_000
RESAMPLES = 2000
MAX_CELLS = 2_000_000  # numbers held in memory at once


def columns(*given: Values) -> list[Floats]:
    """Each of ``given`` as float64, shape (n,); raises BadInput unless they are as long as each other and finite."""
    arrays = [np.asarray(values, dtype=np.float64) for values in given]
    if any(one.shape != (arrays[0].size,) or not np.isfinite(one).all() for one in arrays):
        raise BadInput("columns must be flat, equally long and finite", hint="leave out rows without a score on a side")
    return arrays


def averaged(values: Floats, questions: Questions) -> Floats:
    """The mean of the ``values`` of each question, in the order of the questions' numbers."""
    if questions is None or not len(values):
        return values
    _, places, counts = np.unique(questions, return_inverse=True, return_counts=True)
    means: Floats = np.bincount(places, weights=values) / counts
    return means


def mean_interval(
    values: Values, *, level: float = 0.95, bounds: Bounds | None = None, binary: bool = False
) -> Interval:
    """Interval of the mean of independent rows, shape (n,): Student's t, or with ``bounds`` the quasi-binomial one.

    Of ``binary`` scores, a yes or no each, it is Wilson's.

    Near a bound the spread of scores shrinks with their distance from it, and t takes no notice: it misses on the side
    away from the bound. With ``bounds``, the least and greatest value that a score can have, the variance goes with
    (mean - low) (high - mean), as for shares, scaled to the variance seen: Wilson's interval with the number of yes/no
    rows that would be as informative. In the middle it agrees with t (docs/statistics.md).

    Small n: no interval below two rows. If all values are equal the spread is unknown: without bounds there is no
    interval; with bounds the share of rows that may yet differ is at most 1 - (1 - level) ** (1 / n), the exact form of
    the rule of three, and all of those are put at the far bound. Bounds that a value lies outside of are not used.
    Raises BadInput for a value that is not finite.
    Sources: Student, "The probable error of a mean", Biometrika 6 (1908); Hanley and Lippman-Hand, "If nothing goes
    wrong, is everything all right?", JAMA 249 (1983); Wedderburn, "Quasi-likelihood functions, generalized linear
    models, and the Gauss-Newton method", Biometrika 61 (1974).
    """
    (column,) = columns(values)
    if binary and is_binary(column):
        return wilson_interval(round(float(column.sum())), len(column), level=level)
    bounds = _fitting(column, bounds)
    if bounds is None:
        return student(column, level)
    column = column.clip(*bounds)
    if (special := _without_spread(column, level, bounds, "quasi-binomial")) is not None:
        return special
    low, high = quasi_binomial(float(column.mean()), half_width(column, level), bounds, level)
    return Interval(low=low, high=high, level=level, method="quasi-binomial")


def difference_interval(
    a: Values, b: Values, *, level: float = 0.95, bounds: Bounds | None = None, binary: bool | None = None
) -> Interval:
    """Interval of the mean of b - a on the same queries. It is the only one that ragassay shows or tests.

    ``a`` and ``b`` have shape (n,). ``bounds`` are those of the scores; the interval is clipped to what they leave
    possible. Student's t, but for yes/no scores (``binary``; None: each value is 0 or 1) Bonett and Price's: two pairs are
    added, one for either side, so that pairs that all tie, or differ in one direction only, do not rule out the other.
    Swapping a and b mirrors it exactly. Small n and equal differences: as in ``mean_interval``.
    Source: Bonett and Price, "Adjusted Wald confidence interval for a difference of binomial proportions based on paired
    data", Journal of Educational and Behavioral Statistics 37 (2012); with the quantile of t in place of the normal one.
    """
    first, second = columns(a, b)
    if len(first) > 1 and (is_binary(first, second) if binary is None else binary):
        changes, n = differences(first, second), len(first) + 2
        mean = float(changes.sum()) / n  # with one more win and one more loss
        error = math.sqrt(((float((changes * changes).sum()) + 2) / n - mean * mean) / n)
        half = t_quantile(len(first) - 1, level) * error
        return Interval(low=max(mean - half, -1.0), high=min(mean + half, 1.0), level=level, method="bonett-price")
    return student(differences(first, second), level, None if bounds is None else span_of(bounds))


def wilson_interval(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Wilson's score interval of a share: ``successes`` of ``n`` independent rows. Defined from n = 1 on.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927); preferred to
    the Wald interval for its coverage at small n by Brown, Cai and DasGupta, Statistical Science 16 (2001).
    """
    if n == 0:
        return Interval.absent("there are no rows", level, "wilson")
    low, high = wilson_ends(successes / n, n, float(scipy.special.ndtri((1 + level) / 2)))
    return Interval(low=low, high=high, level=level, method="wilson")


def wilson_ends(share: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's limits of a share of ``n`` rows, which need not be whole, for a quantile ``z``."""
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return 0.0 if share == 0.0 else max(0.0, centre - half), 1.0 if share == 1.0 else min(1.0, centre + half)


def quasi_binomial(mean: float, half: float, bounds: Bounds, level: float) -> tuple[float, float]:
    """Wilson's ends for as many yes/no rows as would have the half width ``half`` at this mean."""
    width = bounds[1] - bounds[0]
    share, reach = (mean - bounds[0]) / width, half / width
    z = float(scipy.special.ndtri((1 + level) / 2))
    low, high = wilson_ends(share, share / reach * ((1 - share) / reach) * z**2, z)
    return bounds[0] + width * low, bounds[0] + width * high


def student(column: Floats, level: float, bounds: Bounds | None = None) -> Interval:
    """Student's t interval of the mean, clipped to ``bounds``; without spread as in ``mean_interval``."""
    bounds = _fitting(column, bounds)
    if (special := _without_spread(column, level, bounds, "t")) is not None:
        return special
    mean, half = float(column.mean()), half_width(column, level)
    low, high = bounds or (-math.inf, math.inf)
    return Interval(low=max(mean - half, low), high=min(mean + half, high), level=level, method="t")


def _fitting(column: Floats, bounds: Bounds | None) -> Bounds | None:
    """``bounds``; None if a value lies outside by more than rounding."""
    if bounds is None or not len(column):
        return bounds
    slack = 1e-9 * (bounds[1] - bounds[0])
    return bounds if column.min() >= bounds[0] - slack and column.max() <= bounds[1] + slack else None


def _without_spread(column: Floats, level: float, bounds: Bounds | None, method: str) -> Interval | None:
    """The interval, or why there is none, of fewer than two values or of equal ones; None for all others."""
    n = len(column)
    if n < 2:
        return Interval.absent(f"an interval needs two values, there {'is 1' if n else 'are 0'}", level, method)
    if not is_constant(column):
        return None
    if bounds is None:
        return Interval.absent(f"all {n} values are equal: the spread is unknown", level, method)
    value, kept = float(column.mean()), (1 - level) ** (1 / n)
    low, high = (kept * value + (1 - kept) * bound for bound in bounds)
    return Interval(low=min(low, value), high=max(high, value), level=level, method="constant values")


def bootstrap_interval(values: Values, *, level: float = 0.95, seed: int = 0) -> Interval:
    """Bootstrap percentile interval of the mean of ``values``, shape (n,), by scipy: a second opinion on t.

    Small n: no interval below 8 rows, nor if all values are equal. Large n: none above 10,000 rows, where it is that of t.
    """
    (column,), method = columns(values), "bootstrap percentile"
    n = len(column)
    if n < FEWEST:
        return Interval.absent(f"a bootstrap needs {FEWEST} rows, there are {n}", level, method)
    if n > MAX_RESAMPLED:
        reason = f"{n:,} rows: the bootstrap is left out above {MAX_RESAMPLED:,}, where it agrees with t"
        return Interval.absent(reason, level, method)
    if is_constant(column):
        return Interval.absent("all values are equal: the spread is unknown", level, method)
    from scipy.stats import bootstrap  # takes most of a second to import

    ci = bootstrap(
        (column,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=max(1, MAX_CELLS // n),
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(low=float(ci.low), high=float(ci.high), level=level, method=method)


def clustered_intervals(
    measure: Callable[[Floats], Floats],
    groups: Sequence[Hashable],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """Percentile intervals of the numbers that ``measure`` gives, drawing whole groups with replacement.

    ``measure`` gets a weight for each row: how often the row's group was drawn. A draw for which a number is undefined
    (NaN) is left out of that number's interval; below nine defined draws in ten there is none. ``groups`` has the group
    of each row; below 8 groups there is no interval. Percentiles are moved out as far as a t interval is wider than a
    normal one that divides by n, which corrects their undercoverage at small n.

    Sources: Davison and Hinkley, "Bootstrap methods and their application" (1997), section 3.8; Hesterberg, "What
    teachers should know about the bootstrap", The American Statistician 69 (2015).
    """
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    of_row = np.array([places[group] for group in groups], np.intp)
    n, method = len(places), "clustered bootstrap percentile"
    if n < FEWEST:
        reason = f"a bootstrap needs {FEWEST} groups, there are {n}"
        return [Interval.absent(reason, level, method)] * len(measure(np.ones(len(of_row))))
    rng = np.random.default_rng(seed)
    weights = (np.bincount(rng.integers(0, n, n), minlength=n)[of_row].astype(float) for _ in range(resamples))
    tail = float(scipy.special.ndtr(-math.sqrt(n / (n - 1)) * t_quantile(n - 1, level)))
    intervals = []
    for drawn in np.array([measure(weight) for weight in weights]).T:
        draws = np.sort(drawn[~np.isnan(drawn)])
        count = len(draws)
        if count < 0.9 * resamples:
            intervals.append(Interval.absent("undefined for too many draws: one label is rare", level, method))
            continue
        rank = min(max(1, math.floor((count + 1) * tail)), count)
        low, high = float(draws[rank - 1]), float(draws[count - rank])
        intervals.append(Interval(low=low, high=high, level=level, method=method))
    return intervals


def t_quantile(df: float, level: float) -> float:
    """How many standard errors a two-sided t interval of ``level`` reaches to either side."""
    return float(scipy.special.stdtrit(df, (1 + level) / 2))


def half_width(column: Floats, level: float) -> float:
    """Half the width of the t interval of the mean of two values or more."""
    return t_quantile(len(column) - 1, level) * standard_error(column)


def standard_error(column: Floats) -> float:
    """Of the mean: s / sqrt(n), of two values or more."""
    return float(column.std(ddof=1)) / math.sqrt(len(column))


def differences(a: Floats, b: Floats) -> Floats:
    """``b - a``, 0 where it is rounding; swapping a and b flips each sign exactly."""
    d: Floats = b - a
    return np.where(np.abs(d) <= SAME * np.maximum(np.abs(a), np.abs(b)), 0.0, d)


def span_of(bounds: Bounds) -> Bounds:
    """The least and greatest difference of two scores within ``bounds``."""
    return bounds[0] - bounds[1], bounds[1] - bounds[0]


def is_binary(*given: Floats) -> bool:
    """Is each value 0 or 1?"""
    return all(bool(np.isin(column, (0.0, 1.0)).all()) for column in given)


def is_constant(column: Floats) -> bool:
    """Are all values equal but for rounding? A spread below 1e-100 counts as none: its square would be lost."""
    return len(column) > 0 and bool(np.ptp(column) <= max(SAME * np.abs(column).max(), 1e-100))
