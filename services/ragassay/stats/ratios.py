"""Ratios of totals from sums that are kept when the rows are gone: of many runs together, with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.cost_sums import RatioSums
from ragassay.core.statistics import Interval
from ragassay.stats.columns import SAME, share_of
from ragassay.stats.intervals import FEWEST, wilson_ends

OF_A_RATIO, OF_A_DIFFERENCE, OF_A_MEAN = "sums: t and Wilson by MOVER", "sums: Fieller", "sums: t"


@dataclass(frozen=True)
class Stratum:
    """The sums of one dataset's rows, in which each of its ``questions`` may have been answered several times.

    What is said of a question again tells little of other questions, so that an interval counts questions, not rows: the
    variance of a total is that of rows which are alike whenever their question is the same, the largest that it can be.
    """

    sums: RatioSums
    questions: int


@dataclass(frozen=True)
class _Totals:
    """Totals over all datasets, and how far they would scatter with other questions: variances and covariance."""

    questions: int
    df: int
    n: int
    cost: float
    accurate: float
    of_cost: float
    of_accurate: float
    of_both: float


def sums_interval(strata: Sequence[Stratum], *, level: float = 0.95) -> Interval:
    """Interval of the total cost over the accurate answers, from sums: the logarithm of the ratio by MOVER.

    The mean cost has the limits of t on the logarithmic scale, the share of accurate answers Wilson's with the quantile
    of t, and their correlation is taken into account. There is no upper end, ``unbounded``, if another sample of as many
    questions would have no accurate answer with a chance above half of 1 - ``level``. Coverage: docs/statistics.md.

    Small n: no interval below 8 questions, nor where no answer is accurate or all rows are equal.
    Sources: Zou and Donner, "Construction of confidence limits about effect measures: a general approach", Statistics
    in Medicine 27 (2008); Zou, "Toward using confidence intervals to compare correlations", Psychological Methods 12
    (2007) for the correlation.
    """
    level, whole = share_of(level, "level"), _totals(strata)
    if reason := _absent(whole):
        return Interval.absent(reason, level, OF_A_RATIO)
    if whole.accurate <= 0:
        return Interval.absent("no answer is accurate", level, OF_A_RATIO)
    if whole.cost <= 0 or (whole.of_cost <= 0 and whole.of_accurate <= 0):
        return Interval.absent("all rows are equal: the spread is unknown", level, OF_A_RATIO)
    t, share = float(scipy.special.stdtrit(whole.df, (1 + level) / 2)), min(whole.accurate / whole.n, 1.0)
    spread = share * (1 - share)
    rows = whole.questions if whole.of_accurate <= 0 else whole.n * spread * (whole.n / whole.of_accurate)
    rows = min(rows, whole.questions)
    least, most = wilson_ends(share, rows, t)
    cost, below, above = t * math.sqrt(whole.of_cost) / whole.cost, math.log(share / least), math.log(most / share)
    shared = math.sqrt(whole.of_cost * whole.of_accurate)
    correlation = min(max(whole.of_both / shared, -1.0), 1.0) if shared else 0.0
    low, high = (math.sqrt(max(cost**2 + other**2 - 2 * correlation * cost * other, 0.0)) for other in (above, below))
    ratio = whole.cost / whole.accurate
    unbounded = (1 - share) ** rows > (1 - level) / 2
    return Interval(
        low=ratio * math.exp(-low),
        high=None if unbounded else ratio * math.exp(high),
        level=level,
        method=OF_A_RATIO,
        unbounded=unbounded,
    )


def difference_sums_interval(strata: Sequence[Stratum], *, level: float = 0.95) -> Interval:
    """Interval of (extra cost) / (extra accurate answers) from the sums of differences between two systems: Fieller's.

    Ask it if extra answers and extra cost have the same sign. If the gain in accurate answers is not clear, all prices
    but those between two ends are possible: the interval is the ray that holds the price if it has no upper end, and
    ``reason`` names the other ray. It is absent if any price is possible. Source: Fieller, "Some problems in interval
    estimation", Journal of the Royal Statistical Society B 16 (1954); for costs of one more Willan and O'Brien,
    "Confidence intervals for cost-effectiveness ratios: an application of Fieller's theorem", Health Economics 5 (1996).
    """
    level, whole = share_of(level, "level"), _totals(strata)
    if reason := _absent(whole):
        return Interval.absent(reason, level, OF_A_DIFFERENCE)
    if whole.of_cost <= 0 and whole.of_accurate <= 0:
        return Interval.absent("all rows are equal: the spread is unknown", level, OF_A_DIFFERENCE)
    squared = float(scipy.special.stdtrit(whole.df, (1 + level) / 2)) ** 2
    a = whole.accurate**2 - squared * whole.of_accurate
    b = whole.cost * whole.accurate - squared * whole.of_both
    c = whole.cost**2 - squared * whole.of_cost
    inside = b * b - a * c
    if inside < 0 or (a == 0 and b <= 0):
        return Interval.absent("the data leave any price possible", level, OF_A_DIFFERENCE)
    root = math.sqrt(inside)
    low = c / (b + root) if b >= 0 else (b - root) / a  # the same root, without cancellation
    if a > 0:
        return Interval(low=low, high=(b + root) / a, level=level, method=OF_A_DIFFERENCE)
    if a == 0:
        return Interval(low=low, level=level, method=OF_A_DIFFERENCE, unbounded=True)
    below = (b + root) / a if b >= 0 else c / (b - root)
    if whole.accurate and whole.cost / whole.accurate < low:
        rays = f"any price below {below:.3g} or above {low:.3g} is possible"
        return Interval.absent(rays, level, OF_A_DIFFERENCE)
    caveat = f"any price below {below:.3g} is possible as well"
    return Interval(low=low, level=level, method=OF_A_DIFFERENCE, unbounded=True, reason=caveat)


def mean_intervals(strata: Sequence[Stratum], *, level: float = 0.95) -> tuple[Interval, Interval]:
    """Student's t intervals of the mean cost and of the mean accuracy of a row, from sums."""
    level, whole = share_of(level, "level"), _totals(strata)
    if reason := _absent(whole):
        return Interval.absent(reason, level, OF_A_MEAN), Interval.absent(reason, level, OF_A_MEAN)
    t = float(scipy.special.stdtrit(whole.df, (1 + level) / 2))
    ends = []
    for total, variance in ((whole.cost, whole.of_cost), (whole.accurate, whole.of_accurate)):
        mean, half = total / whole.n, t * math.sqrt(variance) / whole.n
        ends.append(Interval(low=mean - half, high=mean + half, level=level, method=OF_A_MEAN))
    return ends[0], ends[1]


