"""What a report says of money: what rows spent, and what an accurate answer cost, by the judge's scores and by labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragassay.models import FrozenModel
from ragassay.stats import Interval, RatioSums, Stratum, sums_interval
from ragassay.stats.ppi import corrected_sums


class CorrectedCost(FrozenModel):
    """Cost per accurate answer, with the accurate answers that all ``rows`` would have by the ``labels`` of some.

    ``judged``: what it is by the judge's own scores. Without a value there is a ``reason``. ``sums`` may be added up over
    runs; there are none where the labels are too few, or all equal.
    """

    labels: int
    rows: int
    value: float | None
    judged: float | None
    interval: Interval
    sums: RatioSums | None = None
    reason: str | None = None

    @classmethod
    def of(
        cls, costs: Sequence[float], labels: Sequence[float | None], accurate: Sequence[float], *, level: float
    ) -> CorrectedCost:
        """Of rows, each its cost, its label if it has one, and whether it is accurate by the judge."""
        mean, sums = corrected_sums(costs, labels, accurate, level=level)
        total, judged = math.fsum(costs), math.fsum(accurate)
        reason = mean.reason if mean.mean is None else None if mean.mean > 0 else "no answer is accurate"
        if sums and not reason:
            interval = sums_interval([Stratum(sums, sums.n)], level=level)
        else:
            why = reason or "all labels are equal: how far they may be off is unknown"
            interval = Interval.absent(why, level, mean.interval.method)
        return cls(
            labels=mean.labels,
            rows=mean.rows,
            value=None if reason or mean.mean is None else total / (mean.rows * mean.mean),
            judged=total / judged if judged else None,
            interval=interval,
            sums=sums,
            reason=reason,
        )


class CostPerAccurate(FrozenModel):
    """Total cost of the system over the number of accurate answers, over rows where both are known.

    The sums are kept, so that figures over several runs can be made when the rows are gone. ``corrected``: by labels of
    ``accurate``, where some of these rows have one.
    """

    value: float | None
    interval: Interval
    cost_usd: float
    accurate: int
    n: int
    missing: int
    reason: str | None = None
    corrected: CorrectedCost | None = None


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
    """Two systems on the same queries: sums of b - a, over the rows where the cost and the accuracy of both are known.

    ``corrected``: these sums with the accurate answers by so many ``labels`` on both sides; null where they are too few.
    """

    a: str
    b: str
    sums: RatioSums
    corrected: RatioSums | None = None
    labels: int = 0
