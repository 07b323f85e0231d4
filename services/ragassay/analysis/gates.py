"""Gates: thresholds that a report has to clear, alone or against a baseline. A gate passes only on rows that were scored."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from ragassay.analysis.comparison import cautions
from ragassay.analysis.difference import Contrast
from ragassay.analysis.figures import Figure
from ragassay.analysis.rows import NOT_CONCERNED, MatchedRows, SystemRows
from ragassay.core.errors import BadSettings, NotFound, NothingToEvaluate, UnknownName
from ragassay.core.formatting import interval, listed, number, of_metric
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.report import Aggregate, ReportWithResults, Slice, SystemReport
from ragassay.core.statistics import Estimate
from ragassay.evaluation.groups import RowIndexes, max_values, slice_value
from ragassay.metrics.accuracy import NUMBER
from ragassay.metrics.composite import custom_metrics
from ragassay.metrics.metric import Metric

ConditionName = Literal["min", "max", "max_drop", "relative_drop"]
CONDITIONS: tuple[ConditionName, ...] = get_args(ConditionName)
DROPS = CONDITIONS[2:]
GateCause = Literal["met", "threshold", "coverage", "missing", "baseline", "undecided"]
LARGEST = 10.0**15
MAX_REASONS, MAX_WORST = 2, 5
ROUNDING = 1e-9  # 0.80 - 0.78 is a little above 0.02 in binary
Threshold = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
_SHORT = re.compile(rf"(>=|<=)\s*({NUMBER})", re.IGNORECASE)
_SLICE = re.compile(r"(category|difficulty|conversation_id|metadata\.[^=]+)(=.*)?", re.DOTALL)


class Gate(FrozenModel):
    """Thresholds for one figure. It holds for every system and slice that it names, and only if rows were scored."""

    metric: str = Field(
        description="a metric, `cost_per_accurate_answer`, `suspicious` (rows), `refusal_precision`, `refusal_recall`, or "
        "latency, tokens or cost with a percentile: `latency_ms.p95`"
    )
    min: Threshold | None = Field(None, description="the least value that passes")
    max: Threshold | None = Field(None, description="the largest value that passes")
    max_drop: float | None = Field(
        None, ge=0, le=LARGEST, description="how much worse than the baseline it may be, in units of the metric"
    )
    relative_drop: float | None = Field(
        None, ge=0, le=1_000_000, description="how much worse it may be, as a share of the baseline's value"
    )
    coverage: float = Field(
        0.95, gt=0, le=1, description="least share of the rows that must have a score; below it the gate fails"
    )
    system: str | None = Field(None, description="the system it is about; default: every one")
    slice: str | None = Field(
        None,
        description="only these rows: `category=factual`; a field alone, such as `category`: each of its values",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Gate:
        if self.slice is not None and not _SLICE.fullmatch(self.slice):
            fields = "category, difficulty, conversation_id or metadata.NAME"
            raise ValueError(f"slice {self.slice!r} is not {fields}, alone or with =VALUE")
        if not self.conditions:
            raise ValueError(f"the gate on {self.metric} has no threshold; give it {listed(CONDITIONS)}")
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
    if not isinstance(given, Mapping) or len(given) != 1 or given.keys() <= Gate.model_fields.keys():
        return given
    ((name, text),) = given.items()
    if not (short := _SHORT.fullmatch(str(text).strip())):
        raise ValueError(f'gate {name}: can\'t read {text!r}; write, for example, {name}: ">= 0.7"')
    return {"metric": name, "min" if short[1] == ">=" else "max": float(short[2])}


GateList = tuple[Annotated[Gate, BeforeValidator(_from_short, json_schema_input_type=Gate | dict[str, str])], ...]


class GateRow(FrozenModel):
    """One row: its value, for a drop also that in the baseline ``before``, and the reason given with its score."""

    query_id: str
    value: float | None
    before: float | None = None
    reason: str | None = None

    def __str__(self) -> str:
        """``qs-08 0.000, was 1.000``."""
        value = "not scored" if self.value is None else number(self.value, beside=self.before)
        was = "" if self.before is None else f", was {number(self.before, beside=self.value)}"
        return f"{self.query_id} {value}{was}"


class GateResult(Estimate):
    """One threshold, checked for one system or slice: the figure, and what follows.

    Of a drop of a mean, the figure is that of the queries that are scored in both runs. ``baseline`` is it in the baseline,
    ``drop`` is positive if it is worse now, and ``interval`` is that of the drop. ``cause`` says why a gate was missed: the
    ``threshold``; too little ``coverage``; a figure, system or slice that is ``missing``; nothing to compare with in the
    ``baseline``; or too few rows to show a drop (``undecided``). ``worst``: the rows for which it was missed.
    """

    name: str
    metric: str
    system: str
    slice: str | None
    condition: ConditionName
    threshold: float
    baseline: float | None = None
    drop: float | None = None
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

    @property
    def verdict(self) -> str:
        """How many were missed, else that all passed."""
        total, missed = len(self.results), len(self.missed)
        return f"{missed} of {total} gates missed" if missed else f"{total} of {total} gates passed"


def about_a_drop(gates: Sequence[Gate]) -> str | None:
    """What to say if there is no baseline: the first gate that needs one; None if none does."""
    needing = next((gate for gate in gates if gate.needs_baseline), None)
    return f"the gate on {needing.metric} is about a drop and there is no baseline" if needing else None


def without_drops(gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """The gates with what can be checked without a baseline."""
    checkable = (gate for gate in gates if gate.min is not None or gate.max is not None)
    return tuple(gate.model_copy(update=dict.fromkeys(DROPS)) for gate in checkable)


def check_names(
    gates: Sequence[Gate],
    custom: Mapping[str, Metric],
    metrics: Collection[str],
    systems: Collection[str],
    samples: Sequence[Sample],
) -> None:
    """Raise if a run of these metrics, systems and rows lacks what a gate is about; ``custom``: metrics that it defines.

    UnknownName for a system or a figure, BadSettings for a figure that is not computed, a slice that no row is in
    and a field of too many values for slices.
    """
    for n, gate in enumerate(gates):
        where, figure = f"gates[{n}]", Figure.parse(gate.metric, custom)
        if gate.system is not None and gate.system not in systems:
            raise UnknownName("system", gate.system, systems, where=where)
        if not figure.comes_with(metrics, custom):
            what = f"the gate is on {gate.metric}, which this run does not compute"
            hint = f"ask for it (metrics), or give the rows what it needs; computed: {listed(metrics, max_names=8)}"
            raise BadSettings(what, where=where, hint=hint)
        if gate.slice is not None:
            _check_slice(gate.slice, figure.is_of_slices(metrics), samples, where)


def _check_slice(slice_: str, has_slices: bool, samples: Sequence[Sample], where: str) -> None:
    field, has_value, value = slice_.partition("=")
    values = sorted({each for one in samples if (each := slice_value(one, field)) is not None})
    if not has_slices:
        problem, hint = "a slice has metrics and cost_per_accurate_answer", "leave out the slice"
    elif not values or (has_value and value not in values):
        problem = f"no row is in the slice {slice_!r}"
        hint = f"rows have: {listed(values, max_names=8)}" if values else f"no row has a {field}"
    elif len(values) > (limit := max_values(field, len(samples))):
        problem = f"{field} has {len(values)} values, too many for slices"
        hint = f"a field of at most {limit} values groups {len(samples)} rows"
    else:
        return
    raise BadSettings(problem, where=where, hint=hint)


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
    custom = custom_metrics(report.provenance.configuration) if metrics is None else metrics
    fields = {gate.slice.partition("=")[0] for gate in gates if gate.slice is not None}

    @cache
    def rows(of_baseline: bool, system: str) -> SystemRows:
        of_report = baseline if of_baseline and baseline else report
        return SystemRows(of_report.results_of(system), of_report.systems[system].metrics, fields)

    results = [
        _Case(
            gate, condition, Figure.parse(gate.metric, custom), now, before, Contrast("", "", "", alpha, custom=custom)
        ).result()
        for gate in gates
        for now, before in _scopes(gate, report, baseline, baseline_system, rows)
        for condition in gate.conditions
    ]
    return GateReport(
        run=report.run.id,
        baseline=baseline.run.id if baseline else None,
        dataset=report.provenance.dataset.name,
        passed=all(result.passed for result in results),
        alpha=alpha,
        cautions=tuple(cautions(baseline.provenance, report.provenance)) if baseline else (),
        results=tuple(results),
    )


@dataclass(frozen=True)
class _Part:
    """A system of a report, or a slice of it; there may be no such thing."""

    report: ReportWithResults
    system: str
    slice: str | None
    read: Callable[[str], SystemRows]

    @property
    def figures(self) -> SystemReport | Slice | None:
        """Its figures; None if the report has no such system or slice."""
        whole = self.report.systems.get(self.system)
        if whole is None or self.slice is None:
            return whole
        field, _, value = self.slice.partition("=")
        return whole.slices.get(field, {}).get(value)

    def estimate(self, figure: Figure) -> Estimate:
        """The figure, corrected by labels if there are enough. Rows that can't have a score do not count as missing."""
        if self.figures is None:
            return Estimate(value=None, n=0, reason="there are no rows that could have one")
        estimate = figure.of(self.figures)
        update: dict[str, Any] = {
            "missing": {why: rows for why, rows in estimate.missing.items() if not why.endswith(NOT_CONCERNED)}
        }
        corrected = estimate.corrected if isinstance(estimate, Aggregate) else None
        if corrected is not None and corrected.value is None:
            update["reason"] = f"not corrected: {corrected.reason}"
        elif corrected is not None:
            update["failed"], estimate = estimate.failed, corrected
        return estimate.model_copy(update=update)

    def rows(self) -> tuple[SystemRows, RowIndexes]:
        """The rows of the system, and which of them are in the slice."""
        rows = self.read(self.system)
        return rows, rows.places(self.slice)


