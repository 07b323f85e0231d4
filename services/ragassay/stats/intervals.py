"""How sure a mean, a share or a ratio is: t, Wilson and bootstrap intervals.

What a bootstrap draws depends on the seed and on the number of rows only, so that swapping two systems mirrors every
draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import numpy as np

from ragassay.errors import BadInput, BadSettings
from ragassay.stats.columns import (
    SAME,
    Bounds,
    Floats,
    Values,
    block_sums,
    bounds_of,
    count_of,
    generator,
    is_constant,
    mean_error,
    numbers,
    pair,
    share_of,
)
from ragassay.stats.distributions import normal_below, normal_quantile, t_quantile
from ragassay.stats.results import Interval

Method = Literal["percentile", "bca"]
FEWEST = 8  # with fewer rows resampling shows too little of what else might have been seen
MOST_UNITS = 4096  # more rows than that are dealt into as many blocks
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
    half = t_quantile((1 + level) / 2, n - 1) * error
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
    rows = share / reach * ((1 - share) / reach) * normal_quantile((1 + level) / 2) ** 2
    low, high = wilson_ends(share, rows, normal_quantile((1 + level) / 2))
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
    low, high = wilson_ends(successes / n, n, normal_quantile((1 + level) / 2))
    return Interval(low=low, high=high, level=level, method="wilson")


def wilson_ends(share: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's limits of a share of ``n`` rows, which need not be whole, for a quantile ``z``."""
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return 0.0 if share == 0.0 else max(0.0, centre - half), 1.0 if share == 1.0 else min(1.0, centre + half)


def bootstrap_interval(
    values: Values,
    *,
    method: Method = "percentile",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    expand: bool = True,
) -> Interval:
    """Bootstrap interval of the mean of ``values``, shape (n,).

    ``method`` is "percentile" or "bca". With ``expand`` the percentiles are moved out as far as a t interval is wider
    than a normal one that divides by n, which mends the undercoverage of either method at small n and vanishes at large
    n. Ends are order statistics of the draws, (resamples + 1) p from either side.

    Small n: below 8 rows there is no interval, nor where all values are equal. Large n: beyond 4,096 rows they are
    resampled in 4,096 random blocks.

    Sources: Efron, "Better bootstrap confidence intervals", JASA 82 (1987); Hesterberg, "What teachers should know
    about the bootstrap", The American Statistician 69 (2015) for ``expand``; Davison and Hinkley, "Bootstrap methods
    and their application" (1997) for the order statistics; Wolter, "Introduction to variance estimation" (1985) for
    random blocks.
    """
    column = numbers(values)
    ones, constant = np.ones(len(column)), is_constant(column)
    return resampled_ratio(column, ones, constant, method, level=level, resamples=resamples, seed=seed, expand=expand)


def ratio_interval(
    numerators: Values,
    denominators: Values,
    *,
    method: Method = "bca",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    expand: bool = True,
) -> Interval:
    """Bootstrap interval of sum(numerators) / sum(denominators), such as total cost over accurate answers.

    Both have shape (n,), none is negative, row i of both is resampled together. A draw whose denominators add up to 0
    is infinite; where the upper end falls on such a draw the interval is ``unbounded``. The default, BCa with expanded
    percentiles, is the one whose coverage held at n = 30 in simulation (docs/statistics.md). Where leaving out one row
    leaves a denominator of 0, acceleration is undefined, and plain percentiles take over; ``method`` says so.

    Small n: no interval below 8 rows, nor where the denominators are all 0 or all rows are equal.
    Raises BadInput for negative numbers or unequal lengths. Sources: see ``bootstrap_interval``.
    """
    over, under = pair(numerators, denominators, ("numerators", "denominators"))
    if (over < 0).any() or (under < 0).any():
        raise BadInput("a ratio of totals is taken of numbers that are not negative", hint="check costs and counts")
    if len(over) and not under.any():
        return Interval.absent("the denominators add up to 0", share_of(level, "level"), _name(method, expand))
    constant = not over.any() or (is_constant(over) and is_constant(under))
    return resampled_ratio(over, under, constant, method, level=level, resamples=resamples, seed=seed, expand=expand)


