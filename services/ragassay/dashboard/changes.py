"""The systems of a run, or two runs, against each other by the columns of their rows: no row is read."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from ragassay.analysis.comparison import MAX_COMPARED, by_accuracy, verdict
from ragassay.analysis.difference import Contrast, Difference, known_metric
from ragassay.analysis.trends import Trend
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
    try:
        runs = [library.rows(run) for run in (before, newest)]
        if any(system not in rows.systems or metric not in rows.record.metrics for rows in runs):
            return None
        asked, asked_now = (rows.of_system(system).column(QUESTION) for rows in runs)
        a, b = (rows.of_system(system).column(metric) for rows in runs)
        record = runs[1].record
        own = own_metrics(record.spec)
    except AssayError:  # rows that are deleted, or can't be read
        return None
    about = known_metric(metric, own)
    if runs[0].record.dataset.digest != record.dataset.digest or not np.array_equal(asked, asked_now) or not about:
        return None
    scored, questions = np.isfinite(a) & np.isfinite(b), numbered(asked)
    if not scored.any():
        return None
    contrast = Contrast(before, newest, record.dataset.name, seed=record.spec.seed, own=own)
    by_question = None if questions is None else questions[scored]
    one = contrast.paired(metric, a[scored], b[scored], questions=by_question, better=about.better)
    return contrast.decided(one, one.p, 1)
