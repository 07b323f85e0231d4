"""The list of runs, and the report of one."""

from __future__ import annotations

from itertools import islice

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from ragassay.dashboard import site, views
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, SearchText, Start, shown
from ragassay.errors import Conflict
from ragassay.exporters import failing, summary
from ragassay.exporters.panels import panels
from ragassay.runs.labelling import QUESTIONS

router = site.pages()


@router.get("/ui/runs")
def _runs(request: Request, q: SearchText = "", start: Start = 0) -> Response:
    library: Library = request.state.library
    listed = list(islice(library.runs(q), start, start + A_PAGE + 1))
    return shown(
        request,
        "runs.html",
        runs=listed[:A_PAGE],
        text=q,
        start=start,
        more=len(listed) > A_PAGE,
        where=library.where,
        of_service=library.of_service,
    )


@router.get("/ui/runs/{run}")
def _run(request: Request, run: str) -> Response:
    library: Library = request.state.library
    try:
        report = library.report(run)
    except Conflict:
        if not library.of_service:
            raise
        return RedirectResponse(f"/ui/jobs/{run}", 303)
    return shown(
        request,
        "run.html",
        run=run,
        of_service=library.of_service,
        report=report,
        headlines={name: failing.headline(system) for name, system in report.systems.items()},
        notes=list(views.notes(report)),
        tables=views.metric_tables(report),
        sections=views.sections(report),
        worst=failing.worst_rows(report),
        missing=list(summary.missing(report)),
        charts=[*views.charts(run, report)],
        panels=list(panels(report)),
        labels=not QUESTIONS.keys().isdisjoint(report.provenance.metrics),
    )
