"""What a cost report is asked for, and what it says. Three kinds of money stand apart and are never added up."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from typing import Annotated, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from ragassay.core.cost_sums import Money
from ragassay.core.models import FrozenModel, Usage
from ragassay.stats import Interval

Dimension = Literal["system", "dataset", "category", "model", "day", "month", "judge"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
BY: tuple[Dimension, ...] = ("dataset", "system")
Quadrant = Literal["dearer and better", "cheaper and better", "dearer and worse", "cheaper and worse", "equal"]


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError("should be a time zone such as UTC or Europe/Berlin") from None
    return name


def _moment(text: str) -> str:
    try:
        year = datetime.fromisoformat(text).year
    except ValueError:
        year = 0
    if not 1970 <= year <= 9000:
        raise ValueError("should be a day or time such as 2026-11-01 or 2026-11-01T06:00+01:00")
    return text


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("should name each only once")
    return names


Moment = Annotated[str, Field(max_length=40), AfterValidator(_moment)]
Names = Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=50)]


class CostQuery(FrozenModel):
    """Which reports, in which groups. Days are those of ``zone``; ``until`` counts its whole day."""

    since: Moment | None = None
    until: Moment | None = None
    zone: Annotated[str, Field(max_length=60), AfterValidator(_zone)] = "UTC"
    systems: Names = ()
    datasets: Names = ()
    by: Annotated[tuple[Dimension, ...], AfterValidator(_each_once)] = BY

    @cached_property
    def zone_info(self) -> ZoneInfo:
        """The zone."""
        return ZoneInfo(self.zone)

    def local(self, created_at: str) -> datetime:
        """When a run was made, in the zone."""
        return datetime.fromisoformat(created_at).astimezone(self.zone_info)

    @cached_property
    def span(self) -> tuple[datetime, datetime]:
        """From when on, and until before when, runs count."""
        since = self._at(self.since) if self.since else datetime.min.replace(tzinfo=UTC)
        until = datetime.max.replace(tzinfo=UTC)
        if self.until:
            until = self._at(self.until)
            whole_day = datetime.combine(until.date() + timedelta(days=1), time(), self.zone_info)
            only_day = re.fullmatch(r"[\dW-]+", self.until)
            until = whole_day if only_day else until + timedelta(microseconds=1)
        return since, until

    def _at(self, text: str) -> datetime:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=self.zone_info)

    def takes(self, created_at: str) -> bool:
        """Does a run of that time count?"""
        since, until = self.span
        return since <= datetime.fromisoformat(created_at) < until


class CostGroup(FrozenModel):
    """Rows that share the values of ``key``, over ``reports`` reports.

    ``known`` of the ``rows`` have both a known cost and an accuracy: ``cost_usd`` and ``accurate`` are of these, and the
    ratio of both is ``cost_per_accurate_answer``. ``unknown_cost`` rows have no known cost. ``questions``: how many
    different ones they are of, which is what the interval counts. ``interval_of``: a lone report's own, or the sums'.
    """

    key: dict[Dimension, str | None]
    reports: int
    incomplete: int
    first: str
    last: str
    rows: int
    known: int
    unknown_cost: int
    questions: int
    cost_usd: float
    accurate: int
    cost_per_accurate_answer: float | None
    interval: Interval
    interval_of: Literal["report", "sums"]
    reason: str | None = None
    serving: Money
    judging: Money
    waste: Money


class MeanDifference(FrozenModel):
    """b - a, a query."""

    value: float
    interval: Interval


class Increment(FrozenModel):
    """What one more accurate answer costs with system b instead of a, on the same queries of one dataset.

    ``usd_per_accurate_answer`` is there where b is dearer and better, or cheaper and worse: then it is what each accurate
    answer given up saves. ``shown``: the intervals of both differences leave out 0. ``sentence`` says it in words.
    """

    dataset: str
    a: str
    b: str
    reports: int
    n: int
    questions: int
    cost_usd: MeanDifference
    accuracy: MeanDifference
    quadrant: Quadrant
    shown: bool
    usd_per_accurate_answer: float | None
    interval: Interval
    sentence: str


class CostReport(FrozenModel):
    """What accurate answers cost, over stored reports.

    ``left_out`` counts runs by why they are not in it, ``warnings`` name those that can't be read and what limits the
    numbers. Of no row, and in no group: ``interrupted``, calls in flight when a process was killed, which may have been
    paid.
    """

    schema_version: Literal[1] = 1
    kind: Literal["costs"] = "costs"
    as_of: str
    asked: CostQuery
    reports: int
    left_out: dict[str, int]
    warnings: tuple[str, ...]
    groups: tuple[CostGroup, ...]
    total: CostGroup
    interrupted: Usage
    increments: tuple[Increment, ...]
