"""The list of runs, and the report of one."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Annotated

from anyio import to_thread
from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse

from ragassay.core.errors import Conflict
from ragassay.dashboard.changes import verdict_of
from ragassay.dashboard.failures import failure_table, worst
from ragassay.dashboard.home import latest
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, AnyForm, SearchText, Start, analyse, analysis, exported, pages, shown
from ragassay.metrics.judged import QUESTIONS
from ragassay.reporting.document import Document
from ragassay.reporting.files import EXPORTERS
from ragassay.reporting.listing import RunSummary, problem_of
from ragassay.reporting.report import of_report

router = pages()


def _listed(request: Request, q: SearchText = "", start: Start = 0) -> list[RunSummary]:
    return list(islice(request.state.library.runs(q), start, start + A_PAGE + 1))


Listed = Annotated[list[RunSummary], Depends(_listed)]


async def _latest(request: Request, listed: Listed, q: SearchText = "", start: Start = 0) -> Document | None:
    if q or start:
        return None
    read = partial(latest, request.state.library, listed)
    return await to_thread.run_sync(partial(read, held=True)) or await analyse(request, read)


@router.get("/ui/runs")
def _runs(
    request: Request,
    listed: Listed,
    document: Annotated[Document | None, Depends(_latest)],
    q: SearchText = "",
    start: Start = 0,
) -> Response:
    library: Library = request.state.library
    return shown(
        request,
        "runs.html",
        document=document,
        newest=next((run.id for run in listed if run.figures), ""),
        runs=listed[:A_PAGE],
        text=q,
        start=start,
        more=len(listed) > A_PAGE,
        where=library.where,
        problems=library.problems(),
        of_service=library.of_service,
    )


@router.get("/ui/runs/{run}")
@analysis
def _run(request: Request, run: str, form: AnyForm = "page") -> Response:
    library: Library = request.state.library
    try:
        report, rows = library.report(run), library.rows(run)
    except Conflict:
        if not library.of_service:
            raise
        return RedirectResponse(f"/ui/jobs/{run}", 303)
    if form != "page":
        return exported(run, EXPORTERS, report, form)
    address = f"/ui/runs/{run}"
    failed = [failure_table(rows, f"{address}/queries"), worst(report, rows, f"{address}/row")]
    return shown(
        request,
        "run.html",
        run=run,
        formats=EXPORTERS.names(),
        of_service=library.of_service,
        report=report,
        problem=problem_of(report),
        gates=library.gates(run),
        has_worst=failed[1] is not None,
        document=of_report(
            report,
            rows=f"{address}/queries",
            answer=verdict_of(library, run),
            failed=[block for block in failed if block],
        ),
        labels=not QUESTIONS.keys().isdisjoint(report.provenance.metrics),
    )
