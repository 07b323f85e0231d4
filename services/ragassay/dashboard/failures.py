"""The ways in which rows of a run failed: how often, and a few of each to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

import numpy as np

from ragassay.core.models import Result
from ragassay.core.report import Report, ReportWithResults
from ragassay.metrics.failures import FailureName
from ragassay.reporting import failing
from ragassay.reporting.document import Card, Cards, Link, Table
from ragassay.reporting.failing import FAILURES, what_went_wrong, words
from ragassay.storage.columns import THERE, label_column, label_value
from ragassay.storage.row_index import RowIndex

MOST_EXAMPLES = 3  # of a kind
MOST_WORST = 10  # of all systems


def worst(report: Report, rows: RowIndex, address: str) -> Cards | None:
    """The worst rows with why, as many of each system, chosen without reading the others."""
    per_system = rows.record.dataset.rows
    few: dict[str, Sequence[Result]] = {}
    most = max(1, MOST_WORST // len(report.systems))
    kind, done = rows.column(label_column("failure")), rows.column(THERE) > 0
    inaccurate = np.isin(
        kind, [label_value(name) for name in FAILURES if name not in ("response_failed", "not_scored")]
    )
    for name, system in report.systems.items():
        first = rows.systems.index(name) * per_system
        of_system = slice(first, first + per_system)
        figures = [rows.column(metric)[of_system] for metric in failing.judging(system.metrics)]
        scored = sum((np.isfinite(one) for one in figures), np.zeros(per_system))
        means = sum((np.nan_to_num(one) for one in figures), np.zeros(per_system)) / np.maximum(scored, 1)
        ranks = np.lexsort((np.where(scored > 0, means, 1.0), ~inaccurate[of_system], ~done[of_system]))
        few[name] = tuple(rows.at(ranks[:most] + first))
    found = failing.worst_rows(ReportWithResults.of(report, few), most, address)
    if found is None:
        return None
    why = (Card(card.title, card.about, card.texts[-1:], card.links) for card in found.cards)
    return Cards("Read these first", tuple(why))


def kinds(rows: RowIndex) -> dict[FailureName, np.ndarray]:
    """The numbers of the rows that failed in each way, the most frequent way first."""
    column = rows.column(label_column("failure"))
    found = {name: np.flatnonzero(column == label_value(name)) for name in FAILURES}
    return dict(sorted(((name, one) for name, one in found.items() if len(one)), key=lambda item: -len(item[1])))


def failure_table(rows: RowIndex, address: str, most: int | None = None) -> Table | None:
    """How many rows of each system failed in each way; None if none did."""
    done = (rows.column(THERE) > 0).reshape(len(rows.systems), -1).sum(axis=1)
    counts: dict[str, dict[FailureName, int]] = {system: {} for system in rows.systems}
    for name, numbers in kinds(rows).items():
        of_each = np.bincount(numbers // rows.record.dataset.rows, minlength=len(rows.systems))
        for system, n in zip(rows.systems, of_each.tolist(), strict=True):
            counts[system][name] = n
    return what_went_wrong(counts, dict(zip(rows.systems, done.tolist(), strict=True)), address, most)


def examples(rows: RowIndex, address: str) -> Iterator[Cards]:
    """A few rows of each kind, with why they failed."""
    for name, numbers in kinds(rows).items():
        cards = []
        for at, row in enumerate(rows.at(numbers[:MOST_EXAMPLES])):
            link = Link("Read the row", f"{address}?{urlencode({'failure': name, 'at': at})}")
            why = failing.why(row, judge=False) or row.error or ""
            cards.append(Card(row.query, f"{row.system} {row.query_id}", (("why", why),), (link,)))
        yield Cards(words(name), tuple(cards))
