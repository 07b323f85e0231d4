"""Systems side by side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from fastapi import Query, Request, Response

from ragassay.analysis.models import Comparison
from ragassay.core.formatting import split_names
from ragassay.core.statistics import Interval
from ragassay.dashboard.library import Library
from ragassay.dashboard.pages.queries import CHANGES
from ragassay.dashboard.site import AnyForm, exported, pages, shown, shown_document
from ragassay.reporting.comparison import EXPORTERS, of_comparison
from ragassay.reporting.document import Document

RECENT = 100  # runs among which one on the same dataset is looked for
router = pages()


@router.get("/ui/compare")
def _compare(
    request: Request,
    run: Annotated[list[str] | None, Query(max_length=20)] = None,
    baseline: Annotated[str, Query(max_length=300)] = "",
    metrics: Annotated[str, Query(max_length=1000)] = "",
    form: AnyForm = "page",
) -> Response:
    library: Library = request.state.library
    chosen = list(dict.fromkeys(run or ())) or _newest(library)
    if not chosen:
        nothing = "There is nothing to compare yet: two runs, or one with two systems, are needed."
        before, after = (
            "ragassay evaluate answers.jsonl --name before",
            "ragassay evaluate new-answers.jsonl --name after",
        )
        return shown_document(request, Document("Compare"), commands=(nothing, before, after))
    made = library.compare(chosen, baseline or None, split_names(metrics) or None)
    if form != "page":
        return exported("comparison", EXPORTERS, made, form)
    return shown(
        request,
        "compare.html",
        asked={"run": chosen, "baseline": baseline, "metrics": metrics},
        comparison=made,
        formats=EXPORTERS.names(),
        runs={side.run: _title(library, side.run) for side in made.sides.values()},
        changes=CHANGES if _links_to_changes(library, made) else {},
        document=of_comparison(made, "/ui/runs", dict(_intervals(library, made))),
    )


def _newest(library: Library) -> list[str]:
    """The newest run, if it has several systems; else the run before on the same dataset, and it."""
    finished = (one for one in library.runs() if one.headline)
    newest = next(finished, None)
    if newest is None or len(newest.systems) > 1:
        return [newest.id] if newest else []
    before = next((one for one in islice(finished, RECENT) if one.dataset == newest.dataset), None)
    return [before.id, newest.id] if before else []


def _intervals(library: Library, made: Comparison) -> Iterator[tuple[str, Interval]]:
    """The interval of each system's accuracy over all its rows."""
    for name, side in made.sides.items():
        if accuracy := library.report(side.run).systems[side.system].metrics.get("accurate"):
            yield name, accuracy.interval


def _title(library: Library, run: str) -> str:
    """A run's name, if it has one, and when it was made."""
    report = library.report(run)
    return f"{report.provenance.configuration.name or run}, {report.run.created_at[:16].replace('T', ' ')}"


def _links_to_changes(library: Library, made: Comparison) -> bool:
    """Does the page of a run's questions list what changed here? It does so by accuracy, against the run's first system."""
    baseline, runs = made.sides[made.baseline], {side.run for side in made.sides.values()}
    if len(runs) > 1 or len(made.sides) == 1 or "accurate" not in made.metrics:
        return False
    return baseline.system == next(iter(library.open(baseline.run).record.systems))
