"""The rows that a missed gate is missed for: the worst of those that it counts, or those without a score."""

from __future__ import annotations

from collections.abc import Iterator

from ragassay.analysis.figures import PER_ACCURATE, REFUSALS, SUSPICIOUS, Figure
from ragassay.analysis.gates.drops import Scope
from ragassay.analysis.gates.rules import DROPS, ConditionName
from ragassay.analysis.pairing import match
from ragassay.core.formatting import listed, number
from ragassay.core.models import FrozenModel, Result
from ragassay.metrics.judged import ANSWERED_UNANSWERABLE, WRONG_REFUSAL

MOST_WORST = 5


class GateRow(FrozenModel):
    """One row: its value, for a drop also that in the baseline ``before``, and the reason given with its score."""

    query_id: str
    query: str
    value: float | None
    before: float | None = None
    reason: str | None = None

    def __str__(self) -> str:
        """``qs-08 0.000, was 1.000``."""
        was = "" if self.before is None else f", was {number(self.before, beside=self.value)}"
        return f"{self.query_id} {'not scored' if self.value is None else number(self.value, beside=self.before)}{was}"


def rows_behind(figure: Figure, condition: ConditionName, scope: Scope, *, unscored: bool) -> tuple[GateRow, ...]:
    """The first ``MOST_WORST``, the worst first, in the dataset's order where they are alike.

    ``unscored``: the gate is missed for lack of scores, so the rows without one.
    """
    if unscored:
        found = [_row(row, figure) for row in scope.rows if figure.applies_to(row) and figure.values(row) is None]
    elif condition in DROPS:
        sign = 1 if figure.better == "higher" else -1
        pairs = [_row(now, figure, then) for then, now in match(scope.before or (), scope.rows)]
        if figure.column in REFUSALS:  # a row that was none of those counted before may be a wrong one now
            found = [one for one in pairs if one.value == 0.0 and one.before != 0.0]
        else:
            drops = [
                (sign * (one.value - one.before), one)
                for one in pairs
                if one.value is not None and one.before is not None
            ]
            found = [one for drop, one in sorted(drops, key=lambda entry: entry[0]) if drop < 0]
    else:
        found = [_row(row, figure) for row in _counted(figure, scope)]
        if figure.column in REFUSALS:
            found = [one for one in found if one.value == (0.0 if condition == "min" else 1.0)]
        found.sort(key=lambda one: (one.value or 0.0) * (1 if condition == "min" else -1))
    return tuple(found[:MOST_WORST])


def _counted(figure: Figure, scope: Scope) -> Iterator[Result]:
    """The rows that make the figure what it is."""
    for row in scope.rows:
        values = figure.values(row)
        if not values or (figure.column == SUSPICIOUS and not values[0]):
            continue
        if figure.column != PER_ACCURATE or not values[1]:
            yield row


def _row(row: Result, figure: Figure, then: Result | None = None) -> GateRow:
    column = "accurate" if figure.column == PER_ACCURATE else figure.column
    reason = row.scores[column].reason if column in row.scores else row.error
    if figure.column == SUSPICIOUS and row.verdict:
        reason = listed(row.verdict.suspicious)
    values, before = figure.values(row), None if then is None else figure.values(then)
    if figure.column in REFUSALS and values == (0.0,):
        reason = WRONG_REFUSAL if figure.column == "refusal_precision" else ANSWERED_UNANSWERABLE
    return GateRow(
        query_id=row.query_id,
        query=row.query,
        value=values[0] if values else None,
        before=before[0] if before else None,
        reason=reason,
    )
