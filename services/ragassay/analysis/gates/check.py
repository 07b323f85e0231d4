"""Report [x baseline] -> the result of each gate. A gate passes only on rows that were scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ragassay.analysis.comparison import cautions
from ragassay.analysis.figures import FigureValue
from ragassay.analysis.gates.drops import Baseline, Drop, Scope, TestName, measure_drop, scopes, sd_of_drop
from ragassay.analysis.gates.rules import DROPS, ConditionName, Gate, name_of
from ragassay.analysis.gates.worst import GateRow, rows_behind
from ragassay.core.errors import BadSettings, NothingToEvaluate
from ragassay.core.formatting import number, p_value
from ragassay.core.models import FrozenModel
from ragassay.core.report import Report, held
from ragassay.stats import Correction, Interval, correct
from ragassay.stats.tests import smallest_p

GateCause = Literal["met", "threshold", "coverage", "missing", "baseline", "undecided"]
MOST_REASONS = 2
ROUNDING = 1e-9  # 0.80 - 0.78 is a little above 0.02 in binary


class GateResult(FrozenModel):
    """One threshold, held against one system or slice.

    ``value`` is the figure now; for a drop, on the ``n`` queries that are scored in both runs, with ``baseline``,
    ``drop`` (positive is worse) and the ``interval`` of the drop beside it. ``coverage`` is the share of the rows (for
    a drop: of the baseline's) that were scored. ``cause`` says why a gate was missed: the ``threshold``; too little
    ``coverage``; a figure, system or slice that is ``missing``; nothing to compare with in the ``baseline``; or too few
    rows to decide (``undecided``). ``worst``: where it was missed, the rows that it was missed for.
    ``corrected_by``: how many labels corrected the figure, of which ``judged`` is what it is by the judge's own scores.
    """

    name: str
    metric: str
    system: str
    slice: str | None
    condition: ConditionName
    threshold: float | None
    value: float | None
    n: int
    rows: int
    coverage: float
    floor: float
    interval: Interval | None = None
    baseline: float | None = None
    drop: float | None = None
    p: float | None = None
    corrected_by: int | None = None
    judged: float | None = None
    passed: bool
    cause: GateCause
    reason: str
    worst: tuple[GateRow, ...] = ()

    @property
    def worst_rows(self) -> str:
        """``qs-08 0.000; qs-25 0.000``."""
        return "; ".join(map(str, self.worst))


class GateReport(FrozenModel):
    """All gates of a run. ``passed`` only where each of them did; ``p`` are corrected by ``correction``.

    ``cautions`` are what was not the same when the baseline was evaluated, such as the judge.
    """

    schema_version: Literal[1] = 1
    kind: Literal["gates"] = "gates"
    run: str
    baseline: str | None
    dataset: str
    passed: bool
    alpha: float
    test: TestName
    correction: Correction
    cautions: tuple[str, ...] = ()
    results: tuple[GateResult, ...]

    @property
    def missed(self) -> tuple[GateResult, ...]:
        """Those that did not pass."""
        return tuple(result for result in self.results if not result.passed)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What all gates of a check share. ``incomplete`` says why none of them may pass."""

    alpha: float
    test: TestName
    tests: int
    incomplete: str | None
    corrected_by: str


@dataclass(frozen=True, slots=True)
class _Case:
    gate: Gate
    scope: Scope
    judged: FigureValue
    drop: Drop | None
    judge_sd: float | None

    @property
    def figure(self) -> FigureValue:
        """By labels, where there are enough of them; else by the judge's own scores."""
        found = self.judged.corrected
        if found is None or found.mean is None:
            return self.judged
        return replace(self.judged, value=found.mean, interval=found.interval)


def about_a_drop(gates: Sequence[Gate]) -> str | None:
    """What to say where there is no baseline: the first gate that needs one; None where none does."""
    needing = next((gate for gate in gates if gate.needs_baseline), None)
    return f"the gate on {needing.metric} is about a drop and there is no baseline" if needing else None


def without_drops(gate: Gate) -> Gate | None:
    """What of a gate can be checked where there is no baseline; None where nothing can."""
    if gate.min is None and gate.max is None:
        return None if gate.needs_baseline else gate
    return gate.model_copy(update={"max_drop": None, "relative_drop": None, "significant": False})


def check(
    report: Report,
    gates: Sequence[Gate],
    baseline: Report | None = None,
    *,
    baseline_system: str | None = None,
    alpha: float = 0.05,
    test: TestName = "randomisation",
    correction: Correction = "holm",
) -> GateReport:
    """Hold ``report`` against ``gates``; those about a drop need ``baseline``.

    ``baseline_system`` names the baseline's system that all are compared with; default: the one of the same name.
    Raises BadSettings when there is no gate, or a gate needs a baseline and none is given; NothingToEvaluate when the
    report has no system.
    """
    if not gates:
        raise BadSettings("there is no gate to check", hint="add 'gates:' to the configuration")
    if not report.systems:
        raise NothingToEvaluate(f"run {report.run.id} has no system to check")
    if baseline is None and (missed := about_a_drop(gates)):
        raise BadSettings(missed, hint="give --baseline RUN or FILE")
    report = held(report)
    earlier = None if baseline is None else Baseline(held(baseline), baseline_system)
    spec = report.provenance.configuration
    seed = (baseline or report).provenance.configuration.seed  # a comparison draws with its baseline's too
    cases = [
        _Case(
            gate,
            scope,
            gate.figure.measure(scope.rows, spec),
            measure_drop(gate, scope, spec, alpha=alpha, test=test, seed=seed) if gate.needs_baseline else None,
            sd_of_drop(gate, scope, report, baseline),
        )
        for gate in gates
        for scope in scopes(gate, report, earlier)
    ]
    raw = [case.drop.p if case.drop else None for case in cases]
    adjusted = correct(raw, correction)
    tests = 1 if correction == "none" else max(1, sum(p is not None for p in raw))
    terms = _Terms(alpha, test, tests, _incomplete(report), spec.corrected_by)
    results = tuple(
        _result(case, condition, p, terms)
        for case, p in zip(cases, adjusted, strict=True)
        for condition in case.gate.conditions
    )
    return GateReport(
        run=report.run.id,
        baseline=baseline.run.id if baseline else None,
        dataset=report.provenance.dataset.name,
        passed=all(result.passed for result in results),
        alpha=alpha,
        test=test,
        correction=correction,
        cautions=cautions(baseline.provenance, report.provenance) if baseline else (),
        results=results,
    )


def _incomplete(report: Report) -> str | None:
    """Why no gate may pass on this run; None for a whole one."""
    expected = report.provenance.dataset.rows
    short = {name: len(s.results) for name, s in report.systems.items() if len(s.results) < expected}
    if short:
        return f"the run is incomplete: {', '.join(f'{name} has {n} of {expected} rows' for name, n in short.items())}"
    return "the run is incomplete" if report.run.status != "finished" else None


def _result(case: _Case, condition: ConditionName, p: float | None, terms: _Terms) -> GateResult:
    gate, scope, drop = case.gate, case.scope, case.drop if condition in DROPS else None
    cause, reason = _judge(case, condition, p, terms)
    name = name_of(gate, condition, scope.system, scope.slice)
    counted: Drop | FigureValue = drop or case.figure
    labels, judged = (drop.labels, drop.judged) if drop else _by_labels(case.judged)
    return GateResult(
        name=name,
        metric=gate.metric,
        system=scope.system,
        slice=scope.slice,
        condition=condition,
        threshold=None if condition == "significant" else getattr(gate, condition),
        value=drop.now if drop else case.figure.value,
        n=counted.n,
        rows=counted.rows,
        coverage=counted.coverage,
        floor=gate.coverage,
        interval=counted.interval,
        baseline=drop.before if drop else None,
        drop=drop.drop if drop else None,
        p=p if drop else None,
        corrected_by=labels,
        judged=judged,
        passed=cause == "met",
        cause=cause,
        reason=reason,
        worst=()
        if cause == "met" or terms.incomplete
        else rows_behind(gate.figure, condition, scope, unscored=cause in ("coverage", "missing")),
    )


def _judge(case: _Case, condition: ConditionName, p: float | None, terms: _Terms) -> tuple[GateCause, str]:
    """Whether the condition is met, and a sentence about it."""
    now, gate = case.figure, case.gate
    if terms.incomplete:
        return "coverage", terms.incomplete
    if now.value is None:
        return "missing", f"{gate.metric} has no value: {now.reason}"
    drop = case.drop if condition in DROPS else None
    judged = _judge_drop(case, drop, condition, p, terms) if drop else _judge_value(case, condition, terms)
    if now.coverage < gate.coverage:
        reasons = gate.figure.missing_reasons(case.scope.rows)
        why = "; ".join(f"{count} without one: {reason}" for reason, count in reasons.most_common(MOST_REASONS))
        thin = f"{_thin(gate, now.n, now.rows, 'rows have a score')} ({why}). {_remedy(now.n, now.rows)}"
        return "coverage", f"{thin} {judged[1]}"
    if drop and drop.n and drop.coverage < gate.coverage:
        thin = _thin(gate, drop.n, drop.rows, "queries of the baseline are scored in both runs")
        return "coverage", f"{thin}. {_remedy(drop.n, drop.rows)} {judged[1]}"
    return judged


def _judge_value(case: _Case, condition: ConditionName, terms: _Terms) -> tuple[GateCause, str]:
    """Whether the figure lies on the right side of its threshold."""
    now, gate = case.figure, case.gate
    if now.value is None:
        return "missing", f"{gate.metric} has no value: {now.reason}"
    bound = getattr(gate, condition)
    value, what = now.value, f"{gate.metric} is {{}}"
    if gate.on == "interval":
        end = _end(now.interval, "low" if condition == "min" else "high")
        if end is None:
            why = "it has no upper end" if now.interval and now.interval.unbounded else _why(now.interval)
            return "undecided", f"{gate.metric} has no interval to judge by: {why}"
        value, what = end, f"the {'lower' if condition == 'min' else 'upper'} bound of {gate.metric} is {{}}"
    met = value >= bound - _slack(bound) if condition == "min" else value <= bound + _slack(bound)
    sign = ">=" if condition == "min" else "<="
    shown, limit = number(value, beside=bound), number(bound, beside=value)
    labels, _ = _by_labels(case.judged)
    uncorrected = case.judged.corrected.reason if case.judged.corrected else None
    about = _about(f"n={now.n}", labels, uncorrected, terms)
    reason = f"{what.format(shown)}, {'' if met else 'not '}{sign} {limit} ({about})"
    return ("met" if met else "threshold"), reason


def _by_labels(judged: FigureValue) -> tuple[int | None, float | None]:
    """How many labels correct the figure, and what it is without them; nothing where they don't."""
    found = judged.corrected
    return (None, None) if found is None or found.mean is None else (found.labels, judged.value)


def _about(rows: str, labels: int | None, uncorrected: str | None, terms: _Terms) -> str:
    """``n=200, corrected by 120 labels``; or why the figure is the judge's own although there are labels."""
    if labels is not None:
        return f"{rows}, corrected by {labels} {terms.corrected_by}"
    return f"{rows}, not corrected: {uncorrected}" if uncorrected else rows


def _judge_drop(
    case: _Case, drop: Drop, condition: ConditionName, p: float | None, terms: _Terms
) -> tuple[GateCause, str]:
    gate = case.gate
    if drop.drop is None or drop.before is None or drop.now is None:
        return "baseline", f"{gate.metric} can't be compared: {drop.reason}"
    size, bound = drop.drop, _allowed(gate, drop.before, condition)
    if gate.on == "interval":
        end = _end(drop.interval, "high")
        if end is None:
            return "undecided", f"the drop of {gate.metric} has no interval to judge by: {_why(drop.interval)}"
        size = end
    within = size <= bound + _slack(bound)
    before, now = number(drop.before, beside=drop.now), number(drop.now, beside=drop.before)
    about = _about(f"n={drop.n}", drop.labels, drop.uncorrected, terms)
    reason = f"{gate.metric} went from {before} to {now} ({about}): {'worst case ' if gate.on == 'interval' else ''}"
    if size > 0:
        reason += f"worse by {number(size, beside=bound)}"
        limit = number(bound, beside=size)
        reason += "" if condition == "significant" else f", {'' if within else 'not '}within {limit}"
    else:
        reason += f"better by {number(-size)}" if size < 0 else "unchanged"
    by_mean = gate.on == "mean" and not gate.significant and drop.labels is None
    if by_mean and case.judge_sd is not None and bound < case.judge_sd:
        reason += f"; the limit is finer than the judge's own sd of this difference, {number(case.judge_sd)}"
    if within or not gate.significant:
        return ("met" if within else "threshold"), reason
    if p is not None and p <= terms.alpha:
        why = f"significant (p={p_value(p)}, alpha {terms.alpha:g})"
        return "threshold", f"{reason}; {why}{_contradiction(drop.interval, terms, significant=True)}"
    least = min(1.0, smallest_p(drop.moved) * terms.tests)
    if terms.test != "t" and drop.labels is None and least > terms.alpha:
        few = f"{drop.moved} queries differ, so p can't be below {least:.2g} (alpha {terms.alpha:g})"
        return "undecided", f"{reason}; {few}: evaluate more queries, or gate on the drop without significant"
    if p is None:
        return "undecided", f"{reason}; the test gives no p value, so nothing clears it"
    why = f"not significant (p={p_value(p)}, alpha {terms.alpha:g})"
    return "met", f"{reason}; {why}{_contradiction(drop.interval, terms, significant=False)}"


def _contradiction(interval: Interval | None, terms: _Terms, *, significant: bool) -> str:
    """A clause for an interval that leaves out 0 although the test finds nothing, or holds 0 although it does."""
    if interval is None or interval.low is None or interval.contains(0.0) is not significant:
        return ""
    zero = "holds 0" if significant else "leaves out 0"
    corrected = f", but is not corrected for {terms.tests} tests as p is" if terms.tests > 1 and not significant else ""
    return f"; the {100 * interval.level:.3g} % interval of the drop, {interval}, {zero}{corrected}: the test decides"


def _allowed(gate: Gate, before: float, condition: ConditionName) -> float:
    if condition == "max_drop" and gate.max_drop is not None:
        return gate.max_drop
    if condition == "relative_drop" and gate.relative_drop is not None:
        return gate.relative_drop * abs(before)
    return 0.0


def _thin(gate: Gate, n: int, rows: int, what: str) -> str:
    return (
        f"{gate.metric}: {n} of {rows} {what} ({n / rows if rows else 0.0:.1%}), the gate requires {gate.coverage:.1%}"
    )


def _remedy(n: int, rows: int) -> str:
    """What to write if so few scores are meant."""
    return f"If that is as it should be, write coverage: {math.floor(100 * n / rows) / 100 if rows else 0:g}."


def _slack(bound: float) -> float:
    return ROUNDING * max(1.0, abs(bound)) if bound else 1e-12


def _end(interval: Interval | None, which: Literal["low", "high"]) -> float | None:
    return None if interval is None else interval.low if which == "low" else interval.high


def _why(interval: Interval | None) -> str:
    return (interval.reason if interval else None) or "it is not known"
