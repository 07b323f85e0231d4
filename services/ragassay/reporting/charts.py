"""Charts as shapes: what a page draws as SVG, with axes, units and intervals. Nothing here knows of HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ragassay.core.formatting import cut
from ragassay.core.statistics import Interval

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 16, 44
A_BAR, BAR_LABEL, BAR_VALUE = 30, 200, 150  # heights and widths of bars
BARS_WIDTH = 550  # of a chart of bars, so that its texts can be read on a phone
APART = 9  # between the dots of two series on one line
LONGEST_LABEL, MAX_DAYS = 26, 6
COLOURS, SHAPES = 6, 4  # that distinguish lines; the style sheet has as many
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
    """A value at its place; ``up`` and ``across`` are the ends of the intervals of y and x."""

    x: float
    y: float
    text: str
    address: str
    up: tuple[float, float] | None = None
    across: tuple[float, float] | None = None


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
    """One bar: its label, from where to where it goes, the ends of its interval, its value in words, and its colour (from 1)."""

    label: str
    y: float
    start: float
    end: float
    text: str
    address: str
    span: tuple[float, float] | None
    number: int = 1


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


@dataclass(frozen=True)
class _Axis:
    """Values from ``low`` to ``high`` at places from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    ticks: Sequence[float] = ()

    def __call__(self, value: float) -> float:
        """The place of a value; one value alone stands in the middle."""
        share = 0.5 if self.high == self.low else (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def span(self, interval: Interval | None) -> tuple[float, float] | None:
        """The places of an interval's ends; one that is unbounded ends with the axis."""
        if interval is None or interval.low is None:
            return None
        return self(interval.low), self.end if interval.high is None else self(interval.high)

    def labels(self, write: Callable[[float], str] = _tick) -> tuple[tuple[float, str], ...]:
        return tuple((self(tick), write(tick)) for tick in self.ticks)


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
    times = [_seconds(value.x) for value in values]
    across, up = _Axis(min(times), max(times), LEFT, WIDTH - RIGHT), _upwards(values)
    begins: dict[str, float] = {}  # the first time of each day
    for at, value in sorted(zip(times, values, strict=True), key=lambda one: one[0]):
        begins.setdefault(str(value.x)[:10], across(at))
    days, last = list(begins), min(len(begins), MAX_DAYS) - 1
    shown = [days[n * (len(days) - 1) // last] for n in range(last + 1)] if last else days
    several_years = len({day[:4] for day in days}) > 1
    lines = (
        _line(name, n, [_mark(value, across(_seconds(value.x)), up) for value in one])
        for n, (name, one) in enumerate(series.items())
    )
    return Chart(
        title,
        "",
        unit,
        lines=tuple(lines),
        x_ticks=tuple((begins[day], day if several_years else day[5:]) for day in shown),
        y_ticks=up.labels(),
        steps=tuple((across(_seconds(time)), text) for time, text in steps),
        note=note,
    )


def scatter(title: str, x_title: str, y_title: str, points: Mapping[str, Drawn], *, note: str = "") -> Chart | None:
    """A point for each name, with both intervals where they are known; None where there is none."""
    if not points:
        return None
    values = list(points.values())
    across = _axis([float(value.x) for value in values], (value.across for value in values), LEFT, WIDTH - RIGHT)
    up = _upwards(values)
    lines = (
        _line(name, n, [_mark(value, across(float(value.x)), up, across)])
        for n, (name, value) in enumerate(points.items())
    )
    return Chart(title, x_title, y_title, lines=tuple(lines), x_ticks=across.labels(), y_ticks=up.labels(), note=note)


def bars(
    title: str, unit: str, values: Mapping[str, Drawn], *, note: str = "", waterfall: bool = False, number: int = 1
) -> Chart | None:
    """A bar for each name, from 0; None where there is none, or one is below 0.

    ``waterfall``: each bar begins where the one before it ends, so that it shows what its name adds. ``number``: which
    colour they have, from 1.
    """
    known = [value.y for value in values.values()] + _ends(value.interval for value in values.values())
    if not known or min(known) < 0:
        return None
    along = _Axis(0.0, max(known) or 1.0, BAR_LABEL, BARS_WIDTH - BAR_VALUE)
    drawn: list[ChartBar] = []
    for n, (label, value) in enumerate(values.items()):
        start = drawn[-1].end if waterfall and drawn else BAR_LABEL
        ends = along.span(value.interval)
        drawn.append(ChartBar(label, TOP + n * A_BAR, start, along(value.y), value.text, value.address, ends, number))
    height = TOP + A_BAR * len(drawn) + 8
    return Chart(title, unit, "", bars=tuple(drawn), width=BARS_WIDTH, height=height, left=BAR_LABEL, note=note)


def dots(
    title: str,
    unit: str,
    rows: Mapping[str, Mapping[str, Drawn]],
    *,
    ends: tuple[float, ...] = (),
    write: Callable[[float], str] = _tick,
    note: str = "",
) -> Chart | None:
    """A line for each label, and on it a dot with its interval for each series. None if there is no value.

    ``ends``: values that the axis has too. If it goes below 0, a line marks 0.
    """
    values = [value for row in rows.values() for value in row.values()]
    if not values:
        return None
    along = _axis([*ends, *(one.y for one in values)], (one.interval for one in values), BAR_LABEL, WIDTH - RIGHT)
    series = list(dict.fromkeys(name for row in rows.values() for name in row))
    slot = max(A_BAR, APART * (len(series) + 1))
    middles = {label: TOP + slot * (n + 0.5) for n, label in enumerate(rows)}
    lines = []
    for place, name in enumerate(series):
        lower = APART * (place - (len(series) - 1) / 2)
        marks = [
            Mark(along(one.y), middles[label] + lower, one.text, one.address, across=along.span(one.interval))
            for label, row in rows.items()
            if (one := row.get(name))
        ]
        lines.append(_line(name, place, marks, joined=False))
    return Chart(
        title,
        unit,
        "",
        lines=tuple(lines),
        x_ticks=along.labels(write),
        y_ticks=tuple((at, cut(label, LONGEST_LABEL)) for label, at in middles.items()),
        height=TOP + slot * len(rows) + BOTTOM,
        left=BAR_LABEL,
        zero=along(0.0) if along.low < 0 < along.high else None,
        note=note,
    )


def _seconds(time: str | float) -> float:
    return datetime.fromisoformat(str(time)).timestamp()


def _axis(values: Iterable[float], intervals: Iterable[Interval | None], start: float, end: float) -> _Axis:
    """Round numbers about the values and the ends of their intervals, and some between."""
    known = [*values, *_ends(intervals)]
    low, high = min(known), max(known)
    least = (high - low or abs(high) or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * one for one in (1.0, 2.0, 2.5, 5.0, 10.0) if power * one >= least)
    first, last = math.floor(low / step), math.ceil(high / step)
    first, last = (first - 1, last + 1) if first == last else (first, last)
    first = max(first, 0) if low >= 0 else first
    ticks = [round(n * step, 12) for n in range(first, last + 1)]
    return _Axis(ticks[0], ticks[-1], start, end, ticks)


def _upwards(values: Sequence[Drawn]) -> _Axis:
    return _axis([value.y for value in values], (value.interval for value in values), HEIGHT - BOTTOM, TOP)


def _ends(intervals: Iterable[Interval | None]) -> list[float]:
    return [end for one in intervals if one for end in (one.low, one.high) if end is not None]


def _line(name: str, n: int, marks: list[Mark], *, joined: bool = True) -> Line:
    path = "M" + " L".join(f"{mark.x} {mark.y}" for mark in marks) if joined and len(marks) > 1 else ""
    return Line(name, n % COLOURS + 1, n % SHAPES, tuple(marks), path)


def _mark(value: Drawn, x: float, up: _Axis, across: _Axis | None = None) -> Mark:
    sides = across.span(value.across) if across else None
    return Mark(x, up(value.y), value.text, value.address, up.span(value.interval), sides)
