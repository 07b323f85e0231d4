"""How rows of a run failed, and the worst of them, chosen on columns: the other rows are not read."""

from __future__ import annotations

from collections.abc import Sequence

from ragassay.core.models import Result
from ragassay.core.report import Report, ReportWithResults
from ragassay.metrics.failures import FailureName
from ragassay.reporting.document import Card, Cards, Table
from ragassay.reporting.failing import FAILURES, judging, what_went_wrong, worst_rows
from ragassay.storage.columns import label_column, label_value
from ragassay.storage.row_index import RowIndex
from ragassay.storage.selection import Selection

MAX_WORST = 10  # of all systems


def worst(report: Report, rows: RowIndex, address: str) -> Cards | None:
    """The worst rows with why, as many of each system, chosen without reading the others.

    Those that are not accurate, if the run says so, by the first metric that a row can be bad at.
    """
    few: dict[str, Sequence[Result]] = {}
    max_rows = max(1, MAX_WORST // len(report.systems))
    for name, system in report.systems.items():
        where = ("accurate<1",) if "accurate" in system.metrics else ()
        numbers = rows.selected(Selection(system=name, where=where, sort=next(iter(judging(system.metrics)), None)))
        few[name] = rows.at(numbers[:max_rows])
    found = worst_rows(ReportWithResults.of(report, few), max_rows, address)
    if found is None:
        return None
    cards = (Card(card.title, card.about, card.texts[-1:], card.href) for card in found.cards)
    return Cards("Read these first", tuple(cards))


def failure_table(rows: RowIndex, address: str) -> Table | None:
    """How many rows of each system failed in each way; None if none did. ``address``: of the rows, to which counts lead."""
    counts: dict[str, dict[FailureName, int]] = {}
    done: dict[str, int] = {}
    for system in rows.systems:
        columns = rows.of_system(system)
        kinds = columns.column(label_column("failure"))[columns.there]
        counts[system] = {name: int((kinds == label_value(name)).sum()) for name in FAILURES}
        done[system] = len(kinds)
    return what_went_wrong(counts, done, address)
