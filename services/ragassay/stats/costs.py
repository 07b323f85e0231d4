"""What accuracy costs: one more accurate answer, and the systems that nobody beats on every axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ragassay.errors import BadInput
from ragassay.stats.columns import Values, check_lengths, differences, is_constant, numbers, pair, share_of
from ragassay.stats.intervals import resampled_ratio
from ragassay.stats.results import IncrementalCost, Interval, ParetoFront

Direction = Literal["higher", "lower"]


def incremental_cost(
    cost_a: Values,
    accurate_a: Values,
    cost_b: Values,
    accurate_b: Values,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> IncrementalCost:
    """(total cost of B - of A) / (accurate answers of B - of A), on the same rows; each column has shape (n,).

    Undefined, and said so, when B gives no more accurate answers than A. Rows are resampled in pairs; a draw in which B
    gains no accurate answer is infinite, so the upper end is ``unbounded`` unless the gain in accuracy is clear. A
    negative end means that B may cost less and answer more.
    Source: Briggs, Wonderling and Mooney, "Pulling cost-effectiveness analysis up by its bootstraps", Health Economics
    6 (1997).
    """
    cost = differences(*pair(cost_a, cost_b, ("cost_a", "cost_b")))
    accurate = differences(*pair(accurate_a, accurate_b, ("accurate_a", "accurate_b")))
    check_lengths(cost, accurate, ("cost_a", "accurate_a"))
    extra, gained, reason = float(cost.sum()), float(accurate.sum()), None
    if gained <= 0:
        reason = "B gives no more accurate answers than A" if len(cost) else "there are no rows"
        interval = Interval.absent(reason, share_of(level, "level"), "bootstrap percentile, expanded")
    else:
        constant = is_constant(cost) and is_constant(accurate)
        interval = resampled_ratio(cost, accurate, constant, "percentile", level=level, resamples=resamples, seed=seed)
    return IncrementalCost(
        n=len(cost),
        extra_cost=extra,
        extra_accurate=gained,
        value=None if reason else extra / gained,
        interval=interval,
        reason=reason,
    )


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
