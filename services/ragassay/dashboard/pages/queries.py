"""The rows of a run, and one of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from ragassay.core.errors import BadInput, NotFound
from ragassay.core.models import Result
from ragassay.dashboard import views
from ragassay.dashboard.failures import FAILURES
from ragassay.dashboard.library import Library
from ragassay.dashboard.one_row import raw as raw_of
from ragassay.dashboard.rows import ChosenRows, asked_in, bounded, chosen, marks
from ragassay.dashboard.site import A_PAGE, MOST_PLACES, As, Start, address_of, pages, shown, table
from ragassay.judges.jury_agreement import divided
from ragassay.reporting import failing
from ragassay.storage.columns import FIGURES

router = pages()


@router.get("/ui/runs/{run}/queries")
def _queries(request: Request, run: str, start: Start = 0, form: As = "page") -> Response:
    library: Library = request.state.library
    asked = asked_in(request)
    if bounds := _bounds(request):
        where = (*asked.get("where", ()), *bounds)
        return RedirectResponse(f"{request.url.path}?{address_of({**asked, 'where': where})}", 303)
    report = library.report(run)
    found = chosen(library, run, asked)
    metrics = report.provenance.metrics
    sorted_by = asked.get("sort", "").removeprefix("-")
    wanted = [name.lower() for name in (sorted_by, *map(bounded, asked.get("where", ())))]
    columns = views.columns(metrics, [name for name in metrics if name.lower() in wanted])
    if form == "csv":
        header = ["system", "query_id", "query", "category", *columns, "failure", "latency_ms"]
        return table(f"{run}-queries", header, _cells(found, columns))
    page = found.page(start, A_PAGE)
    return shown(
        request,
        "queries.html",
        run=run,
        report=report,
        asked=asked,
        marks=marks(asked),
        sorted_by=sorted_by,
        page=page,
        columns=columns,
        figures=[*metrics, *FIGURES],
        failures=FAILURES,
        categories=sorted({value for one in report.systems.values() for value in one.slices.get("category", {})}),
    )


def _bounds(request: Request) -> list[str]:
    """The bounds that the form asks for: of ``figure``, ``least`` and ``most``; raises BadInput."""
    given = request.query_params
    bounds = [(sign, text) for sign, name in ((">=", "least"), ("<=", "most")) if (text := given.get(name, "").strip())]
    for _, text in bounds:
        try:
            is_number = math.isfinite(float(text))
        except ValueError:
            is_number = False
        if not is_number:
            raise BadInput(f"{text[:40]!r} is not a number", where="from and to")
    if bounds and not given.get("figure"):
        raise BadInput("from and to of which figure? Choose one", where="figure")
    return [f"{given['figure']}{sign}{text}" for sign, text in bounds]


def _cells(found: ChosenRows, columns: list[str]) -> Iterator[list[object]]:
    """The table as it is seen, all pages of it."""
    for row in found.rows.each(found.places):
        scores = [row.scores[name].value if name in row.scores else None for name in columns]
        yield [
            row.system,
            row.query_id,
            row.query,
            row.category,
            *scores,
            views.failure(row) or None,
            row.latency_ms,
        ]


@router.get("/ui/runs/{run}/row")
def _row(
    request: Request,
    run: str,
    at: Annotated[int | None, Query(ge=0, le=MOST_PLACES)] = None,
    id: Annotated[str, Query(max_length=1000)] = "",  # noqa: A002 - the name in the address
    raw: Annotated[bool, Query()] = False,
) -> Response:
    """A row by its position in a selection, or by its query's id."""
    library: Library = request.state.library
    asked, report = asked_in(request), library.report(run)
    found = chosen(library, run, asked)
    if at is None:
        at = _position(found, asked.get("system"), id)
    page = found.page(at, 1)
    if not page.rows:
        raise NotFound("there is no such row", hint="go back to the list of queries")
    place, row = int(found.places[at]), page.rows[0]
    sample, every = library.sample(run, row), _of_all_systems(found, place)
    sentences, facts = views.units(row)
    return shown(
        request,
        "row.html",
        run=run,
        title=report.provenance.configuration.name or run,
        asked=asked,
        page=page,
        row=row,
        why=failing.why(row, judge=False),
        sentences=sentences,
        facts=facts,
        contexts=views.contexts(sample),
        retrieved=views.retrieved(every, sample),
        systems=[one.system for one in every],
        divided=list(divided(row.members)),
        scores=views.scores(row),
        measured=views.measured(every),
        raw=raw_of(row, sample, library.calls(run, row), report) if raw else None,
    )


def _position(found: ChosenRows, system: str | None, query_id: str) -> int:
    """The position of the row on a query among those that are chosen; raises NotFound."""
    systems = found.rows.systems if system is None else [system]
    for name in systems:
        place = found.rows.find(name, query_id)
        if place is not None and len(at := np.flatnonzero(found.places == place)):
            return int(at[0])
    raise NotFound(f"there is no row {query_id[:200]!r}", hint="go back to the list of queries")


def _of_all_systems(found: ChosenRows, place: int) -> list[Result]:
    """The rows of all systems on the query of a row, in the order of the systems."""
    rows = found.rows.record.dataset.rows
    return found.rows.at(place % rows + number * rows for number in range(len(found.rows.systems)))
