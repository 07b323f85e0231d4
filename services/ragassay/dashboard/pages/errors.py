"""What went wrong in a run, by kind: how often, and which rows to read."""

from __future__ import annotations

from fastapi import Request, Response

from ragassay.dashboard import views
from ragassay.dashboard.failures import FAILURES, failures
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import As, pages, shown, table

router = pages()


@router.get("/ui/runs/{run}/errors")
def _errors(request: Request, run: str, form: As = "page") -> Response:
    library: Library = request.state.library
    report, rows = library.report(run), library.rows(run)
    kinds = failures(rows)
    if form == "csv":
        header = ["failure", "what", "system", "rows", "of", "share", "low", "high"]
        return table(f"{run}-errors", header, (line for kind in kinds for line in kind.lines()))
    return shown(
        request,
        "errors.html",
        run=run,
        report=report,
        kinds=kinds,
        absent=[views.words(name) for name in FAILURES if name not in {kind.name for kind in kinds}],
        judged="accurate" in report.provenance.metrics,
    )
