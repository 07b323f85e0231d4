"""What accurate answers cost, and metrics over runs."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from fastapi import Query, Request, Response

from ragassay.analysis.costs import DIMENSIONS, asked
from ragassay.analysis.figures import PER_ACCURATE
from ragassay.core.errors import NothingToEvaluate
from ragassay.dashboard.changes import since_last_week
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import pages, shown
from ragassay.reporting.costs import of_costs
from ragassay.reporting.listing import RunSummary
from ragassay.reporting.trends import of_trend

MOST_POINTS, POINTS = 365, 30
RECENT = 500  # runs whose names can be chosen
FIGURES = (PER_ACCURATE, "cost_usd.mean", "latency_ms.p50", "latency_ms.p95")
OptionText = Annotated[str, Query(max_length=300)]
Names = Annotated[list[str] | None, Query(max_length=20)]
router = pages()


@router.get("/ui/cost")
def _cost(
    request: Request,
    since: OptionText = "",
    until: OptionText = "",
    by: OptionText = "dataset,system",
    system: Names = None,
    dataset: Names = None,
) -> Response:
    library: Library = request.state.library
    systems, datasets = _filled(system), _filled(dataset)
    form = {"since": since[:10], "until": until[:10], "by": by, "system": systems[:1], "dataset": datasets[:1]}
    listed = list(islice(library.runs(), RECENT))
    choices: dict[str, Any] = {
        "systems": _systems(listed),
        "datasets": _values(listed, "dataset"),
        "dimensions": DIMENSIONS,
    }
    try:
        report = library.costs(asked(since=since or None, until=until or None, by=by, system=systems, dataset=datasets))
    except NothingToEvaluate as error:
        return shown(request, "cost.html", form=form, document=None, what=error.message, **choices)
    return shown(request, "cost.html", form=form, document=of_costs(report), **choices)


def _filled(names: list[str] | None) -> list[str]:
    return [name for name in names or () if name.strip()]


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
    listed = list(islice(library.runs(), RECENT))
    newest = next((run for run in listed if run.headline), None)
    if newest is None:
        return shown(request, "trends.html", document=None)
    known = [*library.report(newest.id).provenance.metrics, *FIGURES]
    metric = metric or ("accurate" if "accurate" in known else known[0])
    trend = library.trend(metric, system=system or None, dataset=dataset or None, judge=judge or None, last=last)
    since = since_last_week(library, trend)
    passed = {point.run: library.passed(point.run) for series in trend.systems.values() for point in series.points}
    return shown(
        request,
        "trends.html",
        document=of_trend(trend, since, "/ui/runs", passed),
        since={name: [f"{one.a}#{name}", f"{one.b}#{name}"] for name, one in since.items()},
        form={"metric": metric, "system": system, "dataset": dataset, "judge": judge, "last": last},
        metrics=list(dict.fromkeys([*known, metric])),
        systems=_systems(listed),
        datasets=_values(listed, "dataset"),
        judges=_values(listed, "judge"),
    )


def _systems(runs: list[RunSummary]) -> list[str]:
    return sorted({name for run in runs for name in run.systems})


def _values(runs: list[RunSummary], field: str) -> list[str]:
    return sorted({value for run in runs if (value := getattr(run, field))})
