"""What accurate answers cost, and metrics over runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any

from fastapi import Query, Request, Response

from ragassay.analysis import trends
from ragassay.analysis.costs import DIMENSIONS, cost_query, cost_report
from ragassay.analysis.figures import PER_ACCURATE
from ragassay.core.errors import NothingToEvaluate
from ragassay.dashboard.changes import marginal_costs, since_last_week
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import analysis, pages, shown
from ragassay.reporting.costs import of_costs
from ragassay.reporting.listing import RunSummary
from ragassay.reporting.trends import of_trend

MAX_POINTS, POINTS = 365, 30
RECENT = 500  # runs whose names can be chosen
FIGURES = (PER_ACCURATE, "cost_usd.mean", "latency_ms.p50", "latency_ms.p95")
OptionText = Annotated[str, Query(max_length=300)]
Names = Annotated[list[str] | None, Query(max_length=20)]
router = pages()


def _choices(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """What the forms offer: the names in runs."""
    names = {
        "systems": {name for run in runs for name in run.systems},
        "datasets": {run.dataset for run in runs},
        "judges": {run.judge for run in runs},
    }
    return {field: sorted(values - {""}) for field, values in names.items()}


@router.get("/ui/cost")
@analysis
def _cost(
    request: Request,
    since: OptionText = "",
    until: OptionText = "",
    by: OptionText = "dataset,system",
    system: Names = None,
    dataset: Names = None,
) -> Response:
    library: Library = request.state.library
    systems, datasets = ([name for name in names or () if name.strip()] for names in (system, dataset))
    form = {"since": since[:10], "until": until[:10], "by": by, "system": systems[:1], "dataset": datasets[:1]}
    document, what, listed = None, "", list(islice(library.runs(), RECENT))
    try:
        query = cost_query(since=since or None, until=until or None, by=by, system=systems, dataset=datasets)
        document = of_costs(cost_report(library.newest(), query), marginal_costs(library, listed, query))
    except NothingToEvaluate as error:
        what = error.message
    choices = _choices(listed) | {"dimensions": DIMENSIONS}
    return shown(request, "cost.html", form=form, document=document, what=what, **choices)


@router.get("/ui/trends")
@analysis
def _trends(
    request: Request,
    metric: OptionText = "",
    system: OptionText = "",
    dataset: OptionText = "",
    judge: OptionText = "",
    last: Annotated[int, Query(ge=1, le=MAX_POINTS)] = POINTS,
) -> Response:
    library: Library = request.state.library
    listed = list(islice(library.runs(), RECENT))
    newest = next((run for run in listed if run.headline), None)
    if newest is None:
        return shown(request, "trends.html", document=None)
    known = [*library.report(newest.id).provenance.metrics, *FIGURES]
    metric = metric or ("accurate" if "accurate" in known else known[0])
    trend = trends.trend(
        library.newest(), metric, system=system or None, dataset=dataset or None, judge=judge or None, last=last
    )
    since = since_last_week(library, trend)
    passed = {point.run: library.open(point.run).passed for series in trend.systems.values() for point in series.points}
    return shown(
        request,
        "trends.html",
        document=of_trend(trend, since, "/ui/runs", passed),
        since={name: [f"{one.a}#{name}", f"{one.b}#{name}"] for name, one in since.items()},
        form={"metric": metric, "system": system, "dataset": dataset, "judge": judge, "last": last},
        metrics=list(dict.fromkeys([*known, metric])),
        **_choices(listed),
    )
