"""Gates: thresholds that a report has to clear, alone or against a baseline. A gate passes only on rows that were scored."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ragassay.analysis.comparison import cautions
from ragassay.analysis.describe import better_or_worse, change
from ragassay.analysis.drops import (
    GateRow,
    Scope,
    WorstBy,
    measure_drop,
    rows_by_system,
    scopes,
    slice_values,
    worst_rows,
)
from ragassay.analysis.figures import Figure, Measured
from ragassay.core.errors import BadSettings, NothingToEvaluate, UnknownName
from ragassay.core.formatting import listed, number
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.report import Report, ReportWithResults
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import Metric

ConditionName = Literal["min", "max", "max_drop", "relative_drop"]
CONDITIONS: tuple[ConditionName, ...] = ("min", "max", "max_drop", "relative_drop")
DROPS: tuple[ConditionName, ...] = ("max_drop", "relative_drop")
GateCause = Literal["met", "threshold", "coverage", "missing", "baseline", "undecided"]
LARGEST = 10.0**15
MOST_REASONS = 2
ROUNDING = 1e-9  # 0.80 - 0.78 is a little above 0.02 in binary
Threshold = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
_SHORT = re.compile(r"(>=|<=)\s*(\S+)")
_SLICE_FIELD = re.compile(r"category|difficulty|metadata\..+")


class Gate(FrozenModel):
    """Thresholds for one figure. It holds for every system and slice that it names, and only if rows were scored."""

    metric: Annotated[
        str,
        Field(
            description="a metric, `cost_per_accurate_answer`, `suspicious` (rows), `refusal_precision`, "
            "`refusal_recall`, or latency, tokens or cost with a percentile: `latency_ms.p95`"
        ),
    ]
    min: Annotated[Threshold | None, Field(description="the least value that passes")] = None
    max: Annotated[Threshold | None, Field(description="the largest value that passes")] = None
    max_drop: Annotated[
        float | None,
        Field(ge=0, le=LARGEST, description="how much worse than the baseline it may be, in units of the metric"),
    ] = None
    relative_drop: Annotated[
        float | None,
        Field(ge=0, le=1_000_000, description="how much worse it may be, as a share of the baseline's value"),
    ] = None
    coverage: Annotated[
        float, Field(gt=0, le=1, description="least share of the rows that must have a score; below it the gate fails")
    ] = 0.95
    system: Annotated[str | None, Field(description="the system it is about; default: every one")] = None
    slice: Annotated[
        str | None,
        Field(description="only these rows: `category=factual`; a field alone, such as `category`: each of its values"),
    ] = None

    @field_validator("slice")
    @classmethod
    def _known_field(cls, text: str | None) -> str | None:
        if text is not None and not _SLICE_FIELD.fullmatch(text.partition("=")[0]):
            raise ValueError(f"slice {text!r} is not category, difficulty or metadata.NAME, alone or with =VALUE")
        return text

    @model_validator(mode="after")
    def _makes_sense(self) -> Gate:
        if not self.conditions:
            raise ValueError(f"the gate on {self.metric} has no threshold; give it min, max, max_drop or relative_drop")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}: nothing could pass")
        return self

    @property
    def conditions(self) -> tuple[ConditionName, ...]:
        """The thresholds that it sets."""
        return tuple(name for name in CONDITIONS if getattr(self, name) is not None)

    @property
    def needs_baseline(self) -> bool:
        """Is any of its thresholds about a drop?"""
        return any(condition in DROPS for condition in self.conditions)


def _from_short(given: Any) -> Any:
    """``{"mrr": ">= 0.7"}`` in full; anything else as it is."""
    if not (isinstance(given, Mapping) and len(given) == 1 and "metric" not in given):
        return given
    ((name, text),) = given.items()
    if name in Gate.model_fields:
        return given
    short = _SHORT.fullmatch(text.strip()) if isinstance(text, str) else None
    try:
        bound = float(short[2]) if short else math.nan
    except ValueError:
        bound = math.nan
    if short is None or not math.isfinite(bound):
        raise ValueError(f'gate {name}: can\'t read {text!r}; write, for example, {name}: ">= 0.7"')
    return {"metric": name, "min" if short[1] == ">=" else "max": bound}


GateList = tuple[Annotated[Gate, BeforeValidator(_from_short, json_schema_input_type=Gate | dict[str, str])], ...]


class GateResult(Measured):
    """One threshold, checked for one system or slice, with what was measured.

    ``cause`` says why a gate was missed: the ``threshold``; too little coverage, the ``floor`` of which is the gate's; a
    figure, system or slice that is ``missing``; nothing to compare with in the ``baseline``; or too few rows to show a
    drop (``undecided``). ``worst``: the rows for which it was missed.
    """

    name: str
    metric: str
    system: str
    slice: str | None
    condition: ConditionName
    threshold: float
    floor: float
    passed: bool
    cause: GateCause
    reason: str
    worst: tuple[GateRow, ...] = ()

    @property
    def worst_rows(self) -> str:
        """``qs-08 0.000; qs-25 0.000``."""
        return "; ".join(map(str, self.worst))


class GateReport(FrozenModel):
    """All gates of a run. ``passed`` only if each of them did. Intervals of drops are at level 1 - ``alpha``.

    ``cautions`` are what was not the same when the baseline was evaluated, such as the judge.
    """

    schema_version: Literal[2] = 2
    kind: Literal["gates"] = "gates"
    run: str
    baseline: str | None
    dataset: str
    passed: bool
    alpha: float
    cautions: tuple[str, ...] = ()
    results: tuple[GateResult, ...]

    @property
    def missed(self) -> tuple[GateResult, ...]:
        """Those that did not pass."""
        return tuple(result for result in self.results if not result.passed)


def about_a_drop(gates: Sequence[Gate]) -> str | None:
    """What to say if there is no baseline: the first gate that needs one; None if none does."""
    needing = next((gate for gate in gates if gate.needs_baseline), None)
    return f"the gate on {needing.metric} is about a drop and there is no baseline" if needing else None


def without_drops(gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """The gates with what can be checked without a baseline."""
    kept = (gate for gate in gates if gate.min is not None or gate.max is not None)
    return tuple(gate.model_copy(update={"max_drop": None, "relative_drop": None}) for gate in kept)


def check_names(
    gates: Sequence[Gate],
    own: Mapping[str, Metric],
    metrics: Collection[str],
    systems: Collection[str],
    samples: Sequence[Sample],
) -> None:
    """Raise if a run of these metrics, systems and rows lacks what a gate is about; ``own``: metrics that it defines.

    UnknownName for a system or a figure, BadSettings for a figure that is not computed and a slice that no row is in.
    """
    for n, gate in enumerate(gates):
        where = f"gates[{n}]"
        if gate.system is not None and gate.system not in systems:
            raise UnknownName("system", gate.system, systems, where=where)
        if not Figure.parse(gate.metric, own).comes_with(metrics):
            what = f"the gate is on {gate.metric}, which this run does not compute"
            hint = f"ask for it (metrics), or give the rows what it needs; computed: {listed(metrics, most=8)}"
            raise BadSettings(what, where=where, hint=hint)
        if gate.slice is not None:
            field, sign, value = gate.slice.partition("=")
            values = slice_values(field, samples)
            if not values or (sign and value not in values):
                known = f"they have: {listed(values, most=8)}" if values else f"no row has a {field}"
                raise BadSettings(f"no row is in the slice {gate.slice!r}", where=where, hint=known)


def check(
    report: ReportWithResults,
    gates: Sequence[Gate],
    baseline: ReportWithResults | None = None,
    *,
    baseline_system: str | None = None,
    alpha: float = 0.05,
    metrics: Mapping[str, Metric] | None = None,
) -> GateReport:
    """Check ``report`` against ``gates``; those about a drop need ``baseline``.

    ``baseline_system`` names the baseline's system that all are compared with; default: the one of the same name.
    ``metrics``: what names of the gates may mean apart from registered metrics; default: the run's own metrics.
    Raises BadSettings if there is no gate, or a gate needs a baseline and none is given; NothingToEvaluate if the report
    has no system; UnknownName for a figure that is none.
    """
    if not gates:
        raise BadSettings("there is no gate to check", hint="add 'gates:' to the configuration")
    if not report.systems:
        raise NothingToEvaluate(f"run {report.run.id} has no system to check")
    if baseline is None and (missed := about_a_drop(gates)):
        raise BadSettings(missed, hint="give --baseline RUN or FILE")
    rows, earlier = rows_by_system(report), None if baseline is None else rows_by_system(baseline)
    spec = report.provenance.configuration
    own = own_metrics(spec) if metrics is None else metrics
    incomplete = _incomplete(report)
    results: list[GateResult] = []
    for gate in gates:
        figure = Figure.parse(gate.metric, own)
        before = earlier if gate.needs_baseline else None
        for scope in scopes(rows, gate.system, gate.slice, before, baseline_system):
            now = figure.measure(scope.rows, spec)
            drop = measure_drop(figure, scope, spec, alpha) if gate.needs_baseline else None
            for condition in gate.conditions:
                case = _Case(
                    gate, condition, figure, scope, now, drop if condition in DROPS else None, spec.corrected_by
                )
                results.append(case.result(incomplete))
    return GateReport(
        run=report.run.id,
        baseline=baseline.run.id if baseline else None,
        dataset=report.provenance.dataset.name,
        passed=all(result.passed for result in results),
        alpha=alpha,
        cautions=cautions(baseline.provenance, report.provenance) if baseline else (),
        results=tuple(results),
    )


def _incomplete(report: Report) -> str | None:
    """Why no gate may pass on this run; None for a whole one."""
    expected = report.provenance.dataset.rows
    short = {name: one.queries for name, one in report.systems.items() if one.queries < expected}
    if short:
        return f"the run is incomplete: {', '.join(f'{name} has {n} of {expected} rows' for name, n in short.items())}"
    return "the run is incomplete" if report.run.status != "finished" else None


@dataclass(frozen=True, slots=True)
class _Case:
    """One condition of a gate on one system or slice. ``drop`` is None unless the condition is about one."""

    gate: Gate
    condition: ConditionName
    figure: Figure
    scope: Scope
    now: Measured
    drop: Measured | None
    corrected_by: str

    @property
    def bound(self) -> float:
        """The threshold."""
        bound: float = getattr(self.gate, self.condition)
        return bound

    @property
    def name(self) -> str:
        """Such as ``hybrid, category=factual: mrr >= 0.700``."""
        worse = "drop" if self.figure.better == "higher" else "rise"
        rule = {
            "min": f">= {number(self.bound)}",
            "max": f"<= {number(self.bound)}",
            "max_drop": f"{worse} <= {number(self.bound)}",
            "relative_drop": f"{worse} <= {self.bound * 100:g} %",
        }[self.condition]
        return f"{self.scope.system}{f', {self.scope.slice}' if self.scope.slice else ''}: {self.figure.name} {rule}"

    def result(self, incomplete: str | None) -> GateResult:
        """The result; ``incomplete`` says why no gate may pass."""
        measured = self.drop or self.now
        cause, reason = self._judged()
        if incomplete:
            cause, reason = "coverage", incomplete
        result: dict[str, Any] = {
            **dict(measured),
            "name": self.name,
            "metric": self.figure.name,
            "system": self.scope.system,
            "slice": self.scope.slice,
            "condition": self.condition,
            "threshold": self.bound,
            "floor": self.gate.coverage,
            "passed": cause == "met",
            "cause": cause,
            "reason": reason,
            "worst": () if incomplete or cause == "met" else self._worst(cause),
        }
        return GateResult(**result)

    def _worst(self, cause: GateCause) -> tuple[GateRow, ...]:
        by: WorstBy = "drop" if self.drop else "lowest" if self.condition == "min" else "highest"
        return worst_rows(self.figure, self.scope, "unscored" if cause in ("coverage", "missing") else by)

    def _judged(self) -> tuple[GateCause, str]:
        """Whether the condition is met, and a sentence about it."""
        now, drop, floor = self.now, self.drop, self.gate.coverage
        if now.value is None:
            return "missing", f"{self.figure.name} has no value: {now.reason}"
        cause, reason = self._judged_drop(drop) if drop else self._judged_value(now.value)
        if now.coverage < floor:
            reasons = self.figure.missing_reasons(self.scope.rows)
            why = "; ".join(f"{count} without one: {reason}" for reason, count in reasons.most_common(MOST_REASONS))
            return "coverage", f"{self._thin(now, 'rows have a score', f' ({why})')} {reason}"
        if drop and drop.n and drop.coverage < floor:
            return "coverage", f"{self._thin(drop, 'queries of the baseline are scored in both runs')} {reason}"
        return cause, reason

    def _judged_value(self, value: float) -> tuple[GateCause, str]:
        bound, sign = self.bound, ">=" if self.condition == "min" else "<="
        met = value >= bound - _slack(bound) if sign == ">=" else value <= bound + _slack(bound)
        shown, limit = number(value, beside=bound), number(bound, beside=value)
        reason = f"{self.figure.name} is {shown}, {'' if met else 'not '}{sign} {limit} ({self._about(self.now)})"
        return ("met" if met else "threshold"), reason

    def _judged_drop(self, measured: Measured) -> tuple[GateCause, str]:
        """A drop beyond its limit misses the gate if the data show it, and is undecided if they could not."""
        now, before, drop = measured.value, measured.baseline, measured.drop
        if drop is None or before is None or now is None:
            return "baseline", f"{self.figure.name} can't be compared: {measured.reason}"
        limit = self.bound * (abs(before) if self.condition == "relative_drop" else 1)
        within = drop <= limit + _slack(limit)
        reason = f"{self.figure.name} went {change(before, now, self._about(measured))}: "
        if drop <= 0:
            return "met", reason + better_or_worse(-drop, "higher")
        reason += better_or_worse(-drop, "higher", beside=limit)
        reason += f", {'' if within else 'not '}within {number(limit, beside=drop)}"
        if within or measured.shown:
            return ("met" if within else "threshold"), reason
        if measured.shown is None or measured.interval is None:
            return "undecided", f"{reason}; {measured.reason}"
        level = f"{100 * measured.interval.level:.3g} % interval"
        return "met", f"{reason}; not shown: the {level} of the drop, {measured.interval}, holds 0"

    def _about(self, measured: Measured) -> str:
        """``n=200, corrected by 120 labels``; or why the figure is the judge's own although there are labels."""
        if measured.corrected_by is not None:
            return f"n={measured.n}, corrected by {measured.corrected_by} {self.corrected_by}"
        return f"n={measured.n}, not corrected: {measured.uncorrected}" if measured.uncorrected else f"n={measured.n}"

    def _thin(self, measured: Measured, what: str, why: str = "") -> str:
        """Too few scores, and the coverage to write if that is meant."""
        n, rows, floor = measured.n, measured.rows, self.gate.coverage
        least = math.floor(100 * n / rows) / 100 if rows else 0
        few = f"{n} of {rows} {what} ({n / rows if rows else 0.0:.1%}), the gate requires {floor:.1%}{why}"
        return f"{self.figure.name}: {few}. If that is as it should be, write coverage: {least:g}."


def _slack(bound: float) -> float:
    return ROUNDING * max(1.0, abs(bound)) if bound else 1e-12
