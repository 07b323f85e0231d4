"""At which instants a cron expression is due in a time zone.

``cronsim`` follows Debian's cron on nights in which clocks change: an expression whose minutes or hours begin with ``*``
follows time as it passes; one at fixed times is due once, at the first instant after a gap and the first time of two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from ragassay.core.errors import BadSettings, UnknownName

LONGEST = 200  # characters
FIELDS = 5
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


def zone_of(name: str) -> ZoneInfo:
    """The time zone with this name of the IANA database; raises UnknownName."""
    try:
        if _ZONE.fullmatch(name):
            return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # a folder of the database, or nothing in it
        pass
    from zoneinfo import available_timezones

    raise UnknownName("time zone", name[:100], available_timezones(), where="zone")


class Cron:
    """An expression of five fields: minute, hour, day of the month, month, day of the week.

    Raises BadSettings for an expression that is invalid or never due; UnknownName for the zone.
    """

    def __init__(self, expression: str, zone: str) -> None:
        self._zone, self._expression = zone_of(zone), expression
        fields = len(expression.split())
        if fields != FIELDS or len(expression) > LONGEST:
            raise _invalid(expression, f"it has {fields} fields instead of {FIELDS}")
        try:
            first = next(self.after(datetime.now(UTC)), None)
        except CronSimError as error:
            raise _invalid(expression, str(error).lower()) from None
        if first is None:
            raise BadSettings(f"{expression!r} is never due", where="cron", hint="no month has such a day")

    def after(self, instant: datetime) -> Iterator[datetime]:
        """The instants after this one, in their order, each once, in UTC."""
        last = instant
        for local in CronSim(self._expression, instant.astimezone(self._zone)):
            if (due := local.astimezone(UTC)) > last:
                yield due
                last = due

    def times(self, ms: int) -> Iterator[int]:
        """The same in milliseconds since 1970."""
        return (int(instant.timestamp() * 1000) for instant in self.after(datetime.fromtimestamp(ms / 1000, UTC)))

    def newest(self, first: int, now: int) -> tuple[int, int | None]:
        """The newest time from ``first``, which is one, to ``now``, and the one that follows."""
        after_now = datetime.fromtimestamp(now / 1000, UTC) + timedelta(microseconds=1)
        passed = CronSim(self._expression, after_now.astimezone(self._zone), reverse=True)
        near = max(first, next((int(local.timestamp() * 1000) for local in passed), first))
        # going back, cronsim passes over times of an hour that comes twice
        *_, newest = near, *takewhile(lambda ms: ms <= now, self.times(near))
        return newest, next(self.times(now), None)


def _invalid(expression: str, why: str) -> BadSettings:
    hint = "write minute, hour, day of month, month and day of week, such as '30 2 * * *'"
    return BadSettings(f"{expression[:LONGEST]!r} is no cron expression: {why}", where="cron", hint=hint)


def iso(ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds" if ms % 1000 else "seconds")


def milliseconds(time: str) -> int:
    """The reverse of ``iso``."""
    return int(datetime.fromisoformat(time).timestamp() * 1000)
