"""When a cron expression is due, found naively: by walking a clock in steps of 15 minutes and looking at what it shows.

Only ``zoneinfo``'s way from UTC to a wall clock is used, and no arithmetic of local times.
"""

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

STEP = timedelta(minutes=15)


def _values(field, least, most):
    values = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = (f"{least}-{most}" if span == "*" else span).partition("-")
        values |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return values


@cache
def _shown(zone, since, until):
    """(instant, what the clock shows) in steps, from a day before to a day after."""
    steps = (until - since + timedelta(days=2)) // STEP
    instants = [since - timedelta(days=1) + n * STEP for n in range(steps)]
    return [(at, at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for at in instants]


def due(expression, zone, since, until):
    """The instants from ``since`` to before ``until``. Minutes are multiples of 15; day of month or of week is ``*``."""
    minute, hour, day, month, weekday = expression.split()
    fields = [(minute, 0, 59), (hour, 0, 23), (day, 1, 31), (month, 1, 12), (weekday, 0, 6)]
    wanted = [_values(*field) for field in fields]

    def matches(shown):
        parts = (shown.minute, shown.hour, shown.day, shown.month, shown.isoweekday() % 7)
        return all(part in values for part, values in zip(parts, wanted, strict=True))

    shows = _shown(zone, since, until)
    if minute.startswith("*") or hour.startswith("*"):  # as time passes
        return [at for at, shown in shows if since <= at < until and matches(shown)]
    found, first_at = set(), {}
    for at, shown in shows:
        first_at.setdefault(shown, at)  # of a time that is shown twice, the first
    for (_, before), (at, shown) in pairwise(shows):
        if matches(shown):
            found.add(first_at[shown])
        left_out = before + STEP
        while left_out < shown:  # the clock jumps over it
            if matches(left_out):
                found.add(at)
            left_out += STEP
    return sorted(at for at in found if since <= at < until)


assert due("30 2 * * *", "UTC", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
