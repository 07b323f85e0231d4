"""Report [x baseline] -> what each gate says. A gate passes only on rows that were scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragassay.documents import Report
from ragassay.errors import BadSettings, NothingToEvaluate
from ragassay.gates.comparison import Comparison, TestName, compare, too_few
from ragassay.gates.figures import Figure, Measured
from ragassay.gates.rule import DROPS, Condition, Gate
from ragassay.gates.scope import Baseline, Scope, scopes
from ragassay.gates.wording import name_of, number
from ragassay.models import Noun
from ragassay.stats import Correction, Interval, correct

Cause = Literal["met", "threshold", "coverage", "missing", "baseline", "undecided"]
ROUNDING = 1e-9  # 0.80 - 0.78 is a little above 0.02 in binary


class GateResult(Noun):
    """What one threshold says about one system or slice.

    ``value`` is the figure now; for a drop, on the ``n`` queries that are scored in both runs, with ``baseline`` and
    ``drop`` beside it (positive is worse). ``coverage`` is the share of the rows (for a drop: of the baseline's) that
    were scored. ``cause`` says why a gate was missed: the ``threshold``; too little ``coverage``; a figure, system or
    slice that is ``missing``; nothing to compare with in the ``baseline``; or too few rows to decide (``undecided``).
    """

    name: str
    metric: str
    system: str
    slice: str | None
    condition: Condition
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
    passed: bool
    cause: Cause
    reason: str


class GateReport(Noun):
    """All gates of a run. ``passed`` only where each of them did; ``p`` are corrected by ``correction``."""

    schema_version: Literal[1] = 1
    kind: Literal["gates"] = "gates"
    run: str
    baseline: str | None
    dataset: str
    passed: bool
    alpha: float
    test: TestName
    correction: Correction
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


@dataclass(frozen=True, slots=True)
class _Case:
    gate: Gate
    scope: Scope
    measured: Measured
    comparison: Comparison | None


def about_a_drop(gates: Sequence[Gate]) -> str | None:
    """What to say where there is no baseline: the first gate that needs one; None where none does."""
    needing = next((gate for gate in gates if gate.needs_baseline), None)
    return f"the gate on {needing.metric} is about a drop and there is no baseline" if needing else None


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
        raise NothingToEvaluate(f"run {report.run.id} has no system to hold against the gates")
    if baseline is None and (missed := about_a_drop(gates)):
        raise BadSettings(missed, hint="give --baseline RUN or FILE")
    earlier = None if baseline is None else Baseline(baseline, baseline_system)
    spec = report.provenance.configuration
    cases = [
        _Case(
            gate,
            scope,
            Figure.parse(gate.metric).measure(scope.rows, spec),
            compare(gate, scope, spec, alpha=alpha, test=test) if gate.needs_baseline else None,
        )
        for gate in gates
        for scope in scopes(gate, report, earlier)
    ]
    raw = [case.comparison.p if case.comparison and case.gate.significant else None for case in cases]
    adjusted = correct(raw, correction)
    tests = 1 if correction == "none" else max(1, sum(p is not None for p in raw))
    terms = _Terms(alpha, test, tests, _incomplete(report))
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
        results=results,
    )


def _incomplete(report: Report) -> str | None:
    """Why no gate may pass on this run; None for a whole one."""
    expected = report.stopped.rows if report.stopped else report.provenance.dataset.rows
    short = {name: len(s.results) for name, s in report.systems.items() if len(s.results) < expected}
    if short:
        return f"the run is incomplete: {', '.join(f'{name} has {n} of {expected} rows' for name, n in short.items())}"
    return "the run is incomplete" if report.run.status != "finished" else None


def _result(case: _Case, condition: Condition, p: float | None, terms: _Terms) -> GateResult:
    gate, scope, compared = case.gate, case.scope, case.comparison if condition in DROPS else None
    cause, reason = _judge(case, condition, p, terms)
    name = name_of(gate, condition, scope.system, scope.slice)
    counted: Comparison | Measured = compared or case.measured
    return GateResult(
        name=name,
        metric=gate.metric,
        system=scope.system,
        slice=scope.slice,
        condition=condition,
        threshold=None if condition == "significant" else getattr(gate, condition),
        value=compared.now if compared else case.measured.value,
        n=counted.n,
        rows=counted.rows,
        coverage=counted.coverage,
        floor=gate.coverage,
        interval=counted.interval,
        baseline=compared.before if compared else None,
        drop=compared.drop if compared else None,
        p=p if compared else None,
        passed=cause == "met",
        cause=cause,
        reason=reason,
    )


def _judge(case: _Case, condition: Condition, p: float | None, terms: _Terms) -> tuple[Cause, str]:
    """Whether the condition is met, and a sentence about it."""
    measured, gate = case.measured, case.gate
    if terms.incomplete:
        return "coverage", terms.incomplete
    if measured.value is None:
        return "missing", f"{gate.metric} has no value: {measured.reason}"
    if measured.coverage < gate.coverage:
        return "coverage", _thin(gate, measured.n, measured.rows, "rows have a score")
    if condition in DROPS and case.comparison is not None:
        return _judge_drop(gate, case.comparison, condition, p, terms)
    bound = getattr(gate, condition)
    value, what = measured.value, f"{gate.metric} is {{}}"
    if gate.on == "interval":
        end = _end(measured.interval, "low" if condition == "min" else "high")
        if end is None:
            why = (
                "it has no upper end" if measured.interval and measured.interval.unbounded else _why(measured.interval)
            )
            return "undecided", f"{gate.metric} has no interval to judge by: {why}"
        value, what = end, f"the {'lower' if condition == 'min' else 'upper'} bound of {gate.metric} is {{}}"
    met = value >= bound - _slack(bound) if condition == "min" else value <= bound + _slack(bound)
    sign = ">=" if condition == "min" else "<="
    said = f"{what.format(number(value, bound))}, {'' if met else 'not '}{sign} {number(bound, value)} (n={measured.n})"
    return ("met" if met else "threshold"), said


def _judge_drop(
    gate: Gate, compared: Comparison, condition: Condition, p: float | None, terms: _Terms
) -> tuple[Cause, str]:
    if compared.coverage < gate.coverage and compared.n:
        return "coverage", _thin(gate, compared.n, compared.rows, "queries of the baseline are scored in both runs")
    if compared.drop is None or compared.before is None or compared.now is None:
        return "baseline", f"{gate.metric} can't be compared: {compared.reason}"
    drop, bound = compared.drop, _allowed(gate, compared, condition)
    if gate.on == "interval":
        end = _end(compared.interval, "high")
        if end is None:
            return "undecided", f"the drop of {gate.metric} has no interval to judge by: {_why(compared.interval)}"
        drop = end
    within = drop <= bound + _slack(bound)
    said = (
        f"{gate.metric} went from {number(compared.before, compared.now)} to {number(compared.now, compared.before)} "
        f"(n={compared.n}): {'worst case ' if gate.on == 'interval' else ''}"
    )
    if drop > 0:
        said += f"worse by {number(drop, bound)}"
        said += "" if condition == "significant" else f", {'' if within else 'not '}within {number(bound, drop)}"
    else:
        said += f"better by {number(-drop)}" if drop < 0 else "unchanged"
    if within or not gate.significant:
        return ("met" if within else "threshold"), said
    if p is not None and p <= terms.alpha:
        return "threshold", f"{said}; significant (p={p:.3g}, alpha {terms.alpha:g})"
    if terms.test != "t" and too_few(compared.n, terms.tests, terms.alpha):
        return "undecided", f"{said}; {compared.n} queries are too few to find a drop at alpha {terms.alpha:g}"
    if p is None:
        return "undecided", f"{said}; the test gives no p value, so nothing clears it"
    return "met", f"{said}; not significant (p={p:.3g}, alpha {terms.alpha:g})"


def _allowed(gate: Gate, compared: Comparison, condition: Condition) -> float:
    if condition == "max_drop" and gate.max_drop is not None:
        return gate.max_drop
    if condition == "relative_drop" and gate.relative_drop is not None and compared.before is not None:
        return gate.relative_drop * abs(compared.before)
    return 0.0


def _thin(gate: Gate, n: int, rows: int, what: str) -> str:
    return (
        f"{gate.metric}: {n} of {rows} {what} ({n / rows if rows else 0.0:.1%}), the gate asks for {gate.coverage:.1%}"
    )


def _slack(bound: float) -> float:
    return ROUNDING * max(1.0, abs(bound)) if bound else 1e-12


def _end(interval: Interval | None, which: Literal["low", "high"]) -> float | None:
    return None if interval is None else interval.low if which == "low" else interval.high


def _why(interval: Interval | None) -> str:
    return (interval.reason if interval else None) or "it is not known"
