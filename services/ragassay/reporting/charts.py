"""Charts as shapes: what a page draws as SVG, with axes, units and intervals. Nothing here knows of HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from ragassay.core.formatting import cut
from ragassay.core.statistics import Interval

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 16, 44
A_BAR, BAR_LABEL, BAR_VALUE = 30, 190, 150  # heights and widths of bars
APART = 9  # between the dots of two series on one line
LONGEST_LABEL = 26
SHAPES = 4  # that tell lines apart, beside their colours
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_tick = "{:,.6g}".format


@dataclass(frozen=True)
class Drawn:
    """What is drawn: ``y`` with its interval at ``x``, an ISO time or a number; ``text`` says it in words."""

    x: str | float
    y: float
    text: str
    interval: Interval | None = None
    address: str = ""
    across: Interval | None = None  # the interval of x


@dataclass(frozen=True)
class Mark:
    """A value at its place; ``low`` and ``high`` are where its interval ends, ``left`` and ``right`` where that of x does."""

    x: float
    y: float
    text: str
    address: str
    low: float | None = None
    high: float | None = None
    left: float | None = None
    right: float | None = None


@dataclass(frozen=True)
class Line:
    """One series: its name, which colour and shape it has (from 1), and its marks."""

    name: str
    number: int
    shape: int
    marks: tuple[Mark, ...]
    path: str = ""


@dataclass(frozen=True)
class ChartBar:
    """One bar: its label, where it ends and its interval does, and its value in words."""

    label: str
    y: float
    end: float
    text: str
    address: str
    low: float | None = None
    high: float | None = None
    start: float = BAR_LABEL


@dataclass(frozen=True)
class Chart:
    """What is to be drawn in a box of ``width`` x ``height``. Ticks are (place, text); ``note`` says what intervals are.

    ``left``: where lines begin, right of their labels. ``zero``: the place of "no difference".
    """

    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...] = ()
    bars: tuple[ChartBar, ...] = ()
    x_ticks: tuple[tuple[float, str], ...] = ()
    y_ticks: tuple[tuple[float, str], ...] = ()
    steps: tuple[tuple[float, str], ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    zero: float | None = None
    note: str = ""


def over_time(
    title: str,
    unit: str,
    series: Mapping[str, Sequence[Drawn]],
    *,
    steps: Iterable[tuple[str, str]] = (),
    note: str = "",
) -> Chart | None:
    """Values in time, a line for each series; ``steps`` are (time, text) of what changed. None where there is no value."""
    values = [value for one in series.values() for value in one]
    if not values:
        return None
    times = [_seconds(str(value.x)) for value in values]
    across = _scale(min(times), max(times), LEFT, WIDTH - RIGHT)
    up, y_ticks = _upwards(values)
    days = sorted({str(value.x)[:10] for value in values})
    shown = days if len(days) <= 6 else [days[n * (len(days) - 1) // 5] for n in range(6)]
    first = {day: min(t for v, t in zip(values, times, strict=True) if str(v.x)[:10] == day) for day in shown}
    return Chart(
        title,
        "",
        unit,
        lines=tuple(
            _line(name, n, [_mark(value, across(_seconds(str(value.x))), up) for value in one])
            for n, (name, one) in enumerate(series.items())
        ),
        x_ticks=tuple((across(at), day[5:] if len({d[:4] for d in days}) == 1 else day) for day, at in first.items()),
        y_ticks=y_ticks,
        steps=tuple((across(_seconds(time)), text) for time, text in steps),
        note=note,
    )


def scatter(title: str, x_title: str, y_title: str, points: Mapping[str, Drawn], *, note: str = "") -> Chart | None:
    """A point for each name, with both intervals where they are known; None where there is none."""
    if not points:
        return None
    values = list(points.values())
    low, high, ticks = _ends([float(value.x) for value in values] + _interval_ends(v.across for v in values))
    across = _scale(low, high, LEFT, WIDTH - RIGHT)
    up, y_ticks = _upwards(values)
    return Chart(
        title,
        x_title,
        y_title,
        lines=tuple(
            _line(name, n, [_mark(value, across(float(value.x)), up, across)])
            for n, (name, value) in enumerate(points.items())
        ),
        x_ticks=tuple((across(tick), _tick(tick)) for tick in ticks),
        y_ticks=y_ticks,
        note=note,
    )


def bars(
    title: str, unit: str, values: Mapping[str, Drawn], *, note: str = "", waterfall: bool = False
) -> Chart | None:
    """A bar for each name, from 0; None where there is none, or one is below 0.

    ``waterfall``: each bar begins where the one before it ends, so that it shows what its name adds.
    """
    known = [value.y for value in values.values()] + _interval_ends(value.interval for value in values.values())
    if not known or min(known) < 0:
        return None
    along = _scale(0.0, max(known) or 1.0, BAR_LABEL, WIDTH - BAR_VALUE)

    def bar(n: int, label: str, value: Drawn) -> ChartBar:
        ends = value.interval
        shown = ends is not None and ends.low is not None and ends.high is not None
        return ChartBar(
            label,
            TOP + n * A_BAR,
            along(value.y),
            value.text,
            value.address,
            along(ends.low) if shown and ends and ends.low is not None else None,
            along(ends.high) if shown and ends and ends.high is not None else None,
        )

    drawn = tuple(bar(n, label, value) for n, (label, value) in enumerate(values.items()))
    if waterfall:
        drawn = (*drawn[:1], *(replace(one, start=before.end) for before, one in pairwise(drawn)))
    return Chart(title, unit, "", bars=drawn, height=TOP + A_BAR * len(drawn) + 8, note=note)


def dots(
    title: str,
    unit: str,
    rows: Mapping[str, Mapping[str, Drawn]],
    *,
    ends: tuple[float, float] | None = None,
    write: Callable[[float], str] = _tick,
    note: str = "",
) -> Chart | None:
    """A line for each label, and on it a dot with its interval for each series. None if there is no value.

    ``ends``: the least and the greatest value of the axis; by default those of the values and intervals. If the axis
    goes below 0, a line marks 0.
    """
    values = [value for row in rows.values() for value in row.values()]
    if not values:
        return None
    known = list(ends or ()) + [value.y for value in values] + _interval_ends(value.interval for value in values)
    low, high, ticks = _ends(known)
    along = _scale(low, high, BAR_LABEL, WIDTH - RIGHT)
    series = list(dict.fromkeys(name for row in rows.values() for name in row))
    slot = max(A_BAR, APART * (len(series) + 1))

    def mark(value: Drawn, line: int, place: int) -> Mark:
        at, interval = along(value.y), value.interval
        y = TOP + slot * (line + 0.5) + APART * (place - (len(series) - 1) / 2)
        if interval is None or interval.low is None:
            return Mark(at, y, value.text, value.address)
        end = WIDTH - RIGHT if interval.high is None else along(interval.high)
        return Mark(at, y, value.text, value.address, left=along(interval.low), right=end)

    bottom = TOP + slot * len(rows)
    return Chart(
        title,
        unit,
        "",
        lines=tuple(
            _line(
                name,
                place,
                [mark(row[name], n, place) for n, row in enumerate(rows.values()) if name in row],
                joined=False,
            )
            for place, name in enumerate(series)
        ),
        x_ticks=tuple((along(tick), write(tick)) for tick in ticks),
        y_ticks=tuple((TOP + slot * (n + 0.5), cut(label, LONGEST_LABEL)) for n, label in enumerate(rows)),
        height=bottom + BOTTOM,
        left=BAR_LABEL,
        zero=along(0.0) if low < 0 < high else None,
        note=note,
    )


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """From values to places; one value alone stands in the middle."""
    if high == low:
        return lambda value: round((start + end) / 2, 1)  # noqa: ARG005 - there is one
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 1)


def _upwards(values: Sequence[Drawn]) -> tuple[Callable[[float], float], tuple[tuple[float, str], ...]]:
    low, high, ticks = _ends([value.y for value in values] + _interval_ends(value.interval for value in values))
    up = _scale(low, high, HEIGHT - BOTTOM, TOP)
    return up, tuple((up(tick), _tick(tick)) for tick in ticks)


def _ends(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """Round numbers about the values, and some between."""
    low, high = min(values), max(values)
    spread = high - low or abs(high) or 1.0
    step = _step(spread / 4)
    first, last = math.floor(low / step), math.ceil(high / step)
    first, last = (first - 1, last + 1) if first == last else (first, last)
    first = max(first, 0) if low >= 0 else first
    ticks = [round(n * step, 12) for n in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks


def _step(least: float) -> float:
    """A round number that is not less."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * one for one in _STEPS if power * one >= least)


def _interval_ends(intervals: Iterable[Interval | None]) -> list[float]:
    return [end for one in intervals if one for end in (one.low, one.high) if end is not None]


def _line(name: str, n: int, marks: list[Mark], *, joined: bool = True) -> Line:
    path = "M" + " L".join(f"{mark.x} {mark.y}" for mark in marks) if joined and len(marks) > 1 else ""
    return Line(name, n % 6 + 1, n % SHAPES, tuple(marks), path)


def _mark(value: Drawn, x: float, up: Callable[[float], float], across: Callable[[float], float] | None = None) -> Mark:
    ends, sides = value.interval, value.across
    return Mark(
        x,
        up(value.y),
        value.text,
        value.address,
        up(ends.low) if ends and ends.low is not None else None,
        up(ends.high) if ends and ends.high is not None else None,
        across(sides.low) if across and sides and sides.low is not None else None,
        across(sides.high) if across and sides and sides.high is not None else None,
    )
