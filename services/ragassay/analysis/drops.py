"""How much worse a figure is than in an earlier run, and which rows are to blame: what gates look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

import numpy as np

from ragassay.analysis.difference import Contrast, Difference
from ragassay.analysis.figures import PER_ACCURATE, REFUSALS, SUSPICIOUS, Figure, Measured
from ragassay.analysis.rows import match, queries
from ragassay.core.formatting import listed, number
from ragassay.core.models import FrozenModel, Result, Sample
from ragassay.core.report import ReportWithResults
from ragassay.core.specification import JobSpec
from ragassay.evaluation.aggregate import reference_of
from ragassay.evaluation.groups import questions_of, slice_value
from ragassay.metrics.judged import ANSWERED_UNANSWERABLE, WRONG_REFUSAL

MOST_WORST = 5
WorstBy = Literal["unscored", "drop", "lowest", "highest"]
Rows = Sequence[Result]


@dataclass(frozen=True, slots=True)
class Scope:
    """One system, or one slice of it. ``before``: the baseline's rows; None without a baseline, or if it lacks the system."""

    system: str
    slice: str | None
    rows: Rows
    before: Rows | None


def rows_by_system(report: ReportWithResults) -> dict[str, Rows]:
    """The rows of each system in memory: gates go through them again and again. Raises NotFound if they are deleted."""
    return {name: tuple(report.results_of(name)) for name in report.systems}


def scopes(
    rows_of: Mapping[str, Rows],
    system: str | None,
    chosen: str | None,
    baseline: Mapping[str, Rows] | None,
    baseline_system: str | None,
) -> Iterator[Scope]:
    """Each system, or the one named, and each slice of it; one that has no rows comes with none.

    ``chosen``: a slice as ``FIELD=VALUE``, or a field alone for each of its values. A lone system is compared with a lone
    system of the baseline, whatever their names.
    """
    for name in [system] if system is not None else rows_of:
        rows = rows_of.get(name, ())
        before = None
        if baseline is not None:
            other = baseline_system or name
            if other not in baseline and baseline_system is None and len(baseline) == len(rows_of) == 1:
                other = next(iter(baseline))
            before = baseline.get(other)
        if chosen is None:
            yield Scope(name, None, rows, before)
            continue
        field, sign, value = chosen.partition("=")
        values = [value] if sign else slice_values(field, (*rows, *(before or ())))
        if not values:
            yield Scope(name, chosen, (), before)
        for one in values:
            earlier = None if before is None else _slice(before, field, one)
            yield Scope(name, f"{field}={one}", _slice(rows, field, one), earlier)


def slice_values(field: str, rows: Sequence[Result | Sample]) -> list[str]:
    """The values of ``field`` that there are, sorted."""
    return sorted({value for row in rows if (value := slice_value(row, field)) is not None})


def _slice(rows: Rows, field: str, value: str) -> Rows:
    return tuple(row for row in rows if slice_value(row, field) == value)


