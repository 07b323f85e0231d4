"""``/v1/jobs``: submit, look at, read and cancel evaluations."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterable
from importlib.metadata import version
from typing import Annotated, Any, Literal, get_origin

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, ConfigDict, Field, model_validator
from redis.exceptions import RedisError

from ragassay.analysis.gates import GateReport
from ragassay.api import submission
from ragassay.api.bodies import json_body
from ragassay.api.exports import FileForm, answers
from ragassay.api.problems import takes
from ragassay.api.security import Authorized, by_method
from ragassay.core.errors import BadData, NotFound, UnknownName
from ragassay.core.jobs import ENDED, Job, JobPage, JobStatus, ResultPage
from ragassay.core.report import JOB_ID
from ragassay.core.specification import Budget
from ragassay.evaluation.human_labels import report_of
from ragassay.reporting import EXPORTERS, MEDIA_TYPES
from ragassay.reporting.gates import markdown
from ragassay.reporting.junit import gated
from ragassay.service.job_run import JobRun
from ragassay.service.job_state import no_job
from ragassay.service.jobs import MOST_ROWS_A_PAGE, Jobs
from ragassay.service.notifications import MAX_ID
from ragassay.service.redis_datasets import RedisDatasets
from ragassay.storage.selection import Selection

POLL_S = 1.0  # between looks at a job that is followed
_log = logging.getLogger("ragassay.api")
router = APIRouter(prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(by_method)])


async def _jobs(request: Request, asking: Authorized) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs.of(asking.project)


Service = Annotated[Jobs, Depends(_jobs)]


async def _job_id(job: Annotated[str, Path(description="What POST /v1/jobs gave.")]) -> str:
    if not JOB_ID.fullmatch(job):
        raise no_job(job)
    return job


JobId = Annotated[str, Depends(_job_id)]
Body = Annotated[bytes, Depends(json_body)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[!-~]+$",
        description="Any text of your own. Within a day, the same key with the same body gives the same job.",
    ),
]


class QueryParameters(BaseModel):
    """Query parameters; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _only_known(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name in given:
            if name not in cls.model_fields:
                raise UnknownName("query parameter", name[:100], cls.model_fields)
        return given


async def each_once(request: Request) -> None:
    """A dependency: raises BadData for a query parameter that comes again and takes one value; else the last would win."""
    names = Counter(name for name, _ in request.query_params.multi_items())
    if len(names) == names.total():
        return
    models = [field.field_info.annotation for field in request.scope["route"].dependant.query_params]
    fields = {name: field for model in models for name, field in getattr(model, "model_fields", {}).items()}
    for name, count in names.items():
        if count > 1 and name in fields and get_origin(fields[name].annotation) not in (list, tuple):
            raise BadData([f"{name}: is there {count} times, and takes one value"])


class Page(QueryParameters):
    """Which part of a list."""

    cursor: Annotated[str | None, Field(max_length=MAX_ID, description="'next' of the page before")] = None
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS_A_PAGE, description="most entries of a page")] = 50


class _ResultsQuery(Page, Selection):
    """Which rows."""


class _JobQuery(Page):
    status: Annotated[JobStatus | None, Field(description="only jobs with this status")] = None


_SUBMIT: dict[str, Any] = {
    "responses": {
        202: {
            "headers": {
                "Location": {"description": "Where to follow the job", "schema": {"type": "string"}},
                "Retry-After": {"description": "Seconds until it is worth looking", "schema": {"type": "integer"}},
                "Idempotent-Replayed": {
                    "description": "'true' where an earlier request with the same key made the job",
                    "schema": {"type": "string", "enum": ["true"]},
                },
            }
        },
    },
    "openapi_extra": takes("NewJob"),
}


@router.post("", status_code=202, operation_id="submitJob", summary="Queue an evaluation", **_SUBMIT)
async def submit(
    jobs: Service, request: Request, response: Response, body: Body, idempotency_key: IdempotencyKey = None
) -> Job:
    """Queue an evaluation of recorded responses and registered systems, and say where to follow it."""

    def work() -> tuple[Job, bool]:
        asked = submission.read(body, request.app.state.settings, jobs.registered, RedisDatasets(jobs.store))
        return jobs.submit(*asked, idempotency_key=idempotency_key)

    job, new = await to_thread.run_sync(work, limiter=request.app.state.submissions)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    response.headers["Retry-After"] = "1"
    if not new:
        response.headers["Idempotent-Replayed"] = "true"
    return job


@router.get("", operation_id="listJobs", summary="List jobs")
def list_jobs(jobs: Service, query: Annotated[_JobQuery, Query()]) -> JobPage:
    """Jobs, newest first. With ``status``, a page may hold fewer than ``limit``, even none, and have a ``next``."""
    return jobs.page(cursor=query.cursor, limit=query.limit, status=query.status)


@router.get("/{job}", operation_id="getJob", summary="Look at a job")
def get(jobs: Service, job: JobId) -> Job:
    """The job as it stands: ``queued`` until a worker takes it; ``finished`` also when rows failed."""
    return jobs.get(job)


_REPORT: dict[int | str, dict[str, Any]] = {
    200: answers("ReportWithResults"),
    304: {"description": "You have it: If-None-Match names this report"},
}


class _ReportQuery(QueryParameters, FileForm):
    """In which form."""


