"""What accuracy costs: ratios of totals from sums that reports keep, one more accurate answer, and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragassay.core.statistics import CostPerAccurate, IncrementalCost, Interval, ParetoFront, RatioSums
from ragassay.stats.intervals import FEWEST, SAME, Values, columns, differences, t_quantile, wilson_ends

OF_A_RATIO, OF_A_DIFFERENCE = "sums: t and Wilson by MOVER", "sums: Fieller"
OF_A_SHARE = "sums: Wilson with t"
NO_SPREAD = "all rows are equal: the spread is unknown"


@dataclass(frozen=True)
class Stratum:
    """The sums of one dataset's rows, in which each of its ``questions`` may have been answered several times.

    Another answer to a question says little about other questions, so that an interval counts questions, not rows: the
    variance of a total is that of rows which are alike whenever their question is the same, the largest that it can be.
    """

    sums: RatioSums
    questions: int


@dataclass(frozen=True)
class _Totals:
    """Totals over all datasets, and how far they would scatter with other questions: variances and covariance."""

    questions: int
    df: int
    sums: RatioSums
    of_cost: float
    of_accurate: float
    of_both: float

    @classmethod
    def of(cls, strata: Sequence[Stratum]) -> _Totals:
        """Datasets of fewer questions than an interval needs count as one, and with another one while they are too few."""
        small = [one for one in strata if 0 < one.questions < FEWEST]
        usable = sorted((one for one in strata if one.questions >= FEWEST), key=lambda one: one.questions)
        if small:
            if sum(one.questions for one in small) < FEWEST:
                small, usable = [*small, *usable[:1]], usable[1:]
            usable.append(Stratum(RatioSums.total(one.sums for one in small), sum(one.questions for one in small)))
        questions = sum(one.questions for one in usable)
        spreads = [_spread(one) for one in usable]
        of_cost, of_accurate, of_both = (math.fsum(spread[place] for spread in spreads) for place in range(3))
        sums = RatioSums.total(one.sums for one in usable)
        return cls(questions, questions - len(usable), sums, of_cost, of_accurate, of_both)

    @property
    def share(self) -> float:
        """Share of accurate answers."""
        return min(self.sums.accurate / self.sums.n, 1.0)

    @property
    def rows(self) -> float:
        """How many independent rows that share is worth: at most one for each question."""
        if self.of_accurate <= 0:
            return float(self.questions)
        return min(
            float(self.questions), self.sums.n * self.share * (1 - self.share) * (self.sums.n / self.of_accurate)
        )

    @property
    def too_few(self) -> str | None:
        """Why there is no interval, if there are too few questions."""
        if self.questions >= FEWEST:
            return None
        return (
            f"an interval needs {FEWEST} questions, there {'is 1' if self.questions == 1 else f'are {self.questions}'}"
        )


def cost_per_accurate(
    known: RatioSums, strata: Sequence[Stratum], rows: int, *, level: float, reason: str | None = None
) -> CostPerAccurate:
    """Total cost over accurate answers of so many ``rows``, of which those with both are ``known`` and lie in ``strata``.

    ``reason``: why there is no value, if the caller knows.
    """
    if reason is None and not known.n:
        reason = "no row has both a known cost and an accuracy"
    elif reason is None and not known.accurate:
        reason = "no answer is accurate"
    return CostPerAccurate(
        value=None if reason else known.cost_usd / known.accurate,
        n=known.n,
        missing={"cost or accuracy is unknown": rows - known.n} if rows > known.n else {},
        interval=sums_interval(strata, level=level),
        reason=reason,
        cost_usd=known.cost_usd,
        accurate=round(known.accurate),
        questions=sum(one.questions for one in strata),
    )


def sums_interval(strata: Sequence[Stratum], *, level: float = 0.95) -> Interval:
    """Interval of the total cost over the accurate answers, from sums: the logarithm of the ratio by MOVER.

    The mean cost has the limits of t on the logarithmic scale, the share of accurate answers Wilson's with the quantile
    of t, and their correlation is taken into account. There is no upper end, ``unbounded``, if another sample of as many
    questions would have no accurate answer with a chance above half of 1 - ``level``. Coverage: docs/statistics.md.

    Small n: no interval below 8 questions, nor if no answer is accurate or all rows are equal.
    Sources: Zou and Donner, "Construction of confidence limits about effect measures: a general approach", Statistics
    in Medicine 27 (2008); Zou, "Toward using confidence intervals to compare correlations", Psychological Methods 12
    (2007) for the correlation.
    """
    whole = _Totals.of(strata)
    sums, reason = whole.sums, whole.too_few
    if reason is None and sums.accurate <= 0:
        reason = "no answer is accurate"
    if reason is None and (sums.cost_usd <= 0 or (whole.of_cost <= 0 and whole.of_accurate <= 0)):
        reason = NO_SPREAD
    if reason:
        return Interval.absent(reason, level, OF_A_RATIO)
    t, share, rows = t_quantile(whole.df, level), whole.share, whole.rows
    lower, upper = wilson_ends(share, rows, t)
    cost, below, above = t * math.sqrt(whole.of_cost) / sums.cost_usd, math.log(share / lower), math.log(upper / share)
    shared = math.sqrt(whole.of_cost * whole.of_accurate)
    correlation = min(max(whole.of_both / shared, -1.0), 1.0) if shared else 0.0
    low, high = (math.sqrt(max(cost**2 + other**2 - 2 * correlation * cost * other, 0.0)) for other in (above, below))
    ratio, unbounded = sums.cost_usd / sums.accurate, (1 - share) ** rows > (1 - level) / 2
    return Interval(
        low=ratio * math.exp(-low),
        high=None if unbounded else ratio * math.exp(high),
        level=level,
        method=OF_A_RATIO,
        unbounded=unbounded,
    )


def accuracy_interval(strata: Sequence[Stratum], *, level: float = 0.95) -> Interval:
    """Wilson's interval of the share of accurate answers, from sums, with the quantile of t, as in ``sums_interval``."""
    whole = _Totals.of(strata)
    if whole.too_few:
        return Interval.absent(whole.too_few, level, OF_A_SHARE)
    low, high = wilson_ends(whole.share, whole.rows, t_quantile(whole.df, level))
    return Interval(low=low, high=high, level=level, method=OF_A_SHARE)


