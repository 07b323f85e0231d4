"""The ways in which rows of a run failed: how often, and a few of each to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragassay.core.formatting import interval, percent
from ragassay.core.models import Result
from ragassay.core.report import Report, ReportWithResults
from ragassay.metrics.failures import FailureName
from ragassay.reporting import failing
from ragassay.reporting.failing import WorstRow, words
from ragassay.stats.intervals import wilson_interval
from ragassay.storage.columns import THERE, label_column, label_value
from ragassay.storage.row_index import RowIndex

MOST_EXAMPLES = 3  # of a kind
MOST_WORST = 10  # of all systems
FAILURES: dict[FailureName, str] = {
    "retrieval_miss": "nothing relevant was retrieved",
    "ranking_miss": "what is relevant stands too low, or the contexts lack facts",
    "contexts_unused": "the contexts hold the facts, the answer does not use them",
    "unfaithful": "too little of the answer is supported by the contexts",
    "incomplete": "the answer leaves facts out",
    "off_topic": "the answer hardly addresses the query",
    "wrong_refusal": "the query can be answered, and the system refused",
    "answered_the_unanswerable": "the query can't be answered, and the system answered",
    "gold_suspect": "the contexts support what the ground truth contradicts: one of the two is wrong",
    "not_attributed": "not accurate, and no cause was found",
    "response_failed": "there is no answer: the system failed",
    "not_scored": "a score is missing because something broke",
}
"""What the kinds of failure mean, in the order in which they are shown."""


@dataclass(frozen=True)
class FailureShare:
    """How many rows of a system failed in a way, and the share of all rows in percent with its interval."""

    system: str
    rows: int
    of: int
    share: str

    @property
    def percent(self) -> str:
        """The share without its interval."""
        return percent(round(self.rows / self.of, 2))


@dataclass(frozen=True)
class FailureKind:
    """A way in which rows failed: how many of each system, and a few of them with why and their place among its rows."""

    name: FailureName
    shares: tuple[FailureShare, ...]
    examples: tuple[tuple[int, Result, str], ...]

    @property
    def title(self) -> str:
        """Its name as text."""
        return words(self.name)


def worst(report: Report, rows: RowIndex) -> list[WorstRow]:
    """The worst rows, as many of each system, chosen without reading the others."""
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
    return failing.worst_rows(ReportWithResults.of(report, few), most)


def failures(rows: RowIndex) -> list[FailureKind]:
    """The ways in which rows of a run failed, the most frequent first."""
    kinds = rows.column(label_column("failure"))
    done = rows.column(THERE) > 0
    per_system = rows.record.dataset.rows
    found = []
    for name in FAILURES:
        places = np.flatnonzero(kinds == label_value(name))
        if not len(places):
            continue
        shares = []
        for place, system in enumerate(rows.systems):
            n = int(np.count_nonzero(places // per_system == place))
            of = int(np.count_nonzero(done[place * per_system : (place + 1) * per_system]))
            if of:
                ends = interval(wilson_interval(n, of), lambda end: percent(round(end, 3)), "{} to {}")
                shares.append(FailureShare(system, n, of, f"{percent(round(n / of, 3))}, {ends}"))
        read = rows.at(places[:MOST_EXAMPLES])
        examples = tuple((at, row, failing.why(row, judge=False) or row.error or "") for at, row in enumerate(read))
        found.append((len(places), FailureKind(name, tuple(shares), examples)))
    return [kind for _, kind in sorted(found, key=lambda one: -one[0])]
