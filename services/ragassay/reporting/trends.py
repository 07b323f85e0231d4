"""What a trend says, as a document: whether a figure changed, its values in time, and its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ragassay.analysis.difference import Difference
from ragassay.analysis.trends import Point, Series, Trend
from ragassay.core.formatting import changes_of, interval, listed, minute, of_metric, percent
from ragassay.reporting.charts import Chart, Drawn, over_time
from ragassay.reporting.document import Cell, Document, Figure, Link, Sentences, Table
from ragassay.reporting.figures import bounds, of_rows, share

_GATES = {True: Figure("passed", tone="good"), False: Figure("missed", tone="bad"), None: Figure("")}


def of_trend(
    trend: Trend,
    since: Mapping[str, Difference] = MappingProxyType({}),
    pages: str = "",
    gates: Mapping[str, bool | None] = MappingProxyType({}),
) -> Document:
    """A sentence on each system, the figure in time with its intervals, what changed, and a row for each run, newest first.

    ``since``: by system, the newest run against an earlier one on the same rows. ``pages``: the address of the page of
    runs. ``gates``: whether a run passed, by its id.
    """
    changed = tuple(line for name, one in trend.systems.items() for line in _changed(trend.metric, name, one))
    chart = chart_of(trend, pages)
    others = (point.dataset for one in trend.systems.values() for point in one.points)  # other names, the same content
    datasets = listed(dict.fromkeys((trend.dataset, *others)))
    return Document(
        f"Trend of {trend.metric}",
        about=f"{trend.metric} on {datasets}, judge {trend.judge} ({trend.better} is better)",
        answer=tuple(_answers(trend, since)),
        notes=tuple(f"left out: {runs} {'run' if runs == 1 else 'runs'} {why}" for why, runs in trend.left_out.items()),
        blocks=(
            *([chart] if chart else []),
            *([Sentences("What changed", changed)] if changed else []),
            _runs(trend, pages, gates),
        ),
    )


def _answers(trend: Trend, since: Mapping[str, Difference]) -> Iterator[str]:
    """Whether the figure of each system changed, those that did first: since an earlier run, else over all runs."""
    for name, one in sorted(since.items(), key=lambda item: item[1].outcome not in ("better", "worse")):
        day = next(point.created_at[:10] for point in trend.systems[name].points if point.run == one.a)
        yield change_sentence(name, one, f"on {day}", day)
    for name, series in trend.systems.items():
        if name not in since:
            yield f"{name}: {_over_all(trend.metric, series)}."


def change_sentence(system: str, one: Difference, than: str, since: str) -> str:
    """``default is better than on 2026-01-31: accurate went from 20 % to 90 % (+0.70, 95 % interval +0.48 to +0.92).``"""
    means = [of_metric(one.metric, a, beside=b) for a, b in ((one.mean_a, one.mean_b), (one.mean_b, one.mean_a))]
    if one.metric == "accurate":
        means = [percent(round(mean, 3)) for mean in (one.mean_a, one.mean_b) if mean is not None]
    before, now = means
    write = changes_of(one.metric)
    ends = interval(one.interval, write, "{} to {}")
    sure = "" if one.interval.low is None else f", {percent(one.interval.level)} interval {ends}"
    change = f"{one.metric} went from {before} to {now} ({write(one.delta or 0.0)}{sure})."
    if one.outcome in ("better", "worse"):
        return f"{system} is {one.outcome} than {than}: {change}"
    if not one.wins and not one.losses:
        return f"{system} is unchanged since {since}: {now} on the same {one.questions:,} questions."
    return f"{system}: no change since {since} is shown, {change}"


def _over_all(metric: str, series: Series) -> str:
    known = series.known
    if not known:
        return "no run has a value"
    scored = "" if known[-1] is series.points[-1] else " with a score"
    newest = f"{share(known[-1], metric)} in the newest run{scored}"
    if not series.changes:
        return f"{newest}, no change of level found over {len(known):,} {'run' if len(known) == 1 else 'runs'}"
    last = series.changes[-1]
    day = known[last.index].created_at[:10]
    return (
        f"{newest}; the level changed from {of_metric(metric, last.before)} to {of_metric(metric, last.after)} on {day}"
    )


def chart_of(trend: Trend, pages: str) -> Chart | None:
    """The figure of each system in time, with intervals; None if no run has a value."""
    series, steps = {}, []
    for name, one in trend.systems.items():
        series[name] = [
            Drawn(
                x=point.created_at,
                y=point.value or 0.0,
                text=f"{name}, {minute(point.created_at)}: {_figure(trend.metric, point)}",
                interval=point.interval,
                address=pages and f"{pages}/{point.run}",
            )
            for point in one.known
        ]
        for change in one.changes:
            before, after = (of_metric(trend.metric, level) for level in (change.before, change.after))
            text = f"{name}: from {before} to {after}"
            steps.append((one.known[change.index].created_at, text))
    note = "Vertical lines are intervals; a dashed line is where the level changed."
    return over_time(f"{trend.metric}, {trend.better} is better", trend.metric, series, steps=steps, note=note)


def _figure(metric: str, point: Point) -> Figure:
    if point.value is None:
        return Figure("", point.reason or "not known")
    unfinished = (("unfinished", "yes"),) if point.status == "incomplete" else ()
    value, ends = of_metric(metric, point.value), bounds(point.interval, metric)
    return Figure(value, ends, of_rows(point.n, point.unscored), notes=unfinished)


def _changed(metric: str, name: str, series: Series) -> Iterator[str]:
    """Where the level of the figure changed, and what was made otherwise from a run on."""
    for change in series.changes:
        before = of_metric(metric, change.before, beside=change.after)
        after = of_metric(metric, change.after, beside=change.before)
        at = minute(series.known[change.index].created_at)
        yield f"{name}: the level changed from {before} to {after} with the run of {at} (p={change.p:.3g})"
    for point in series.points:
        yield from (f"{name}, from {minute(point.created_at)} on: {what}" for what in point.changed)


def _runs(trend: Trend, pages: str, gates: Mapping[str, bool | None]) -> Table:
    """A row for each run, the newest first, with the figure of each system."""
    by_run: dict[str, dict[str, Point]] = {}
    for name, series in trend.systems.items():
        for point in series.points:
            by_run.setdefault(point.run, {})[name] = point
    last = "run" if not pages else "gates" if any(passed is not None for passed in gates.values()) else ""
    rows: list[tuple[Cell, ...]] = []
    newest = sorted(by_run.items(), key=lambda one: next(iter(one[1].values())).created_at, reverse=True)
    for run, points in newest:
        when = minute(next(iter(points.values())).created_at)
        figures = (_figure(trend.metric, points[name]) if name in points else "" for name in trend.systems)
        more: dict[str, Cell] = {"run": run, "gates": _GATES[gates.get(run)]}
        rows.append((Link(when, f"{pages}/{run}") if pages else when, *figures, *([more[last]] if last else [])))
    scored = {name: len(one.known) for name, one in trend.systems.items()}
    sparse = sorted((name for name in scored if 2 * scored[name] < len(rows)), key=scored.__getitem__)
    return Table("Runs", ("time", *trend.systems, *([last] if last else [])), tuple(rows), least=(*sparse, "run"))
