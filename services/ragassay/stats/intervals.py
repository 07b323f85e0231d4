"""Confidence intervals of means, shares and grouped figures: t, Wilson and the clustered bootstrap."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import numpy as np
import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.statistics import Interval
from ragassay.stats.columns import (
    SAME,
    Bounds,
    Floats,
    Values,
    bounds_of,
    count_of,
    generator,
    is_constant,
    mean_error,
    numbers,
    share_of,
)

FEWEST = 8  # with fewer rows resampling shows too little of what else might have been seen
MOST_RESAMPLED = 10_000
MOST_CELLS = 2_000_000  # numbers held in memory at once


def mean_interval(
    values: Values,
    *,
    level: float = 0.95,
    bounds: Bounds | None = None,
    method: Literal["t", "quasi-binomial"] = "t",
) -> Interval:
    """Interval of the mean: Student's t, clipped to ``bounds`` where the scores have some; or the quasi-binomial one.

    Near a bound the spread of scores shrinks with their distance from it, and t takes no notice: it misses on the side
    away from the bound. "quasi-binomial" lets the variance go with (mean - low) (high - mean), as for shares, scaled to
    the variance seen; it is Wilson's interval with the number of yes/no rows that would be as informative. It needs
    ``bounds``, covers better where scores crowd at one of them, and agrees with t in the middle (docs/statistics.md).

    ``values`` has shape (n,), independent rows. Small n: below two rows there is no interval. Where all values are
    equal the spread is unknown: without bounds there is no interval; with bounds the share of rows that may yet differ
    is at most 1 - (1 - level) ** (1 / n), the exact form of the rule of three, and all of those are put at the far
    bound. Values outside ``bounds`` switch clipping off, and ``reason`` says so.

    Raises BadInput for a value that is not finite, BadSettings for a level, method or bounds that make no sense.
    Sources: Student, "The probable error of a mean", Biometrika 6 (1908); Hanley and Lippman-Hand, "If nothing goes
    wrong, is everything all right?", JAMA 249 (1983); Wedderburn, "Quasi-likelihood functions, generalized linear
    models, and the Gauss-Newton method", Biometrika 61 (1974).
    """
    column, level, bounds = numbers(values), share_of(level, "level"), bounds_of(bounds)
    if method not in ("t", "quasi-binomial") or (method == "quasi-binomial" and bounds is None):
        raise BadSettings(f"no interval {method!r} here", hint="use 't', or 'quasi-binomial' with bounds")
    n = len(column)
    if n < 2:
        return Interval.absent(f"an interval needs two values, there {'is 1' if n else 'are 0'}", level, method)
    outside = bounds is not None and _outside(float(column.min()), float(column.max()), bounds)
    if bounds is not None and not outside:
        column = column.clip(*bounds)
    if is_constant(column, 0.0 if bounds is None or outside else bounds[1] - bounds[0]):
        if bounds is None or outside:
            return Interval.absent(f"all {n} values are equal: the spread is unknown", level, method)
        return _constant(float(column.mean()), n, level, bounds)
    mean, error = mean_error(column)
    half = float(scipy.special.stdtrit(n - 1, (1 + level) / 2)) * error
    if bounds is None or outside:
        caveat = f"not clipped: there are values outside {bounds[0]:g}..{bounds[1]:g}" if bounds else None
        return Interval(low=mean - half, high=mean + half, level=level, method="t", reason=caveat)
    if method == "quasi-binomial":
        low, high = quasi_binomial(mean, half, bounds, level)
    else:
        low, high = (min(max(end, bounds[0]), bounds[1]) for end in (mean - half, mean + half))
    return Interval(low=low, high=high, level=level, method=method)


def quasi_binomial(mean: float, half: float, bounds: Bounds, level: float) -> tuple[float, float]:
    """Wilson's ends for as many yes/no rows as would have the half width ``half`` at this mean."""
    width = bounds[1] - bounds[0]
    share, reach = min(max((mean - bounds[0]) / width, 0.0), 1.0), half / width
    z = float(scipy.special.ndtri((1 + level) / 2))
    low, high = wilson_ends(share, share / reach * ((1 - share) / reach) * z**2, z)
    return bounds[0] + width * low, bounds[0] + width * high


def _outside(least: float, most: float, bounds: Bounds) -> bool:
    slack = SAME * max(1.0, abs(bounds[0]), abs(bounds[1]))
    return least < bounds[0] - slack or most > bounds[1] + slack


