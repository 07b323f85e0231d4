"""How sure a mean or a share is: t and Wilson intervals, clustered where rows belong together."""

from __future__ import annotations

import math
from typing import Literal

from ragassay.errors import BadInput, BadSettings
from ragassay.stats.columns import (
    SAME,
    Bounds,
    Groups,
    Values,
    bounds_of,
    codes_of,
    count_of,
    is_constant,
    numbers,
    share_of,
    spread,
    unit_count,
)
from ragassay.stats.distributions import normal_quantile, t_quantile
from ragassay.stats.findings import Interval


def mean_interval(
    values: Values,
    *,
    level: float = 0.95,
    bounds: Bounds | None = None,
    groups: Groups | None = None,
    method: Literal["t", "quasi-binomial"] = "t",
) -> Interval:
    """Interval of the mean: Student's t, clipped to ``bounds`` where the scores have some; or the quasi-binomial one.

    Near a bound the spread of scores shrinks with their distance from it, and t takes no notice: it misses on the side
    away from the bound. "quasi-binomial" lets the variance go with (mean - low) (high - mean), as for shares, scaled to
    the variance seen; it is Wilson's interval with the number of yes/no rows that would be as informative. It needs
    ``bounds``, covers better where scores crowd at one of them, and agrees with t in the middle (docs/statistics.md).

    ``values`` has shape (n,). With ``groups`` (one label for each row: a document, a user, a conversation) the error is
    clustered and the degrees of freedom are groups - 1. Small n: below two rows or groups there is no interval. Where
    all values are equal the spread is unknown: without bounds there is no interval; with bounds the share of rows that
    may yet differ is at most 1 - (1 - level) ** (1 / n), the exact form of the rule of three, and all of those are put
    at the far bound. Values outside ``bounds`` switch clipping off, and the interval says so.

    Raises BadInput for a value that is not finite, BadSettings for a level, method or bounds that make no sense.
    Sources: Student, "The probable error of a mean", Biometrika 6 (1908); Hanley and Lippman-Hand, "If nothing goes
    wrong, is everything all right?", JAMA 249 (1983); Wedderburn, "Quasi-likelihood functions, generalized linear
    models, and the Gauss-Newton method", Biometrika 61 (1974); for the clustered error see ``spread``.
    """
    column, level, bounds = numbers(values), share_of(level, "level"), bounds_of(bounds)
    if method not in ("t", "quasi-binomial") or (method == "quasi-binomial" and bounds is None):
        raise BadSettings(f"no interval {method!r} here", hint="use 't', or 'quasi-binomial' with bounds")
    codes = codes_of(groups, len(column))
    name = method if codes is None else f"{method}, clustered"
    units = unit_count(column, codes)
    if units < 2:
        what = "values" if codes is None else "groups"
        return Interval.absent(f"an interval needs two {what}, there {'is 1' if units else 'are 0'}", level, name)
    outside = bounds is not None and _outside(float(column.min()), float(column.max()), bounds)
    if bounds is not None and not outside:
        column = column.clip(*bounds)
    if is_constant(column, 0.0 if bounds is None or outside else bounds[1] - bounds[0]):
        if bounds is None or outside:
            return Interval.absent(f"all {len(column)} values are equal: the spread is unknown", level, name)
        return _constant(float(column.mean()), units, level, bounds)
    mean, error, units = spread(column, codes)
    if error == 0.0:
        return Interval.absent("all groups have the same mean: the spread is unknown", level, name)
    half = t_quantile((1 + level) / 2, units - 1) * error
    if bounds is None or outside:
        caveat = f"not clipped: there are values outside {bounds[0]:g}..{bounds[1]:g}" if bounds else None
        name = name.replace("quasi-binomial", "t")
        return Interval(low=mean - half, high=mean + half, level=level, method=name, reason=caveat)
    if method == "quasi-binomial":
        low, high = _quasi_binomial(mean, half, bounds, level)
    else:
        low, high = (min(max(end, bounds[0]), bounds[1]) for end in (mean - half, mean + half))
    return Interval(low=low, high=high, level=level, method=name)


def _quasi_binomial(mean: float, half: float, bounds: Bounds, level: float) -> tuple[float, float]:
    """Wilson's ends for as many yes/no rows as would have the half width ``half`` at this mean."""
    width = bounds[1] - bounds[0]
    share, reach = min(max((mean - bounds[0]) / width, 0.0), 1.0), half / width
    rows = share / reach * ((1 - share) / reach) * normal_quantile((1 + level) / 2) ** 2
    low, high = _wilson_ends(share, rows, level)
    return bounds[0] + width * low, bounds[0] + width * high


def _outside(least: float, most: float, bounds: Bounds) -> bool:
    slack = SAME * max(1.0, abs(bounds[0]), abs(bounds[1]))
    return least < bounds[0] - slack or most > bounds[1] + slack


def _constant(value: float, units: int, level: float, bounds: Bounds) -> Interval:
    """Nothing but ``value`` was seen: at least a share ``kept`` of all rows is like that, the rest may lie anywhere."""
    value = min(max(value, bounds[0]), bounds[1])
    kept = (1 - level) ** (1 / units)
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
    return _wilson(successes / n, n, level, "wilson")


def share_interval(values: Values, *, level: float = 0.95, groups: Groups | None = None) -> Interval:
    """Wilson's interval of the share of ones among yes/no ``values`` (0, 1, True, False); clustered with ``groups``.

    Rows that share a group tell less than as many independent rows. Their number is divided by the design effect
    (clustered over independent variance of the share, at least 1) and, because the design effect is itself estimated
    from few groups, by (t(groups - 1) / t(n - 1)) ** 2. Where all values are equal the design effect is unknown, and
    each group counts as one row. Below two groups there is no interval. With fewer than about 20 groups expect somewhat
    less coverage than nominal.

    Raises BadInput for a value that is neither 0 nor 1.
    Source: Korn and Graubard, "Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data", Survey Methodology 24 (1998); with Wilson's form in Franco, Little, Louis and Slud,
    "Comparative study of confidence intervals for proportions in complex sample surveys", J. Survey Statistics and
    Methodology 7 (2019).
    """
    column, level = numbers(values), share_of(level, "level")
    odd = (column != 0.0) & (column != 1.0)
    if odd.any():
        raise BadInput(
            f"values[{int(odd.argmax())}] is neither 0 nor 1", hint="use mean_interval for scores between 0 and 1"
        )
    n, codes = len(column), codes_of(groups, len(column))
    if codes is None:
        return wilson_interval(int(column.sum()), n, level=level)
    units, method = unit_count(column, codes), "wilson, clustered"
    if units < 2:
        return Interval.absent("an interval needs two groups, there is 1", level, method)
    share = float(column.mean())
    if share in (0.0, 1.0):
        return _wilson(share, units, level, method)
    effect = max(1.0, (spread(column, codes).error / spread(column, None).error) ** 2)
    few = (t_quantile((1 + level) / 2, units - 1) / t_quantile((1 + level) / 2, n - 1)) ** 2
    return _wilson(share, n / effect / few, level, method)


def _wilson(share: float, n: float, level: float, method: str) -> Interval:
    low, high = _wilson_ends(share, n, level)
    return Interval(low=low, high=high, level=level, method=method)


def _wilson_ends(share: float, n: float, level: float) -> tuple[float, float]:
    z = normal_quantile((1 + level) / 2)
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return 0.0 if share == 0.0 else max(0.0, centre - half), 1.0 if share == 1.0 else min(1.0, centre + half)
