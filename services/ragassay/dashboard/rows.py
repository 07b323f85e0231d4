"""What is asked of a run's rows in an address: which of them, and in which order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from ragassay.dashboard.library import Library, RowsPage
from ragassay.reporting.failing import words
from ragassay.storage.places import RowPlaces
from ragassay.storage.selection import Selection

_ONE = ("system", "category", "difficulty", "text", "failed", "failure", "sort")


def asked_in(request: Request) -> dict[str, Any]:
    """What an address says of rows, as an address has it."""
    given = request.query_params
    asked: dict[str, Any] = {name: given[name] for name in _ONE if given.get(name)}
    if where := tuple(text for text in given.getlist("where") if text.strip()):
        asked["where"] = where
    return asked


@dataclass(frozen=True)
class ChosenRows:
    """The rows of a run that an address asks for."""

    rows: RowPlaces
    places: Any

    def page(self, start: int, most: int) -> RowsPage:
        """So many of them."""
        return RowsPage(self.rows.at(self.places[start : start + most]), start, len(self.places))


def chosen(library: Library, run: str, asked: Mapping[str, Any]) -> ChosenRows:
    """The rows that are asked for; raises BadInput, UnknownName and NotFound for what is not there."""
    rows = library.rows(run)
    return ChosenRows(rows, rows.selected(Selection.given(**asked)))


def bounded(where: str) -> str:
    """The figure that a bound is on; empty where it can't be read."""
    return re.split("[<>=]", where)[0].strip().lower()


_FILTERS = {
    "system": "system {}",
    "category": "category {}",
    "difficulty": "difficulty {}",
    "text": "with “{}”",
}


def marks(asked: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What rows are filtered by, in words, each with what remains asked without it."""

    def without(left: str) -> dict[str, Any]:
        return {name: value for name, value in asked.items() if name != left}

    told = [(form.format(asked[name]), without(name)) for name, form in _FILTERS.items() if name in asked]
    if "failure" in asked:
        told.append((words(asked["failure"]), without("failure")))
    if "failed" in asked:
        told.append(("scoring failed" if asked["failed"] == "true" else "scoring complete", without("failed")))
    bounds = asked.get("where", ())
    return told + [(one, {**asked, "where": tuple(other for other in bounds if other != one)}) for one in bounds]