def clustered_intervals(
    measure: Callable[[Floats], Floats],
    groups: Sequence[Hashable],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """Percentile intervals, expanded, of the numbers that ``measure`` gives, drawing whole groups with replacement.

    ``measure`` is handed a weight for each row: how often the row's group was drawn. A draw for which a number is
    undefined (NaN) is left out of that number's interval; below nine defined draws in ten there is none. ``groups`` has
    the group of each row; below 8 groups there is no interval.

    Source: Davison and Hinkley, "Bootstrap methods and their application" (1997), section 3.8.
    """
    level, resamples = share_of(level, "level"), count_of(resamples, "resamples", 100)
    places = {group: n for n, group in enumerate(dict.fromkeys(groups))}
    of_row, n = np.array([places[group] for group in groups], dtype=np.intp), len(places)
    name = "clustered bootstrap percentile, expanded"
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
            intervals.append(_interval(defined, 0.0, None, n, level, name, expand=True))
    return intervals


def resampled_ratio(
    over: Floats,
    under: Floats,
    constant: bool,
    method: Method,
    *,
    level: float,
    resamples: int,
    seed: int,
    expand: bool = True,
) -> Interval:
    """Bootstrap interval of sum(over) / sum(under); a draw that does not add up to more than 0 below is infinite."""
    name, n = _name(method, expand), len(over)
    level, resamples = share_of(level, "level"), count_of(resamples, "resamples", 100)
    if n < FEWEST:
        return Interval.absent(f"a bootstrap needs {FEWEST} rows, there are {n}", level, name)
    if constant:
        return Interval.absent("all rows are equal: the spread is unknown", level, name)
    if n > MOST_UNITS:
        blocks = generator(seed).permutation(n) % MOST_UNITS
        over, under = block_sums(over, blocks), block_sums(under, blocks)
    draws = _ratio_draws(over, under, resamples, generator(seed))
    jackknife = None
    if method == "bca":
        rest = under.sum() - under
        jackknife = (over.sum() - over) / rest if (rest > 0).all() else None
        name = name if jackknife is not None else _name("percentile", expand)
    return _interval(draws, float(over.sum() / under.sum()), jackknife, n, level, name, expand)


def _name(method: str, expand: bool) -> str:
    if method not in ("percentile", "bca"):
        raise BadSettings(f"unknown bootstrap method {method!r}", hint="use 'percentile' or 'bca'")
    return f"bootstrap {method}{', expanded' if expand else ''}"


def _ratio_draws(top: Floats, bottom: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    draws, units = np.empty(resamples), len(top)
    rows = max(1, MOST_CELLS // units)
    for start in range(0, resamples, rows):
        pick = rng.integers(0, units, size=(min(rows, resamples - start), units))
        over, under = top.take(pick).sum(axis=1), bottom.take(pick).sum(axis=1)
        gained = under > 0
        draws[start : start + len(pick)] = np.where(gained, over / np.where(gained, under, 1.0), np.inf)
    return draws


def _interval(
    draws: Floats, estimate: float, jackknife: Floats | None, n: int, level: float, name: str, expand: bool
) -> Interval:
    outer = (1 - level) / 2
    z = math.sqrt(n / (n - 1)) * t_quantile(1 - outer, n - 1) if expand else normal_quantile(1 - outer)
    bias, skew = (0.0, 0.0) if jackknife is None else _bias_and_skew(draws, estimate, jackknife)
    draws, count = np.sort(draws), len(draws)
    low = float(draws[_rank(_tail(z, bias, skew), count) - 1])
    high = float(draws[count - _rank(_tail(z, -bias, -skew), count)])
    if math.isinf(low):
        return Interval.absent("almost no resample has a denominator above 0", level, name)
    unbounded = math.isinf(high)
    return Interval(low=low, high=None if unbounded else high, level=level, method=name, unbounded=unbounded)


def _rank(p: float, count: int) -> int:
    return min(max(1, math.floor((count + 1) * p)), count)


def _bias_and_skew(draws: Floats, estimate: float, jackknife: Floats) -> tuple[float, float]:
    """Efron's z0 and acceleration. Draws that equal the estimate count half on either side."""
    slack = SAME * abs(estimate)
    below, above = int((draws < estimate - slack).sum()), int((draws > estimate + slack).sum())
    ties = len(draws) - below - above
    fewer = max(min(below, above) + ties / 2, 0.5) / len(draws)
    bias = normal_quantile(fewer) if below < above else -normal_quantile(fewer)
    pull = jackknife.mean() - jackknife
    largest = np.abs(pull).max()
    if largest > 0:
        pull /= largest  # cubes of very small or large ones would vanish or overflow
    skew = float((pull**3).sum()) / (6 * float((pull**2).sum()) ** 1.5) if largest > 0 else 0.0
    return (0.0 if below == above else bias), skew


def _tail(z: float, bias: float, skew: float) -> float:
    """Share of the draws that lies below the lower end; for the upper end with ``bias`` and ``skew`` negated."""
    moved = bias - z
    room = 1 - skew * moved
    return normal_below(bias + moved / room) if room > 0 else 0.0
