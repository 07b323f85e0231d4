"""Systems side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Annotated
from urllib.parse import urlencode

import numpy as np
from fastapi import Query, Request, Response

from ragassay.analysis.describe import pairs_to_show
from ragassay.analysis.models import Comparison, Pair
from ragassay.core.formatting import listed, minute, split_names
from ragassay.core.report import run_and_system
from ragassay.core.statistics import Interval
from ragassay.dashboard.changes import CHANGES, against, changed_questions, side_by_side
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import AnyForm, analysis, exported, pages, shown, shown_document
from ragassay.reporting.comparison import EXPORTERS, of_comparison
from ragassay.reporting.document import Document, Link
from ragassay.reporting.trends import change_sentence

RECENT = 100  # runs among which such as can be compared are looked for
router = pages()


@router.get("/ui/compare")
@analysis
def _compare(
    request: Request,
    run: Annotated[list[str] | None, Query(max_length=20)] = None,
    system: Annotated[str, Query(max_length=300)] = "",
    baseline: Annotated[str, Query(max_length=300)] = "",
    metrics: Annotated[str, Query(max_length=1000)] = "",
    form: AnyForm = "page",
) -> Response:
    """Systems side by side, the oldest run first; of two whole runs the same system of each."""
    library: Library = request.state.library
    runs = list(dict.fromkeys(run or ())) or _newest(library)
    if not runs:
        nothing = "There is nothing to compare yet: two runs, or one with two systems, are needed."
        before, after = (
            "ragassay evaluate answers.jsonl --name before",
            "ragassay evaluate new-answers.jsonl --name after",
        )
        return shown_document(request, Document("Compare"), commands=(nothing, before, after))
    runs, shared = _in_order(library, runs)
    known = {name: against(library, "accurate", name, *runs) for name in shared if len(shared) > 1}
    changes = {name: one for name, one in known.items() if one}
    if system not in shared:  # the one that changed most
        system = max(shared, key=lambda name: abs(changes[name].delta or 0) if name in changes else 0, default="")
    chosen = [f"{one}#{system}" for one in runs] if system else runs
    made = library.compare(chosen, baseline or None, split_names(metrics) or None, apart=form == "page")
    if made is None:
        return _waiting(request, library, runs)
    if form != "page":
        return exported("comparison", EXPORTERS, made, form)
    document = of_comparison(made, "/ui/runs", dict(_intervals(library, made)))
    others = [change_sentence(name, one, "before", "then") for name, one in changes.items() if name != system]
    return shown(
        request,
        "compare.html",
        asked={"run": runs, "system": system, "baseline": baseline, "metrics": metrics},
        comparison=made,
        formats=EXPORTERS.names(),
        runs={side.run: _title(library, side.run) for side in made.sides.values()},
        shared=shared,
        changes=[link for n in pairs_to_show(made.pairs) for link in _changes(library, made, made.pairs[n])],
        document=replace(document, answer=(*document.answer, *others)),
    )


def _waiting(request: Request, library: Library, runs: list[str]) -> Response:
    """A page that asks again until the comparison is made."""
    titles = listed([_title(library, run) for run in dict.fromkeys(run_and_system(one)[0] for one in runs)])
    about = f"All rows of {titles} are being compared. This page shows the result as soon as it is there, in seconds."
    page = shown_document(request, Document("Comparing", about=about))
    page.headers["Refresh"] = "2"
    return page


def _newest(library: Library) -> list[str]:
    """The newest run that has several systems, or one before it on the same dataset, which then is the first; or none."""
    finished = list(islice((one for one in library.runs() if one.headline), RECENT))
    for n, newer in enumerate(finished, start=1):
        if len(newer.systems) > 1:
            return [newer.id]
        if before := next((one for one in finished[n:] if one.dataset == newer.dataset), None):
            return [before.id, newer.id]
    return []


def _in_order(library: Library, runs: list[str]) -> tuple[list[str], list[str]]:
    """Whole runs, the oldest first, and the names of the systems that both have if they are two; else the runs as they are."""
    if any(run_and_system(run)[1] for run in runs):
        return runs, []
    records = sorted(
        (library.open(run).record for run in runs), key=lambda record: datetime.fromisoformat(record.created_at)
    )
    oldest, *newer = records
    shared = [name for name in newer[0].systems if name in oldest.systems] if len(newer) == 1 else []
    return [record.id for record in records], shared


def _changes(library: Library, made: Comparison, pair: Pair) -> Iterator[Link]:
    """How many questions changed in each way, as links to these; none if the rows are not those of the same questions."""
    a, b = made.sides[pair.a], made.sides[pair.b]
    shared = side_by_side(library, ["accurate"], (a.run, a.system), (b.run, b.system))
    if shared is None:
        return
    of = f"{pair.b}: " if len(made.pairs) > 1 else ""
    for changed, label in CHANGES.items():
        count = int(changed_questions(np.vstack(shared[:2]), changed).sum())
        asked = {"system": b.system, "changed": changed, "since": f"{a.run}#{a.system}"}
        yield Link(f"{of}{count:,} {label}", f"/ui/runs/{b.run}/queries?{urlencode(asked)}" if count else "")


def _intervals(library: Library, made: Comparison) -> Iterator[tuple[str, Interval]]:
    """The interval of each system's accuracy over all its rows."""
    for name, side in made.sides.items():
        if accuracy := library.report(side.run).systems[side.system].metrics.get("accurate"):
            yield name, accuracy.interval


def _title(library: Library, run: str) -> str:
    """A run's name, if it has one, and when it was made."""
    report = library.report(run)
    return f"{report.provenance.configuration.name or report.provenance.dataset.name}, {minute(report.run.created_at)}"
