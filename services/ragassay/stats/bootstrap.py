"""Intervals by resampling: of a mean, of any statistic, and of a total over a total.

What is drawn depends on the seed and on the number of rows only, so that swapping two systems mirrors every draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ragassay.errors import BadInput, BadSettings
from ragassay.stats.columns import (
    SAME,
    Codes,
    Floats,
    Groups,
    Values,
    codes_of,
    count_of,
    generator,
    is_constant,
    numbers,
    pair,
    share_of,
    sums,
    unit_count,
)
from ragassay.stats.distributions import normal_below, normal_quantile, t_quantile
from ragassay.stats.findings import Interval, Method

Statistic: TypeAlias = Callable[[Floats], float]

FEWEST = 8  # with fewer units resampling shows too little of what else might have been seen
MOST_UNITS = 4096  # more units than that are dealt into as many blocks
LARGEST_SAMPLE = 2048  # a function is computed on about as many resampled rows at most
FEWEST_DRAWN = 50  # but never on fewer groups than that
MOST_CELLS = 2_000_000  # numbers held in memory at once


def bootstrap_interval(
    values: Values,
    statistic: Literal["mean"] | Statistic = "mean",
    *,
    method: Method = "percentile",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    groups: Groups | None = None,
    expand: bool = True,
) -> Interval:
    """Bootstrap interval of a statistic of ``values``, shape (n,); whole groups are resampled where rows share one.

    ``statistic`` is "mean" or a function from an array to a number. ``method`` is "percentile" or "bca"; BCa needs n
    more calls of a function and is refused for one when n exceeds 2,048. With ``expand`` the percentiles are moved out
    as far as a t interval is wider than a normal one that divides by n, which mends the undercoverage of either method
    at small n and vanishes at large n. Ends are order statistics of the draws, (resamples + 1) p from either side.

    Small n: below 8 rows or groups there is no interval, nor where all values are equal. Large n: beyond 4,096 units
    a mean is resampled in 4,096 random blocks. Beyond 2,048 rows a function is computed on about 2,048 resampled ones
    (50 groups at least), and deviations shrink by the square root of the share drawn, which holds for statistics that
    converge like the mean does (quantiles do, extremes do not).

    Sources: Efron, "Better bootstrap confidence intervals", JASA 82 (1987); Hesterberg, "What teachers should know
    about the bootstrap", The American Statistician 69 (2015) for ``expand``; Davison and Hinkley, "Bootstrap methods
    and their application" (1997) for the order statistics; Wolter, "Introduction to variance estimation" (1985) for
    random blocks; Bickel, Goetze and van Zwet, "Resampling fewer than n observations", Statistica Sinica 7 (1997).
    """
    column, name = numbers(values), _name(method, expand)
    level, resamples = share_of(level, "level"), count_of(resamples, "resamples", 100)
    codes = codes_of(groups, len(column))
    units = unit_count(column, codes)
    if absence := _too_little(units, is_constant(column), level, name):
        return absence
    if statistic == "mean":
        top, bottom = _units(column, np.ones(len(column)), codes, generator(seed))
        draws = _ratio_draws(top, bottom, resamples, generator(seed))
        estimate = float(top.sum() / bottom.sum())
        jackknife = (top.sum() - top) / (bottom.sum() - bottom) if method == "bca" else None
    elif callable(statistic):
        draws, estimate, jackknife = _statistic_draws(column, statistic, codes, method, resamples, generator(seed))
    else:
        raise BadSettings(f"unknown statistic {statistic!r}", hint="use 'mean' or a function")
    return _interval(draws, estimate, jackknife, units, level, name, expand)


def ratio_interval(
    numerators: Values,
    denominators: Values,
    *,
    method: Method = "bca",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    groups: Groups | None = None,
    expand: bool = True,
) -> Interval:
    """Bootstrap interval of sum(numerators) / sum(denominators), such as total cost over accurate answers.

    Both have shape (n,), none is negative, row i of both is resampled together. A draw whose denominators add up to 0
    is infinite; where the upper end falls on such a draw the interval is ``unbounded``. The default, BCa with expanded
    percentiles, is the one whose coverage held at n = 30 in simulation (docs/statistics.md). Where leaving out one unit
    leaves a denominator of 0, acceleration is undefined, and plain percentiles take over; ``method`` says so.

    Small n: no interval below 8 rows or groups, nor where the denominators are all 0 or all rows are equal.
    Raises BadInput for negative numbers or unequal lengths. Sources: see ``bootstrap_interval``.
    """
    over, under = pair(numerators, denominators, ("numerators", "denominators"))
    if (over < 0).any() or (under < 0).any():
        raise BadInput("a ratio of totals is taken of numbers that are not negative", hint="check costs and counts")
    name = _name(method, expand)
    level, resamples = share_of(level, "level"), count_of(resamples, "resamples", 100)
    codes = codes_of(groups, len(over))
    units = unit_count(over, codes)
    if len(over) and not under.any():
        return Interval.absent("the denominators add up to 0", level, name)
    still = is_constant(over) and is_constant(under)
    if absence := _too_little(units, still or not over.any(), level, name):
        return absence
    top, bottom = _units(over, under, codes, generator(seed))
    draws = _ratio_draws(top, bottom, resamples, generator(seed))
    jackknife = None
    if method == "bca":
        rest = bottom.sum() - bottom
        jackknife = (top.sum() - top) / rest if (rest > 0).all() else None
        name = name if jackknife is not None else _name("percentile", expand)
    return _interval(draws, float(top.sum() / bottom.sum()), jackknife, units, level, name, expand)


def difference_ratio_interval(
    numerators: Floats, denominators: Floats, *, level: float, resamples: int, seed: int, codes: Codes | None
) -> Interval:
    """Like ``ratio_interval`` for differences, which may be negative; a draw that gains nothing is infinite."""
    name, units = _name("percentile", True), unit_count(numerators, codes)
    if absence := _too_little(units, is_constant(numerators) and is_constant(denominators), level, name):
        return absence
    top, bottom = _units(numerators, denominators, codes, generator(seed))
    draws = _ratio_draws(top, bottom, resamples, generator(seed))
    return _interval(draws, float(top.sum() / bottom.sum()), None, units, level, name, True)


def _name(method: str, expand: bool) -> str:
    if method not in ("percentile", "bca"):
        raise BadSettings(f"unknown bootstrap method {method!r}", hint="use 'percentile' or 'bca'")
    return f"bootstrap {method}{', expanded' if expand else ''}"


def _too_little(units: int, constant: bool, level: float, name: str) -> Interval | None:
    if units < FEWEST:
        return Interval.absent(f"a bootstrap needs {FEWEST} rows or groups, there are {units}", level, name)
    return Interval.absent("all rows are equal: the spread is unknown", level, name) if constant else None


def _units(top: Floats, bottom: Floats, codes: Codes | None, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Sums per group, and per random block of groups where there are too many of them."""
    top, bottom = sums(top, codes), sums(bottom, codes)
    if len(top) > MOST_UNITS:
        block = rng.permutation(len(top)) % MOST_UNITS
        top, bottom = sums(top, block), sums(bottom, block)
    return top, bottom


