"""``/v1/comparisons``, ``/v1/trends`` and ``/v1/costs``: over the reports of finished jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field

from ragassay.analysis.costs import CostReport, cost_query
from ragassay.analysis.models import Comparison
from ragassay.analysis.trends import Trend
from ragassay.api.bodies import json_body
from ragassay.api.dependencies import FileForm, QueryParameters, Reads, answers
from ragassay.api.problems import takes
from ragassay.core.eval_config import Correction
from ragassay.core.models import FrozenModel
from ragassay.dashboard.site import analyse
from ragassay.reporting.comparison import EXPORTERS
from ragassay.reporting.costs import EXPORTERS as COST_EXPORTERS
from ragassay.reporting.files import FILES

router = APIRouter(prefix="/v1", tags=["analyses"])


class NewComparison(FrozenModel):
    """What is compared, and how: the options of ``ragassay compare``."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"example": {"jobs": ["b1946ac9", "591785b7#default"], "metrics": ["mrr"]}}
    )

    jobs: Annotated[
        tuple[str, ...],
        Field(min_length=1, max_length=20, description="finished jobs: JOB for all its systems, JOB#SYSTEM for one"),
    ]
    baseline: Annotated[
        str | None, Field(description="the system that the others are compared with; default: the first")
    ] = None
    metrics: Annotated[
        tuple[str, ...] | None, Field(min_length=1, max_length=200, description="default: all that every system has")
    ] = None
    alpha: Annotated[
        float | None,
        Field(gt=0, lt=1, description="chance of a false finding that is accepted; default: the baseline's"),
    ] = None
    correction: Annotated[
        Correction | None, Field(description="of p for the number of tests; default: the baseline's")
    ] = None
    examples: Annotated[int, Field(ge=0, le=100, description="rows listed for each metric")] = 3


class _TrendQuery(QueryParameters):
    metric: Annotated[
        str,
        Field(
            max_length=200,
            description="a metric, cost_per_accurate_answer, suspicious, refusal_recall, or such as latency_ms.p95",
        ),
    ]
    system: Annotated[str | None, Field(max_length=200, description="only this system")] = None
    dataset: Annotated[
        str | None, Field(max_length=200, description="jobs on this dataset; default: that of the newest job")
    ] = None
    judge: Annotated[
        str | None, Field(max_length=200, description="jobs with this judge; default: that of the newest job")
    ] = None
    last: Annotated[int, Field(ge=1, le=200, description="only the newest jobs")] = 50
    alpha: Annotated[float, Field(gt=0, lt=0.5, description="chance that a level series shows a step")] = 0.05
    seed: Annotated[int, Field(ge=0, lt=2**32, description="of the permutation test")] = 0


@router.post(
    "/comparisons",
    response_class=Response,
    responses=answers(Comparison, *(form for form in FILES if form in EXPORTERS)),
    openapi_extra=takes(NewComparison),
)
async def compare_jobs(
    jobs: Reads,
    request: Request,
    new: Annotated[NewComparison, json_body(NewComparison)],
    query: Annotated[FileForm, Query()],
) -> Response:
    """The document that ``ragassay compare --json`` prints: deltas with intervals and corrected p, and a verdict.

    As JSON, or as a file: a page, a PDF, a workbook and so on; csv has the differences, summary.csv the systems.
    """
    options = new.model_dump(exclude={"jobs"})
    return await analyse(
        request, lambda: query.respond(EXPORTERS, jobs.reports.compare(new.jobs, **options), "comparison")
    )


@router.get("/trends")
async def get_trend(jobs: Reads, request: Request, query: Annotated[_TrendQuery, Query()]) -> Trend:
    """The document that ``ragassay trend --json`` prints: a figure over finished jobs of one dataset and judge."""
    return await analyse(request, lambda: jobs.reports.trend(**query.model_dump()))


_Name = Annotated[str, Field(max_length=200)]


class _CostsQuery(FileForm):
    since: Annotated[str | None, Field(max_length=40, description="only jobs from that day or time on")] = None
    until: Annotated[
        str | None, Field(max_length=40, description="only jobs until that time, or the end of that day")
    ] = None
    zone: Annotated[str, Field(max_length=60, description="time zone of days, such as Europe/Berlin")] = "UTC"
    system: Annotated[tuple[_Name, ...], Field(max_length=50, description="only this system; repeatable")] = ()
    dataset: Annotated[
        tuple[_Name, ...], Field(max_length=50, description="only jobs on this dataset; repeatable")
    ] = ()
    by: Annotated[
        str | None,
        Field(
            max_length=100,
            description="groups: of system, dataset, category, model, day, month and judge; default: dataset,system",
        ),
    ] = None


@router.get("/costs", response_class=Response, responses=answers(CostReport, "csv", "html", "md", "pdf"))
async def get_costs(jobs: Reads, request: Request, query: Annotated[_CostsQuery, Query()]) -> Response:
    """The document that ``ragassay cost --json`` prints, over the newest 2,000 reports that are asked for."""
    terms = query.model_dump(exclude={"format", "fields"})
    return await analyse(
        request, lambda: query.respond(COST_EXPORTERS, jobs.reports.costs(cost_query(**terms)), "costs")
    )
