"""Systems side by side."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from fastapi import Query, Request, Response

from ragassay.analysis.models import ComparedSystem, Comparison
from ragassay.core.formatting import number
from ragassay.dashboard.library import Library
from ragassay.dashboard.pages.queries import CHANGES
from ragassay.dashboard.site import AnyForm, exported, pages, shown
from ragassay.reporting import comparison as tables
from ragassay.reporting.charts import Chart

RECENT = 30  # runs that can be ticked
router = pages()
_TONES = {"better": "good", "worse": "bad"}


@router.get("/ui/compare")
def _compare(
    request: Request,
    run: Annotated[list[str] | None, Query(max_length=20)] = None,
    baseline: Annotated[str, Query(max_length=300)] = "",
    metrics: Annotated[str, Query(max_length=1000)] = "",
    form: AnyForm = "page",
) -> Response:
    library: Library = request.state.library
    chosen = list(dict.fromkeys(run or ()))
    if not chosen:
        recent = [one for one in islice(library.runs(), RECENT) if one.headline]
        return shown(request, "compare_choice.html", runs=recent)
    wanted = [name.strip() for name in metrics.split(",") if name.strip()]
    made = library.compare(chosen, baseline or None, wanted or None)
    if form != "page":
        return exported("comparison", tables.EXPORTERS, made, form)
    return shown(
        request,
        "compare.html",
        asked={"run": chosen, "baseline": baseline, "metrics": metrics},
        comparison=made,
        formats=tables.EXPORTERS.names(),
        verdict=made.verdict,
        runs={side.run: _title(library, side.run) for side in made.sides.values()},
        heat=_heat(made),
        changes=CHANGES if _links_to_changes(library, made) else {},
        charts=[one for one in (tables.differences_chart(made), _standing(library, made)) if one],
        tables=list(tables.tables(made)),
        slices=list(tables.slice_tables(made)),
        regressions=[
            (
                tables.regressions_title(pair),
                pair,
                [(row, tables.regression_card(pair, row)) for row in pair.regressions],
            )
            for pair in made.pairs
        ],
    )


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


def _heat(made: Comparison) -> list[dict[str, Any]]:
    """The metrics, that of the headline first: the pairs, and each system's mean with the tone, outcome and mark of it."""
    found = []
    for name in sorted(made.metrics, key=lambda name: name != "accurate"):
        deltas = [pair.metrics[name] for pair in made.pairs]
        first = next((delta.mean_a for delta in deltas if delta.mean_a is not None), None)
        cells = [(made.baseline, _mean(first), "", "reference")]
        for pair, delta in zip(made.pairs, deltas, strict=True):
            cells.append((pair.b, _mean(delta.mean_b), _TONES.get(delta.outcome, ""), delta.outcome + delta.mark))
        n = sorted({delta.n for delta in deltas})
        pairs = "" if not n[-1] else f"{n[0]:,} pairs" if len(n) == 1 else f"{n[0]:,} to {n[-1]:,} pairs"
        found.append({"name": name, "pairs": pairs, "cells": cells})
    return found


def _mean(value: float | None) -> str:
    return "not scored" if value is None else number(value)


def _standing(library: Library, made: Comparison) -> Chart | None:
    """Accuracy against what it takes, each with its interval and a link to its run."""

    def more(side: ComparedSystem) -> dict[str, Any]:
        accuracy = library.report(side.run).systems[side.system].metrics.get("accurate")
        return {"interval": accuracy and accuracy.interval, "address": f"/ui/runs/{side.run}"}

    note = "Up and to the left is better. Lines are intervals of the accuracy over all rows of a system."
    return tables.standing_chart(made, more, note)
