"""What the statistics give: frozen results that a report can hold and whose JSON schema comes for free."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Self

from pydantic import model_validator

from ragassay.core.models import Chance, FrozenModel


class Interval(FrozenModel):
    """A confidence interval, or None on both sides and the reason why.

    ``level`` is nominal (0.95), ``method`` names how it was made. ``unbounded`` says that there is no upper end:
    ``high`` is None then, because infinity has no place in JSON. A ``reason`` beside bounds is a caveat on them.
    """

    low: float | None = None
    high: float | None = None
    level: Chance
    method: str
    unbounded: bool = False
    reason: str | None = None

    @model_validator(mode="after")
    def _ends_fit(self) -> Interval:
        if self.low is None and self.high is None and self.reason and not self.unbounded:
            return self
        if self.low is None or (self.high is None) is not self.unbounded:
            raise ValueError("an interval has two ends, or a lower one and 'unbounded', or none and a reason")
        if self.high is not None and self.low > self.high:
            raise ValueError(f"the lower end {self.low} lies above the upper end {self.high}")
        return self

    @classmethod
    def absent(cls, reason: str, level: float, method: str) -> Interval:
        """No interval, and why."""
        return cls(level=level, method=method, reason=reason)

    @property
    def width(self) -> float | None:
        """``high - low``; None where either end is missing."""
        return None if self.low is None or self.high is None else self.high - self.low

    @property
    def negative(self) -> Interval:
        """That of the number with the other sign; of an interval with two ends, or none."""
        if self.low is None or self.high is None:
            return self
        return self.model_copy(update={"low": -self.high, "high": -self.low})

    def contains(self, value: float) -> bool:
        """Whether the data leave ``value`` possible. An absent interval rules nothing out."""
        if self.low is None:
            return True
        return self.low <= value and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low is None:
            return f"no interval ({self.reason})"
        return f"{self.low:.4g}..{'unbounded' if self.high is None else f'{self.high:.4g}'}"


class Estimate(FrozenModel):
    """A number about many rows, and how sure it is.

    ``n`` rows were scored; ``missing`` counts the others by reason, and ``failed`` of those had all the input that was needed.
    Without a value there is a ``reason``; beside one it is a caveat. ``corrected_by``: how many labels of people or of
    reference judges it goes by; ``uncorrected`` is the number by the judge's own scores then.
    """

    value: float | None
    n: int
    missing: dict[str, int] = {}  # noqa: RUF012 - a default of a model
    failed: int = 0
    interval: Interval | None = None
    sd: float | None = None
    reason: str | None = None
    corrected_by: int | None = None
    uncorrected: float | None = None

    @property
    def unscored(self) -> int:
        """How many rows were not scored."""
        return sum(self.missing.values())

    @property
    def rows(self) -> int:
        """How many rows it is about."""
        return self.n + self.unscored

    @property
    def coverage(self) -> float:
        """Share of the rows that are scored."""
        return self.n / self.rows if self.rows else 0.0


class ChangePoint(FrozenModel):
    """A lasting step in a series: ``index`` is the first value of the new level."""

    index: int
    before: float
    after: float
    p: Chance


class IncrementalCost(Estimate):
    """The marginal cost of one more accurate answer if B takes the place of A; USD if the costs are USD.

    There is a ``value`` only if B answers more accurately and costs more; else the ``reason``.
    """

    interval: Interval
    extra_cost: float
    extra_accurate: float


class ParetoFront(FrozenModel):
    """Which systems no other one beats on every one of the ``axes``; an axis that no system reports is left out.

    ``dominated`` names who beats each of the others; ``unplaced`` why. Of several datasets there is none.
    """

    axes: tuple[str, ...] = ()
    front: tuple[str, ...] = ()
    dominated: dict[str, str] = {}  # noqa: RUF012 - a default of a model
    unplaced: dict[str, str] = {}  # noqa: RUF012 - a default of a model


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


LEFT_OUT = "left out: statistics.intervals is false"


def without_intervals(value: Any) -> Any:
    """A document, or a part of it, with each interval left out."""
    if isinstance(value, Interval):
        return Interval.absent(LEFT_OUT, value.level, value.method)
    if isinstance(value, FrozenModel):
        parts = {name: without_intervals(getattr(value, name)) for name in type(value).model_fields}
        return value.model_copy(update=parts)
    if isinstance(value, dict):
        return {key: without_intervals(one) for key, one in value.items()}
    return tuple(map(without_intervals, value)) if isinstance(value, tuple) else value
