"""What a trend says, as a document: for each system its runs, oldest first, and where the level changed."""

from __future__ import annotations

from collections.abc import Iterator

from ragassay.analysis.trends import Point, Series, Trend
from ragassay.core.formatting import interval, number
from ragassay.reporting.document import Document, Sentences
from ragassay.reporting.tables import width


def of_trend(trend: Trend) -> Document:
    """A line for each run, and one before it for what changed there; times are left out if the lines don't fit."""
    about = f"{trend.metric} on {trend.dataset}, judge {trend.judge} ({trend.better} is better)"
    points = [point for series in trend.systems.values() for point in series.points]
    times = max((len(_line(point)) for point in points), default=0) <= width()
    return Document(
        trend.metric,
        answer=(about,),
        notes=tuple(f"left out: {runs} {'run' if runs == 1 else 'runs'} {why}" for why, runs in trend.left_out.items()),
        blocks=tuple(Sentences(system, tuple(_lines(series, times=times))) for system, series in trend.systems.items()),
    )


def _lines(series: Series, *, times: bool) -> Iterator[str]:
    steps = {series.known[change.index].run: change for change in series.changes}
    for point in series.points:
        yield from (f"  -- {what} --" for what in point.changed)
        if change := steps.get(point.run):
            before, after = number(change.before, beside=change.after), number(change.after, beside=change.before)
            yield f"  -- the level changed from {before} to {after} (p={change.p:.3g}) --"
        yield _line(point, time=times)
    if not steps:
        known = len(series.known)
        yield f"  no change of level found over {known} run{'' if known == 1 else 's'}"


def _line(point: Point, *, time: bool = True) -> str:
    bounds = "" if point.interval is None or point.interval.low is None else interval(point.interval)
    parts = [point.created_at[:16]] if time else []
    parts += [f"{number(point.value):>7}", f"{bounds:<12}", f"{f'n={point.n}/{point.rows}':<7}", point.run]
    parts += ["unfinished"] if point.status == "incomplete" else []
    return f"  {'  '.join([*parts, *([point.reason] if point.reason else [])])}"
