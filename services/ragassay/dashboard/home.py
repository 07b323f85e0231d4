"""What the first page says: what ran last and whether it is better, what needs attention, and the runs in short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from ragassay.analysis.trends import Trend
from ragassay.core.errors import AssayError
from ragassay.dashboard.changes import against, verdict_of
from ragassay.dashboard.library import Library
from ragassay.reporting.document import Card, Cards, Document, Link
from ragassay.reporting.failing import first_fix, words
from ragassay.reporting.listing import RunSummary
from ragassay.reporting.trends import change_sentence, chart_of

MOST_RUNS = 14  # in the chart
MOST_SHOWN = 3
TROUBLE = ("failed", "incomplete", "gates missed", "unreadable", "unfinished", "paused")


def latest(library: Library, listed: Sequence[RunSummary]) -> Document | None:
    """The newest run with a report: which of its systems is better, or what has changed; and the figure over the last runs."""
    newest = next((run for run in listed if run.figures), None)
    if newest is None:
        return None
    labels = len(library.labels(newest.id))
    key = library.where, library.version(newest.id), labels, tuple((run.id, run.status) for run in listed)
    document: Document = library.held("latest", key, lambda: _latest(library, newest))
    return document


def _latest(library: Library, newest: RunSummary) -> Document:
    metric = next(iter(newest.figures.values())).metric
    try:
        trend = library.trend(metric, system=None, dataset=newest.dataset, judge=newest.judge, last=MOST_RUNS)
    except AssayError:
        trend = None
    better = _between(library, newest)
    answer = (better,) if better else tuple(_since(library, newest, trend))
    several = trend is not None and any(len(series.known) > 1 for series in trend.systems.values())
    chart = chart_of(trend, "/ui/runs") if trend and several else None
    return Document(
        newest.name or newest.id,
        about=f"{newest.dataset}, {newest.queries:,} questions, judge {newest.judge}, {when(newest)}",
        answer=answer or tuple(f"{name}: {said}" for name, said in newest.headline.items()),
        blocks=tuple(block for block in (chart, _fixes(library, newest)) if block),
    )


def _fixes(library: Library, run: RunSummary) -> Cards | None:
    """The cause of failure to fix first in each system."""
    cards = []
    for name, system in library.report(run.id).systems.items():
        if (sentence := first_fix(system)) and system.fix_first:
            cause = system.fix_first.causes[0].cause
            address = f"/ui/runs/{run.id}/queries?{urlencode({'system': name, 'failure': cause})}"
            cards.append(Card(f"{name}: {words(cause)}", "", (("", sentence),), (Link("Read these rows", address),)))
    return Cards("What to fix first", tuple(cards[:MOST_SHOWN])) if cards else None


def _between(library: Library, run: RunSummary) -> str:
    """Which of the systems of a run answers accurately more often: the first sentence of its page."""
    if len(run.systems) < 2 or any(figure.metric != "accurate" for figure in run.figures.values()):
        return ""
    try:
        return next(iter(verdict_of(library, run.id)), "")
    except AssayError:  # its rows are deleted
        return ""


def _since(library: Library, run: RunSummary, trend: Trend | None) -> Iterator[str]:
    """What has changed since the run before, of a run of one system."""
    for name, series in (trend.systems if trend else {}).items():
        runs = [point.run for point in series.points]
        if run.id in runs[1:] and (one := against(library, trend.metric, name, runs[-2], run.id) if trend else None):
            yield change_sentence(name, one, "in the run before", "the run before")


def when(run: RunSummary) -> str:
    """When a run was made."""
    return f"{run.created_at[:16].replace('T', ' ')} UTC"


def attention(runs: Sequence[RunSummary]) -> list[tuple[RunSummary, str]]:
    """The runs that failed, missed gates or were not finished, newest first, each with why."""
    return [(run, run.error or run.problem or run.progress) for run in runs if run.status in TROUBLE]
