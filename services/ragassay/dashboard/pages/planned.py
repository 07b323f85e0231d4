"""Pages that only a service has: its schedules with what became of their times, and what people were told."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request, Response

from ragassay.dashboard.site import A_PAGE, SearchText, pages, shown
from ragassay.errors import UnknownName
from ragassay.exporters import alerts as said
from ragassay.exporters import schedules as planned
from ragassay.notices import KINDS, LONGEST_ID
from ragassay.schedule_documents import JobSchedule, ScheduledRun
from ragassay.schedules import Schedules

Cursor = Annotated[str | None, Query(max_length=LONGEST_ID, alias="after")]
router = pages()


async def _own(request: Request) -> Schedules:
    schedules: Schedules = request.app.state.schedules
    return schedules.of(request.state.project)


Own = Annotated[Schedules, Depends(_own)]


@router.get("/ui/schedules")
def _schedules(request: Request, schedules: Own, after: Cursor = None) -> Response:
    page = schedules.page(cursor=after, limit=A_PAGE)
    return shown(
        request,
        "schedules.html",
        schedules=[
            (one, planned.evaluated(one), next(planned.local(one, one.next), "paused"), _run(one, one.last))
            for one in page.schedules
        ],
        after=after,
        next=page.next,
    )


@router.get("/ui/schedules/{name}")
def _schedule(request: Request, schedules: Own, name: str, after: Cursor = None) -> Response:
    known = schedules.get(name)
    page = schedules.runs(name, cursor=after, limit=A_PAGE)
    return shown(
        request,
        "schedule.html",
        schedule=known,
        evaluated=planned.evaluated(known),
        times=list(planned.local(known, known.next)),
        runs=[_run(known, run) for run in page.runs],
        after=after,
        next=page.next,
    )


def _run(known: JobSchedule, run: ScheduledRun | None) -> tuple[ScheduledRun, str, str, str] | None:
    """A run with its time, what became of it, and of its gates."""
    return (run, next(planned.local(known, [run.slot])), planned.status(run), planned.gates(run)) if run else None


@router.get("/ui/alerts")
def _alerts(request: Request, schedules: Own, kind: SearchText = "", after: Cursor = None) -> Response:
    alerts, project = schedules.jobs.alerts, request.state.project
    chosen = next((one for one in KINDS if one == kind), None)
    if kind and chosen is None:
        raise UnknownName("kind of notice", kind, KINDS)
    page = alerts.page(project, kind=chosen, cursor=after, limit=A_PAGE)
    return shown(
        request,
        "alerts.html",
        alerts=page.alerts,
        kinds=KINDS,
        kind=kind,
        after=after,
        next=page.next,
        webhooks=[(one, said.state(one), said.last_try(one)) for one in alerts.webhooks(project).all()],
    )


@router.get("/ui/alerts/{webhook}")
def _deliveries(request: Request, schedules: Own, webhook: str, after: Cursor = None) -> Response:
    webhooks = schedules.jobs.alerts.webhooks(request.state.project)
    known, page = webhooks.get(webhook), webhooks.deliveries(webhook, cursor=after, limit=A_PAGE)
    return shown(
        request,
        "deliveries.html",
        webhook=known,
        state=said.state(known),
        last_try=said.last_try(known),
        deliveries=[(one, said.outcome(one)) for one in page.deliveries],
        after=after,
        next=page.next,
    )