def _absent(whole: _Totals) -> str | None:
    if whole.questions >= FEWEST:
        return None
    there = "is 1" if whole.questions == 1 else f"are {whole.questions}"
    return f"an interval needs {FEWEST} questions, there {there}"


def _totals(strata: Sequence[Stratum]) -> _Totals:
    """Datasets of fewer questions than an interval needs count as one, and with another one while they are too few."""
    small = [one for one in strata if 0 < one.questions < FEWEST]
    kept = sorted((one for one in strata if one.questions >= FEWEST), key=lambda one: one.questions)
    if small:
        if sum(one.questions for one in small) < FEWEST:
            small, kept = [*small, *kept[:1]], kept[1:]
        kept.append(Stratum(RatioSums.total(one.sums for one in small), sum(one.questions for one in small)))
    whole, questions = RatioSums.total(one.sums for one in kept), sum(one.questions for one in kept)
    spreads = [_spread(one) for one in kept]
    of_cost, of_accurate, of_both = (math.fsum(spread[place] for spread in spreads) for place in range(3))
    df = questions - len(kept)
    return _Totals(questions, df, whole.n, whole.cost_usd, whole.accurate, of_cost, of_accurate, of_both)


def _spread(one: Stratum) -> tuple[float, float, float]:
    """Variances and covariance of a dataset's totals."""
    sums, n = one.sums, one.sums.n
    if one.questions < 2:
        return 0.0, 0.0, 0.0
    scale = n / (one.questions - 1)
    return (
        scale * _centred(sums.cost_usd_squared, sums.cost_usd, sums.cost_usd, n),
        scale * _centred(sums.accurate_squared, sums.accurate, sums.accurate, n),
        scale * _centred(sums.cost_usd_times_accurate, sums.cost_usd, sums.accurate, n),
    )


def _centred(product: float, a: float, b: float, n: int) -> float:
    """The sum of products of what two numbers are above their means; what is left by rounding is 0."""
    left = product - a * b / n
    return 0.0 if abs(left) <= 10 * SAME * max(abs(product), abs(a * b / n)) else left
