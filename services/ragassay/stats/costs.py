"""What accuracy costs: one more accurate answer, and the systems that nobody beats on every axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ragassay.core.cost_sums import RatioSums
from ragassay.core.errors import BadInput
from ragassay.core.statistics import IncrementalCost, Interval, ParetoFront
from ragassay.stats.columns import Values, check_lengths, differences, numbers, pair, share_of
from ragassay.stats.ratios import OF_A_DIFFERENCE, Stratum, difference_sums_interval

Direction = Literal["higher", "lower"]


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
    cost = differences(*pair(cost_a, cost_b, ("cost_a", "cost_b")))
    accurate = differences(*pair(accurate_a, accurate_b, ("accurate_a", "accurate_b")))
    check_lengths(cost, accurate, ("cost_a", "accurate_a"))
    sums, level = RatioSums.of(zip(cost.tolist(), accurate.tolist(), strict=True)), share_of(level, "level")
    reason = why_no_increment(sums, names)
    return IncrementalCost(
        n=sums.n,
        extra_cost=sums.cost_usd,
        extra_accurate=sums.accurate,
        value=None if reason else sums.cost_usd / sums.accurate,
        interval=Interval.absent(reason, level, OF_A_DIFFERENCE)
        if reason
        else difference_sums_interval([Stratum(sums, questions or sums.n)], level=level),
        reason=reason,
    )


def why_no_increment(sums: RatioSums, names: tuple[str, str]) -> str | None:
    """Why one more accurate answer has no price with B in the place of A; None if it has one."""
    a, b = names
    if not sums.n:
        return "no query has a known cost and accuracy in both"
    if sums.accurate <= 0:
        return f"{b} gives no more accurate answers than {a}"
    if sums.cost_usd <= 0:
        return f"{b} is {'cheaper' if sums.cost_usd < 0 else 'as cheap'} and better"
    return None


def pareto_front(points: Mapping[str, Sequence[float | None]], better: Sequence[Direction]) -> ParetoFront:
    """Who is beaten by nobody: at least as good on every axis and better on one is what beats.

    ``points`` gives each system's place on each axis, such as (accuracy, cost, latency); ``better`` the good direction
    of each axis, such as ("higher", "lower", "lower"). A system with an unknown coordinate is neither on the front nor
    beaten: it is ``unplaced``. Equal systems share the front. Raises BadInput when a point has another number of axes.
    """
    placed: dict[str, tuple[float, ...]] = {}
    unplaced: dict[str, str] = {}
    for name, point in points.items():
        if len(point) != len(better):
            raise BadInput(f"system {name!r} has {len(point)} coordinates for {len(better)} axes")
        if None in point:
            unplaced[name] = f"axis {list(point).index(None) + 1} is unknown"
            continue
        column = numbers([value for value in point if value is not None], f"system {name!r}")
        placed[name] = tuple(float(v) if way == "higher" else -float(v) for v, way in zip(column, better, strict=True))
    dominated: dict[str, str] = {}
    for name, here in placed.items():
        rivals = (n for n, there in placed.items() if there != here and all(map(float.__ge__, there, here)))
        # among several, the one named is itself on the front wherever it sorts first
        if winner := max(rivals, key=lambda n: placed[n], default=None):
            dominated[name] = winner
    front = tuple(name for name in placed if name not in dominated)
    return ParetoFront(front=front, dominated=dominated, unplaced=unplaced)
