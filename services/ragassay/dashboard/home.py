"""What the first page says of the newest run: which system is better or what has changed, over the last runs, and what to fix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from urllib.parse import urlencode

from ragassay.analysis.trends import Trend
from ragassay.analysis.trends import trend as trend_of
from ragassay.core.errors import AssayError
from ragassay.core.formatting import minute
from ragassay.dashboard.changes import against, verdict_of
from ragassay.dashboard.library import Library
from ragassay.reporting.document import Block, Card, Cards, Document
from ragassay.reporting.failing import first_fix, words
from ragassay.reporting.listing import RunSummary
from ragassay.reporting.trends import change_sentence, chart_of

MAX_RUNS = 14  # in the chart
MAX_SHOWN = 3


def latest(library: Library, listed: Sequence[RunSummary], *, held: bool = False) -> Document | None:
    """The newest run with a report: which of its systems is better, or what has changed; and the figure over the last runs.

    This may take seconds; ``held``: None unless it was made before.
    """
    newest = next((run for run in listed if run.figures), None)
    if newest is None:
        return None
    labels = len(library.labels(newest.id))
    key = library.where, library.version(newest.id), labels, tuple((run.id, run.status) for run in listed)
    document: Document | None = library.held("latest", key, None if held else partial(_latest, library, newest))
    return document


def _latest(library: Library, newest: RunSummary) -> Document:
    metric = next(iter(newest.figures.values())).metric
    sentences, trend, blocks = list[str](), None, list[Block]()
    try:
        trend = trend_of(
            library.newest(), metric, system=None, dataset=newest.dataset, judge=newest.judge, last=MAX_RUNS
        )
        if len(newest.systems) > 1 and metric == "accurate":
            sentences += verdict_of(library, newest.id)[:1]
    except AssayError:  # no other run can be read, or its rows are deleted
        pass
    if trend:
        sentences = sentences or _since(library, newest, trend)
        several = any(len(series.known) > 1 for series in trend.systems.values())
        blocks += filter(None, [chart_of(trend, "/ui/runs") if several else None])
    cards = []
    for name, system in library.report(newest.id).systems.items():
        if (sentence := first_fix(system)) and system.fix_first:
            cause = system.fix_first.causes[0].cause
            address = f"/ui/runs/{newest.id}/queries?{urlencode({'system': name, 'failure': cause})}"
            cards.append(Card(f"{name}: {words(cause)}", "", (("", sentence),), address))
    blocks += [Cards("What to fix first", tuple(cards[:MAX_SHOWN]))] if cards else []
    when = f"{minute(newest.created_at)} UTC"
    return Document(
        newest.name or newest.id,
        about=f"{newest.dataset}, {newest.queries:,} questions, judge {newest.judge}, {when}",
        answer=tuple(sentences or (f"{name}: {headline}" for name, headline in newest.headline.items())),
        blocks=tuple(blocks),
    )


def _since(library: Library, run: RunSummary, trend: Trend) -> list[str]:
    """What has changed in each system since the run before."""
    sentences = []
    for name, series in trend.systems.items():
        runs = [point.run for point in series.points]
        if run.id in runs[1:] and (one := against(library, trend.metric, name, runs[-2], run.id)):
            sentences.append(change_sentence(name, one, "in the run before", "the run before"))
    return sentences