def measure_drop(figure: Figure, scope: Scope, spec: JobSpec, alpha: float) -> Measured:
    """The figure before and now, with the interval of the drop at level 1 - ``alpha``."""
    if scope.before is None:
        return Measured(n=0, rows=0, reason=f"the baseline has no system {scope.system!r}")
    matched = _pairs(scope.before, scope.rows)
    pairs = [(then, now) for then, now in matched if figure.values(then) is not None and figure.values(now) is not None]
    n, rows = len(pairs), len(scope.before) - sum(not all(map(figure.applies_to, both)) for both in matched)
    if not pairs:
        return Measured(n=0, rows=rows, reason=f"none of the baseline's {rows} queries is scored in both runs")
    before, now = (figure.measure([pair[side] for pair in pairs], spec) for side in (0, 1))
    was, value = (one.value if one.corrected_by is None else one.judged for one in (before, now))
    if was is None or value is None:
        reason = f"in the baseline {before.reason}" if was is None else f"now {now.reason}"
        return Measured(n=n, rows=rows, value=value, baseline=was, reason=reason)
    sign = 1 if figure.better == "higher" else -1
    found = Measured(n=n, rows=rows, value=value, baseline=was, drop=sign * (was - value), shown=True)
    if not figure.is_mean:
        return found
    a, b = (np.array([values[0] for pair in pairs if (values := figure.values(pair[side]))], float) for side in (0, 1))
    of_a, of_b = (np.array([pair[side].label(figure.column) for pair in pairs], float) for side in (0, 1))
    labels = of_b - of_a if np.isfinite([of_a, of_b]).any() else None
    sides = ([pair[side] for pair in pairs] for side in (0, 1))
    failed = next(filter(None, (reference_of(side).too_many_failed(spec.max_missing) for side in sides)), None)
    own = {figure.column: figure.metric}
    contrast = Contrast("baseline", scope.system, "", alpha, own=own)
    questions = questions_of(then for then, _ in pairs)
    difference = contrast.paired(
        figure.column, a, b, better=figure.better, questions=questions, labels=labels, failed=failed, tested=False
    )
    change, interval = difference.decided
    if sign > 0 and interval.low is not None and interval.high is not None:
        interval = interval.model_copy(update={"low": -interval.high, "high": -interval.low})
    shown = {"interval": interval, "shown": difference.shown, "reason": _undecided(difference, alpha)}
    if difference.labels is None or change is None or before.corrected_by is None or before.value is None:
        shown["uncorrected"] = difference.by_labels.reason if difference.by_labels else None
        return found.model_copy(update=shown)
    corrected = {"value": before.value + change, "baseline": before.value, "drop": -sign * change}
    return found.model_copy(update={**shown, **corrected, "corrected_by": difference.labels, "judged": value})


def _pairs(before: Rows, now: Rows) -> list[tuple[Result, Result]]:
    places = (places.tolist() for places in match(queries(before), queries(now)))
    return [(before[place], now[other]) for place, other in zip(*places, strict=True)]


def _undecided(difference: Difference, alpha: float) -> str | None:
    """Why no test could show a drop; None if one could."""
    if difference.shown is not None:
        return None
    if difference.labels is not None:
        return difference.decided[1].reason
    moved = (difference.wins or 0) + (difference.losses or 0)
    queries = "query differs" if moved == 1 else "queries differ"
    return f"only {moved} {queries}, too few to show a drop (alpha {alpha:g}): evaluate more queries"


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


def worst_rows(figure: Figure, scope: Scope, by: WorstBy) -> tuple[GateRow, ...]:
    """The first ``MOST_WORST`` rows without a score, with the largest drop, or with the lowest or highest value."""
    if by == "unscored":
        rows = (row for row in scope.rows if figure.applies_to(row) and figure.values(row) is None)
        found = [(0.0, _row(row, figure)) for row in rows]
    elif by == "drop":
        pairs = (_row(now, figure, then) for then, now in _pairs(scope.before or (), scope.rows))
        found = [(gain, one) for one in pairs if (gain := _gain(figure, one)) < 0]
    else:
        made = (_row(row, figure) for row in scope.rows if _counts(figure, row))
        share = figure.column in REFUSALS
        found = [(one.value or 0.0, one) for one in made if not share or one.value == float(by == "highest")]
    found.sort(key=itemgetter(0), reverse=by == "highest")
    return tuple(one for _, one in found[:MOST_WORST])


def _gain(figure: Figure, one: GateRow) -> float:
    """How much better a row is than in the baseline; a refusal that was not counted before may be a wrong one now."""
    if figure.column in REFUSALS:
        return -1.0 if one.value == 0.0 and one.before != 0.0 else 0.0
    if one.value is None or one.before is None:
        return 0.0
    return (one.value - one.before) * (1 if figure.better == "higher" else -1)


def _counts(figure: Figure, row: Result) -> bool:
    """Does the row make the figure worse or better? An accurate row does not make an accurate answer dearer."""
    values = figure.values(row)
    if not values or (figure.column == SUSPICIOUS and not values[0]):
        return False
    return figure.column != PER_ACCURATE or not values[1]


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
