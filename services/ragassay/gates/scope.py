"""The rows that a gate speaks about: of one system, perhaps of one slice, here and in the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragassay.documents import Report
from ragassay.gates.rule import Gate
from ragassay.models import Result

Rows = tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Baseline:
    """An earlier report, and which of its systems stands for ours; None: the one of the same name."""

    report: Report
    system: str | None = None

    def rows(self, system: str, systems: int) -> Rows | None:
        """The earlier rows of a system; a lone system matches a lone system whatever their names. None: it has none."""
        known = self.report.systems
        name = self.system or system
        if name not in known and self.system is None and len(known) == systems == 1:
            name = next(iter(known))
        return known[name].results if name in known else None


@dataclass(frozen=True, slots=True)
class Scope:
    """One system, or one slice of it. ``before`` is None without a baseline, or where that lacks the system."""

    system: str
    slice: str | None
    rows: Rows
    before: Rows | None


def scopes(gate: Gate, report: Report, baseline: Baseline | None) -> Iterator[Scope]:
    """Each system and slice that the gate is about; one that the report lacks comes with no rows."""
    names = [gate.system] if gate.system is not None else list(report.systems)
    for name in names:
        rows = report.systems[name].results if name in report.systems else ()
        before = baseline.rows(name, len(report.systems)) if baseline and gate.needs_baseline else None
        if gate.slice_field is None:
            yield Scope(name, None, rows, before)
            continue
        values = (
            [gate.slice_value] if gate.slice_value is not None else _values(gate.slice_field, (*rows, *(before or ())))
        )
        if not values:
            yield Scope(name, gate.slice, (), before)
        for value in values:
            earlier = None if before is None else _cut(before, gate.slice_field, value)
            yield Scope(name, f"{gate.slice_field}={value}", _cut(rows, gate.slice_field, value), earlier)


def _values(field: str, rows: Sequence[Result]) -> list[str]:
    return sorted({value for row in rows if (value := _value(row, field)) is not None})


def _cut(rows: Rows, field: str, value: str) -> Rows:
    return tuple(row for row in rows if _value(row, field) == value)


def _value(row: Result, field: str) -> str | None:
    name = field.removeprefix("metadata.")
    value = row.metadata.get(name) if name != field else getattr(row, field)
    return str(value) if isinstance(value, str | int | bool) else None


def matched(scope: Scope) -> list[tuple[Result, Result]]:
    """(earlier, now) for each query that both runs have: same query_id and same text."""
    earlier = {row.query_id: row for row in scope.before or ()}
    return [
        (earlier[row.query_id], row)
        for row in scope.rows
        if row.query_id in earlier and earlier[row.query_id].query == row.query
    ]
