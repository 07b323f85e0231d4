"""What a trend says, as a document: for each system its runs, oldest first, and where the level changed."""

from __future__ import annotations

from collections.abc import Iterator

from ragassay.analysis.trends import Point, Series, Trend
from ragassay.core.formatting import interval, number
from ragassay.reporting.document import Document
from ragassay.reporting.tables import Table

_COLUMNS = ("time", "value", "interval", "scored", "run", "notes")


def of_trend(trend: Trend) -> Document:
    """A table for each system."""
    about = f"{trend.metric} on {trend.dataset}, judge {trend.judge} ({trend.better} is better)"
    return Document(
        trend.metric,
        headlines=(("", about),),
        notes=tuple(f"left out: {runs} {'run' if runs == 1 else 'runs'} {why}" for why, runs in trend.left_out.items()),
        blocks=tuple(_table(system, series) for system, series in trend.systems.items()),
    )


def _table(system: str, series: Series) -> Table:
    steps = {series.known[change.index].run: change for change in series.changes}
    known = len(series.known)
    note = "" if steps else f"no change of level found over {known} run{'' if known == 1 else 's'}"
    rows = []
    for point in series.points:
        bounds = "" if point.interval is None or point.interval.low is None else interval(point.interval)
        notes = list(_notes(point))
        if change := steps.get(point.run):
            before, after = number(change.before, beside=change.after), number(change.after, beside=change.before)
            notes.insert(0, f"the level changed from {before} to {after} (p={change.p:.3g})")
        figures = (point.created_at[:16], number(point.value), bounds, f"n={point.n}/{point.rows}")
        rows.append((*figures, point.run, "; ".join(notes)))
    return Table(system, _COLUMNS, tuple(rows), note, least=("time",))


def _notes(point: Point) -> Iterator[str]:
    yield from point.changed
    if point.status == "incomplete":
        yield "unfinished"
    if point.reason:
        yield point.reason
