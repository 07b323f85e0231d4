"""The rows of a run, and one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Request, Response

from ragassay.core.errors import BadInput, NotFound
from ragassay.core.models import Result
from ragassay.dashboard import views
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, MOST_PLACES, Start, pages, shown
from ragassay.judges.combine import disagreements
from ragassay.reporting import failing
from ragassay.storage.columns import FIGURES
from ragassay.storage.row_index import RowIndex
from ragassay.storage.selection import Selection

MOST_SCORES = 3  # below an answer
router = pages()
_ONE = ("system", "category", "difficulty", "text", "failed", "failure", "sort", "changed")
CHANGES = {"worse": "Got worse", "better": "Got better", "wrong": "All wrong"}


def asked_in(request: Request) -> dict[str, Any]:
    """The selection of rows in an address, as an address has it."""
    given = request.query_params
    asked: dict[str, Any] = {name: given[name] for name in _ONE if given.get(name)}
    if where := tuple(text for text in given.getlist("where") if text.strip()):
        asked["where"] = where
    return asked


@dataclass(frozen=True)
class ChosenRows:
    """The rows of a run that an address asks for."""

    rows: RowIndex
    places: Any

    @property
    def questions(self) -> Any:
        """The numbers of the questions of which a row is chosen, in the order of the chosen rows."""
        numbers = self.places % self.rows.record.dataset.rows
        return numbers[np.sort(np.unique(numbers, return_index=True)[1])]


def chosen(library: Library, run: str, asked: Mapping[str, Any]) -> ChosenRows:
    """The rows that are asked for; raises BadInput, UnknownName and NotFound for what is not there.

    ``changed``: only questions on which a system is less accurate than the first ("worse"), or more ("better"), or on
    which none is accurate ("wrong").
    """
    rows = library.rows(run)
    places = rows.selected(Selection.given(**{name: value for name, value in asked.items() if name != "changed"}))
    if changed := asked.get("changed"):
        places = places[_changed(rows, changed)[places % rows.record.dataset.rows]]
    return ChosenRows(rows, places)


def _changed(rows: RowIndex, changed: str) -> Any:
    """Which questions changed in a way, by accuracy."""
    if changed not in CHANGES:
        raise BadInput(f"changed should be one of {', '.join(CHANGES)}", where="changed")
    if "accurate" not in rows.record.metrics:
        raise BadInput("the run has no metric accurate, so that no change is known", where="changed")
    first, *others = rows.column("accurate").reshape(len(rows.systems), -1)
    if changed == "wrong":
        return np.all([each == 0 for each in (first, *others)], axis=0)
    return np.any([each < first if changed == "worse" else each > first for each in others], axis=0)


@router.get("/ui/runs/{run}/queries")
def _queries(request: Request, run: str, start: Start = 0) -> Response:
    library: Library = request.state.library
    asked = asked_in(request)
    report = library.report(run)
    found = chosen(library, run, asked)
    metrics = report.provenance.metrics
    sorted_by = asked.get("sort", "").removeprefix("-")
    filtered_by = [re.split("[<>=]", bound)[0].strip().lower() for bound in asked.get("where", ())]
    wanted = [name for name in metrics if name.lower() in (sorted_by.lower(), *filtered_by)]
    questions, total = by_question(found, start, A_PAGE)
    return shown(
        request,
        "queries.html",
        run=run,
        report=report,
        asked=asked,
        questions=questions,
        start=start,
        total=total,
        chosen=len(found.places),
        scores=[name for name in wanted or views.judged_first(metrics) if name != "accurate"][:MOST_SCORES],
        presets=_presets(list(report.systems), metrics),
        figures=[*metrics, *FIGURES],
        failures=failing.FAILURES,
        categories=sorted({value for one in report.systems.values() for value in one.slices.get("category", {})}),
    )


@dataclass(frozen=True)
class Question:
    """A question with the row of each system; ``at``: the position of each chosen row, None if it is not chosen."""

    rows: tuple[Result | None, ...]
    at: tuple[int | None, ...]

    @property
    def first(self) -> Result:
        """A row that has the question's text, id and category."""
        return next(row for row in self.rows if row is not None)


def by_question(found: ChosenRows, start: int, most: int) -> tuple[list[Question], int]:
    """Questions of which a row is chosen, in the order of the chosen rows, and how many there are in all."""
    each = found.rows.record.dataset.rows
    every = found.questions
    page = every[start : start + most]
    held = np.flatnonzero(np.isin(found.places % each, page))
    position = dict(zip(found.places[held].tolist(), held.tolist(), strict=True))
    places = [[int(number) + each * n for n in range(len(found.rows.systems))] for number in page]
    rows = found.rows.by_number(place for of_question in places for place in of_question)
    questions = [
        Question(tuple(map(rows.get, of_question)), tuple(map(position.get, of_question))) for of_question in places
    ]
    return questions, len(every)


def _presets(systems: list[str], metrics: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Choices of rows that most readers want, by name."""
    if "accurate" not in metrics:
        return {"Failed": {"failed": "true"}}
    worst = {"sort": "correctness"} if "correctness" in metrics else {}
    wrong: dict[str, Any] = {**worst, "where": ("accurate<1",)}
    if len(systems) == 1:
        return {"Not accurate": wrong, "Failed": {"failed": "true"}}
    changes = {label: {"changed": name} for name, label in CHANGES.items()}
    return changes | {f"Not accurate: {name}": {"system": name, **wrong} for name in systems}


@router.get("/ui/runs/{run}/row")
def _row(
    request: Request,
    run: str,
    at: Annotated[int | None, Query(ge=0, le=MOST_PLACES)] = None,
    id: Annotated[str, Query(max_length=1000)] = "",  # noqa: A002 - the name in the address
) -> Response:
    """A row by its position in a selection, or by its query's id."""
    library: Library = request.state.library
    asked, report = asked_in(request), library.report(run)
    found = chosen(library, run, asked)
    if at is None:
        at = _position(found, asked.get("system"), id)
    rows = found.rows.at(found.places[at : at + 1])
    if not rows:
        raise NotFound("there is no such row", hint="go back to the list of queries")
    place, row = int(found.places[at]), rows[0]
    sample, every = library.sample(run, row), _of_all_systems(found, place)
    sentences, facts = views.units(row)
    return shown(
        request,
        "row.html",
        run=run,
        title=report.provenance.configuration.name or run,
        listed_from=_page_of(found, place),
        asked=asked,
        at=at,
        total=len(found.places),
        row=row,
        why=failing.why(row, judge=False),
        sentences=sentences,
        facts=facts,
        contexts=views.contexts(sample),
        history=views.history(row),
        tables=list(views.tables(row, every, sample)),
        others=[one for one in every if one.system != row.system],
        divided=list(disagreements(row.ratings)),
    )


def _page_of(found: ChosenRows, place: int) -> int:
    """Where the page of questions begins that has the row at a place."""
    number = place % found.rows.record.dataset.rows
    return int(np.flatnonzero(found.questions == number)[0]) // A_PAGE * A_PAGE


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
