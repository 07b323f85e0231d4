"""The month so far, and what it may come to."""

from __future__ import annotations

import calendar
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from statistics import mean, stdev

from ragassay.costs.groups import CostPart, group
from ragassay.costs.models import CostGroup, CostQuery, MonthToDate, Projection
from ragassay.stats.distributions import t_quantile

FEWEST_DAYS = 7  # a week: what is evaluated may differ by its days


def month_to_date(parts: Iterable[CostPart], query: CostQuery, now: datetime) -> MonthToDate | None:
    """What was spent in the month of ``now``; None where the reports asked for end before it, or none is of it."""
    today = now.astimezone(query.zone_info).date()
    since, until = query.span
    if not since <= now < until:
        return None
    every = [(query.local(part.record.created_at).date(), part) for part in parts]
    of_month = [
        (day, part) for day, part in every if (day.year, day.month) == (today.year, today.month) and day <= today
    ]
    if not of_month:
        return None
    begun = max(min(day for day, _ in every), today.replace(day=1))
    if query.since:
        begun = max(begun, since.astimezone(query.zone_info).date())
    by_day: dict[date, list[CostPart]] = {}
    for day, part in of_month:
        by_day.setdefault(day, []).append(part)
    spent = {day: group((), parts, query) for day, parts in by_day.items()}
    whole = group((), [part for _, part in of_month], query)
    days = [begun + timedelta(days=n) for n in range((today - begun).days)]
    left = calendar.monthrange(today.year, today.month)[1] - today.day + 1
    return MonthToDate(
        month=f"{today:%Y-%m}",
        days=len(days),
        days_left=left,
        reports=whole.reports,
        serving=whole.serving,
        judging=whole.judging,
        waste=whole.waste,
        serving_projection=_projected("serving", spent, days, left, whole),
        judging_projection=_projected("judging", spent, days, left, whole),
    )


def _projected(
    kind: str, spent: Mapping[date, CostGroup], days: Sequence[date], left: int, whole: CostGroup
) -> Projection:
    """Whole days, plus as many times their mean as days are left; the range is that of a sum of days not yet seen.

    Source of the range: the prediction interval of a sum of normal values, as in any textbook.
    """
    money = getattr(whole, kind)
    if money.unknown:
        rows = "1 row has" if money.unknown == 1 else f"{money.unknown:,} rows have"
        return Projection(reason=f"{rows} no known cost")
    if len(days) < FEWEST_DAYS:
        whole_days = "1 whole day has" if len(days) == 1 else f"{len(days)} whole days have"
        return Projection(reason=f"{whole_days} passed; it takes {FEWEST_DAYS}")
    costs = [getattr(spent[day], kind).cost_usd if day in spent else 0.0 for day in days]
    usual, so_far = mean(costs), math.fsum(costs)
    half = t_quantile(0.975, len(days) - 1) * stdev(costs) * math.sqrt(left + left**2 / len(days))
    value = so_far + usual * left
    least = money.cost_usd  # today's is spent already
    return Projection(value=max(value, least), low=max(value - half, least), high=max(value + half, least))