@router.get(
    "/{job}/report",
    operation_id="getReport",
    summary="Read the report",
    response_class=Response,
    responses=_REPORT,
)
async def report(
    jobs: Service,
    request: Request,
    job: JobId,
    query: Annotated[_ReportQuery, Query()],
    if_none_match: Annotated[str | None, Header(alias="If-None-Match", description="An ETag you have.")] = None,
) -> Response:
    """The report of a finished job, which stays as it is until failed rows are tried again; of a paused or cancelled
    one, of the rows that are done.

    As JSON, or as a file: a page, a PDF, a workbook, JUnit XML and so on; csv has the rows, summary.csv the figures.
    """
    run = JobRun(jobs.store, job)
    document = await to_thread.run_sync(run.report_document)
    as_it_is = query.format == "json" and query.fields is None
    form = "" if as_it_is else f"{query.format} {query.fields} {version('ragassay')}"
    tag = f'"{hashlib.sha256(document + form.encode()).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if if_none_match and (tag in if_none_match or if_none_match.strip() == "*"):
        return Response(status_code=304, headers=headers)
    if as_it_is:
        read = await to_thread.run_sync(run.report_with_results)
        return StreamingResponse(read.json_parts(), media_type=MEDIA_TYPES["json"], headers=headers)

    def work() -> bytes:
        return query.written(EXPORTERS, report_of(run))

    answer = query.answer(await to_thread.run_sync(work, limiter=request.app.state.analyses), job)
    answer.headers.update(headers)
    return answer


_FORMS = {"json": "application/json", "junit": "application/xml", "markdown": "text/markdown"}
_GATES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/GateReport"}},
            **{kind: {"schema": {"type": "string"}} for kind in (_FORMS["junit"], _FORMS["markdown"])},
        }
    },
}


class _GatesQuery(QueryParameters):
    format: Annotated[Literal["json", "junit", "markdown"], Field(description="the form of the answer")] = "json"


@router.get(
    "/{job}/gates",
    operation_id="getGates",
    summary="Read the results of the gates",
    response_class=Response,
    responses=_GATES,
)
def gates(jobs: Service, job: JobId, query: Annotated[_GatesQuery, Query()]) -> Response:
    """The result of each gate of a finished job that was submitted with ``gates``."""
    document = jobs.reports.gates(job)
    if query.format != "json":
        results = GateReport.model_validate_json(document)
        document = markdown(results) if query.format == "markdown" else b"".join(gated(results))
    return Response(document, media_type=_FORMS[query.format])


@router.get(
    "/{job}/results",
    operation_id="listResults",
    summary="Read the results",
)
def results(jobs: Service, job: JobId, query: Annotated[_ResultsQuery, Query()]) -> ResultPage:
    """The rows' results as far as they are there, also while the job runs: system by system in the dataset's order, or
    sorted by any figure; all of them, or those that are asked for. A page is of one order: keep its parameters.
    """
    selection = Selection(**query.model_dump(include=set(Selection.model_fields)))
    return jobs.results(job, cursor=query.cursor, limit=query.limit, selection=selection)


async def _followed(jobs: Service, job: JobId) -> Job:
    return await to_thread.run_sync(jobs.get, job)


@router.get("/{job}/events", operation_id="followJob", summary="Follow a job", response_class=EventSourceResponse)
async def follow(jobs: Service, job: Annotated[Job, Depends(_followed)]) -> AsyncIterable[ServerSentEvent]:
    """Server-sent events: the job now, and again after each change, until it has ended.

    A comment every 15 seconds keeps the connection. To continue after a lost connection, connect again.
    """
    while True:
        yield ServerSentEvent(raw_data=job.model_dump_json())
        if job.status in ENDED:
            return
        known = job
        while job == known:
            await asyncio.sleep(POLL_S)
            try:
                job = await to_thread.run_sync(jobs.get, job.id)
            except NotFound:
                return
            except RedisError as error:
                _log.warning("job %s can't be followed now: %s", job.id, error)


_CANCEL: dict[str, Any] = {"summary": "Cancel a job"}


@router.delete("/{job}", operation_id="deleteJob", description="The same as ``cancel``.", **_CANCEL)
@router.post("/{job}/cancel", operation_id="cancelJob", **_CANCEL)
def cancel(jobs: Service, job: JobId) -> Job:
    """Stop a job: no new call is made for it. Its results so far stay; again for a cancelled job changes nothing."""
    return jobs.cancel(job)


@router.post(
    "/{job}/retry",
    status_code=202,
    operation_id="retryJob",
    summary="Try failed rows again",
)
def retry(jobs: Service, job: JobId) -> Job:
    """Evaluate the failed rows of a job that has ended again; the other rows keep their results, and cost nothing.

    Its budget still holds, and what was spent before is part of it. Until the new report is made, the one before is read;
    for a job that is at it, this changes nothing.
    """
    return jobs.retry(job)


class _ResumeQuery(QueryParameters):
    budget_usd: Annotated[
        Annotated[float, Field(gt=0, le=10**9)] | Literal["none"] | None,
        Field(description="most that judge calls may cost in all, in USD; `none`: no cap. Default: the job's own cap"),
    ] = None
    budget_tokens: Annotated[
        Annotated[int, Field(gt=0, le=10**15)] | Literal["none"] | None,
        Field(description="most tokens in all; `none`: no cap. Default: the job's own cap"),
    ] = None


@router.post(
    "/{job}/resume",
    operation_id="resumeJob",
    summary="Go on with a paused job",
)
def resume(jobs: Service, job: JobId, query: Annotated[_ResumeQuery, Query()]) -> Job:
    """Go on with a job that paused because its budget was reached. A cap that is not given stays."""
    caps = {"usd": query.budget_usd, "tokens": query.budget_tokens}
    given = {name: cap for name, cap in caps.items() if cap != "none"}
    return jobs.resume(job, Budget(**given), lifted=caps.keys() - given.keys())
