"""The rows that a gate is about, here and in the baseline, and how much worse its figure is there now."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ragassay.analysis.gates.rules import Gate
from ragassay.analysis.labels import difference_by_labels
from ragassay.analysis.pairing import match
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.formatting import listed
from ragassay.core.models import Result, Sample
from ragassay.core.report import Report
from ragassay.core.specification import JobSpec
from ragassay.evaluation.recount import questions_of, reference_of, slice_value
from ragassay.stats import Interval, difference_interval, paired
from ragassay.stats.columns import averaged

TestName = Literal["randomisation", "t"]
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
    that a comparison of both runs shows, turned where higher is better; ``moved``: on how many questions the runs differ.
    ``labels`` on both sides correct all of these and ``p``, ``judged`` is what the figure is now by the judge's own
    scores; ``uncorrected``: why labels could not.
    """

    n: int
    rows: int
    before: float | None = None
    now: float | None = None
    drop: float | None = None
    interval: Interval | None = None
    p: float | None = None
    moved: int = 0
    reason: str | None = None
    labels: int | None = None
    judged: float | None = None
    uncorrected: str | None = None

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


def check_names(
    gates: Sequence[Gate], metrics: Collection[str], systems: Collection[str], samples: Sequence[Sample]
) -> None:
    """Raise where a run of these metrics, systems and rows lacks what a gate is about.

    UnknownName for a system, BadSettings for a figure that is not computed and a slice that no row is in.
    """
    for n, gate in enumerate(gates):
        where = f"gates[{n}]"
        if gate.system is not None and gate.system not in systems:
            raise UnknownName("system", gate.system, systems, where=where)
        if not gate.figure.comes_with(metrics):
            what = f"the gate is on {gate.metric}, which this run does not compute"
            hint = f"ask for it (metrics), or give the rows what it needs; computed: {listed(metrics, most=8)}"
            raise BadSettings(what, where=where, hint=hint)
        if gate.slice_field is not None:
            _check_slice(gate, samples, where)


def _check_slice(gate: Gate, samples: Sequence[Sample], where: str) -> None:
    field = gate.slice_field or ""
    values = slice_values(field, samples)
    if gate.slice_value not in (None, *values) or not values:
        known = f"they have: {listed(values, most=8)}" if values else f"no row has a {field}"
        raise BadSettings(f"no row is in the slice {gate.slice!r}", where=where, hint=known)


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
    sign = 1 if figure.better == "higher" else -1
    drop = sign * (before.value - now.value)
    if not figure.is_mean:
        return Drop(len(pairs), rows, before.value, now.value, drop)
    first, second = ([values[0] for pair in pairs if (values := figure.values(pair[side]))] for side in (0, 1))
    p, moved, uncorrected = None, 0, None
    differences = (x - y for x, y in zip(second, first, strict=True))
    sides = ([pair[side] for pair in pairs] for side in (0, 1))
    failed = next(filter(None, (reference_of(side).too_many_failed(spec.max_missing) for side in sides)), None)
    if by_labels := difference_by_labels(figure.column, pairs, differences, level=1 - alpha, failed=failed):
        if by_labels.mean is not None and before.corrected and before.corrected.mean is not None:
            was, ends = before.corrected.mean, by_labels.interval
            return Drop(
                len(pairs),
                rows,
                before=was,
                now=was + by_labels.mean,
                drop=-sign * by_labels.mean,
                interval=_turned(ends) if sign > 0 else ends,
                p=by_labels.p if gate.significant else None,
                labels=by_labels.labels,
                judged=now.value,
            )
        uncorrected = by_labels.reason
    if (questions := questions_of(then for then, _ in pairs)) is not None:
        first, second = averaged(first, questions), averaged(second, questions)
    good, bad = (second, first) if figure.better == "higher" else (first, second)
    scale: dict[str, Any] = {"bounds": figure.metric.bounds, "binary": figure.metric.share}
    if gate.significant:
        tested = paired(good, bad, alpha=alpha, seed=seed, **scale)
        p = tested.t.p if test == "t" else tested.randomisation.p
        moved, interval = tested.wins + tested.losses, tested.interval
    else:
        interval = difference_interval(good, bad, level=1 - alpha, **scale)
    return Drop(len(pairs), rows, before.value, now.value, drop, interval, p, moved, uncorrected=uncorrected)


def sd_of_drop(gate: Gate, scope: Scope, report: Report, baseline: Report | None) -> float | None:
    """Standard deviation that the judge alone gives to a mean's drop on a system's rows; None where it was not measured.

    Where the baseline has measured no spread of its judge, it counts with the run's.
    """
    name, system = gate.figure.column, report.systems.get(scope.system)
    if baseline is None or system is None or name not in system.metrics or not scope.rows:
        return None
    sd = system.metrics[name].judge_sd
    if sd is None:
        return None
    earlier = [one.metrics[name].judge_sd for one in baseline.systems.values() if name in one.metrics]
    before = next((one for one in earlier if one is not None), sd)
    judgings = [1 if gate.figure.metric.share else one.provenance.configuration.repeat for one in (report, baseline)]
    return math.sqrt((sd**2 / judgings[0] + before**2 / judgings[1]) / len(scope.rows))


def _turned(ends: Interval) -> Interval:
    if ends.low is None or ends.high is None:
        return ends
    return ends.model_copy(update={"low": -ends.high, "high": -ends.low})


def slice_values(field: str, rows: Sequence[Result | Sample]) -> list[str]:
    """The values of ``field`` that there are, sorted."""
    return sorted({value for row in rows if (value := slice_value(row, field)) is not None})


def _slice(rows: Rows, field: str, value: str) -> Rows:
    return tuple(row for row in rows if slice_value(row, field) == value)
