"""What accurate answers cost, and metrics over runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Any

from fastapi import Query, Request, Response

from ragassay.analysis.costs import DIMENSIONS, CostGroup, CostReport, asked
from ragassay.analysis.figures import PER_ACCURATE
from ragassay.analysis.trends import Point, Trend
from ragassay.core.errors import NothingToEvaluate
from ragassay.core.formatting import interval, number, percent
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import pages, shown
from ragassay.reporting import costs
from ragassay.reporting.charts import Chart, Drawn, bars, over_time
from ragassay.reporting.listing import RunSummary
from ragassay.reporting.tables import Table

MOST_POINTS, POINTS = 365, 30
A_WEEK = timedelta(days=7)
FIGURES = (PER_ACCURATE, "cost_usd.mean", "latency_ms.p50", "latency_ms.p95")
OptionText = Annotated[str, Query(max_length=300)]
Names = Annotated[list[str] | None, Query(max_length=20)]
router = pages()


@router.get("/ui/cost")
def _cost(
    request: Request,
    since: OptionText = "",
    until: OptionText = "",
    zone: OptionText = "UTC",
    by: OptionText = "dataset,system",
    system: Names = None,
    dataset: Names = None,
) -> Response:
    library: Library = request.state.library
    given: dict[str, Any] = {
        "since": since or None,
        "until": until or None,
        "zone": zone or "UTC",
        "system": _filled(system),
        "dataset": _filled(dataset),
    }
    form = {"since": since, "until": until, "zone": zone, "by": by, "dimensions": DIMENSIONS}
    form |= {"system": system or [""], "dataset": dataset or [""]}
    try:
        report = library.costs(asked(**given, by=by))
        days, systems = (library.costs(asked(**given, by=by)) for by in ("day,system", "system"))
    except NothingToEvaluate as error:
        return shown(request, "cost.html", form=form, report=None, what=error.message)
    return shown(
        request,
        "cost.html",
        form=form,
        report=report,
        headlines=_headlines(report, systems),
        money=_money(report),
        chart=_by_day(days),
        document=costs.of_costs(report),
    )


def _filled(names: list[str] | None) -> list[str] | None:
    return [name for name in names or () if name.strip()] or None


def _headlines(report: CostReport, by_system: CostReport) -> list[str]:
    """What an accurate answer of each system costs, of all where none is named."""
    groups = [(group.key.get("system"), group) for group in by_system.groups] or [(None, report.total)]
    return [_headline(f" of {name}" if name else "", group) for name, group in groups]


def _headline(of: str, group: CostGroup) -> str:
    cost = group.cost_per_accurate_answer
    if cost.value is None:
        return f"What an accurate answer{of} costs is not known: {cost.reason}."
    ends = "" if cost.interval.low is None else f" ({percent(cost.interval.level)}: {interval(cost.interval)})"
    known = f"{cost.accurate:,} accurate answers of {cost.n:,}"
    return f"An accurate answer{of} cost {number(cost.value)} USD{ends}: {known}."


def _money(report: CostReport) -> Chart | None:
    """Where the money went."""
    spent = {"serving": report.total.serving, "judging": report.total.judging, "waste": report.total.waste}
    values = {
        name: Drawn(
            x=name,
            y=money.cost_usd,
            text=f"{number(money.cost_usd)} USD" + (f" + {money.unknown:,} rows unknown" if money.unknown else ""),
        )
        for name, money in spent.items()
    }
    note = "Serving is what the systems spent, judging what grading them took; waste was paid for replies of no use."
    return bars("Where the money went", "USD", values, note=note) if any(one.y for one in values.values()) else None


def _by_day(report: CostReport) -> Chart | None:
    series: dict[str, list[Drawn]] = {}
    for group in sorted(report.groups, key=lambda group: group.key.get("day") or ""):
        cost = group.cost_per_accurate_answer
        if cost.value is not None and (day := group.key.get("day")):
            name = group.key.get("system") or costs.NONE
            text = f"{name}, {day}: {number(cost.value)} USD, {interval(cost.interval)}"
            value = Drawn(x=day, y=cost.value, text=text, interval=cost.interval)
            series.setdefault(name, []).append(value)
    return over_time("Cost of an accurate answer, by day", "USD", series, note="Bars are 95% intervals.")


@router.get("/ui/trends")
def _trends(
    request: Request,
    metric: OptionText = "",
    system: OptionText = "",
    dataset: OptionText = "",
    judge: OptionText = "",
    last: Annotated[int, Query(ge=1, le=MOST_POINTS)] = POINTS,
) -> Response:
    library: Library = request.state.library
    newest = next((run for run in library.runs() if run.headline), None)
    if newest is None:
        return shown(request, "trends.html", trend=None)
    known = [*library.report(newest.id).provenance.metrics, *FIGURES]
    metric = metric or ("accurate" if "accurate" in known else known[0])
    trend = library.trend(metric, system=system or None, dataset=dataset or None, judge=judge or None, last=last)
    listed = list(islice(library.runs(), 500))
    return shown(
        request,
        "trends.html",
        trend=trend,
        form={"metric": metric, "system": system, "dataset": dataset, "judge": judge, "last": last},
        metrics=list(dict.fromkeys([*known, metric])),
        datasets=_values(listed, "dataset"),
        judges=_values(listed, "judge"),
        systems=sorted({name for run in listed for name in run.systems}),
        chart=_trend_chart(trend),
        changes=list(_changes(trend)),
        points=_points(library, trend),
        ends=_first_and_newest(trend),
    )


def _values(runs: list[RunSummary], field: str) -> list[str]:
    return sorted({value for run in runs if (value := getattr(run, field))})


def _trend_chart(trend: Trend) -> Chart | None:
    series, steps = {}, []
    for name, one in trend.systems.items():
        series[name] = [
            Drawn(
                x=point.created_at,
                y=point.value or 0.0,
                text=f"{name}, {point.created_at[:16].replace('T', ' ')}: {_said(point)}",
                interval=point.interval,
                address=f"/ui/runs/{point.run}",
            )
            for point in one.known
        ]
        steps += [
            (one.known[change.index].created_at, f"{name}: from {number(change.before)} to {number(change.after)}")
            for change in one.changes
        ]
    title = f"{trend.metric} on {trend.dataset}"
    note = "Bars are intervals; a dashed line is where the level changed. A point opens its run."
    return over_time(title, f"{trend.metric}, {trend.better} is better", series, steps=steps, note=note)


def _said(point: Point) -> str:
    if point.value is None:
        return point.reason or "not known"
    ends = "" if point.interval is None or point.interval.low is None else f", {interval(point.interval)}"
    return f"{number(point.value)}{ends}, n={point.n:,} of {point.rows:,}"


def _changes(trend: Trend) -> Iterator[str]:
    """What changed, in words: levels of the metric, and how the runs were made."""
    for name, one in trend.systems.items():
        for change in one.changes:
            at = one.known[change.index]
            yield (
                f"{name}: the level changed from {number(change.before)} to {number(change.after)} "
                f"with the run of {at.created_at[:16].replace('T', ' ')} (p={change.p:.3g})"
            )
        if not one.changes:
            runs = "1 run" if len(one.known) == 1 else f"{len(one.known)} runs"
            yield f"{name}: no change of level found over {runs}"
        for point in one.points:
            for what in point.changed:
                yield f"{name}, from {point.created_at[:16].replace('T', ' ')} on: {what}"


_GATES = {True: "passed", False: "missed", None: ""}


def _points(library: Library, trend: Trend) -> Table:
    """Each run, newest first."""
    points = ((point.created_at, name, point) for name, one in trend.systems.items() for point in one.points)
    return Table(
        "Runs",
        ("run", "time", "system", trend.metric, "gates"),
        tuple(
            (point.run, at[:16].replace("T", " "), name, _said(point), _GATES[library.passed(point.run)])
            for at, name, point in sorted(points, key=lambda one: one[:2], reverse=True)
        ),
    )


def _first_and_newest(trend: Trend) -> dict[str, list[str]]:
    """For each system with two runs or more, what a comparison of its newest run with one a week before, or the first, names."""
    ends = {}
    for name, one in trend.systems.items():
        *before, newest = sorted(one.points, key=lambda point: point.created_at)
        until = datetime.fromisoformat(newest.created_at) - A_WEEK
        if before:
            older = [point for point in before if datetime.fromisoformat(point.created_at) <= until]
            ends[name] = [f"{point.run}#{name}" for point in ((older or before[:1])[-1], newest)]
    return ends
