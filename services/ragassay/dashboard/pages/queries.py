"""The rows of a run, and one of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import Query, Request, Response

from ragassay.core.errors import BadInput, NotFound
from ragassay.core.formatting import minute
from ragassay.core.models import Result
from ragassay.core.report import run_and_system
from ragassay.dashboard.changes import CHANGES, changed_questions, side_by_side
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, SearchText, Start, address_of, pages, shown
from ragassay.reporting.failing import FAILURES
from ragassay.reporting.row import judged_first, of_row
from ragassay.storage.columns import FIGURES
from ragassay.storage.row_index import RowIndex
from ragassay.storage.selection import Selection

MAX_SCORES = 3  # below an answer
MAX_ID = 10_000  # characters of a query's id in an address
router = pages()
_ONE = ("system", "category", "difficulty", "text", "failed", "failure", "sort", "changed", "since")
_BACK = "go back to the list of queries"


@dataclass(frozen=True)
class Column:
    """The rows of a system that a page shows side by side with those of others."""

    label: str
    system: str
    rows: RowIndex

    def address(self, row: Result) -> str:
        """Of the page of a row."""
        return f"/ui/runs/{self.rows.record.id}/row?{address_of({'system': row.system, 'id': row.query_id})}"


class Cell(NamedTuple):
    """The row of a system on a question, None if there is none; the address of its page; whether it is among the chosen."""

    row: Result | None
    address: str
    is_chosen: bool


@dataclass(frozen=True)
class Question:
    """A question with a cell for each column."""

    cells: tuple[Cell, ...]

    @property
    def first(self) -> Result:
        """A row that has the question's text, id and category."""
        return next(cell.row for cell in self.cells if cell.row is not None)

    @property
    def address(self) -> str:
        """Of the page of its first chosen row."""
        return next(cell.address for cell in self.cells if cell.is_chosen)


class ChosenRows:
    """The rows of a run that an address asks for, by their ``places``; raises BadInput, UnknownName and NotFound.

    ``asked``: the selection, as an address has it. ``changed`` in it: only questions on which a system is less accurate
    than the first ("worse"), or more ("better"), or on which none is accurate ("wrong"). With ``since``, RUN#SYSTEM: than
    that system, which answered the same questions in the same order, and only the ``system`` and that one are shown.
    """

    def __init__(self, request: Request, run: str) -> None:
        given = request.query_params
        self.asked: dict[str, Any] = {name: given[name] for name in _ONE if given.get(name)}
        if where := tuple(text for text in given.getlist("where") if text.strip()):
            self.asked["where"] = where
        self.rows: RowIndex = request.state.library.rows(run)
        self.each = self.rows.record.dataset.rows  # rows of one system: the number of a row's question is the rest
        self.columns = [Column(system, system, self.rows) for system in self.rows.systems]
        selection = {name: value for name, value in self.asked.items() if name not in ("changed", "since")}
        self.places: Any = self.rows.selected(Selection.given(**selection))
        if changed := self.asked.get("changed"):
            scores = self._compared(request.state.library)
            self.places = self.places[changed_questions(scores, changed)[self.places % self.each]]

    def _compared(self, library: Library) -> Any:
        """Accuracy of the system that the others are compared with, and of these; shape (systems, questions)."""
        if "accurate" not in self.rows.record.metrics:
            raise BadInput("the run has no metric accurate, so that no change is known", where="changed")
        if "since" not in self.asked:
            return self.rows.column("accurate").reshape(len(self.rows.systems), -1)
        run, before = run_and_system(self.asked["since"])
        system, now = self.asked.get("system", ""), self.rows.record
        shared = side_by_side(library, ["accurate"], (run, before or ""), (now.id, system))
        if shared is None:
            hint = "name a system of each run: since=RUN#SYSTEM and system=SYSTEM"
            raise BadInput("these are not the same questions in the same order", where="since", hint=hint)
        rows = library.rows(run)
        both = [Column(str(before), str(before), rows), Column(system, system, self.rows)]
        if rows.record.id != now.id:
            names = [minute(one.rows.record.created_at) for one in both]
            if names[0] == names[1]:
                names = [one.rows.record.id for one in both]
            both = [replace(one, label=f"{one.system}, {of}") for one, of in zip(both, names, strict=True)]
        self.columns = both
        return np.vstack(shared[:2])

    @property
    def questions(self) -> Any:
        """The numbers of the questions of which a row is chosen, in the order of the chosen rows."""
        numbers = self.places % self.each
        return numbers[np.sort(np.unique(numbers, return_index=True)[1])]

    def by_question(self, start: int, max_questions: int) -> tuple[list[Question], int]:
        """Questions of which a row is chosen, in the order of the chosen rows, and how many there are in all."""
        every = self.questions
        page = every[start : start + max_questions]
        chosen = set(self.places[np.isin(self.places % self.each, page)].tolist())
        of_columns = [list(self._cells(column, page, chosen)) for column in self.columns]
        return [Question(cells) for cells in zip(*of_columns, strict=True)], len(every)

    def _cells(self, column: Column, questions: Any, chosen: Collection[int]) -> Iterator[Cell]:
        """A cell for each question; ``chosen``: the places of the chosen rows."""
        places = [int(place) % self.each + column.rows.first(column.system) for place in questions]
        found = column.rows.by_number(places)
        for place in places:
            row, is_chosen = found.get(place), column.rows is self.rows and place in chosen
            address = "" if row is None else self.address(row) if is_chosen else column.address(row)
            yield Cell(row, address, is_chosen)

    def of_question(self, place: int) -> list[tuple[Column, Result]]:
        """What is shown of the question of a row: the row of each column, as far as it is there."""
        cells = [(column, next(self._cells(column, [place], ())).row) for column in self.columns]
        return [(column, row) for column, row in cells if row]

    def address(self, row: Result) -> str:
        """Of the page of a chosen row, which leads on to the others."""
        of = "" if "system" in self.asked or len(self.rows.systems) == 1 else row.system
        return f"/ui/runs/{self.rows.record.id}/row?{address_of({**self.asked, 'of': of, 'id': row.query_id})}"

    def position(self, query_id: str, of: str) -> int:
        """The position of the row on a query, of a system if one is named, among those that are chosen; raises NotFound."""
        system = self.asked.get("system") or of
        for name in self.rows.systems:
            place = self.rows.find(name, query_id) if system in ("", name) else None
            if place is not None and len(at := np.flatnonzero(self.places == place)):
                return int(at[0])
        raise NotFound(f"there is no row {query_id[:200]!r}", hint=_BACK)


