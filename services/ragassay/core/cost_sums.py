"""What a report says of money: what rows spent, and what an accurate answer cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Self

from ragassay.core.models import FrozenModel
from ragassay.core.statistics import Estimate, Interval


class Sums(FrozenModel):
    """Numbers that can be added up."""

    @classmethod
    def total(cls, parts: Iterable[Self]) -> Self:
        """The sums of all parts, whatever their order."""
        every, totals = list(parts), dict[str, Any]()
        for name, about in cls.model_fields.items():
            add = sum if isinstance(about.default, int) else math.fsum
            totals[name] = add(getattr(part, name) for part in every)
        return cls(**totals)


class RatioSums(Sums):
    """Sums over ``n`` rows: what they cost in USD, whether they are accurate, and the squares and products of both.

    Of one system ``accurate`` is 0 or 1 a row; of the difference of two systems also -1.
    """

    n: int = 0
    cost_usd: float = 0.0
    accurate: float = 0.0
    cost_usd_squared: float = 0.0
    cost_usd_times_accurate: float = 0.0
    accurate_squared: float = 0.0

    @classmethod
    def of(cls, rows: Iterable[tuple[float, float]]) -> RatioSums:
        """The sums of rows, each its cost and whether it is accurate."""
        pairs = list(rows)
        return cls(
            n=len(pairs),
            cost_usd=math.fsum(cost for cost, _ in pairs),
            accurate=math.fsum(right for _, right in pairs),
            cost_usd_squared=math.fsum(cost * cost for cost, _ in pairs),
            cost_usd_times_accurate=math.fsum(cost * right for cost, right in pairs),
            accurate_squared=math.fsum(right * right for _, right in pairs),
        )


class CostPerAccurate(Estimate):
    """Total cost of the system over the number of accurate answers, over rows where both are known.

    The sums are kept, so that figures over several runs can be made when the rows are gone. ``questions``: how many
    different ones the ``n`` rows are of.
    """

    interval: Interval
    cost_usd: float
    accurate: int
    questions: int


class Money(Sums):
    """What some rows spent on one purpose: known costs in USD, how many rows have none, and tokens of rows with both counts."""

    cost_usd: float = 0.0
    unknown: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Spending(FrozenModel):
    """What a system's rows of one category and one model spent, in sums that can be added up over reports.

    ``serving`` is what the system spent, ``judging`` the judge, ``waste`` was paid for replies that could not be used.
    ``known``: over the rows whose cost and accuracy are known.
    """

    category: str | None
    model: str | None
    rows: int
    serving: Money
    judging: Money
    waste: Money
    known: RatioSums
