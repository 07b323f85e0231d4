"""The list of runs, the report of one, and what went wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

import numpy as np
from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from ragassay.analysis.verdict import MAX_COMPARED, by_accuracy, verdict
from ragassay.core.errors import Conflict
from ragassay.core.report import Report, ReportWithResults
from ragassay.dashboard import views
from ragassay.dashboard.failures import FAILURES, failures, worst
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, AnyForm, SearchText, Start, address_of, exported, pages, shown
from ragassay.evaluation.groups import numbered
from ragassay.evaluation.labelling import QUESTIONS
from ragassay.reporting import EXPORTERS, failing, figures, summary
from ragassay.reporting.charts import Chart, histogram
from ragassay.reporting.listing import problem_of
from ragassay.reporting.panels import panels
from ragassay.storage.columns import QUESTION
from ragassay.storage.row_index import RowIndex

MOST_SYSTEMS = 6  # beside each other in a column
_FIGURES = {
    "latency_ms": ("Latency of a response: how many rows", "ms"),
    "cost_usd": ("Cost of a query: how many rows", "USD"),
}
router = pages()


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
    tables = figures.metric_tables(report)
    return shown(
        request,
        "run.html",
        run=run,
        formats=EXPORTERS.names(),
        of_service=library.of_service,
        report=report,
        problem=problem_of(report),
        gates=library.gates(run),
        verdict=_verdict(library, run, report),
        headlines={name: failing.headline(system) for name, system in report.systems.items()},
        notes=list(summary.notes(report)),
        fixes=list(figures.fix_charts(report, f"/ui/runs/{run}/queries")),
        glance=summary.at_a_glance(report, tables),
        tables=tables,
        sections=views.sections(report),
        kinds=failures(rows),
        what=FAILURES,
        worst=worst(report, rows),
        missing=list(summary.missing(report)),
        charts=[*figures.charts(report, f"/ui/runs/{run}/queries"), *_distributions(run, report, rows)],
        panels=list(panels(report)),
        labels=not QUESTIONS.keys().isdisjoint(report.provenance.metrics),
    )


def _verdict(library: Library, run: str, report: ReportWithResults) -> tuple[str, ...]:
    """As ``analysis.verdict`` has it; for a long run from the rows' columns, so that no row is read."""
    if len(report.systems) < 2 or report.provenance.dataset.rows <= MAX_COMPARED:
        return verdict(report)
    if "accurate" not in report.provenance.metrics:
        return ()
    rows = library.rows(run)
    scores = dict(zip(rows.systems, rows.column("accurate").reshape(len(rows.systems), -1), strict=True))
    questions = numbered(rows.column(QUESTION).reshape(len(rows.systems), -1)[0])
    return tuple(by_accuracy(scores, questions, report.provenance.configuration.seed))


def _distributions(run: str, report: Report, rows: RowIndex) -> Iterator[Chart]:
    """What responses took and cost, as far as they report it; a column leads to its rows."""
    shown = list(report.systems)[:MOST_SYSTEMS]
    for figure, (title, unit) in _FIGURES.items():
        by_system = rows.column(figure).reshape(len(rows.systems), -1)
        values = {name: by_system[rows.systems.index(name)] for name in shown}
        known = int(np.isfinite(by_system).sum())
        note = f"{known:,} of {sum(one.queries for one in report.systems.values()):,} rows report it."
        note += f" Of the first {MOST_SYSTEMS} systems." if len(report.systems) > MOST_SYSTEMS else ""
        if drawn := histogram(title, unit, values, note=note, address=partial(_rows, run, figure)):
            yield drawn


def _rows(run: str, figure: str, system: str, low: float, high: float | None) -> str:
    bounds = (f"{figure}>={low:.12g}", *([] if high is None else [f"{figure}<{high:.12g}"]))
    return f"/ui/runs/{run}/queries?{address_of({'system': system, 'where': bounds, 'sort': figure})}"


@router.get("/ui/runs/{run}/errors")
def _errors(request: Request, run: str) -> Response:
    library: Library = request.state.library
    report, rows = library.report(run), library.rows(run)
    kinds = failures(rows)
    return shown(
        request,
        "errors.html",
        run=run,
        report=report,
        kinds=kinds,
        what=FAILURES,
        absent=[failing.words(name) for name in FAILURES if name not in {kind.name for kind in kinds}],
        judged="accurate" in report.provenance.metrics,
    )
