"""``/v1/schedules``: jobs that are run at planned times."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response

from ragassay.api.bodies import json_body
from ragassay.api.dependencies import LOCATED, Page, scoped
from ragassay.api.problems import Refused, takes
from ragassay.api.submission import read_scheduled
from ragassay.core.schedules import (
    NAME,
    JobSchedule,
    KeptSchedule,
    NewSchedule,
    RunPage,
    ScheduleChange,
    ScheduledRun,
    SchedulePage,
)
from ragassay.dashboard.site import analyse
from ragassay.service.access import Requester
from ragassay.service.cron import Cron
from ragassay.service.schedules import Schedules

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])
Name = Annotated[
    str, Path(pattern=f"^{NAME}$", max_length=100, description="The schedule's name.", examples=["nightly"])
]


def _schedules(request: Request, caller: Requester) -> Schedules:
    schedules: Schedules = request.app.state.schedules
    return schedules.of(caller.project)


Reads = Annotated[Schedules, scoped(_schedules, "read")]
Submits = Annotated[Schedules, scoped(_schedules, "submit")]


@router.post("", status_code=201, responses={201: LOCATED}, openapi_extra=takes(NewSchedule))
async def create_schedule(
    request: Request, response: Response, schedules: Submits, new: Annotated[NewSchedule, json_body(NewSchedule)]
) -> JobSchedule:
    """Keep a schedule, whose first run is at the next time of its cron expression. Its job is checked now and at every run."""
    await _check(request, schedules, new)
    schedule = await to_thread.run_sync(schedules.create, new)
    response.headers["Location"] = f"/v1/schedules/{schedule.name}"
    return schedule


@router.get("")
def list_schedules(schedules: Reads, query: Annotated[Page, Query()]) -> SchedulePage:
    """Schedules by name, each with its next times and its newest run."""
    return schedules.page(cursor=query.cursor, limit=query.limit)


@router.get("/{schedule}")
def get_schedule(schedules: Reads, schedule: Name, response: Response) -> JobSchedule:
    """The schedule with its next five times, none while it is paused, and its newest run. ``ETag`` names its state."""
    stored = schedules.get(schedule)
    response.headers["ETag"] = _tag(stored)
    return stored


@router.get("/{schedule}/runs")
def list_scheduled_runs(schedules: Reads, schedule: Name, query: Annotated[Page, Query()]) -> RunPage:
    """The runs of a schedule, newest first: the job with status and gates, or why there is none. 400 are kept."""
    return schedules.runs(schedule, cursor=query.cursor, limit=query.limit)


@router.patch("/{schedule}", openapi_extra=takes(ScheduleChange))
async def change_schedule(
    request: Request,
    response: Response,
    schedules: Submits,
    schedule: Name,
    given: Annotated[ScheduleChange, json_body(ScheduleChange)],
    if_match: Annotated[
        str | None, Header(alias="If-Match", description="Refuse if the schedule has another ETag by now.")
    ] = None,
) -> JobSchedule:
    """Change what is given, from the next run on; ``{"paused": true}`` pauses it. Times while it is paused are not missed.

    A change that comes while this one is checked is a 409, never overwritten.
    """
    known, new = await to_thread.run_sync(schedules.changed, schedule, given)
    if if_match is not None and if_match.strip() not in ("*", _tag(known)):
        what = f"schedule {schedule!r} was changed since you read it"
        raise Refused(412, "precondition_failed", what, where="If-Match", hint="read it again, then change it")
    if given.model_fields_set - {"paused"}:
        await _check(request, schedules, new)
    changed = await to_thread.run_sync(schedules.change, known, new)
    response.headers["ETag"] = _tag(changed)
    return changed


def _tag(schedule: KeptSchedule) -> str:
    return f'"{schedule.changed_at}"'


@router.delete("/{schedule}")
def delete_schedule(schedules: Submits, schedule: Name) -> JobSchedule:
    """Delete a schedule and its history. Its jobs stay."""
    return schedules.delete(schedule)


@router.post("/{schedule}/run", status_code=202)
def run_schedule(schedules: Submits, schedule: Name) -> ScheduledRun:
    """Start a run now, in addition to scheduled ones, also while the schedule is paused."""
    return schedules.run(schedule)


async def _check(request: Request, schedules: Schedules, new: NewSchedule) -> None:
    """Raise what is wrong with a schedule; one after the other with what is submitted, as its rows are read."""
    Cron(new.cron, new.zone)
    read = partial(read_scheduled, settings=request.app.state.settings, jobs=schedules.jobs)
    await analyse(request, lambda: schedules.check(new, read))
