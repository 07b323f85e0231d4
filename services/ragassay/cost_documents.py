"""What a report says of money: what rows spent, and what an accurate answer cost."""

from __future__ import annotations

from ragassay.models import FrozenModel
from ragassay.stats import Interval, RatioSums


class CostPerAccurate(FrozenModel):
    """Total cost of the system over the number of accurate answers, over rows where both are known.

    The sums are kept, so that figures over several runs can be made when the rows are gone.
    """

    value: float | None
    interval: Interval
    cost_usd: float
    accurate: int
    n: int
    missing: int
    reason: str | None = None


class Money(FrozenModel):
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


class Between(FrozenModel):
    """Two systems on the same queries: sums of b - a, over the rows where the cost and the accuracy of both are known."""

    a: str
    b: str
    sums: RatioSums
