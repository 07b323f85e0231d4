"""The rows that a gate is about, here and in the baseline, and how much worse its figure is there now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ragassay.compare.pairing import match
from ragassay.documents import Report
from ragassay.gates.rules import Gate
from ragassay.models import Result, Sample
from ragassay.recount import slice_value
from ragassay.specification import JobSpec
from ragassay.stats import Interval, difference_interval, paired

TestName = Literal["randomisation", "t", "wilcoxon"]
Rows = Sequence[Result]


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


@dataclass(frozen=True, slots=True)
class Drop:
    """A figure before and now on ``n`` matched queries of the baseline's ``rows``.

    ``drop`` is positive where the figure got worse, whichever way is better. ``interval`` is that of the drop: the one
    that a comparison of both runs shows, turned where higher is better.
    """

    n: int
    rows: int
    before: float | None = None
    now: float | None = None
    drop: float | None = None
    interval: Interval | None = None
    p: float | None = None
    reason: str | None = None

    @property
    def coverage(self) -> float:
        """Share of the baseline's queries that are scored in both runs, of those that can be."""
        return self.n / self.rows if self.rows else 0.0


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
            [gate.slice_value]
            if gate.slice_value is not None
            else slice_values(gate.slice_field, (*rows, *(before or ())))
        )
        if not values:
            yield Scope(name, gate.slice, (), before)
        for value in values:
            earlier = None if before is None else _slice(before, gate.slice_field, value)
            yield Scope(name, f"{gate.slice_field}={value}", _slice(rows, gate.slice_field, value), earlier)


def measure_drop(gate: Gate, scope: Scope, spec: JobSpec, *, alpha: float, test: TestName, seed: int) -> Drop:
    """The figure of ``gate`` before and now. Swapping both runs turns the sign of the drop and leaves p as it is."""
    if scope.before is None:
        return Drop(0, 0, reason=f"the baseline has no system {scope.system!r}")
    figure = gate.figure
    matched = match(scope.before, scope.rows)
    pairs = [(then, now) for then, now in matched if figure.values(then) is not None and figure.values(now) is not None]
    rows = len(scope.before) - sum(not (figure.applies_to(then) and figure.applies_to(now)) for then, now in matched)
    if not pairs:
        return Drop(0, rows, reason=f"none of the baseline's {rows} queries is scored in both runs")
    before = figure.measure([then for then, _ in pairs], spec)
    now = figure.measure([now for _, now in pairs], spec)
    if before.value is None or now.value is None:
        reason = f"in the baseline {before.reason}" if before.value is None else f"now {now.reason}"
        return Drop(len(pairs), rows, before.value, now.value, reason=reason)
    drop = before.value - now.value if figure.better == "higher" else now.value - before.value
    if not figure.is_mean:
        return Drop(len(pairs), rows, before.value, now.value, drop)
    first, second = ([values[0] for pair in pairs if (values := figure.values(pair[side]))] for side in (0, 1))
    good, bad = (second, first) if figure.better == "higher" else (first, second)
    bounds, p = figure.metric.bounds, None
    if gate.significant:
        tested = paired(good, bad, alpha=alpha, seed=seed, bounds=bounds)
        p = {"randomisation": tested.randomisation, "t": tested.t, "wilcoxon": tested.wilcoxon}[test].p
        interval = tested.interval
    else:
        interval = difference_interval(good, bad, level=1 - alpha, bounds=bounds)
    return Drop(len(pairs), rows, before.value, now.value, drop, interval, p)


def slice_values(field: str, rows: Sequence[Result | Sample]) -> list[str]:
    """The values of ``field`` that there are, sorted."""
    return sorted({value for row in rows if (value := slice_value(row, field)) is not None})


def _slice(rows: Rows, field: str, value: str) -> Rows:
    return tuple(row for row in rows if slice_value(row, field) == value)
