"""``/v1/schedules``: jobs that are run at planned times."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field, ValidationError

from ragassay.access import Requester
from ragassay.api import scheduled_jobs
from ragassay.api.bodies import check_json, read_as
from ragassay.api.jobs import Body, QueryParameters
from ragassay.api.problems import documented
from ragassay.api.security import requires
from ragassay.api.submission import asked
from ragassay.cron import Cron
from ragassay.errors import BadData
from ragassay.jobs import MOST_ROWS_A_PAGE
from ragassay.schedule_documents import (
    NAME,
    JobSchedule,
    NewSchedule,
    RunPage,
    ScheduleChange,
    ScheduledRun,
    SchedulePage,
)
from ragassay.schedules import Schedules
from ragassay.store.redis_datasets import RedisDatasets
from ragassay.validation import problems

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], dependencies=[Depends(requires("read"))])
MayRead = Annotated[Requester, Depends(requires("read"))]
MaySubmit = Annotated[Requester, Depends(requires("submit"))]
Name = Annotated[
    str, Path(pattern=f"^{NAME}$", max_length=100, description="The schedule's name.", examples=["nightly"])
]
_OF_A_SCHEDULE = documented(401, 403, 404, 409, 421, 422, 500, 503)


def _schedules(request: Request, asking: Requester) -> Schedules:
    schedules: Schedules = request.app.state.schedules
    return schedules.of(asking.project)


class _PartQuery(QueryParameters):
    """Which part of a list."""

    cursor: Annotated[str | None, Field(max_length=100, description="'next' of the page before")] = None
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS_A_PAGE, description="most entries of a page")] = 50


def _body(schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"requestBody": {"required": True, "content": content}}


_CREATE: dict[str, Any] = {
    "status_code": 201,
    "responses": {
        201: {"headers": {"Location": {"description": "Where the schedule is", "schema": {"type": "string"}}}},
        **documented(400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 500, 503),
    },
    "openapi_extra": _body("NewSchedule"),
}


@router.post("", operation_id="createSchedule", summary="Plan a job", **_CREATE)
async def create(request: Request, response: Response, body: Body, asking: MaySubmit) -> JobSchedule:
    """Keep a schedule, whose first run is at the next time of its cron expression.

    Its job is checked as a job is that is submitted, but for files of the data folder, which are read at every run.
    """
    new = read_as(NewSchedule, check_json(body))
    schedules = _schedules(request, asking)
    await _check(request, schedules, new)
    made = await to_thread.run_sync(schedules.create, new)
    response.headers["Location"] = f"/v1/schedules/{made.name}"
    return made


@router.get(
    "", operation_id="listSchedules", summary="List schedules", responses=documented(401, 403, 421, 422, 500, 503)
)
def list_schedules(request: Request, asking: MayRead, query: Annotated[_PartQuery, Query()]) -> SchedulePage:
    """Schedules by name, each with its next times and its newest run."""
    return _schedules(request, asking).page(cursor=query.cursor, limit=query.limit)


@router.get("/{schedule}", operation_id="getSchedule", summary="Look at a schedule", responses=_OF_A_SCHEDULE)
def get(request: Request, asking: MayRead, schedule: Name) -> JobSchedule:
    """The schedule with its next five times, none while it is paused, and its newest run."""
    return _schedules(request, asking).get(schedule)


@router.get("/{schedule}/runs", operation_id="listScheduledRuns", summary="Read its history", responses=_OF_A_SCHEDULE)
def runs(request: Request, asking: MayRead, schedule: Name, query: Annotated[_PartQuery, Query()]) -> RunPage:
    """What became of each time, the newest first: its job with status and gates, or why there is none. 400 are kept."""
    return _schedules(request, asking).runs(schedule, cursor=query.cursor, limit=query.limit)


_CHANGE: dict[str, Any] = {
    "responses": documented(400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 500, 503),
    "openapi_extra": _body("ScheduleChange"),
}


@router.patch("/{schedule}", operation_id="changeSchedule", summary="Change a schedule", **_CHANGE)
async def change(request: Request, asking: MaySubmit, schedule: Name, body: Body) -> JobSchedule:
    """Change what is given, from the next run on; ``{"paused": true}`` pauses it. Times while it is paused are not missed."""
    given = read_as(ScheduleChange, check_json(body))
    schedules = _schedules(request, asking)
    try:
        new = await to_thread.run_sync(schedules.changed, schedule, given)
    except ValidationError as error:
        raise BadData([str(problem) for problem in problems(error, NewSchedule)]) from None
    if given.model_fields_set - {"paused"}:
        await _check(request, schedules, new)
    return await to_thread.run_sync(schedules.change, schedule, new)


@router.delete("/{schedule}", operation_id="deleteSchedule", summary="Delete a schedule", responses=_OF_A_SCHEDULE)
def delete(request: Request, asking: MaySubmit, schedule: Name) -> JobSchedule:
    """Forget a schedule and its history. Its jobs stay, and one that is under way goes on."""
    return _schedules(request, asking).delete(schedule)


@router.post(
    "/{schedule}/run",
    status_code=202,
    operation_id="runSchedule",
    summary="Run it now",
    responses=_OF_A_SCHEDULE,
)
def run(request: Request, asking: MaySubmit, schedule: Name) -> ScheduledRun:
    """Have a worker make a run now, beside those that are planned, also while it is paused; the history has its job."""
    return _schedules(request, asking).run(schedule)


async def _check(request: Request, schedules: Schedules, new: NewSchedule) -> None:
    """Raise what is wrong with a schedule; one after the other with what is submitted, as its rows are read."""
    Cron(new.cron, new.zone)
    app = request.app.state
    await to_thread.run_sync(_check_job, app, schedules, new, limiter=app.submissions)


def _check_job(app: Any, schedules: Schedules, new: NewSchedule) -> None:
    registered, datasets = schedules.jobs.registered, RedisDatasets(schedules.jobs.store)
    job, files, *_ = scheduled_jobs.checked(new.job, app.settings)
    if files.any:  # which may come later, and are the workers' to read
        asked(job, files.responses, registered, 0)
    else:
        schedules.check(new, lambda template: scheduled_jobs.read(template, app.settings, registered, datasets))
