"""Pages that only a service has: its schedules with their runs, and its notifications with the webhooks that get them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request, Response

from ragassay.core.errors import UnknownName
from ragassay.dashboard.site import A_PAGE, SearchText, pages, shown
from ragassay.service.notifications import KINDS, MAX_ID
from ragassay.service.schedules import Schedules

Cursor = Annotated[str | None, Query(max_length=MAX_ID, alias="after")]
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
            (one, next(one.local(one.next), "paused"), next(one.local([one.last.slot])) if one.last else "")
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
        times=list(known.local(known.next)),
        runs=list(zip(page.runs, known.local(run.slot for run in page.runs), strict=True)),
        after=after,
        next=page.next,
    )


@router.get("/ui/alerts")
def _alerts(request: Request, schedules: Own, kind: SearchText = "", after: Cursor = None) -> Response:
    notifier, project = schedules.jobs.notifier, request.state.project
    chosen = next((one for one in KINDS if one == kind), None)
    if kind and chosen is None:
        raise UnknownName("kind of alert", kind, KINDS)
    page = notifier.page(project, kind=chosen, cursor=after, limit=A_PAGE)
    return shown(
        request,
        "alerts.html",
        alerts=page.alerts,
        kinds=KINDS,
        kind=kind,
        after=after,
        next=page.next,
        webhooks=notifier.webhooks(project),
    )
