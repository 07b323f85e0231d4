"""``/v1/schedules``: jobs that are run at planned times."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from ragassay.api import scheduled_jobs
from ragassay.api.bodies import check_json, read_as
from ragassay.api.jobs import Body, Page
from ragassay.api.problems import takes
from ragassay.api.security import by_method
from ragassay.api.submission import asked
from ragassay.config.schedules import (
    NAME,
    JobSchedule,
    NewSchedule,
    RunPage,
    ScheduleChange,
    ScheduledRun,
    SchedulePage,
)
from ragassay.service.access import Requester
from ragassay.service.cron import Cron
from ragassay.service.schedules import Schedules

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])
Name = Annotated[
    str, Path(pattern=f"^{NAME}$", max_length=100, description="The schedule's name.", examples=["nightly"])
]


async def _schedules(request: Request, asking: Annotated[Requester, Depends(by_method)]) -> Schedules:
    schedules: Schedules = request.app.state.schedules
    return schedules.of(asking.project)


OwnSchedules = Annotated[Schedules, Depends(_schedules)]


_CREATE: dict[str, Any] = {
    "status_code": 201,
    "responses": {
        201: {"headers": {"Location": {"description": "Where the schedule is", "schema": {"type": "string"}}}},
    },
    "openapi_extra": takes("NewSchedule"),
}


@router.post("", operation_id="createSchedule", summary="Plan a job", **_CREATE)
async def create(request: Request, response: Response, schedules: OwnSchedules, body: Body) -> JobSchedule:
    """Keep a schedule, whose first run is at the next time of its cron expression.

    Its job is checked as a job is that is submitted, but for files of the data folder, which are read at every run.
    """
    new = await to_thread.run_sync(lambda: read_as(NewSchedule, check_json(body)))
    await _check(request, schedules, new)
    made = await to_thread.run_sync(schedules.create, new)
    response.headers["Location"] = f"/v1/schedules/{made.name}"
    return made


@router.get("", operation_id="listSchedules", summary="List schedules")
def list_schedules(schedules: OwnSchedules, query: Annotated[Page, Query()]) -> SchedulePage:
    """Schedules by name, each with its next times and its newest run."""
    return schedules.page(cursor=query.cursor, limit=query.limit)


@router.get("/{schedule}", operation_id="getSchedule", summary="Look at a schedule")
def get(schedules: OwnSchedules, schedule: Name) -> JobSchedule:
    """The schedule with its next five times, none while it is paused, and its newest run."""
    return schedules.get(schedule)


@router.get("/{schedule}/runs", operation_id="listScheduledRuns", summary="Read its history")
def runs(schedules: OwnSchedules, schedule: Name, query: Annotated[Page, Query()]) -> RunPage:
    """What became of each time, the newest first: its job with status and gates, or why there is none. 400 are kept."""
    return schedules.runs(schedule, cursor=query.cursor, limit=query.limit)


@router.patch(
    "/{schedule}", operation_id="changeSchedule", summary="Change a schedule", openapi_extra=takes("ScheduleChange")
)
async def change(request: Request, schedules: OwnSchedules, schedule: Name, body: Body) -> JobSchedule:
    """Change what is given, from the next run on; ``{"paused": true}`` pauses it. Times while it is paused are not missed."""
    given = await to_thread.run_sync(lambda: read_as(ScheduleChange, check_json(body)))
    known, new = await to_thread.run_sync(schedules.changed, schedule, given)
    if given.model_fields_set - {"paused"}:
        await _check(request, schedules, new)
    return await to_thread.run_sync(schedules.change, known, new)


@router.delete("/{schedule}", operation_id="deleteSchedule", summary="Delete a schedule")
def delete(schedules: OwnSchedules, schedule: Name) -> JobSchedule:
    """Forget a schedule and its history. Its jobs stay, and one that is under way goes on."""
    return schedules.delete(schedule)


@router.post(
    "/{schedule}/run",
    status_code=202,
    operation_id="runSchedule",
    summary="Run it now",
)
def run(schedules: OwnSchedules, schedule: Name) -> ScheduledRun:
    """Have a worker make a run now, beside those that are planned, also while it is paused; the history has its job."""
    return schedules.run(schedule)


async def _check(request: Request, schedules: Schedules, new: NewSchedule) -> None:
    """Raise what is wrong with a schedule; one after the other with what is submitted, as its rows are read."""
    Cron(new.cron, new.zone)
    app = request.app.state
    await to_thread.run_sync(_check_job, app, schedules, new, limiter=app.submissions)


def _check_job(app: Any, schedules: Schedules, new: NewSchedule) -> None:
    job, files, *_ = scheduled_jobs.checked(new.job, app.settings)
    if files.any:  # which may come later, and are the workers' to read
        asked(job, files.responses, schedules.jobs.registered, 0)
    else:
        schedules.check(new, partial(scheduled_jobs.read, settings=app.settings, jobs=schedules.jobs))