@router.get("/ui/runs/{run}/queries")
def _queries(request: Request, run: str, start: Start = 0) -> Response:
    library: Library = request.state.library
    report, chosen = library.report(run, labels=False), ChosenRows(request, run)
    metrics, asked = report.provenance.metrics, chosen.asked
    named = {asked.get("sort", "").removeprefix("-").lower()}
    named |= {re.split("[<>=]", bound)[0].strip().lower() for bound in asked.get("where", ())}
    wanted = [name for name in metrics if name.lower() in named] or judged_first(metrics)
    questions, total = chosen.by_question(start, A_PAGE)
    return shown(
        request,
        "queries.html",
        run=run,
        report=report,
        asked=asked,
        columns=[column.label for column in chosen.columns],
        questions=questions,
        start=start,
        total=total,
        chosen=len(chosen.places),
        scores=[name for name in wanted if name != "accurate"][:MAX_SCORES],
        presets=_presets(list(report.systems), metrics, asked),
        figures=[*metrics, *FIGURES],
        failures=FAILURES,
        categories=sorted({value for one in report.systems.values() for value in one.slices.get("category", {})}),
    )


def _presets(systems: list[str], metrics: Sequence[str], asked: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Choices of rows that most readers want, by name."""
    if "accurate" not in metrics:
        return {"Failed": {"failed": "true"}}
    wrong: dict[str, Any] = {"sort": "correctness"} if "correctness" in metrics else {}
    wrong["where"] = ("accurate<1",)
    if len(systems) == 1 and "since" not in asked:
        return {"Not accurate": wrong, "Failed": {"failed": "true"}}
    pair = {name: asked[name] for name in ("system", "since") if "since" in asked and name in asked}
    changes = {label.capitalize(): {"changed": name, **pair} for name, label in CHANGES.items()}
    return changes | {f"Not accurate: {name}": {"system": name, **wrong} for name in systems}


@router.get("/ui/runs/{run}/row")
def _row(
    request: Request,
    run: str,
    id: Annotated[str, Query(max_length=MAX_ID)],  # noqa: A002 - the name in the address
    of: SearchText = "",
) -> Response:
    """A row by its query's id, ``of`` a system if the selection has rows of several, between its neighbours there."""
    library: Library = request.state.library
    report, chosen = library.report(run, labels=False), ChosenRows(request, run)
    at = chosen.position(id, of)
    place, before, after = int(chosen.places[at]), chosen.places[max(at - 1, 0) : at], chosen.places[at + 1 : at + 2]
    near = chosen.rows.by_number([*before, place, *after])
    row = near[place]
    every = [
        (column.label, one, "" if column.rows is chosen.rows and one.system == row.system else column.address(one))
        for column, one in chosen.of_question(place)
    ]
    labels = [one for one in library.labels(run) if (one.system, one.query_id) == (row.system, row.query_id)]
    on_page = int(np.flatnonzero(chosen.questions == place % chosen.each)[0])
    return shown(
        request,
        "row.html",
        run=run,
        title=report.provenance.configuration.name or run,
        listed_from=on_page // A_PAGE * A_PAGE,
        asked=chosen.asked,
        previous=[chosen.address(near[number]) for number in before if number in near],
        next=[chosen.address(near[number]) for number in after if number in near],
        position=f"row {at + 1:,} of {len(chosen.places):,}",
        document=of_row(row, library.sample(run, row), every=every, labels=labels, on_page=True),
    )
