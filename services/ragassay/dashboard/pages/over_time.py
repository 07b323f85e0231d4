"""What accurate answers cost, and metrics over runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

from fastapi import Query, Request, Response

from ragassay.analysis import trends
from ragassay.analysis.costs import DIMENSIONS, cost_query, cost_report
from ragassay.analysis.figures import PER_ACCURATE
from ragassay.core.errors import NothingToEvaluate
from ragassay.dashboard.changes import marginal_costs, since_last_week
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import Field, address_of, analysis, pages, shown_document
from ragassay.reporting.costs import of_costs
from ragassay.reporting.document import Document
from ragassay.reporting.listing import RunSummary
from ragassay.reporting.trends import of_trend

MAX_POINTS, POINTS = 365, 30
RECENT = 500  # runs whose names can be chosen
FIGURES = (PER_ACCURATE, "cost_usd.mean", "latency_ms.p50", "latency_ms.p95")
OptionText = Annotated[str, Query(max_length=300)]
Names = Annotated[list[str] | None, Query(max_length=20)]
router = pages()


def _names(runs: Sequence[RunSummary], **chosen: str) -> Iterator[Field]:
    """Fields to choose a system, dataset or judge by its name in the runs, if it is named here."""
    names = {
        "system": ({name for run in runs for name in run.systems}, "all"),
        "dataset": ({run.dataset for run in runs}, "newest run's" if "judge" in chosen else "all"),
        "judge": ({run.judge for run in runs}, "newest run's"),
    }
    for name, value in chosen.items():
        options, none = names[name]
        yield Field(name.capitalize(), name, value, options=sorted(options - {""}), none=none)


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
    document, listed = Document("What an accurate answer costs"), list(islice(library.runs(), RECENT))
    commands = tuple[str, ...]()
    try:
        query = cost_query(since=since or None, until=until or None, by=by, system=systems, dataset=datasets)
        document = of_costs(cost_report(library.newest(), query), marginal_costs(library, listed, query))
    except NothingToEvaluate as error:
        bring = "Costs are those that responses bring (cost_usd, or tokens and a model with a price), and of judging:"
        commands = f"{error.message}. {bring}", "ragassay evaluate answers.jsonl"
    groupings = dict.fromkeys((by, "dataset,system", "system,category", "system,month", *DIMENSIONS))
    fields = [Field("From", "since", since[:10], "date"), Field("Until", "until", until[:10], "date")]
    fields += _names(listed, system="".join(systems[:1]), dataset="".join(datasets[:1]))
    fields.append(Field("By", "by", by, options=list(groupings)))
    return shown_document(request, document, fields=fields, commands=commands)


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
        none = "There is no finished run yet. Two runs on the same data make a trend:"
        return shown_document(request, Document("Trends"), commands=(none, "ragassay evaluate answers.jsonl"))
    known = [*library.report(newest.id).provenance.metrics, *FIGURES]
    metric = metric or ("accurate" if "accurate" in known else known[0])
    trend = trends.trend(
        library.newest(), metric, system=system or None, dataset=dataset or None, judge=judge or None, last=last
    )
    since = since_last_week(library, trend)
    passed = {point.run: library.open(point.run).passed for one in trend.systems.values() for point in one.points}
    compared = {name: address_of({"run": [f"{one.a}#{name}", f"{one.b}#{name}"]}) for name, one in since.items()}
    return shown_document(
        request,
        of_trend(trend, since, "/ui/runs", passed),
        links={f"What changed in {name}": f"/ui/compare?{asked}" for name, asked in compared.items()},
        fields=[
            Field("Metric", "metric", metric, options=list(dict.fromkeys([*known, metric]))),
            *_names(listed, system=system, dataset=dataset, judge=judge),
            Field("Newest", "last", last, "number"),
        ],
    )
