"""The systems of a run, or two runs, against each other by the columns of their rows: no row is read."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from ragassay.analysis.comparison import MAX_COMPARED, by_accuracy, verdict
from ragassay.analysis.difference import Contrast, Difference, known_metric
from ragassay.analysis.trends import Series, Trend
from ragassay.core.errors import AssayError
from ragassay.dashboard.library import Library
from ragassay.evaluation.groups import numbered
from ragassay.metrics.composite import own_metrics
from ragassay.storage.columns import QUESTION

A_WEEK = timedelta(days=7)


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
    return tuple(by_accuracy(scores, questions, rows.record.spec.seed))


def since_last_week(library: Library, trend: Trend) -> dict[str, Difference]:
    """By system, its newest run against the last one that is at least a week older, else against the first."""
    found = {}
    for name, series in trend.systems.items():
        if ends := _ends(series):
            one = against(library, trend.metric, name, *ends)
            if one is not None:
                found[name] = one
    return found


def _ends(series: Series) -> tuple[str, str] | None:
    """The runs to compare, the earlier one first; None if there is one alone."""
    *before, newest = sorted(series.points, key=lambda point: point.created_at)
    if not before:
        return None
    until = datetime.fromisoformat(newest.created_at) - A_WEEK
    older = [point for point in before if datetime.fromisoformat(point.created_at) <= until]
    return (older or before[:1])[-1].run, newest.run


def against(library: Library, metric: str, system: str, before: str, newest: str) -> Difference | None:
    """The newest run (b) against the one before (a) by the scores of their rows.

    None if these are not rows on the same questions in the same order, or have no such score.
    """
    try:
        first, second = library.rows(before), library.rows(newest)
        known = [one for one in (first, second) if system in one.systems and metric in one.record.metrics]
        if len(known) < 2 or first.record.dataset.digest != second.record.dataset.digest:
            return None
        (asked, a), (asked_now, b) = (
            (one.of_system(system).column(QUESTION), one.of_system(system).column(metric)) for one in (first, second)
        )
        own = own_metrics(second.record.spec)
    except AssayError:  # rows that are deleted, or can't be read
        return None
    if not np.array_equal(asked, asked_now):
        return None
    scored = np.isfinite(a) & np.isfinite(b)
    about = known_metric(metric, own)
    if about is None or not scored.any():
        return None
    contrast = Contrast(before, newest, first.record.dataset.name, seed=second.record.spec.seed, own=own)
    questions = numbered(asked)
    questions = None if questions is None else questions[scored]
    one = contrast.paired(metric, a[scored], b[scored], questions=questions, better=about.better)
    return contrast.decided(one, one.p, 1)
