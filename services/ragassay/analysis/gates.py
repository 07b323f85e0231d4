"""Gates: thresholds that a report has to clear, alone or against a baseline. A gate passes only on rows that were scored."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, field_validator, model_validator

from ragassay.analysis.comparison import cautions
from ragassay.analysis.describe import better_or_worse, change
from ragassay.analysis.difference import Contrast, Difference
from ragassay.analysis.figures import Figure
from ragassay.analysis.rows import NOT_CONCERNED, MatchedRows, SystemRows
from ragassay.core.errors import BadSettings, NotFound, NothingToEvaluate, UnknownName
from ragassay.core.eval_config import EvalConfig
from ragassay.core.formatting import listed, number
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.report import Aggregate, Report, ReportWithResults, Slice, SystemReport
from ragassay.core.statistics import Estimate
from ragassay.evaluation.groups import RowIndexes, most_values, slice_value
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import FIGURES, Metric

ConditionName = Literal["min", "max", "max_drop", "relative_drop"]
CONDITIONS: tuple[ConditionName, ...] = ("min", "max", "max_drop", "relative_drop")
DROPS: tuple[ConditionName, ...] = ("max_drop", "relative_drop")
GateCause = Literal["met", "threshold", "coverage", "missing", "baseline", "undecided"]
LARGEST = 10.0**15
MOST_REASONS, MOST_WORST = 2, 5
ROUNDING = 1e-9  # 0.80 - 0.78 is a little above 0.02 in binary
Threshold = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
_SHORT = re.compile(r"(>=|<=)\s*(\S+)")
_SLICE_FIELD = re.compile(r"category|difficulty|conversation_id|metadata\..+")


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
            raise ValueError(
                f"slice {text!r} is not category, difficulty, conversation_id or metadata.NAME, alone or with =VALUE"
            )
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


class GateResult(Estimate):
    """One threshold, checked for one system or slice: the figure, and what follows.

    Of a drop of a mean, the figure is that of the queries that are scored in both runs. ``baseline`` is it in the baseline,
    ``drop`` is positive if it is worse now, and ``interval`` is that of the drop. ``cause`` says why a gate was missed: the
    ``threshold``; too little coverage, the ``floor`` of which is the gate's; a figure, system or slice that is ``missing``;
    nothing to compare with in the ``baseline``; or too few rows to show a drop (``undecided``). ``worst``: the rows for
    which it was missed.
    """

    name: str
    metric: str
    system: str
    slice: str | None
    condition: ConditionName
    threshold: float
    floor: float
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

    UnknownName for a system or a figure, BadSettings for a figure that is not computed, a slice that no row is in
    and a field of too many values for slices.
    """
    for n, gate in enumerate(gates):
        where = f"gates[{n}]"
        if gate.system is not None and gate.system not in systems:
            raise UnknownName("system", gate.system, systems, where=where)
        figure = Figure.parse(gate.metric, own)
        if not figure.comes_with(metrics):
            what = f"the gate is on {gate.metric}, which this run does not compute"
            hint = f"ask for it (metrics), or give the rows what it needs; computed: {listed(metrics, most=8)}"
            raise BadSettings(what, where=where, hint=hint)
        if gate.slice is not None and not figure.is_of_slices(metrics):
            what = f"a slice has metrics and cost_per_accurate_answer, not {figure.name}"
            raise BadSettings(what, where=where, hint="leave out the slice")
        if gate.slice is not None:
            field, sign, value = gate.slice.partition("=")
            values = sorted({each for one in samples if (each := slice_value(one, field)) is not None})
            if not values or (sign and value not in values):
                known = f"they have: {listed(values, most=8)}" if values else f"no row has a {field}"
                raise BadSettings(f"no row is in the slice {gate.slice!r}", where=where, hint=known)
            if len(values) > (most := most_values(field, len(samples))):
                what = f"{field} has {len(values)} values, too many for slices"
                raise BadSettings(
                    what, where=where, hint=f"a field of at most {most} values groups {len(samples)} rows"
                )


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
    own = own_metrics(report.provenance.configuration) if metrics is None else metrics
    now, before = _Run(report, gates), None if baseline is None else _Run(baseline, gates)
    incomplete = _incomplete(report)
    results = [
        _Case(gate, condition, Figure.parse(gate.metric, own), system, slice_, now, before, earlier, alpha).result(
            incomplete
        )
        for gate in gates
        for system, slice_, earlier in _scopes(gate, report, baseline if gate.needs_baseline else None, baseline_system)
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


class _Run:
    """A report, and the rows of its systems, read once if a gate needs them."""

    def __init__(self, report: ReportWithResults, gates: Sequence[Gate]) -> None:
        self.report = report
        self._fields = {gate.slice.partition("=")[0] for gate in gates if gate.slice is not None}
        self._rows: dict[str, SystemRows] = {}

    def part(self, system: str | None, slice_: str | None) -> SystemReport | Slice | None:
        """The figures of a system, or of one slice of it; None if there are none."""
        whole = self.report.systems.get(system or "")
        if whole is None or slice_ is None:
            return whole
        field, _, value = slice_.partition("=")
        return whole.slices.get(field, {}).get(value)

    def rows(self, system: str | None, slice_: str | None) -> tuple[SystemRows, RowIndexes]:
        """The rows of a system, and which of them are in the slice. Raises NotFound if they are deleted."""
        if system is None or system not in self.report.systems:
            return SystemRows((), ()), np.arange(0)
        if system not in self._rows:
            metrics = self.report.systems[system].metrics
            self._rows[system] = SystemRows(self.report.results_of(system), metrics, self._fields)
        rows = self._rows[system]
        if slice_ is None:
            return rows, np.arange(len(rows))
        field, _, value = slice_.partition("=")
        return rows, np.array(rows.slices(field).get(value, ()), int)


def _scopes(
    gate: Gate, report: Report, baseline: Report | None, baseline_system: str | None
) -> Iterator[tuple[str, str | None, str | None]]:
    """Each system, or the one that the gate names; each slice of it; and the baseline's system, None if it has none.

    A lone system is compared with a lone system of the baseline, whatever their names.
    """
    for name in [gate.system] if gate.system is not None else report.systems:
        other = baseline_system or name
        known = {} if baseline is None else baseline.systems
        if other not in known and baseline_system is None and len(known) == len(report.systems) == 1:
            other = next(iter(known))
        earlier = other if other in known else None
        if gate.slice is None or "=" in gate.slice:
            yield name, gate.slice, earlier
            continue
        parts = [one for one in (report.systems.get(name), known.get(other)) if one is not None]
        values = sorted({value for part in parts for value in part.slices.get(gate.slice, {})})
        yield from ((name, f"{gate.slice}={value}", earlier) for value in values)
        if not values:
            yield name, gate.slice, earlier


def _incomplete(report: Report) -> str | None:
    """Why no gate may pass on this run; None for a whole one."""
    expected = report.provenance.dataset.rows
    short = {name: one.queries for name, one in report.systems.items() if one.queries < expected}
    if short:
        return f"the run is incomplete: {', '.join(f'{name} has {n} of {expected} rows' for name, n in short.items())}"
    return "the run is incomplete" if report.run.status != "finished" else None


@dataclass(frozen=True)
class _Case:
    """One condition of a gate on one system or slice; ``earlier``: the system of the baseline that it is compared with."""

    gate: Gate
    condition: ConditionName
    figure: Figure
    system: str
    slice: str | None
    now: _Run
    before: _Run | None
    earlier: str | None
    alpha: float

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
        return f"{self.system}{f', {self.slice}' if self.slice else ''}: {self.figure.name} {rule}"

    def result(self, incomplete: str | None) -> GateResult:
        """The result; ``incomplete`` says why no gate may pass."""
        estimate = now = self._estimate(self.now.part(self.system, self.slice))
        baseline, drop = None, None
        cause: GateCause
        if now.value is None:
            cause, why = "missing", f"{self.figure.name} has no value: {now.reason}"
        elif self.condition in DROPS:
            estimate, baseline, is_shown = self._change(now)
            if baseline is not None and estimate.value is not None:
                drop = (baseline - estimate.value) * (1 if self.figure.better == "higher" else -1)
            cause, why = self._drop_decided(estimate, baseline, drop, is_shown)
        else:
            cause, why = self._value_decided(now, now.value)
        if now.value is not None and (thin := self._thin(now, estimate)):
            cause, why = "coverage", f"{thin} {why}"
        if incomplete:
            cause, why = "coverage", incomplete
        result: dict[str, Any] = {
            **{name: getattr(estimate, name) for name in Estimate.model_fields},
            "name": self.name,
            "metric": self.figure.name,
            "system": self.system,
            "slice": self.slice,
            "condition": self.condition,
            "threshold": self.bound,
            "floor": self.gate.coverage,
            "baseline": baseline,
            "drop": drop,
            "passed": cause == "met",
            "cause": cause,
            "reason": why,
        }
        with suppress(NotFound):  # the rows of a long past run may be deleted
            result["worst"] = () if incomplete or cause == "met" else tuple(self._worst(cause))
        return GateResult(**result)

    def _estimate(self, part: SystemReport | Slice | None) -> Estimate:
        """The figure in a report, corrected by labels if there are enough.

        A score that is missing because the query can't be answered does not count as missing.
        """
        if part is None:
            return Estimate(value=None, n=0, reason="there are no rows that could have one")
        found = self.figure.of(part)
        missing = {why: rows for why, rows in found.missing.items() if not why.endswith(NOT_CONCERNED)}
        more: dict[str, Any] = {"missing": missing}
        if isinstance(found, Aggregate) and (corrected := found.corrected) is not None:
            more["reason"] = corrected.reason and f"not corrected: {corrected.reason}"
            if corrected.mean is not None:
                more |= {"value": corrected.mean, "interval": corrected.interval}
                more |= {"corrected_by": corrected.labels, "uncorrected": found.value}
        return found.model_copy(update=more)

    def _change(self, now: Estimate) -> tuple[Estimate, float | None, bool | None]:
        """The figure now and in the baseline, and whether the data show a difference: None if they could not.

        A mean is of the queries that are scored in both runs, with the interval of the drop at level 1 - alpha. Any other
        figure is that of each report, without an interval: its values show the drop.
        """
        part = None if self.before is None else self.before.part(self.earlier, self.slice)
        if part is None:
            rows = f"the baseline has no {'system' if self.earlier is None else 'slice'}"
            name = self.system if self.earlier is None else self.slice
            return Estimate(value=None, n=0, reason=f"{rows} {name!r}"), None, None
        before = self._estimate(part)
        if not self.figure.is_mean:
            reason = f"in the baseline {before.reason}" if before.value is None else None
            return now.model_copy(update={"interval": None, "reason": reason}), before.value, True
        difference, rows_before = self._difference()
        missing = {"not scored in both runs": rows_before - difference.n} if rows_before > difference.n else {}
        if not difference.n:
            why = f"none of the baseline's {rows_before} queries is scored in both runs"
            return Estimate(value=None, n=0, missing=missing, reason=why), None, None
        interval, first = difference.interval, difference.mean_a
        if self.figure.better == "higher" and interval.low is not None and interval.high is not None:
            interval = interval.model_copy(update={"low": -interval.high, "high": -interval.low})
        if difference.corrected_by is not None and before.corrected_by is not None:
            first = before.value
        estimate = Estimate(
            value=(first or 0.0) + (difference.delta or 0.0),
            n=difference.n,
            missing=missing,
            interval=interval,
            reason=self._undecided(difference),
            corrected_by=difference.corrected_by,
            uncorrected=None if difference.corrected_by is None else difference.mean_b,
        )
        return estimate, first, difference.shown

    def _difference(self) -> tuple[Difference, int]:
        """The difference of a mean on the matched queries, and how many rows of the baseline could have a score."""
        column, pairs = self.figure.column, self._matched
        about = pairs.a.concerned(column)[pairs.in_a] & pairs.b.concerned(column)[pairs.in_b]
        difference = Contrast("baseline", self.system, "", self.alpha, own={column: self.figure.metric}).of_rows(
            column,
            pairs.only(about),
            better=self.figure.better,
            max_failed=self._spec.max_failed_share,
            tested=False,
        )
        _, earlier = (self.before or self.now).rows(self.earlier, self.slice)
        return difference, len(earlier) - int((~about).sum())

    @cached_property
    def _matched(self) -> MatchedRows:
        """The rows of the baseline and those of now about the same queries, in the slice on both sides."""
        (before, earlier), (now, places) = (
            run.rows(system, self.slice)
            for run, system in ((self.before or self.now, self.earlier), (self.now, self.system))
        )
        pairs = before.matched(now)
        return pairs.only(np.isin(pairs.in_a, earlier) & np.isin(pairs.in_b, places))

    @property
    def _spec(self) -> EvalConfig:
        return self.now.report.provenance.configuration

    def _value_decided(self, now: Estimate, value: float) -> tuple[GateCause, str]:
        bound, sign = self.bound, ">=" if self.condition == "min" else "<="
        met = value >= bound - _slack(bound) if sign == ">=" else value <= bound + _slack(bound)
        shown, limit = number(value, beside=bound), number(bound, beside=value)
        why = f"{self.figure.name} is {shown}, {'' if met else 'not '}{sign} {limit} ({self._about(now)})"
        return ("met" if met else "threshold"), why

    def _drop_decided(
        self, now: Estimate, before: float | None, drop: float | None, is_shown: bool | None
    ) -> tuple[GateCause, str]:
        """A drop beyond its limit misses the gate if the data show it, and is undecided if they could not."""
        if drop is None or before is None or now.value is None:
            return "baseline", f"{self.figure.name} can't be compared: {now.reason}"
        limit = self.bound * (abs(before) if self.condition == "relative_drop" else 1)
        within = drop <= limit + _slack(limit)
        why = f"{self.figure.name} went {change(before, now.value, self._about(now))}: "
        if drop <= 0:
            return "met", why + better_or_worse(-drop, "higher")
        why += better_or_worse(-drop, "higher", beside=limit)
        why += f", {'' if within else 'not '}within {number(limit, beside=drop)}"
        if within or is_shown:
            return ("met" if within else "threshold"), why
        if is_shown is None or now.interval is None:
            return "undecided", f"{why}; {now.reason}"
        level = f"{100 * now.interval.level:.3g} % interval"
        return "met", f"{why}; not shown: the {level} of the drop, {now.interval}, holds 0"

    def _undecided(self, difference: Difference) -> str | None:
        """Why no test could show a drop, or why labels do not correct it; None if there is neither."""
        if difference.shown is not None or difference.corrected_by is not None:
            return difference.interval.reason
        queries = "query differs" if difference.changed == 1 else "queries differ"
        return (
            f"only {difference.changed} {queries}, too few to show a drop (alpha {self.alpha:g}): evaluate more queries"
        )

    def _worst(self, cause: GateCause) -> Iterator[GateRow]:
        """Rows without a score, with the largest drop, or with the lowest or highest value; none for figures that are no mean."""
        column, (rows, places) = self.figure.column, self.now.rows(self.system, self.slice)
        values, before = rows.values(column), np.full(len(rows), np.nan)
        if column in FIGURES:
            return
        if cause in ("coverage", "missing"):
            order = np.where(np.isnan(values), 0.0, np.nan)
            places = places[rows.concerned(column)[places]]
        elif self.condition in DROPS:
            pairs = self._matched
            before[pairs.in_b] = pairs.values(column)[0]
            losses = (before - values) * (1 if self.figure.better == "higher" else -1)
            order = np.where(losses > 0, -losses, np.nan)
        else:
            order = values if self.condition == "min" else -values
        places = places[np.isfinite(order[places])]
        for place in places[np.argsort(order[places], kind="stable")[:MOST_WORST]].tolist():
            row, value, was_there = rows.results[place], float(values[place]), float(before[place])
            score = row.scores.get(column)
            yield GateRow(
                query_id=row.query_id,
                query=row.query,
                value=None if math.isnan(value) else value,
                before=None if math.isnan(was_there) else was_there,
                reason=score.reason if score else row.error,
            )

    def _about(self, estimate: Estimate) -> str:
        """``n=200, corrected by 120 labels``; or why the figure is the judge's own although there are labels."""
        if estimate.corrected_by is not None:
            return f"n={estimate.n}, corrected by {estimate.corrected_by} {self._spec.corrected_by}"
        is_caveat = (estimate.reason or "").startswith("not corrected")
        return f"n={estimate.n}, {estimate.reason}" if is_caveat else f"n={estimate.n}"

    def _thin(self, now: Estimate, compared: Estimate) -> str | None:
        """Too few scores, now or in both runs, and the coverage to write if that is meant; None if there are enough."""
        floor = self.gate.coverage
        if now.coverage < floor:
            reasons = Counter(now.missing).most_common(MOST_REASONS)
            why = "; ".join(f"{count} without one: {reason}" for reason, count in reasons)
            n, rows, what = (
                now.n,
                now.rows,
                f"rows have a score ({now.coverage:.1%}), the gate requires {floor:.1%} ({why})",
            )
        elif compared.n and compared.coverage < floor:
            n, rows, what = compared.n, compared.rows, "queries of the baseline are scored in both runs"
            what += f" ({compared.coverage:.1%}), the gate requires {floor:.1%}"
        else:
            return None
        least = math.floor(100 * n / rows) / 100 if rows else 0
        return f"{self.figure.name}: {n} of {rows} {what}. If that is as it should be, write coverage: {least:g}."


def _slack(bound: float) -> float:
    return ROUNDING * max(1.0, abs(bound)) if bound else 1e-12