def _constant(value: float, n: int, level: float, bounds: Bounds) -> Interval:
    """Nothing but ``value`` was seen: at least a share ``kept`` of all rows is like that, the rest may lie anywhere."""
    value = min(max(value, bounds[0]), bounds[1])
    kept = (1 - level) ** (1 / n)
    low, high = (kept * value + (1 - kept) * bound for bound in bounds)
    return Interval(low=min(low, value), high=max(high, value), level=level, method="constant values")


def wilson_interval(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Wilson's score interval of a share: ``successes`` of ``n`` independent rows. Defined from n = 1 on.

    Raises BadInput when there are more successes than rows, BadSettings for a count that is none.
    Source: Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927); preferred to
    the Wald interval for its coverage at small n by Brown, Cai and DasGupta, Statistical Science 16 (2001).
    """
    n, level = count_of(n, "n", 0), share_of(level, "level")
    if count_of(successes, "successes", 0) > n:
        raise BadInput(f"there are {successes} successes in {n} rows", hint="successes can't exceed n")
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


def bootstrap_interval(values: Values, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
    """Bootstrap percentile interval of the mean of ``values``, shape (n,), by scipy: a second opinion on t.

    Small n: no interval below 8 rows, nor if all values are equal. Large n: none above 10,000 rows, where it is that of t.
    """
    column, level = numbers(values), share_of(level, "level")
    reason, method, n = None, "bootstrap percentile", len(column)
    if n < FEWEST:
        reason = f"a bootstrap needs {FEWEST} rows, there are {n}"
    elif n > MOST_RESAMPLED:
        reason = f"{n:,} rows: the bootstrap is left out above {MOST_RESAMPLED:,}, where it agrees with t"
    elif is_constant(column):
        reason = "all values are equal: the spread is unknown"
    if reason:
        return Interval.absent(reason, level, method)
    from scipy.stats import bootstrap  # takes most of a second to import

    found = bootstrap(
        (column,),
        np.mean,
        n_resamples=count_of(resamples, "resamples", 100),
        batch=max(1, MOST_CELLS // n),
        confidence_level=level,
        method="percentile",
        rng=generator(seed),
    ).confidence_interval
    return Interval(low=float(found.low), high=float(found.high), level=level, method=method)


def clustered_intervals(
    measure: Callable[[Floats], Floats],
    groups: Sequence[Hashable],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """Percentile intervals of the numbers that ``measure`` gives, drawing whole groups with replacement.

    ``measure`` is handed a weight for each row: how often the row's group was drawn. A draw for which a number is
    undefined (NaN) is left out of that number's interval; below nine defined draws in ten there is none. ``groups`` has
    the group of each row; below 8 groups there is no interval. Percentiles are moved out as far as a t interval is wider
    than a normal one that divides by n, which corrects their undercoverage at small n.

    Sources: Davison and Hinkley, "Bootstrap methods and their application" (1997), section 3.8; Hesterberg, "What
    teachers should know about the bootstrap", The American Statistician 69 (2015).
    """
    level, resamples = share_of(level, "level"), count_of(resamples, "resamples", 100)
    places = {group: n for n, group in enumerate(dict.fromkeys(groups))}
    of_row, n = np.array([places[group] for group in groups], dtype=np.intp), len(places)
    name = "clustered bootstrap percentile"
    estimate = measure(np.ones(len(of_row)))
    if n < FEWEST:
        return [Interval.absent(f"a bootstrap needs {FEWEST} groups, there are {n}", level, name) for _ in estimate]
    rng = generator(seed)
    draws = np.array(
        [measure(np.bincount(rng.integers(0, n, n), minlength=n)[of_row].astype(float)) for _ in range(resamples)]
    )
    intervals = []
    for column in draws.T:
        defined = column[~np.isnan(column)]
        if len(defined) < 0.9 * resamples:
            intervals.append(Interval.absent("undefined for too many draws: one label is rare", level, name))
        else:
            intervals.append(_percentiles(defined, n, level, name))
    return intervals


def _percentiles(draws: Floats, n: int, level: float, name: str) -> Interval:
    """The interval between two order statistics of the draws from ``n`` units, the (count + 1) p-th from either side."""
    tail = float(scipy.special.ndtr(-math.sqrt(n / (n - 1)) * scipy.special.stdtrit(n - 1, (1 + level) / 2)))
    draws, count = np.sort(draws), len(draws)
    rank = min(max(1, math.floor((count + 1) * tail)), count)
    return Interval(low=float(draws[rank - 1]), high=float(draws[count - rank]), level=level, method=name)
