"""The rows of a run, and one of them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response

from ragassay.dashboard import views
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, MOST_PLACES, Start, pages, shown
from ragassay.errors import NotFound
from ragassay.exporters import failing
from ragassay.judges.jury_agreement import divided
from ragassay.store.selection import Selection

router = pages()


@router.get("/ui/runs/{run}/queries")
def _queries(request: Request, run: str, start: Start = 0) -> Response:
    library: Library = request.state.library
    asked = _asked(request)
    selection, report = Selection.given(**asked), library.report(run)
    page = library.page(run, selection, start, A_PAGE)
    sorted_by = (selection.sort or "").removeprefix("-")
    metrics = report.provenance.metrics
    return shown(
        request,
        "queries.html",
        run=run,
        report=report,
        asked=asked,
        sorted_by=sorted_by,
        page=page,
        columns=views.columns(metrics, [name for name in metrics if name.lower() == sorted_by.lower()]),
        categories=sorted({value for one in report.systems.values() for value in one.slices.get("category", {})}),
    )


@router.get("/ui/runs/{run}/row")
def _row(request: Request, run: str, at: Annotated[int, Query(ge=0, le=MOST_PLACES)]) -> Response:
    library: Library = request.state.library
    asked = _asked(request)
    page = library.page(run, Selection.given(**asked), at, 1)
    if not page.rows:
        raise NotFound("there is no such row", hint="go back to the list of queries")
    row, sample = page.rows[0], library.sample(run, page.rows[0])
    sentences, facts = views.units(row)
    return shown(
        request,
        "row.html",
        run=run,
        asked=asked,
        page=page,
        row=row,
        why=failing.why(row, judge=False),
        sentences=sentences,
        facts=facts,
        contexts=views.contexts(sample),
        retrieved=views.retrieved(row, sample),
        divided=list(divided(row.members)),
        scores=views.scores(row),
        measured=views.measured(row),
    )


def _asked(request: Request) -> dict[str, Any]:
    """What the address says of the rows and their order."""
    given = request.query_params
    asked: dict[str, Any] = {name: given[name] for name in ("system", "category", "text", "sort") if given.get(name)}
    if given.get("failed"):
        asked["failed"] = given["failed"]
    if where := tuple(text for text in given.getlist("where") if text.strip()):
        asked["where"] = where
    return asked