def _scopes(
    gate: Gate,
    report: ReportWithResults,
    baseline: ReportWithResults | None,
    baseline_system: str | None,
    rows: Callable[[bool, str], SystemRows],
) -> Iterator[tuple[_Part, _Part]]:
    """Each system that the gate is about, or each slice of it, and what it is compared with.

    A lone system is compared with a lone system of the baseline, whatever their names.
    """
    baseline = baseline if baseline is not None and gate.needs_baseline else report
    for name in [gate.system] if gate.system is not None else report.systems:
        earlier = baseline_system or name
        if baseline_system is None and len(baseline.systems) == len(report.systems) == 1:
            earlier = next(iter(baseline.systems))
        slices = [gate.slice]
        if gate.slice is not None and "=" not in gate.slice:
            parts = filter(None, (report.systems.get(name), baseline.systems.get(earlier)))
            values = sorted({value for part in parts for value in part.slices.get(gate.slice, {})})
            slices = [f"{gate.slice}={value}" for value in values] or slices
        for slice_ in slices:
            yield (
                _Part(report, name, slice_, partial(rows, False)),
                _Part(baseline, earlier, slice_, partial(rows, True)),
            )


@dataclass(frozen=True)
class _Case:
    """One condition of a gate on one system or slice; ``before``: what it is compared with, by ``contrast``."""

    gate: Gate
    condition: ConditionName
    figure: Figure
    now: _Part
    before: _Part
    contrast: Contrast

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
            "min": f">= {self._write(self.bound)}",
            "max": f"<= {self._write(self.bound)}",
            "max_drop": f"{worse} <= {self._write_drop(self.bound)}",
            "relative_drop": f"{worse} <= {self.bound * 100:g} %",
        }[self.condition]
        scope = ", ".join(filter(None, (self.now.system, self.now.slice)))
        return f"{scope}: {self.figure.name} {rule}"

    def result(self) -> GateResult:
        """The figure, and what follows."""
        run, estimate = self.now.report.run, self.now.estimate(self.figure)
        worst: tuple[GateRow, ...] = ()
        baseline, drop = None, None
        cause: GateCause
        if run.status != "finished":
            cause, reason = "coverage", f"the run is incomplete: it has {run.rows_done} of {run.rows} rows"
        elif estimate.value is None:
            missing = _most_common(estimate.missing)
            cause, reason = "missing", f"{self.figure.name} has no value: {estimate.reason}"
            reason += f" ({missing})" if missing else ""
        elif why := self._too_few(estimate):
            cause, reason = "coverage", why
        elif self.condition in DROPS:
            estimate, baseline, is_shown = self._change(estimate)
            if estimate.value is not None and baseline is not None:
                drop = (baseline - estimate.value) * self._sign
            cause, reason = self._drop_decided(estimate, baseline, drop, is_shown)
        else:
            cause, reason = self._value_decided(estimate)
        if cause not in ("met", "baseline") and run.status == "finished":
            with suppress(NotFound):  # the rows of a long past run may be deleted
                worst = tuple(self._worst(cause))
        return GateResult(
            **{name: getattr(estimate, name) for name in Estimate.model_fields if name != "reason"},
            name=self.name,
            metric=self.figure.name,
            system=self.now.system,
            slice=self.now.slice,
            condition=self.condition,
            threshold=self.bound,
            baseline=baseline,
            drop=drop,
            passed=cause == "met",
            cause=cause,
            reason=reason,
            worst=worst,
        )

    @property
    def _sign(self) -> int:
        return 1 if self.figure.better == "higher" else -1

    def _write(self, value: float, beside: float | None = None) -> str:
        return of_metric(self.figure.name, value, beside=beside)

    def _write_drop(self, value: float, beside: float | None = None) -> str:
        return of_metric(self.figure.name, value, sign="-", beside=beside)

    def _value_decided(self, now: Estimate) -> tuple[GateCause, str]:
        value, is_least = now.value or 0.0, self.condition == "min"
        met = _within(self.bound, value) if is_least else _within(value, self.bound)
        sign, limit = ">=" if is_least else "<=", self._write(self.bound, value)
        shown = f"{self._write(value, self.bound)}, {'' if met else 'not '}{sign} {limit}"
        return ("met" if met else "threshold"), f"{self.figure.name} is {shown} ({self._about(now)})"

    def _drop_decided(
        self, now: Estimate, before: float | None, drop: float | None, is_shown: bool | None
    ) -> tuple[GateCause, str]:
        """A drop beyond its limit misses the gate if the data show it, and is undecided if they could not."""
        if drop is None or before is None or now.value is None:
            return "baseline", f"{self.figure.name} can't be compared: {now.reason}"
        if why := self._too_few(now):
            return "coverage", why
        limit = self.bound * (abs(before) if self.condition == "relative_drop" else 1)
        within = _within(drop, limit)
        change = f"from {self._write(before, now.value)} to {self._write(now.value, before)} ({self._about(now)})"
        size = f"{'worse' if drop > 0 else 'better'} by {self._write_drop(abs(drop), limit)}" if drop else "unchanged"
        reason = f"{self.figure.name} went {change}: {size}"
        if drop > 0:
            reason += f", {'' if within else 'not '}within {self._write_drop(limit, drop)}"
        if within or is_shown:
            return ("met" if within else "threshold"), reason
        if is_shown is None or now.interval is None:
            return "undecided", f"{reason}; {now.reason}"
        level = f"{100 * now.interval.level:.3g} % interval"
        ends = interval(now.interval, self._write_drop)
        return "met", f"{reason}; not shown: the {level} of the drop, {ends}, holds 0"

    def _change(self, now: Estimate) -> tuple[Estimate, float | None, bool | None]:
        """The figure now and in the baseline, and whether the data show a difference: None if they could not.

        A mean is of the queries that are scored in both runs, with the interval of the drop. Any other figure is that of
        each report, without an interval: its values show the drop.
        """
        if self.before.figures is None:
            known = self.before.system in self.before.report.systems
            missing_part = f"slice {self.now.slice!r}" if known else f"system {self.before.system!r}"
            return Estimate(value=None, n=0, reason=f"the baseline has no {missing_part}"), None, None
        before = self.before.estimate(self.figure)
        if not self.figure.is_mean:
            reason = None if before.value is not None else f"in the baseline {before.reason}"
            return now.model_copy(update={"interval": None, "reason": reason}), before.value, True
        column, pairs, rows = self.figure.column, self._matched(), len(self.before.rows()[1])
        concerned = pairs.a.concerned(column)[pairs.in_a] & pairs.b.concerned(column)[pairs.in_b]
        rows -= int((~concerned).sum())
        limit = self.now.report.provenance.configuration.max_failed_share
        difference = self.contrast.of_rows(
            column, pairs.only(concerned), better=self.figure.better, max_failed=limit, tested=False
        )
        missing = {"not scored in both runs": rows - difference.n} if rows > difference.n else {}
        if difference.mean_a is None or difference.mean_b is None or difference.delta is None:
            reason = f"none of the baseline's {rows} queries is scored in both runs"
            return Estimate(value=None, n=0, missing=missing, reason=reason), None, None
        reason, first, corrected_by = difference.interval.reason, difference.mean_a, difference.corrected_by
        if corrected_by is None and difference.shown is None:
            differ = "query differs" if difference.changed == 1 else "queries differ"
            few = f"{difference.changed} {differ}, too few to show a drop (alpha {self.contrast.alpha:g})"
            reason = f"only {few}: evaluate more queries"
        if corrected_by is not None and before.corrected_by is not None:
            first = before.value or 0.0
        estimate = Estimate(
            value=first + difference.delta,
            n=difference.n,
            missing=missing,
            interval=difference.interval.negative if self.figure.better == "higher" else difference.interval,
            reason=reason,
            corrected_by=corrected_by,
            uncorrected=None if corrected_by is None else difference.mean_b,
        )
        return estimate, first, difference.shown

    def _matched(self) -> MatchedRows:
        """The rows of the baseline and those of now about the same queries, in the slice on both sides."""
        (before, earlier), (now, places) = self.before.rows(), self.now.rows()
        pairs = before.matched(now)
        return pairs.only(np.isin(pairs.in_a, earlier) & np.isin(pairs.in_b, places))

    def _worst(self, cause: GateCause) -> Iterator[GateRow]:
        """Rows without a score, with the largest drop, or with the lowest or highest value; none if it is no mean."""
        column = self.figure.column
        if self.now.figures is None or column not in self.now.figures.metrics:
            return
        rows, places = self.now.rows()
        values, before = rows.values(column), np.full(len(rows), np.nan)
        if cause in ("coverage", "missing"):
            badness = np.where(np.isnan(values) & rows.concerned(column), 1.0, np.nan)
        elif self.condition in DROPS:
            pairs = self._matched()
            before[pairs.in_b] = pairs.values(column)[0]
            badness = (before - values) * self._sign
            badness[badness <= 0] = np.nan
        else:
            badness = -values if self.condition == "min" else values
        places = places[np.isfinite(badness[places])]
        for place in places[np.argsort(-badness[places], kind="stable")[:MAX_WORST]].tolist():
            row, value, was = rows.results[place], float(values[place]), float(before[place])
            score = row.scores.get(column)
            yield GateRow(
                query_id=row.query_id,
                value=None if math.isnan(value) else value,
                before=None if math.isnan(was) else was,
                reason=score.reason if score else row.error,
            )

    def _about(self, estimate: Estimate) -> str:
        """``n=200, corrected by 120 labels``; or why the figure is the judge's own although there are labels."""
        if estimate.corrected_by is not None:
            by = self.now.report.provenance.configuration.corrected_by
            return f"n={estimate.n}, corrected by {estimate.corrected_by} {by}"
        is_caveat = (estimate.reason or "").startswith("not corrected")
        return f"n={estimate.n}, {estimate.reason}" if is_caveat else f"n={estimate.n}"

    def _too_few(self, estimate: Estimate) -> str | None:
        """That too few rows have a score, why, and the coverage to write if that is meant; None if there are enough."""
        if estimate.coverage >= self.gate.coverage:
            return None
        why = _most_common(estimate.missing)
        scored = f"{estimate.n} of {estimate.rows} rows have a score ({estimate.coverage:.1%})"
        least = math.floor(100 * estimate.coverage) / 100
        hint = f"If that is as it should be, write coverage: {least:g}."
        return f"{self.figure.name}: {scored}, the gate requires {self.gate.coverage:.1%} ({why}). {hint}"


def _most_common(missing: Mapping[str, int]) -> str:
    """Why most rows have no score: ``7 without one: the system failed``."""
    return "; ".join(f"{count} without one: {why}" for why, count in Counter(missing).most_common(MAX_REASONS))


def _within(value: float, limit: float) -> bool:
    """Is it at most the limit, but for rounding?"""
    return value <= limit or math.isclose(value, limit, rel_tol=ROUNDING, abs_tol=ROUNDING if limit else 1e-12)
