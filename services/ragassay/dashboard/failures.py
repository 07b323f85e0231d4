"""The ways in which rows of a run failed: how often, and a few of each to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

import numpy as np

from ragassay.core.models import Result
from ragassay.core.report import Report, ReportWithResults
from ragassay.metrics.failures import FailureName
from ragassay.reporting.document import Card, Cards, Link, Table
from ragassay.reporting.failing import FAILURES, judging, what_went_wrong, why, words, worst_rows
from ragassay.storage.row_index import RowIndex
from ragassay.storage.selection import Selection

MOST_EXAMPLES = 3  # of a kind
MOST_WORST = 10  # of all systems


def worst(report: Report, rows: RowIndex, address: str) -> Cards | None:
    """The worst rows with why, as many of each system, chosen without reading the others.

    Those that are not accurate, if the run says so, by the first metric that a row can be bad at.
    """
    few: dict[str, Sequence[Result]] = {}
    most = max(1, MOST_WORST // len(report.systems))
    for name, system in report.systems.items():
        where = ("accurate<1",) if "accurate" in system.metrics else ()
        numbers = rows.selected(Selection(system=name, where=where, sort=next(iter(judging(system.metrics)), None)))
        few[name] = rows.at(numbers[:most])
    found = worst_rows(ReportWithResults.of(report, few), most, address)
    if found is None:
        return None
    cards = (Card(card.title, card.about, card.texts[-1:], card.links) for card in found.cards)
    return Cards("Read these first", tuple(cards))


def kinds(rows: RowIndex) -> dict[FailureName, Any]:
    """The numbers of the rows that failed in each way, the most frequent way first."""
    numbers = {name: rows.selected(Selection(failure=name)) for name in FAILURES}
    return {name: numbers[name] for name in sorted(numbers, key=lambda name: -len(numbers[name])) if len(numbers[name])}


def failure_table(rows: RowIndex, address: str, most: int | None = None) -> Table | None:
    """How many rows of each system failed in each way; None if none did."""
    each, systems = rows.record.dataset.rows, rows.systems
    counts: dict[str, dict[FailureName, int]] = {system: {} for system in systems}
    for name, numbers in kinds(rows).items():
        for system, n in zip(systems, np.bincount(numbers // each, minlength=len(systems)).tolist(), strict=True):
            counts[system][name] = n
    done = {system: int(rows.of_system(system).there.sum()) for system in systems}
    return what_went_wrong(counts, done, address, most)


def examples(rows: RowIndex, address: str) -> Iterator[Cards]:
    """A few rows of each kind, with why they failed."""
    for name, numbers in kinds(rows).items():
        cards = []
        for at, row in enumerate(rows.at(numbers[:MOST_EXAMPLES])):
            link = Link("Read the row", f"{address}?{urlencode({'failure': name, 'at': at})}")
            reason = why(row, judge=False) or row.error or ""
            cards.append(Card(row.query, f"{row.system} {row.query_id}", (("why", reason),), (link,)))
        yield Cards(words(name), tuple(cards))
