"""At which instants a cron expression is due in a time zone, both nights of a clock change included.

``cronsim`` says which times of a wall clock an expression means. Which instants those are is decided here: an expression
whose minutes or hours begin with ``*`` follows time as it passes, so that an hourly run runs in every hour there is; one at
fixed times runs once for each, at the first instant after a gap where the clock leaves its time out, and the first time
where the clock shows it twice. That is what Debian's cron does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from ragassay.errors import BadSettings, UnknownName

LONGEST = 200  # characters
_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)
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
    """An expression of five fields (minute, hour, day of the month, month, day of the week), or six with seconds first.

    Raises BadSettings for one that is none, or that is never due; UnknownName for the zone.
    """

    def __init__(self, expression: str, zone: str) -> None:
        self._zone = zone_of(zone)
        self._expression = expression if len(expression) <= LONGEST else ""
        try:
            parts = CronSim(self._expression, datetime(2000, 1, 1)).parts  # noqa: DTZ001 - a wall clock's time
        except CronSimError as error:
            raise BadSettings(
                f"{expression[:LONGEST]!r} is no cron expression: {str(error).lower()}",
                where="cron",
                hint="write minute, hour, day of month, month and day of week, such as '30 2 * * *'; seconds may stand first",
            ) from None
        self._fixed = not (parts[1].startswith("*") or parts[2].startswith("*"))
        if next(self.after(datetime.now(UTC)), None) is None:
            raise BadSettings(f"{expression!r} is never due", where="cron", hint="no month has such a day")

    def after(self, instant: datetime) -> Iterator[datetime]:
        """The instants after this one, in their order, each once, in UTC."""
        return self._of_times(instant) if self._fixed else self._of_passing_time(instant)

    def times(self, ms: int) -> Iterator[int]:
        """The same in milliseconds since 1970."""
        return (int(instant.timestamp() * 1000) for instant in self.after(datetime.fromtimestamp(ms / 1000, UTC)))

    def newest(self, first: int, now: int, *, most: int, surely_ms: int) -> tuple[list[int], int | None]:
        """The newest times from ``first``, which is one, to ``now``, and the one that follows.

        ``most`` of them at the most. It looks back over ``surely_ms`` first and then further and further, since ``first``
        may be long ago.
        """
        back = surely_ms + 3_600_000
        while True:
            since = max(first, now - back)
            times, following = list[int](), None
            for ms in self.times(since - 1):
                if ms > now:
                    following = ms
                    break
                times.append(ms)
            if since == first or len(times) >= most:
                return times[-most:], following
            back *= 4

    def _of_times(self, last: datetime) -> Iterator[datetime]:
        for time in CronSim(self._expression, self._clock(last)):
            local = time.replace(tzinfo=self._zone)
            instant = local.astimezone(UTC)
            if self._clock(instant) != time:  # no clock shows this time
                instant = self._change(instant - _DAY, instant + _DAY)
            if instant > last:
                yield instant
                last = instant

    def _of_passing_time(self, last: datetime) -> Iterator[datetime]:
        """Between two changes of the clock it differs from UTC by the same, so times are instants."""
        while True:
            offset = self._offset(last)
            time = next(CronSim(self._expression, (last + offset).replace(tzinfo=None)), None)
            if time is None:
                return
            instant = time.replace(tzinfo=UTC) - offset
            if instant - last > _DAY:  # nothing is due before, wherever the clock changes
                last = instant - _DAY
            elif self._offset(instant) == offset:
                yield instant
                last = instant
            else:
                last = self._change(last, instant)
                if next(CronSim(self._expression, self._clock(last) - _SECOND), None) == self._clock(last):
                    yield last

    def _change(self, before: datetime, after: datetime) -> datetime:
        """The first instant with the offset from UTC that holds at ``after``, when another holds at ``before``."""
        before, after = before.replace(microsecond=0), after.replace(microsecond=0)
        offset = self._offset(after)
        while after - before > _SECOND:
            middle = (before + (after - before) / 2).replace(microsecond=0)
            before, after = (before, middle) if self._offset(middle) == offset else (middle, after)
        return after

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self._zone).utcoffset() or timedelta()

    def _clock(self, instant: datetime) -> datetime:
        """What a wall clock of the zone shows then."""
        return instant.astimezone(self._zone).replace(tzinfo=None)


def iso(ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds" if ms % 1000 else "seconds")


def milliseconds(time: str) -> int:
    """The reverse of ``iso``."""
    return int(datetime.fromisoformat(time).timestamp() * 1000)