def difference_sums_interval(strata: Sequence[Stratum], *, level: float = 0.95) -> Interval:
    """Interval of (extra cost) / (extra accurate answers) from the sums of differences between two systems: Fieller's.

    Ask it if extra answers and extra cost have the same sign. If the gain in accurate answers is not clear, all prices
    but those between two ends are possible: the interval is the ray that holds the price if it has no upper end, and
    ``reason`` names the other ray. It is absent if any price is possible. Source: Fieller, "Some problems in interval
    estimation", Journal of the Royal Statistical Society B 16 (1954); for costs of one more Willan and O'Brien,
    "Confidence intervals for cost-effectiveness ratios: an application of Fieller's theorem", Health Economics 5 (1996).
    """
    whole = _Totals.of(strata)
    if reason := whole.too_few or (NO_SPREAD if whole.of_cost <= 0 and whole.of_accurate <= 0 else None):
        return Interval.absent(reason, level, OF_A_DIFFERENCE)
    squared, sums = t_quantile(whole.df, level) ** 2, whole.sums
    a = sums.accurate**2 - squared * whole.of_accurate
    b = sums.cost_usd * sums.accurate - squared * whole.of_both
    c = sums.cost_usd**2 - squared * whole.of_cost
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
    if sums.accurate and sums.cost_usd / sums.accurate < low:
        rays = f"any price below {below:.3g} or above {low:.3g} is possible"
        return Interval.absent(rays, level, OF_A_DIFFERENCE)
    caveat = f"any price below {below:.3g} is possible as well"
    return Interval(low=low, level=level, method=OF_A_DIFFERENCE, unbounded=True, reason=caveat)


def incremental_cost(
    cost_a: Values,
    accurate_a: Values,
    cost_b: Values,
    accurate_b: Values,
    *,
    names: tuple[str, str] = ("A", "B"),
    questions: int | None = None,
    level: float = 0.95,
) -> IncrementalCost:
    """(total cost of B - of A) / (accurate answers of B - of A), on the same queries; each column has shape (n,).

    Defined only if B answers more accurately and costs more; ``names`` are those of A and B in the reason. The interval is
    Fieller's (``difference_sums_interval``). ``questions``: how many there are, if some are answered more than once.
    """
    first_cost, first_right, second_cost, second_right = columns(cost_a, accurate_a, cost_b, accurate_b)
    cost, accurate = differences(first_cost, second_cost), differences(first_right, second_right)
    sums = RatioSums.of(zip(cost.tolist(), accurate.tolist(), strict=True))
    (a, b), reason = names, None
    if not sums.n:
        reason = "no query has a known cost and accuracy in both"
    elif sums.accurate <= 0:
        reason = f"{b} gives no more accurate answers than {a}"
    elif sums.cost_usd <= 0:
        reason = f"{b} is {'cheaper' if sums.cost_usd < 0 else 'as cheap'} and better"
    interval = Interval.absent(reason, level, OF_A_DIFFERENCE) if reason else None
    return IncrementalCost(
        n=sums.n,
        extra_cost=sums.cost_usd,
        extra_accurate=sums.accurate,
        value=None if reason else sums.cost_usd / sums.accurate,
        interval=interval or difference_sums_interval([Stratum(sums, questions or sums.n)], level=level),
        reason=reason,
    )


def pareto_front(
    points: Mapping[str, Sequence[float | None]], axes: Mapping[str, Literal["higher", "lower"]]
) -> ParetoFront:
    """The systems that no other one dominates: it would be at least as good on every axis and better on one.

    ``points`` gives each system's place on the ``axes``, of each of which the good direction is given. A system with an
    unknown coordinate is neither on the front nor dominated: it is ``unplaced``. Equal systems share the front.
    """
    placed: dict[str, tuple[float, ...]] = {}
    unplaced: dict[str, str] = {}
    for name, point in points.items():
        if lacking := [f"{axis} is unknown" for axis, value in zip(axes, point, strict=True) if value is None]:
            unplaced[name] = ", ".join(lacking)
        else:
            of_axes = zip(axes.values(), point, strict=True)
            placed[name] = tuple(value if way == "higher" else -value for way, value in of_axes if value is not None)
    dominated: dict[str, str] = {}
    for name, here in placed.items():
        rivals = (
            n for n, there in placed.items() if there != here and all(x >= y for x, y in zip(there, here, strict=True))
        )
        # among several, the one named is itself on the front wherever it sorts first
        if winner := max(rivals, key=lambda n: placed[n], default=None):
            dominated[name] = winner
    front = tuple(name for name in placed if name not in dominated)
    return ParetoFront(axes=tuple(axes), front=front, dominated=dominated, unplaced=unplaced)


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
