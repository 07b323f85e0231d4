"""``/v1/jobs``: submit, look at, read and cancel evaluations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable
from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field
from redis.exceptions import RedisError

from ragassay.analysis.gates import GateReport
from ragassay.api import submission
from ragassay.api.bodies import read_json
from ragassay.api.dependencies import LOCATED, FileForm, JobId, Page, QueryParameters, Reads, Submits, answers
from ragassay.api.problems import takes
from ragassay.core.errors import NotFound
from ragassay.core.eval_config import Budget
from ragassay.core.jobs import ENDED, Job, JobPage, JobStatus, ResultPage
from ragassay.core.report import ReportWithResults
from ragassay.dashboard.site import analyse
from ragassay.evaluation.labelling import labels_of, report_of
from ragassay.reporting.files import EXPORTERS, FILES, MEDIA_TYPES
from ragassay.reporting.gates import EXPORTERS as GATE_EXPORTERS
from ragassay.service.job_run import JobRun
from ragassay.storage.selection import Selection

POLL_S = 1  # between looks at a job that is followed; what Retry-After asks of those who poll
_log = logging.getLogger("ragassay.api")
router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
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


class _ResultsQuery(Page, Selection):
    """Which rows."""


class _JobQuery(Page):
    status: Annotated[JobStatus | None, Field(description="only jobs with this status")] = None


@router.post("", status_code=202, responses={202: LOCATED}, openapi_extra=takes(submission.JobRequest))
async def submit_job(
    jobs: Submits,
    request: Request,
    response: Response,
    body: Annotated[bytes, Depends(read_json)],
    idempotency_key: IdempotencyKey = None,
) -> Job:
    """Queue an evaluation of recorded responses and registered systems, and say where to follow it.

    ``Idempotent-Replayed: true`` says that an earlier request with the same key made the job.
    """

    def work() -> tuple[Job, bool]:
        parts = submission.read(body, request.app.state.settings, jobs.registered, jobs.store.datasets)
        return jobs.submit(*parts, idempotency_key=idempotency_key)

    job, new = await analyse(request, work)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    response.headers["Retry-After"] = str(POLL_S)
    if not new:
        response.headers["Idempotent-Replayed"] = "true"
    return job


@router.get("")
def list_jobs(jobs: Reads, query: Annotated[_JobQuery, Query()]) -> JobPage:
    """Jobs, newest first. With ``status``, a page may hold fewer than ``limit``, even none, and have a ``next``."""
    return jobs.page(cursor=query.cursor, limit=query.limit, status=query.status)


@router.get("/{job}")
def get_job(jobs: Reads, job: JobId, response: Response) -> Job:
    """The current state of a job: ``queued`` until a worker takes it; ``finished`` also when rows failed.

    ``Retry-After``: until the job has ended or paused, seconds to wait before the next request.
    """
    state = jobs.get(job)
    if state.status not in (*ENDED, "paused"):
        response.headers["Retry-After"] = str(POLL_S)
    return state


@router.get("/{job}/report", response_class=Response, responses=answers(ReportWithResults, *FILES))
async def get_report(jobs: Reads, request: Request, job: JobId, query: Annotated[FileForm, Query()]) -> Response:
    """The report of a finished job; of a paused or cancelled one, the report of the finished rows.

    As JSON, or as a file: a page, a PDF, a workbook, JUnit XML and so on; csv has the rows, summary.csv the figures.
    """
    run = JobRun(jobs.store, job)
    if query.format != "json" or query.fields is not None:
        return await analyse(request, lambda: query.respond(EXPORTERS, report_of(run), job))
    if await to_thread.run_sync(labels_of, run):  # they correct means, which takes seconds of a long run
        report = await analyse(request, lambda: report_of(run))
    else:
        report = await to_thread.run_sync(run.report_with_results)
    return StreamingResponse(report.json_parts(), media_type=MEDIA_TYPES["json"])


@router.get("/{job}/gates", response_class=Response, responses=answers(GateReport, "md", "xml"))
def get_gates(jobs: Reads, job: JobId, query: Annotated[FileForm, Query()]) -> Response:
    """The result of each gate of a finished job that was submitted with ``gates``, as JSON, JUnit XML or Markdown."""
    return query.respond(GATE_EXPORTERS, GateReport.model_validate_json(jobs.reports.gates(job)), f"{job}-gates")


@router.get("/{job}/results")
def list_results(jobs: Reads, job: JobId, query: Annotated[_ResultsQuery, Query()]) -> ResultPage:
    """The results of finished rows, also while the job runs: system by system in the dataset's order, or
    sorted by any figure; all or a selection. Keep the parameters from page to page.
    """
    selection = Selection(**query.model_dump(include=set(Selection.model_fields)))
    return jobs.results(job, cursor=query.cursor, limit=query.limit, selection=selection)


async def _followed(jobs: Reads, job: JobId) -> Job:
    return await to_thread.run_sync(jobs.get, job)


@router.get("/{job}/events", response_class=EventSourceResponse)
async def follow_job(jobs: Reads, job: Annotated[Job, Depends(_followed)]) -> AsyncIterable[ServerSentEvent]:
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


@router.post("/{job}/cancel")
def cancel_job(jobs: Submits, job: JobId) -> Job:
    """Stop a job: no new call is made for it. Its results so far stay; again for a cancelled job changes nothing."""
    return jobs.cancel(job)


@router.post("/{job}/retry", status_code=202)
def retry_job(jobs: Submits, job: JobId) -> Job:
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


@router.post("/{job}/resume")
def resume_job(jobs: Submits, job: JobId, query: Annotated[_ResumeQuery, Query()]) -> Job:
    """Go on with a job that paused because its budget was reached. A cap that is not given stays; one that is spent is refused."""
    caps = {"usd": query.budget_usd, "tokens": query.budget_tokens}
    limits = {name: cap for name, cap in caps.items() if cap != "none"}
    return jobs.resume(job, Budget(**limits), lifted=caps.keys() - limits.keys())