def _ratio_draws(top: Floats, bottom: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    draws, units = np.empty(resamples), len(top)
    rows = max(1, MOST_CELLS // units)
    for start in range(0, resamples, rows):
        pick = rng.integers(0, units, size=(min(rows, resamples - start), units))
        over, under = top.take(pick).sum(axis=1), bottom.take(pick).sum(axis=1)
        gained = under > 0
        draws[start : start + len(pick)] = np.where(gained, over / np.where(gained, under, 1.0), np.inf)
    return draws


def _statistic_draws(
    column: Floats,
    statistic: Statistic,
    codes: Codes | None,
    method: Method,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[Floats, float, Floats | None]:
    members, units = _members(codes, len(column)), unit_count(column, codes)
    if method == "bca" and units > LARGEST_SAMPLE:
        raise BadSettings(f"BCa would compute the statistic {units} times more", hint="use method 'percentile'")
    size, estimate = units, float(statistic(column))
    if len(column) > LARGEST_SAMPLE:
        size = min(units, max(FEWEST_DRAWN, LARGEST_SAMPLE * units // len(column)))
    samples = (column[members.rows(rng.integers(0, units, size=size))] for _ in range(resamples))
    draws = _finite([statistic(sample) for sample in samples])
    draws = estimate + (draws - estimate) * math.sqrt(size / units)
    if method != "bca":
        return draws, estimate, None
    rests = (np.delete(column, members.rows(np.array([unit]))) for unit in range(units))
    return draws, estimate, _finite([statistic(rest) for rest in rests])


def _finite(results: list[float]) -> Floats:
    found = np.array(results, dtype=np.float64)
    if not np.isfinite(found).all():
        raise BadInput("the statistic is not finite on some resample", hint="use one that is defined on any sample")
    return found


class _Members(NamedTuple):
    """Which rows belong to each unit: ``order[start : start + size]``."""

    order: Codes
    starts: Codes
    sizes: Codes

    def rows(self, units: Codes) -> Codes:
        """The rows of all these units, one unit after the other."""
        sizes = self.sizes[units]
        ends = np.cumsum(sizes)
        shifts = np.repeat(self.starts[units] - ends + sizes, sizes)
        found: Codes = self.order[np.arange(ends[-1]) + shifts]
        return found


def _members(codes: Codes | None, n: int) -> _Members:
    if codes is None:
        return _Members(np.arange(n), np.arange(n), np.ones(n, dtype=np.intp))
    sizes = np.bincount(codes)
    return _Members(np.argsort(codes, kind="stable"), np.cumsum(sizes) - sizes, sizes)


def _interval(
    draws: Floats, estimate: float, jackknife: Floats | None, units: int, level: float, name: str, expand: bool
) -> Interval:
    outer = (1 - level) / 2
    z = math.sqrt(units / (units - 1)) * t_quantile(1 - outer, units - 1) if expand else normal_quantile(1 - outer)
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
