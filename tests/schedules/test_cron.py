"""At which instants a cron expression is due, on both nights of a clock change too; the oracle walks a wall clock."""

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import pytest

from ragassay.core.errors import BadSettings, UnknownName
from ragassay.service.cron import Cron, iso, milliseconds
from schedules.wall_clock import due

NIGHTS = [
    # in spring the clock goes from 02:00 to 03:00, in autumn from 03:00 back to 02:00
    ("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00", ["29 01:00", "30 00:30"]),
    ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", ["25 00:30", "26 01:30"]),
    ("Europe/Berlin", "0 2,3 * * *", "2026-03-28T12:00", ["29 01:00", "30 00:00"]),
    ("Europe/Berlin", "0 * * * *", "2026-03-29T00:30", ["29 01:00", "29 02:00"]),
    ("Europe/Berlin", "0 * * * *", "2026-10-24T23:30", ["25 00:00", "25 01:00", "25 02:00"]),
    ("America/New_York", "30 1 * * *", "2026-10-31T12:00", ["01 05:30", "02 06:30"]),
    ("America/New_York", "30 2 * * *", "2026-03-07T12:00", ["08 07:00", "09 06:30"]),
    ("Asia/Kolkata", "15 4 * * *", "2026-01-01T00:00", ["01 22:45", "02 22:45"]),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "expression", "after", "wanted"), NIGHTS)
def test_a_night_in_which_the_clock_changes_has_each_run_once(zone, expression, after, wanted):
    since = datetime.fromisoformat(after).replace(tzinfo=UTC)
    assert [f"{at:%d %H:%M}" for at in islice(Cron(expression, zone).after(since), len(wanted))] == wanted


ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC", "Africa/Casablanca"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", ["0,45 1,2 * * *", "*/15 2 * * 0-5"])
def test_a_year_is_that_of_a_wall_clock_that_is_walked(zone, expression):
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    made = list(takewhile(lambda at: at < until, Cron(expression, zone).after(since - timedelta(seconds=1))))
    assert made == due(expression, zone, since, until)


def test_the_newest_time_is_found_however_long_nobody_asked():
    cron = Cron("* * * * *", "UTC")
    first, now = milliseconds("2020-01-01T00:00:00+00:00"), milliseconds("2026-05-05T12:00:30+00:00")
    newest, following = cron.newest(first, now)
    assert (iso(newest), iso(following)) == ("2026-05-05T12:00:00+00:00", "2026-05-05T12:01:00+00:00")
    assert cron.newest(now - 30_000, now)[0] == now - 30_000
    yearly = Cron("0 0 1 1 *", "UTC")
    assert iso(yearly.newest(first, now)[0])[:10] == "2026-01-01"
    twice = Cron("0,30 1-3 * * *", "America/New_York")  # 01:30 of the night comes twice, and is due the first time
    found, _ = twice.newest(first, milliseconds("2025-11-02T06:28:00+00:00"))
    assert iso(found) == "2025-11-02T05:30:00+00:00"


@pytest.mark.parametrize(
    "wrong", ["", "30 2 * *", "61 * * * *", "0 0 31 2 *", "@daily", "0 30 2 * * *", "* * * * * * *", "1 " * 200]
)
def test_what_is_no_expression_is_refused_with_an_example(wrong):
    with pytest.raises(BadSettings, match=r"cron: .* is no cron expression: .*; write minute, hour"):
        Cron(wrong, "UTC")


@pytest.mark.parametrize("wrong", ["Europe/Belin", "", "../etc/passwd", "/etc/localtime", "Europe", "Mars", "a" * 9999])
def test_an_unknown_zone_is_refused_and_none_is_a_path(wrong):
    with pytest.raises(UnknownName, match="zone: unknown time zone"):
        Cron("0 0 * * *", wrong)
