"""The list of runs, and the report of one."""

from __future__ import annotations

from itertools import islice

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from ragassay.core.errors import Conflict
from ragassay.dashboard.changes import verdict_of
from ragassay.dashboard.failures import failure_table, worst
from ragassay.dashboard.home import latest
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, AnyForm, SearchText, Start, exported, pages, shown
from ragassay.metrics.judged import QUESTIONS
from ragassay.reporting.files import EXPORTERS
from ragassay.reporting.listing import problem_of
from ragassay.reporting.report import of_report

router = pages()


@router.get("/ui/runs")
def _runs(request: Request, q: SearchText = "", start: Start = 0) -> Response:
    library: Library = request.state.library
    listed = list(islice(library.runs(q), start, start + A_PAGE + 1))
    return shown(
        request,
        "runs.html",
        document=None if q or start else latest(library, listed),
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
