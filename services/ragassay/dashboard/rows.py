"""What is asked of a run's rows in an address: which of them, in which order, and beside which baseline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import Request

from ragassay.compare.pairing import NOISE
from ragassay.compare.partners import NONE, partners
from ragassay.dashboard.library import Library, RowsPage
from ragassay.documents import Report, run_and_system
from ragassay.errors import BadInput, UnknownName
from ragassay.exporters.failing import words
from ragassay.models import Result
from ragassay.store.places import RowPlaces
from ragassay.store.selection import Selection

_ONE = ("system", "category", "difficulty", "text", "failed", "failure", "sort")
_BASELINE = ("baseline", "worse")


def asked_in(request: Request) -> dict[str, Any]:
    """What an address says of rows, as an address has it."""
    given = request.query_params
    asked: dict[str, Any] = {name: given[name] for name in (*_ONE, *_BASELINE) if given.get(name)}
    if where := tuple(text for text in given.getlist("where") if text.strip()):
        asked["where"] = where
    return asked


@dataclass(frozen=True)
class RunBeside:
    """Another run, or a system of one, that rows are set beside. ``worse``: the metric in which only worse rows count."""

    run: str
    system: str | None
    rows: RowPlaces
    worse: str | None


@dataclass(frozen=True)
class ChosenRows:
    """The rows of a run that an address asks for."""

    rows: RowPlaces
    places: Any
    baseline: RunBeside | None
    were: Any = None  # for each place of the run what the baseline has in the metric in which rows are worse

    def page(self, start: int, most: int) -> RowsPage:
        """So many of them."""
        return RowsPage(self.rows.at(self.places[start : start + most]), start, len(self.places))

    def in_baseline(self, place: int) -> Result | None:
        """The baseline's row on the same query as that at a place; None where it has none, or no baseline is named."""
        if self.baseline is None:
            return None
        other = partners(self.rows, self.baseline.rows, self.baseline.system)[place]
        return next(iter(self.baseline.rows.at([other])), None) if other != NONE else None

    def was(self, place: int) -> float | None:
        """What the baseline has in the metric in which rows are worse."""
        return None if self.were is None or np.isnan(self.were[place]) else float(self.were[place])


def chosen(library: Library, run: str, report: Report, asked: Mapping[str, Any]) -> ChosenRows:
    """The rows that are asked for; raises BadInput, UnknownName and NotFound for what is not there."""
    rows = library.rows(run)
    places = rows.selected(Selection.given(**{name: asked[name] for name in asked if name not in _BASELINE}))
    baseline = _baseline(library, report, asked)
    if baseline is None or baseline.worse is None:
        return ChosenRows(rows, places, baseline)
    better = next(iter(report.systems.values())).metrics[baseline.worse].better
    others = partners(rows, baseline.rows, baseline.system)
    were = np.where(others == NONE, np.nan, baseline.rows.column(baseline.worse)[others])
    change = rows.column(baseline.worse) - were
    worse = change < -NOISE if better == "higher" else change > NOISE
    return ChosenRows(rows, places[worse[places]], baseline, were)


def _baseline(library: Library, report: Report, asked: Mapping[str, Any]) -> RunBeside | None:
    worse = asked.get("worse")
    if "baseline" not in asked:
        if worse:
            raise BadInput("worse than which run? Choose a baseline", where="worse")
        return None
    run, system = run_and_system(asked["baseline"])
    rows = library.rows(run)
    known = {name.lower(): name for name in report.provenance.metrics if name in rows.record.metrics}
    if worse and worse.lower() not in known:
        raise UnknownName("metric of both runs", worse, known.values(), where="worse")
    return RunBeside(run, system, rows, known[worse.lower()] if worse else None)


def bounded(where: str) -> str:
    """The figure that a bound is on; empty where it can't be read."""
    return re.split("[<>=]", where)[0].strip().lower()


_FILTERS = {
    "system": "system {}",
    "category": "category {}",
    "difficulty": "difficulty {}",
    "text": "with “{}”",
    "baseline": "beside {}",
    "worse": "worse in {}",
}


def marks(asked: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What rows are filtered by, in words, each with what remains asked without it."""

    def without(*names: str) -> dict[str, Any]:
        return {name: value for name, value in asked.items() if name not in names}

    told = [(form.format(asked[name]), without(name, *(["worse"] if name == "baseline" else [])))
            for name, form in _FILTERS.items() if name in asked]  # fmt: skip
    if "failure" in asked:
        told.append((words(asked["failure"]), without("failure")))
    if "failed" in asked:
        told.append(("scoring failed" if asked["failed"] == "true" else "scoring complete", without("failed")))
    bounds = asked.get("where", ())
    return told + [(one, {**asked, "where": tuple(other for other in bounds if other != one)}) for one in bounds]
