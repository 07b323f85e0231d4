"""The rows of a run, and one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
_BACK = "go back to the list of queries"


@dataclass(frozen=True)
class Question:
    """A question with the row of each system; ``at``: the position of each chosen row, None if it is not chosen."""

    rows: tuple[Result | None, ...]
    at: tuple[int | None, ...]

    @property
    def first(self) -> Result:
        """A row that has the question's text, id and category."""
        return next(row for row in self.rows if row is not None)


class ChosenRows:
    """The rows of a run that an address asks for, by their ``places``; raises BadInput, UnknownName and NotFound.

    ``asked``: the selection, as an address has it. ``changed`` in it: only questions on which a system is less accurate
    than the first ("worse"), or more ("better"), or on which none is accurate ("wrong").
    """

    def __init__(self, request: Request, run: str) -> None:
        given = request.query_params
        self.asked: dict[str, Any] = {name: given[name] for name in _ONE if given.get(name)}
        if where := tuple(text for text in given.getlist("where") if text.strip()):
            self.asked["where"] = where
        self.rows: RowIndex = request.state.library.rows(run)
        self.each = self.rows.record.dataset.rows  # rows of one system: the number of a row's question is the rest
        selection = {name: value for name, value in self.asked.items() if name != "changed"}
        self.places: Any = self.rows.selected(Selection.given(**selection))
        if changed := self.asked.get("changed"):
            self.places = self.places[_changed(self.rows, changed)[self.places % self.each]]

    @property
    def questions(self) -> Any:
        """The numbers of the questions of which a row is chosen, in the order of the chosen rows."""
        numbers = self.places % self.each
        return numbers[np.sort(np.unique(numbers, return_index=True)[1])]

    def by_question(self, start: int, most: int) -> tuple[list[Question], int]:
        """Questions of which a row is chosen, in the order of the chosen rows, and how many there are in all."""
        every = self.questions
        page = every[start : start + most]
        held = np.flatnonzero(np.isin(self.places % self.each, page))
        position = dict(zip(self.places[held].tolist(), held.tolist(), strict=True))
        places = [self.of_question(number) for number in page]
        rows = self.rows.by_number(place for of_question in places for place in of_question)
        return [Question(tuple(map(rows.get, of)), tuple(map(position.get, of))) for of in places], len(every)

    def of_question(self, place: int) -> list[int]:
        """The places of the rows of all systems on the question of a row."""
        return [int(place) % self.each + self.each * n for n in range(len(self.rows.systems))]

    def position(self, query_id: str) -> int:
        """The position of the row on a query among those that are chosen; raises NotFound."""
        for name in [self.asked["system"]] if "system" in self.asked else self.rows.systems:
            place = self.rows.find(name, query_id)
            if place is not None and len(at := np.flatnonzero(self.places == place)):
                return int(at[0])
        raise NotFound(f"there is no row {query_id[:200]!r}", hint=_BACK)


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
    report, chosen = library.report(run), ChosenRows(request, run)
    metrics, asked = report.provenance.metrics, chosen.asked
    named = {asked.get("sort", "").removeprefix("-").lower()}
    named |= {re.split("[<>=]", bound)[0].strip().lower() for bound in asked.get("where", ())}
    wanted = [name for name in metrics if name.lower() in named] or views.judged_first(metrics)
    questions, total = chosen.by_question(start, A_PAGE)
    return shown(
        request,
        "queries.html",
        run=run,
        report=report,
        asked=asked,
        questions=questions,
        start=start,
        total=total,
        chosen=len(chosen.places),
        scores=[name for name in wanted if name != "accurate"][:MOST_SCORES],
        presets=_presets(list(report.systems), metrics),
        figures=[*metrics, *FIGURES],
        failures=failing.FAILURES,
        categories=sorted({value for one in report.systems.values() for value in one.slices.get("category", {})}),
    )


def _presets(systems: list[str], metrics: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Choices of rows that most readers want, by name."""
    if "accurate" not in metrics:
        return {"Failed": {"failed": "true"}}
    wrong: dict[str, Any] = {"sort": "correctness"} if "correctness" in metrics else {}
    wrong["where"] = ("accurate<1",)
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
    report, chosen = library.report(run), ChosenRows(request, run)
    at = chosen.position(id) if at is None else at
    rows = chosen.rows.at(chosen.places[at : at + 1])
    if not rows:
        raise NotFound("there is no such row", hint=_BACK)
    place, row = int(chosen.places[at]), rows[0]
    sample, every = library.sample(run, row), chosen.rows.at(chosen.of_question(place))
    sentences, facts = views.units(row)
    on_page = int(np.flatnonzero(chosen.questions == place % chosen.each)[0])
    return shown(
        request,
        "row.html",
        run=run,
        title=report.provenance.configuration.name or run,
        listed_from=on_page // A_PAGE * A_PAGE,
        asked=chosen.asked,
        at=at,
        total=len(chosen.places),
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
