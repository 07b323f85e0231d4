"""Pages that only a service has: its schedules with their runs, and its notifications with the webhooks that get them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request, Response

from ragassay.core.errors import UnknownName
from ragassay.core.formatting import minute
from ragassay.core.schedules import ScheduledRun
from ragassay.dashboard.site import A_PAGE, Field, SearchText, pages, shown_document
from ragassay.reporting.document import Cell, Document, Figure, Link, Sentences, Table
from ragassay.reporting.failing import words
from ragassay.service.notifications import KINDS, MAX_ID, Notification
from ragassay.service.schedules import Schedules

Cursor = Annotated[str | None, Query(max_length=MAX_ID, alias="after")]
TONES = {"finished": "good", "failed": "bad", "failed_to_start": "bad", "missed": "bad"}
router = pages()


async def _own(request: Request) -> Schedules:
    schedules: Schedules = request.app.state.schedules
    return schedules.of(request.state.project)


Own = Annotated[Schedules, Depends(_own)]


@router.get("/ui/schedules")
def _schedules(request: Request, schedules: Own, after: Cursor = None) -> Response:
    page = schedules.page(cursor=after, limit=A_PAGE)
    rows = tuple(
        (
            Link(one.name, f"/ui/schedules/{one.name}"),
            one.evaluated,
            f"{one.cron} {one.zone}",
            next(one.local(one.next), "paused"),
            *(_outcome(one.last) if one.last else ("", "")),
            next(one.local([one.last.slot])) if one.last else "",
        )
        for one in page.schedules
    )
    columns = ("schedule", "evaluates", "when", "next", "newest run", "gates", "ran")
    command = "ragassay schedule add ragassay.yaml --cron '30 2 * * *' --dataset handbook --system mine"
    return shown_document(
        request,
        Document("Schedules", blocks=(Table("Schedules", columns, rows),) if rows else ()),
        commands=() if rows else ("There is no schedule here. Have a job run every night:", command),
        after=after,
        more=page.next,
    )


def _outcome(run: ScheduledRun) -> tuple[Cell, Cell]:
    """What became of a run, and of its gates."""
    passed = Figure(f"{run.gates} passed", tone="bad" if run.gates_missed else "good") if run.gates else ""
    return Figure(run.outcome, tone=TONES.get(run.status, "half")), passed


@router.get("/ui/schedules/{name}")
def _schedule(request: Request, schedules: Own, name: str, after: Cursor = None) -> Response:
    known = schedules.get(name)
    page = schedules.runs(name, cursor=after, limit=A_PAGE)
    rows = tuple(
        (
            Link(at, f"/ui/jobs/{run.job}") if run.job else at,
            *_outcome(run),
            Link("report", f"/ui/runs/{run.job}") if run.status == "finished" and run.job else "",
            run.reason or "",
        )
        for run, at in zip(page.runs, known.local(run.slot for run in page.runs), strict=True)
    )
    paused = f"It is paused. Start runs again: ragassay schedule set {name} --resume"
    ran = Table("Earlier runs", (f"time, {known.zone}", "run", "gates", "report", "why"), rows)
    none = Sentences("Earlier runs", (f"Nothing ran yet. Have a run made now: ragassay schedule run {name}",))
    return shown_document(
        request,
        Document(
            name,
            f"{known.evaluated}; {known.cron} {known.zone}",
            blocks=(Sentences("Next", tuple(known.local(known.next)) or (paused,)), ran if rows else none),
        ),
        crumbs={"Schedules": "/ui/schedules"},
        after=after,
        more=page.next,
    )


@router.get("/ui/alerts")
def _alerts(request: Request, schedules: Own, kind: SearchText = "", after: Cursor = None) -> Response:
    notifier, project = schedules.jobs.notifier, request.state.project
    chosen = next((one for one in KINDS if one == kind), None)
    if kind and chosen is None:
        raise UnknownName("kind of alert", kind, KINDS)
    page = notifier.page(project, kind=chosen, cursor=after, limit=A_PAGE)
    alerts = Table("Alerts", ("what happened", "time, UTC", "schedule", "system"), tuple(map(_alert, page.alerts)))
    nothing = "No alert of this kind." if kind or after else "No alert yet: no gate was missed, no run failed to begin."
    hooks = tuple(
        (f"{one.url} ({one.format}, {one.id})", words(", ".join(one.kinds)), one.last_try)
        for one in notifier.webhooks(project)
    )
    add = 'No webhook yet. Add one: POST /v1/webhooks {"url": "https://alerts.example/hook"}'
    webhooks = Table("Webhooks", ("webhook", "kinds", "last try, UTC"), hooks, "" if hooks else add)
    return shown_document(
        request,
        Document("Alerts", blocks=(*((alerts,) if alerts.rows else ()), webhooks)),
        commands=() if alerts.rows else (nothing,),
        fields=[Field("Kind", "kind", kind, options=KINDS, none="all")],
        asked={"kind": kind},
        after=after,
        more=page.next,
    )


def _alert(one: Notification) -> tuple[Cell, ...]:
    address = f"/ui/jobs/{one.job}" if one.job else ""
    if one.stream and not one.job:
        window = "hour" if "T" in (one.window or "") else "day"
        address = f"/ui/live/{one.stream}?kind={window}&metric={one.metric}"
    planned = Link(one.schedule, f"/ui/schedules/{one.schedule}") if one.schedule else ""
    return (
        (Link(one.headline, address) if address else one.headline),
        minute(one.at),
        planned,
        one.system or "",
    )
