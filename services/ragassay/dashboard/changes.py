"""The systems of a run, or of two runs, against each other by the columns of their rows: no row is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from ragassay.analysis.comparison import MAX_COMPARED, by_accuracy, verdict
from ragassay.analysis.costs import CostQuery
from ragassay.analysis.difference import Contrast, Difference, known_metric
from ragassay.analysis.trends import Trend
from ragassay.core.errors import AssayError, BadInput
from ragassay.core.statistics import IncrementalCost
from ragassay.dashboard.library import Library
from ragassay.evaluation.groups import numbered
from ragassay.metrics.composite import custom_metrics
from ragassay.reporting.listing import RunSummary
from ragassay.stats.ratio import incremental_cost
from ragassay.storage.columns import FIGURES, QUESTION

A_WEEK = timedelta(days=7)
CHANGES = {"worse": "got worse", "better": "got better", "wrong": "wrong in all"}


def verdict_of(library: Library, run: str) -> tuple[str, ...]:
    """As ``comparison.verdict`` has it; for a long run from the rows' columns, so that no row is read."""
    report = library.report(run)
    if len(report.systems) < 2 or report.provenance.dataset.rows <= MAX_COMPARED:
        return verdict(report)
    if "accurate" not in report.provenance.metrics:
        return ()
    rows = library.rows(run)
    scores = dict(zip(rows.systems, rows.column("accurate").reshape(len(rows.systems), -1), strict=True))
    questions = numbered(rows.of_system(rows.systems[0]).column(QUESTION))
    return tuple(by_accuracy(scores, questions, rows.record.spec))


def since_last_week(library: Library, trend: Trend) -> dict[str, Difference]:
    """By system, its newest run against the last one that is at least a week older, else against the first."""
    differences = {}
    for name, series in trend.systems.items():
        *before, newest = sorted(series.points, key=lambda point: point.created_at)
        until = datetime.fromisoformat(newest.created_at) - A_WEEK
        older = [point for point in before if datetime.fromisoformat(point.created_at) <= until]
        if before and (one := against(library, trend.metric, name, (older or before[:1])[-1].run, newest.run)):
            differences[name] = one
    return differences


def against(library: Library, metric: str, system: str, before: str, newest: str) -> Difference | None:
    """The newest run (b) against the one before (a) by the scores of their rows.

    None if these are not rows on the same questions in the same order, or have no such score.
    """
    shared = side_by_side(library, [metric], (before, system), (newest, system))
    if shared is None:
        return None
    record = library.open(newest).record
    custom = custom_metrics(record.spec)
    if not (about := known_metric(metric, custom)):
        return None
    (a,), (b,), asked = shared
    scored, questions = np.isfinite(a) & np.isfinite(b), numbered(asked)
    if not scored.any():
        return None
    terms = library.open(before).record.spec.statistics
    contrast = Contrast(
        before, newest, record.dataset.name, terms.alpha, record.spec.seed, custom=custom, tests=terms.tests
    )
    by_question = None if questions is None else questions[scored]
    one = contrast.paired(metric, a[scored], b[scored], questions=by_question, better=about.better)
    return contrast.decided(one, one.p, 1)


def side_by_side(
    library: Library, names: Sequence[str], a: tuple[str, str], b: tuple[str, str]
) -> tuple[Any, Any, Any] | None:
    """The columns of two systems, each RUN and SYSTEM, of shape (names, questions), and what tells the questions apart.

    None if their rows are not on the same questions in the same order, have no such columns, or can't be read.
    """
    try:
        runs = [library.rows(run) for run, _ in (a, b)]
        for rows, (_, system) in zip(runs, (a, b), strict=True):
            if system not in rows.systems or not {*rows.record.metrics, *FIGURES}.issuperset(names):
                return None
        first, second = (rows.of_system(system) for rows, (_, system) in zip(runs, (a, b), strict=True))
        asked = second.column(QUESTION)
        same_dataset = len({rows.record.dataset.digest for rows in runs}) == 1
        if not same_dataset or not np.array_equal(first.column(QUESTION), asked):
            return None
        return *(np.array([side.column(name) for name in names]) for side in (first, second)), asked
    except AssayError:
        return None


def changed_questions(accurate: Any, changed: str) -> Any:
    """Which questions changed so against the first system; ``accurate`` has shape (systems, questions)."""
    if changed not in CHANGES:
        raise BadInput(f"changed should be one of {', '.join(CHANGES)}", where="changed")
    first, *others = accurate
    if changed == "wrong":
        return np.all(accurate == 0, axis=0)
    return np.any([each < first if changed == "worse" else each > first for each in others], axis=0)


def marginal_costs(library: Library, runs: Iterable[RunSummary], query: CostQuery) -> dict[str, IncrementalCost]:
    """What one more accurate answer of each system costs if it replaces the first one, in the newest run of several."""
    start, end = query.span
    for run in runs:
        first, *others = run.systems or ("",)
        chosen = [name for name in others if not query.system or name in query.system]
        is_asked_for = not query.dataset or run.dataset in query.dataset
        if run.headline and chosen and is_asked_for and start <= datetime.fromisoformat(run.created_at) < end:
            costs = {}
            for name in chosen:
                shared = side_by_side(library, ("cost_usd", "accurate"), (run.id, first), (run.id, name))
                if shared and (known := np.isfinite(np.vstack(shared[:2])).all(axis=0)).any():
                    questions = len(np.unique(shared[2][known]))
                    columns = (column[known] for side in shared[:2] for column in side)
                    cost = incremental_cost(*columns, names=(first, name), questions=questions)
                    costs[f"{name} instead of {first} in the run {run.name or run.id}"] = cost
            return costs
    return {}
