"""Gates: thresholds that a report has to clear, alone or against a baseline. A gate passes only on rows that were scored."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field, field_validator, model_validator

from ragassay.analysis.comparison import cautions
from ragassay.analysis.describe import better_or_worse, change
from ragassay.analysis.difference import Contrast, Difference
from ragassay.analysis.figures import PER_ACCURATE, REFUSALS, SUSPICIOUS, Figure
from ragassay.analysis.rows import Mask, SystemRows
from ragassay.core.errors import BadSettings, NothingToEvaluate, UnknownName
from ragassay.core.eval_config import EvalConfig
from ragassay.core.formatting import listed, number
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.report import Report, ReportWithResults
from ragassay.core.statistics import Estimate
from ragassay.evaluation.groups import RowIndexes, slice_value
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.judged import ANSWERED_UNANSWERABLE, WRONG_REFUSAL
from ragassay.metrics.metric import Metric
from ragassay.stats.intervals import Floats

ConditionName = Literal["min", "max", "max_drop", "relative_drop"]
CONDITIONS: tuple[ConditionName, ...] = ("min", "max", "max_drop", "relative_drop")
DROPS: tuple[ConditionName, ...] = ("max_drop", "relative_drop")
GateCause = Literal["met", "threshold", "coverage", "missing", "baseline", "undecided"]
LARGEST = 10.0**15
MOST_REASONS, MOST_WORST = 2, 5
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

    Of a drop, the figure is that of the queries that are scored in both runs. ``baseline`` is it in the baseline, ``drop`` is
    positive if it is worse now, and ``interval`` is that of the drop. ``cause`` says why a gate was missed: the
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
            values = sorted({each for one in samples if (each := slice_value(one, field)) is not None})
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
    spec, incomplete = report.provenance.configuration, _incomplete(report)
    own = own_metrics(spec) if metrics is None else metrics
    now, before = _rows(report, gates), {} if baseline is None else _rows(baseline, gates)
    results = [
        _Case(gate, condition, Figure.parse(gate.metric, own), scope, spec, alpha).result(incomplete)
        for gate in gates
        for scope in _scopes(gate, now, before if gate.needs_baseline else None, baseline_system)
        for condition in gate.conditions
    ]
    return GateReport(
        run=report.run.id,
        baseline=baseline.run.id if baseline else None,
        dataset=report.provenance.dataset.name,
        passed=all(result.passed for result in results),
        alpha=alpha,
        cautions=cautions(baseline.provenance, report.provenance) if baseline else (),
        results=tuple(results),
    )


def _rows(report: ReportWithResults, gates: Sequence[Gate]) -> dict[str, SystemRows]:
    """The rows of each system, read once. Raises NotFound if they are deleted."""
    fields = {gate.slice.partition("=")[0] for gate in gates if gate.slice is not None}
    return {name: SystemRows(report.results_of(name), one.metrics, fields) for name, one in report.systems.items()}


class _Places(NamedTuple):
    """Some rows of a system."""

    rows: SystemRows
    places: RowIndexes


class _Scope(NamedTuple):
    """One system, or one slice of it, now and ``before``: None without a baseline, or if it lacks the system."""

    system: str
    slice: str | None
    now: _Places
    before: _Places | None


def _scopes(
    gate: Gate, now: Mapping[str, SystemRows], baseline: Mapping[str, SystemRows] | None, baseline_system: str | None
) -> Iterator[_Scope]:
    """Each system, or the one that the gate names, and each slice of it; one that has no rows comes with none.

    A lone system is compared with a lone system of the baseline, whatever their names.
    """
    for name in [gate.system] if gate.system is not None else now:
        rows, before = now.get(name, SystemRows((), ())), None
        if baseline is not None:
            other = baseline_system or name
            if other not in baseline and baseline_system is None and len(baseline) == len(now) == 1:
                other = next(iter(baseline))
            before = baseline.get(other)
        if gate.slice is None:
            whole = None if before is None else _Places(before, np.arange(len(before)))
            yield _Scope(name, None, _Places(rows, np.arange(len(rows))), whole)
            continue
        field, sign, value = gate.slice.partition("=")
        slices, earlier = rows.slices(field), {} if before is None else before.slices(field)
        for one in [value] if sign else sorted({*slices, *earlier}):
            of_before = None if before is None else _Places(before, np.array(earlier.get(one, ()), int))
            yield _Scope(name, f"{field}={one}", _Places(rows, np.array(slices.get(one, ()), int)), of_before)
        if not sign and not slices and not earlier:
            yield _Scope(name, gate.slice, _Places(rows, np.arange(0)), None)


def _incomplete(report: Report) -> str | None:
    """Why no gate may pass on this run; None for a whole one."""
    expected = report.provenance.dataset.rows
    short = {name: one.queries for name, one in report.systems.items() if one.queries < expected}
    if short:
        return f"the run is incomplete: {', '.join(f'{name} has {n} of {expected} rows' for name, n in short.items())}"
    return "the run is incomplete" if report.run.status != "finished" else None


@dataclass(frozen=True)
class _Drop:
    """A figure before and now, on the queries of the baseline that are scored in both runs.

    ``drop`` is positive if it is worse now. ``shown``: do the data show it? None if they could not, and ``reason`` says why;
    a figure that is no mean has no interval: its values show the drop.
    """

    estimate: Estimate
    baseline: float | None = None
    drop: float | None = None
    shown: bool | None = True


@dataclass(frozen=True)
class _Case:
    """One condition of a gate on one system or slice."""

    gate: Gate
    condition: ConditionName
    figure: Figure
    scope: _Scope
    spec: EvalConfig
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
        return f"{self.scope.system}{f', {self.scope.slice}' if self.scope.slice else ''}: {self.figure.name} {rule}"

    def result(self, incomplete: str | None) -> GateResult:
        """The result; ``incomplete`` says why no gate may pass."""
        now = self.figure.over(*self.scope.now, self.spec)
        drop = self._drop() if self.condition in DROPS else None
        cause, why = self._decided(now, drop)
        if incomplete:
            cause, why = "coverage", incomplete
        result: dict[str, Any] = {
            **dict(drop.estimate if drop else now),
            "name": self.name,
            "metric": self.figure.name,
            "system": self.scope.system,
            "slice": self.scope.slice,
            "condition": self.condition,
            "threshold": self.bound,
            "floor": self.gate.coverage,
            "baseline": drop and drop.baseline,
            "drop": drop and drop.drop,
            "passed": cause == "met",
            "cause": cause,
            "reason": why,
            "worst": () if incomplete or cause == "met" else tuple(self._worst(cause)),
        }
        return GateResult(**result)

    def _decided(self, now: Estimate, drop: _Drop | None) -> tuple[GateCause, str]:
        """Whether the condition is met, and a sentence about it."""
        if now.value is None:
            return "missing", f"{self.figure.name} has no value: {now.reason}"
        cause, why = self._drop_decided(drop) if drop else self._value_decided(now, now.value)
        if now.coverage < self.gate.coverage:
            reasons = Counter(now.missing).most_common(MOST_REASONS)
            listed_reasons = "; ".join(f"{count} without one: {reason}" for reason, count in reasons)
            return "coverage", f"{self._thin(now, 'rows have a score', f' ({listed_reasons})')} {why}"
        if drop and drop.estimate.n and drop.estimate.coverage < self.gate.coverage:
            return (
                "coverage",
                f"{self._thin(drop.estimate, 'queries of the baseline are scored in both runs')} {why}",
            )
        return cause, why

    def _value_decided(self, now: Estimate, value: float) -> tuple[GateCause, str]:
        bound, sign = self.bound, ">=" if self.condition == "min" else "<="
        met = value >= bound - _slack(bound) if sign == ">=" else value <= bound + _slack(bound)
        shown, limit = number(value, beside=bound), number(bound, beside=value)
        why = f"{self.figure.name} is {shown}, {'' if met else 'not '}{sign} {limit} ({self._about(now)})"
        return ("met" if met else "threshold"), why

    def _drop_decided(self, found: _Drop) -> tuple[GateCause, str]:
        """A drop beyond its limit misses the gate if the data show it, and is undecided if they could not."""
        now, before, drop = found.estimate.value, found.baseline, found.drop
        if drop is None or before is None or now is None:
            return "baseline", f"{self.figure.name} can't be compared: {found.estimate.reason}"
        limit = self.bound * (abs(before) if self.condition == "relative_drop" else 1)
        within = drop <= limit + _slack(limit)
        why = f"{self.figure.name} went {change(before, now, self._about(found.estimate))}: "
        if drop <= 0:
            return "met", why + better_or_worse(-drop, "higher")
        why += better_or_worse(-drop, "higher", beside=limit)
        why += f", {'' if within else 'not '}within {number(limit, beside=drop)}"
        if within or found.shown:
            return ("met" if within else "threshold"), why
        if found.shown is None or found.estimate.interval is None:
            return "undecided", f"{why}; {found.estimate.reason}"
        level = f"{100 * found.estimate.interval.level:.3g} % interval"
        return "met", f"{why}; not shown: the {level} of the drop, {found.estimate.interval}, holds 0"

    def _drop(self) -> _Drop:
        """The figure before and now, with the interval of the drop at level 1 - alpha."""
        figure, spec, (now, places) = self.figure, self.spec, self.scope.now
        if self.scope.before is None:
            return _none(0, 0, f"the baseline has no system {self.scope.system!r}")
        before, earlier = self.scope.before
        was, is_now = _matched(before, earlier, now, places)
        about = figure.about(before)[was], figure.about(now)[is_now]
        known = np.isfinite(figure.values(before)[was]), np.isfinite(figure.values(now)[is_now])
        if figure.column in REFUSALS:  # of other queries than before, perhaps
            rows, scored = len(earlier), (known[0] | ~about[0]) & (known[1] | ~about[1])
        else:
            rows = len(earlier) - int((~(about[0] & about[1])).sum())
            scored = about[0] & about[1] & known[0] & known[1]
        was, is_now = was[scored], is_now[scored]
        if not len(was):
            return _none(0, rows, f"none of the baseline's {rows} queries is scored in both runs")
        then, later = figure.over(before, was, spec), figure.over(now, is_now, spec)
        judged = [one.value if one.corrected_by is None else one.uncorrected for one in (then, later)]
        if judged[0] is None or judged[1] is None:
            why = f"in the baseline {then.reason}" if judged[0] is None else f"now {later.reason}"
            return _none(len(was), rows, why)
        sign, missing = 1 if figure.better == "higher" else -1, _missing(rows - len(was))
        value = Estimate(value=judged[1], n=len(was), missing=missing)
        found = _Drop(value, judged[0], sign * (judged[0] - judged[1]))
        if not figure.is_mean:
            return found
        difference = self._difference(before, was, now, is_now)
        size, interval = difference.decided
        if sign > 0 and interval.low is not None and interval.high is not None:
            interval = interval.model_copy(update={"low": -interval.high, "high": -interval.low})
        more: dict[str, Any] = {"interval": interval, "reason": self._undecided(difference)}
        if difference.labels is None or size is None or then.corrected_by is None or then.value is None:
            if difference.by_labels and more["reason"] is None:
                more["reason"] = difference.by_labels.reason
            return _Drop(value.model_copy(update=more), found.baseline, found.drop, difference.shown)
        more |= {"value": then.value + size, "corrected_by": difference.labels, "uncorrected": judged[1]}
        return _Drop(value.model_copy(update=more), then.value, -sign * size, difference.shown)

    def _difference(self, before: SystemRows, was: RowIndexes, now: SystemRows, is_now: RowIndexes) -> Difference:
        figure, labels = self.figure, None
        if figure.column in before.labels or figure.column in now.labels:
            labels = now.labels_of(figure.column)[is_now] - before.labels_of(figure.column)[was]
        judges = (before.reference(was), now.reference(is_now))
        contrast = Contrast("baseline", self.scope.system, "", self.alpha, own={figure.column: figure.metric})
        return contrast.paired(
            figure.column,
            figure.values(before)[was],
            figure.values(now)[is_now],
            better=figure.better,
            questions=before.questions(was),
            labels=labels,
            failed=next(filter(None, (one.too_many_failed(self.spec.max_missing) for one in judges)), None),
            tested=False,
        )

    def _undecided(self, difference: Difference) -> str | None:
        """Why no test could show a drop; None if one could."""
        if difference.shown is not None:
            return None
        if difference.labels is not None:
            return difference.decided[1].reason
        moved = (difference.wins or 0) + (difference.losses or 0)
        queries = "query differs" if moved == 1 else "queries differ"
        return f"only {moved} {queries}, too few to show a drop (alpha {self.alpha:g}): evaluate more queries"

    def _worst(self, cause: GateCause) -> Iterator[GateRow]:
        """Rows without a score, with the largest drop, or with the lowest or highest value."""
        figure, (rows, places) = self.figure, self.scope.now
        values = figure.values(rows)
        if cause in ("coverage", "missing"):
            places = places[figure.about(rows)[places] & ~np.isfinite(values[places])]
            return (self._row(place) for place in places[:MOST_WORST].tolist())
        if self.condition in DROPS:
            before, earlier = self.scope.before or (SystemRows((), ()), np.arange(0))
            was, is_now = _matched(before, earlier, rows, places)
            earlier_values = figure.values(before)[was]
            loss = self._losses(earlier_values, values[is_now], figure.about(before)[was], figure.about(rows)[is_now])
            order = np.argsort(-loss, kind="stable")
            worst = order[loss[order] > 0][:MOST_WORST]
            return (self._row(is_now[n], None if np.isnan(v := earlier_values[n]) else v) for n in worst.tolist())
        places = places[figure.about(rows)[places] & np.isfinite(values[places])]
        if figure.column == PER_ACCURATE:  # an accurate row does not make an accurate answer more expensive
            places = places[rows.values("accurate")[places] == 0]
        elif figure.column == SUSPICIOUS:
            places = places[values[places] > 0]
        elif figure.column in REFUSALS:
            places = places[values[places] == float(self.condition == "max")]
        order = np.argsort(values[places] * (1 if self.condition == "min" else -1), kind="stable")
        return (self._row(place) for place in places[order[:MOST_WORST]].tolist())

    def _losses(self, before: Floats, now: Floats, about_before: Mask, about_now: Mask) -> Floats:
        """How much worse rows are than in the baseline; a refusal that did not count before may be a wrong one now."""
        if self.figure.column in REFUSALS:
            losses: Floats = ((now == 0) & about_now & ~((before == 0) & about_before)).astype(float)
            return losses
        return np.nan_to_num(before - now) * (1 if self.figure.better == "higher" else -1)

    def _row(self, place: int, before: float | None = None) -> GateRow:
        rows, figure = self.scope.now.rows, self.figure
        row, value = rows.results[place], float(figure.values(rows)[place])
        score = row.scores.get("accurate" if figure.column == PER_ACCURATE else figure.column)
        reason = score.reason if score else row.error
        if figure.column == SUSPICIOUS and row.verdict:
            reason = listed(row.verdict.suspicious)
        if figure.column in REFUSALS and value == 0:
            reason = WRONG_REFUSAL if figure.column == "refusal_precision" else ANSWERED_UNANSWERABLE
        value_or_none = None if math.isnan(value) else value
        return GateRow(query_id=row.query_id, query=row.query, value=value_or_none, before=before, reason=reason)

    def _about(self, estimate: Estimate) -> str:
        """``n=200, corrected by 120 labels``; or why the figure is the judge's own although there are labels."""
        if estimate.corrected_by is not None:
            return f"n={estimate.n}, corrected by {estimate.corrected_by} {self.spec.corrected_by}"
        is_caveat = estimate.reason is not None and self.figure.column in self.scope.now.rows.labels
        return f"n={estimate.n}, not corrected: {estimate.reason}" if is_caveat else f"n={estimate.n}"

    def _thin(self, estimate: Estimate, what: str, why: str = "") -> str:
        """Too few scores, and the coverage to write if that is meant."""
        n, rows, floor = estimate.n, estimate.rows, self.gate.coverage
        least = math.floor(100 * n / rows) / 100 if rows else 0
        few = f"{n} of {rows} {what} ({n / rows if rows else 0.0:.1%}), the gate requires {floor:.1%}{why}"
        return f"{self.figure.name}: {few}. If that is as it should be, write coverage: {least:g}."


def _matched(
    before: SystemRows, earlier: RowIndexes, now: SystemRows, places: RowIndexes
) -> tuple[RowIndexes, RowIndexes]:
    """Matched rows, of these places only."""
    was, is_now = before.matched(now)
    chosen = np.isin(was, earlier) & np.isin(is_now, places)
    return was[chosen], is_now[chosen]


def _missing(count: int) -> dict[str, int]:
    return {"not scored in both runs": count} if count else {}


def _none(n: int, rows: int, reason: str) -> _Drop:
    """Nothing to compare, and why."""
    return _Drop(Estimate(value=None, n=n, missing=_missing(rows - n), reason=reason))


def _slack(bound: float) -> float:
    return ROUNDING * max(1.0, abs(bound)) if bound else 1e-12
