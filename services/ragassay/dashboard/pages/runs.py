"""The list of runs, and the report of one."""

from __future__ import annotations

from itertools import islice

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from ragassay.compare.summary import in_short
from ragassay.dashboard import site, views
from ragassay.dashboard.distributions import distributions
from ragassay.dashboard.failures import failures, section, worst
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, AnyForm, As, SearchText, Start, exported, shown, table
from ragassay.documents import Report
from ragassay.errors import AssayError, Conflict
from ragassay.exporters import EXPORTERS, failing, figures, summary
from ragassay.exporters.panels import panels
from ragassay.runs.labelling import QUESTIONS

MOST_COMPARED = 1000  # queries of a run whose systems are compared on its page
router = site.pages()


@router.get("/ui/runs")
def _runs(request: Request, q: SearchText = "", start: Start = 0, form: As = "page") -> Response:
    library: Library = request.state.library
    if form == "csv":
        header = ["run", "name", "created_at", "dataset", "system", "how good", "judge", "queries", "status"]
        return table("runs", header, views.run_lines(library.runs(q)))
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
    went_wrong = section(failures(rows))
    return shown(
        request,
        "run.html",
        run=run,
        formats=EXPORTERS.names(),
        of_service=library.of_service,
        report=report,
        verdict=_verdict(library, run, report),
        headlines={name: failing.headline(system) for name, system in report.systems.items()},
        notes=list(views.notes(report)),
        tables=figures.metric_tables(report),
        sections=[*([went_wrong] if went_wrong else []), *views.sections(report)],
        worst=worst(report, rows),
        missing=list(summary.missing(report)),
        charts=[*figures.charts(report, f"/ui/runs/{run}/queries"), *distributions(run, report, rows)],
        panels=list(panels(report)),
        labels=not QUESTIONS.keys().isdisjoint(report.provenance.metrics),
    )


def _verdict(library: Library, run: str, report: Report) -> tuple[str, ...]:
    """Which system is better and how sure that is; nothing where there is one alone, or comparing takes a while."""
    if len(report.systems) < 2 or report.provenance.dataset.rows > MOST_COMPARED:
        return ()
    try:
        made = library.compare([run], None, None)
        return tuple(filter(None, (*map(in_short, made.pairs), *made.verdict)))
    except AssayError as error:
        return (error.message,)
