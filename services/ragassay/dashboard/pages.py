"""The pages: routes that read the library and fill templates. Every page's address restores it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.staticfiles import StaticFiles

from ragassay.dashboard import views
from ragassay.dashboard.library import Library
from ragassay.errors import AssayError, NotFound
from ragassay.exporters import failing, summary
from ragassay.judges.jury_agreement import divided
from ragassay.render import number
from ragassay.store.selection import Selection

HERE = Path(__file__).parent
A_PAGE = 50  # runs, or rows
MOST_PLACES = 10**9
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
SearchText = Annotated[str, Query(max_length=200)]
Start = Annotated[int, Query(ge=0, le=MOST_PLACES, alias="from")]


def _query(values: Mapping[str, Any]) -> str:
    """The values as an address has them; those that are empty left out."""
    return urlencode({key: value for key, value in values.items() if value not in (None, "", ())}, doseq=True)


_TEMPLATES = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals |= {"version": metadata.version("ragassay"), "a_page": A_PAGE}
_TEMPLATES.filters |= {"query": _query, "number": number, "failure": views.failure}


def install(app: FastAPI, library: Library) -> None:
    """Add the pages, their styles and scripts to an application, which shows what is in ``library``."""
    app.state.library = library
    app.include_router(router)
    app.mount("/ui/static", StaticFiles(directory=HERE / "static"))


class _PageRoute(APIRoute):
    """A route whose errors are pages too."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        answer = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await answer(request)
            except AssayError as error:
                return _shown("problem.html", error.status, what=error.message, hint=error.hint)
            except RequestValidationError as error:
                first = error.errors()[0]
                what = f"{first['loc'][-1]}: {first['msg']}"
                return _shown("problem.html", 422, what=what, hint="mend the address, or begin at the list of runs")

        return answered


router = APIRouter(route_class=_PageRoute, include_in_schema=False)


def _shown(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    text = _TEMPLATES.get_template(template).render(**values)
    return HTMLResponse(text, status_code=status, headers={"Content-Security-Policy": POLICY})


@router.get("/")
def _home() -> Response:
    return RedirectResponse("/ui/runs", 302)


@router.get("/ui/runs")
def _runs(request: Request, q: SearchText = "", start: Start = 0) -> Response:
    library: Library = request.app.state.library
    listed = list(islice(library.runs(q), start, start + A_PAGE + 1))
    return _shown(
        "runs.html", runs=listed[:A_PAGE], text=q, start=start, more=len(listed) > A_PAGE, where=library.where
    )


@router.get("/ui/runs/{run}")
def _run(request: Request, run: str) -> Response:
    report = request.app.state.library.report(run)
    return _shown(
        "run.html",
        run=run,
        report=report,
        headlines={name: failing.headline(system) for name, system in report.systems.items()},
        notes=list(views.notes(report)),
        tables=views.metric_tables(report),
        sections=views.sections(report),
        worst=failing.worst_rows(report),
        missing=list(summary.missing(report)),
    )


@router.get("/ui/runs/{run}/queries")
def _queries(request: Request, run: str, start: Start = 0) -> Response:
    library: Library = request.app.state.library
    asked = _asked(request)
    selection, report = Selection.given(**asked), library.report(run)
    page = library.page(run, selection, start, A_PAGE)
    sorted_by = (selection.sort or "").removeprefix("-")
    metrics = report.provenance.metrics
    return _shown(
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
    library: Library = request.app.state.library
    asked = _asked(request)
    page = library.page(run, Selection.given(**asked), at, 1)
    if not page.rows:
        raise NotFound("there is no such row", hint="go back to the list of queries")
    row, sample = page.rows[0], library.sample(run, page.rows[0])
    sentences, facts = views.units(row)
    return _shown(
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
