"""``/ui``: the pages of the service, who may see them, and those of a job while it runs."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import quote

from anyio import to_thread
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from ragassay.api import submission
from ragassay.api.dependencies import JobId
from ragassay.api.problems import Refused
from ragassay.api.security import Guard, address_of, require
from ragassay.api.sessions import SESSION_S, Sessions
from ragassay.core.errors import AssayError, BadData, BadInput
from ragassay.core.eval_config import Budget
from ragassay.core.formatting import number, split_names
from ragassay.core.jobs import ENDED, PROJECT
from ragassay.core.validation import problems
from ragassay.dashboard.pages import install as install_pages
from ragassay.dashboard.pages import live, planned
from ragassay.dashboard.service import ServiceLibrary
from ragassay.dashboard.site import Elsewhere, analyse, body, form_of, pages, shown
from ragassay.service.access import Requester
from ragassay.service.jobs import Jobs
from ragassay.service.jobs import shown as shown_job

COOKIE = "ragassay_session"
MAX_BYTES = 10_000  # of a form
Sent = Annotated[bytes, Depends(body(MAX_BYTES))]
Next = Annotated[str, Query(max_length=4000, alias="next")]
sign_in_pages, jobs_pages = pages(), pages()


def install(app: FastAPI, service: Jobs) -> None:
    """Add the pages of a service to its application."""
    app.state.sessions = Sessions(app.state.guard)
    app.state.library = ServiceLibrary(service, app.state.settings.redis_servers.get("broker"))
    for router in (jobs_pages, planned.router, live.router):
        app.include_router(router, dependencies=[Depends(enter)])
    app.include_router(sign_in_pages)
    install_pages(app, enter)


async def enter(request: Request) -> None:
    """A dependency of each page: who asks may see it. Sends browsers that have to sign in to the page for that."""
    asking, request.state.signed_in = await _asking(request)
    require("read" if request.method in ("GET", "HEAD") else "submit", asking)
    request.state.project = asking.project
    request.state.library = request.app.state.library.of(asking.project)


async def _asking(request: Request) -> tuple[Requester, str]:
    """Who asks, and as whom they are signed in."""
    sessions: Sessions = request.app.state.sessions
    session = request.cookies.get(COOKIE)
    if session and (signed_in := await sessions.requester(session)):
        return signed_in
    try:
        guard: Guard = request.app.state.guard
        return await guard.requester(None, None, address_of(request)), ""
    except Refused:
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        target = here if request.method in ("GET", "HEAD") else "/ui/runs"
        raise Elsewhere(f"/ui/sign-in?next={quote(target, safe='')}") from None


def _own(address: str) -> str:
    """The address, where it is one of our pages; else the list of runs."""
    return address if address.startswith("/ui/") and not address.startswith("/ui/sign-in") else "/ui/runs"


@sign_in_pages.get("/ui")
def _home() -> Response:
    return RedirectResponse("/ui/runs", 302)


@sign_in_pages.get("/ui/sign-in")
def _sign_in_page(request: Request, to: Next = "/ui/runs") -> Response:
    return shown(request, "sign_in.html", next=_own(to), wrong="")


@sign_in_pages.post("/ui/sign-in")
async def _sign_in(request: Request, sent: Sent) -> Response:
    form = form_of(sent)
    key, project, to = form.get("key", "").strip(), form.get("project", "").strip(), _own(form.get("next", ""))
    if project and not re.fullmatch(PROJECT, project):
        return shown(request, "sign_in.html", 422, next=to, wrong="a project's name is letters, digits, '_' and '-'")
    try:
        session = await request.app.state.sessions.begin(key, project or None, address_of(request))
    except Refused as refused:
        return shown(request, "sign_in.html", refused.status, next=to, wrong=refused.message)
    answer = RedirectResponse(to, 303)
    secure = request.app.state.settings.tls or request.url.scheme == "https"
    answer.set_cookie(COOKIE, session, SESSION_S, path="/ui", httponly=True, samesite="strict", secure=secure)
    return answer


@sign_in_pages.post("/ui/sign-out")
async def _sign_out(request: Request) -> Response:
    if session := request.cookies.get(COOKIE):
        await request.app.state.sessions.end(session)
    answer = RedirectResponse("/ui/sign-in", 303)
    answer.delete_cookie(COOKIE, path="/ui", httponly=True, samesite="strict")
    return answer


async def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs.of(request.state.project)


Service = Annotated[Jobs, Depends(_jobs)]


@jobs_pages.get("/ui/submit")
def _form(request: Request, jobs: Service) -> Response:
    return _submit_page(request, jobs, {})


def _submit_page(request: Request, jobs: Jobs, given: Mapping[str, str], wrong: AssayError | None = None) -> Response:
    """The form, with what was given before and what is wrong with that."""
    return shown(
        request,
        "submit.html",
        wrong.status if wrong else 200,
        datasets=jobs.store.datasets.names(),
        systems=[system.name for system in jobs.registered],
        given=given,
        wrong=str(wrong) if wrong else "",
        once=given.get("once") or secrets.token_urlsafe(16),
    )


@jobs_pages.post("/ui/submit")
async def _submit(request: Request, jobs: Service, sent: Sent) -> Response:
    fields = form_of(sent)
    try:
        job = await analyse(request, lambda: _submitted(request, jobs, fields))
    except AssayError as error:
        return await to_thread.run_sync(_submit_page, request, jobs, fields, error)
    return RedirectResponse(f"/ui/jobs/{job}", 303)


def _submitted(request: Request, jobs: Jobs, fields: Mapping[str, str]) -> str:
    """The id of the job that a form asks for, on the rows of a stored dataset; raises AssayError."""
    if not fields.get("dataset"):
        raise BadInput("choose a stored dataset", where="dataset")
    given = {
        "dataset": fields["dataset"],
        "systems": [name.removeprefix("system.") for name in fields if name.startswith("system.")],
        "name": fields.get("name", "").strip(),
        "metrics": split_names(fields.get("metrics", "")),
    }
    template = {key: value for key, value in given.items() if value}
    job = submission.read_scheduled(template, request.app.state.settings, jobs)
    return jobs.submit(*job, idempotency_key=fields.get("once"))[0].id


@jobs_pages.get("/ui/jobs/{job}")
def _job(request: Request, jobs: Service, job: JobId) -> Response:
    state = jobs.store.state(job)
    library: ServiceLibrary = request.state.library
    summary = library.summary(job)
    return shown(
        request,
        "job.html",
        job=shown_job(state),
        outcome=summary.status,
        problem=summary.problem,
        gates=library.gates(job) if state.status == "finished" else None,
        dataset=state.record.dataset.name,
        chunks=f"{len(jobs.store.done(job)):,} of {state.chunks:,} chunks",
        spent=f"{number(jobs.store.spent(job))} USD",
        ended=state.status in ENDED,
    )


@jobs_pages.post("/ui/jobs/{job}/cancel")
def _cancel(jobs: Service, job: JobId) -> Response:
    jobs.cancel(job)
    return RedirectResponse(f"/ui/jobs/{job}", 303)


@jobs_pages.post("/ui/jobs/{job}/retry")
def _retry(jobs: Service, job: JobId) -> Response:
    jobs.retry(job)
    return RedirectResponse(f"/ui/jobs/{job}", 303)


@jobs_pages.post("/ui/jobs/{job}/resume")
def _resume(jobs: Service, job: JobId, sent: Sent) -> Response:
    fields = form_of(sent)
    try:
        budget = Budget.model_validate(
            {cap: fields.get(f"budget_{cap}", "").strip() or None for cap in ("usd", "tokens")}
        )
    except ValidationError as error:
        raise BadData([f"budget: {problem}" for problem in problems(error, Budget)]) from None
    jobs.resume(job, budget)
    return RedirectResponse(f"/ui/jobs/{job}", 303)
