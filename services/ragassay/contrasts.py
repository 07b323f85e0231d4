"""Two systems, metric by metric: which rows belong together, what differs between them, and how sure that is."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from typing import Any, NamedTuple, TypeAlias

from ragassay import stats
from ragassay.comparisons import Delta, Matching, Measured, Outcome, RowDelta, SliceDelta
from ragassay.documents import Aggregate, Distribution, SystemReport
from ragassay.errors import BadSettings, UnknownName
from ragassay.metrics import parse
from ragassay.models import Result, Score

NOT_WORSE_MARGIN = 0.05  # "no worse" means by less than this share of a metric's range
POWER = 0.8
NOISE = 1e-9  # scores that differ by less are alike
MEASURED = ("latency_ms", "retrieval_latency_ms", "generation_latency_ms", "input_tokens", "output_tokens", "cost_usd")
Rows: TypeAlias = list[tuple[Result, Result]]
NOT_SCORED = Score.absent("was not computed", "no_input")


class Scored(NamedTuple):
    """Scores of both sides, and at which of the matched rows they stand."""

    places: list[int]
    a: list[float]
    b: list[float]

    @property
    def differences(self) -> list[float]:
        """b - a, row by row."""
        return [y - x for x, y in zip(self.a, self.b, strict=True)]

    def only(self, places: AbstractSet[int]) -> Scored:
        """Those that stand at some of the matched rows."""
        kept = [n for n, place in enumerate(self.places) if place in places]
        return Scored([self.places[n] for n in kept], [self.a[n] for n in kept], [self.b[n] for n in kept])


@dataclass(frozen=True)
class Contrast:
    """The baseline's report ``a`` beside another system's ``b``, matched on query id where the texts agree."""

    a: SystemReport
    b: SystemReport
    alpha: float = 0.05
    seed: int = 0
    _scored: dict[str, Scored] = field(default_factory=dict, repr=False, compare=False)

    def scored(self, name: str) -> Scored:
        """The matched rows that have a score on both sides; looked up once for each metric."""
        if name not in self._scored:
            pairs = (
                (n, _score(row, name).value, _score(other, name).value) for n, (row, other) in enumerate(self.rows)
            )
            full = [(n, x, y) for n, x, y in pairs if x is not None and y is not None]
            self._scored[name] = Scored([n for n, _, _ in full], [x for _, x, _ in full], [y for _, _, y in full])
        return self._scored[name]

    @cached_property
    def rows(self) -> Rows:
        """The matched rows, in the order of ``a``."""
        others = {row.query_id: row for row in self.b.results}
        pairs = ((row, others.get(row.query_id)) for row in self.a.results)
        return [(row, other) for row, other in pairs if other and _text(row) == _text(other)]

    def matching(self, *, same_dataset: bool) -> Matching:
        """How many rows belong together, and why the others don't."""
        ids_a, ids_b = ({row.query_id for row in side.results} for side in (self.a, self.b))
        return Matching(
            method="paired" if self.rows else "unpaired",
            same_dataset=same_dataset,
            rows_a=len(ids_a),
            rows_b=len(ids_b),
            paired=len(self.rows),
            only_a=len(ids_a - ids_b),
            only_b=len(ids_b - ids_a),
            different_text=len(ids_a & ids_b) - len(self.rows),
            different_truth=sum(
                (row.ground_truth_answer, row.relevant) != (other.ground_truth_answer, other.relevant)
                for row, other in self.rows
            ),
        )

    def delta(self, name: str) -> Delta:
        """One metric, before any correction: ``p_corrected`` is null and the outcome open until ``settled``."""
        known = self.a.metrics[name]
        return self._paired(name, known) if self.rows else self._unpaired(name, known)

    def _paired(self, name: str, known: Aggregate) -> Delta:
        both = self.scored(name)
        test = stats.paired(both.a, both.b, alpha=self.alpha, seed=self.seed, bounds=_bounds(name))
        up = known.better == "higher"
        return Delta(
            kind=known.kind,
            better=known.better,
            n=test.n,
            **_coverage([row for row, _ in self.rows], [row for _, row in self.rows], name),
            mean_a=test.mean_a,
            mean_b=test.mean_b,
            delta=test.difference,
            interval=test.interval if test.bootstrap.low is None else test.bootstrap,
            p=test.randomisation.p,
            p_corrected=None,
            mark="",
            outcome="can't tell",
            reason=_too_few(test.n, self.alpha),
            wins=test.wins if up else test.losses,
            losses=test.losses if up else test.wins,
            ties=test.ties,
            paired=test,
        )

    def _unpaired(self, name: str, known: Aggregate) -> Delta:
        a, b = (_values(side.results, name) for side in (self.a, self.b))
        test = stats.welch(a, b, alpha=self.alpha, bounds=_bounds(name))
        return Delta(
            kind=known.kind,
            better=known.better,
            n=0,
            **_coverage(self.a.results, self.b.results, name),
            mean_a=test.mean_a,
            mean_b=test.mean_b,
            delta=test.difference,
            interval=test.interval,
            p=test.welch.p,
            p_corrected=None,
            mark="",
            outcome="can't tell",
            reason=test.welch.reason,
            unpaired=test,
        )

    def settled(self, name: str, delta: Delta, p: float | None, tests: int) -> Delta:
        """The delta with its corrected ``p``, one of so many ``tests``, and what follows from it."""
        alpha = self.alpha / tests
        more = {
            "p_corrected": p,
            "mark": stats.marks(p),
            "outcome": _outcome(delta, p, self.alpha),
            "detectable": self._detectable(name, alpha),
            "not_worse": self._not_worse(name, alpha, delta),
        }
        return delta.model_copy(update=more)

    def _detectable(self, name: str, alpha: float) -> float | None:
        differences = self.scored(name).differences
        sd = _sd(differences)
        if sd <= 0.0 or alpha >= POWER:
            return None
        return stats.minimum_detectable_effect(len(differences), sd, alpha=alpha, power=POWER)

    def _not_worse(self, name: str, alpha: float, delta: Delta) -> stats.NonInferiority | None:
        bounds, both = _bounds(name), self.scored(name)
        if bounds is None or not both.a:
            return None
        margin = NOT_WORSE_MARGIN * (bounds[1] - bounds[0])
        return stats.non_inferiority(both.a, both.b, margin, alpha=alpha / 2, better=delta.better, bounds=bounds)

    def slices(self, names: Sequence[str]) -> dict[str, dict[str, dict[str, SliceDelta]]]:
        """Deltas for each field that groups the baseline's rows, each of its values and each metric."""
        found: dict[str, dict[str, dict[str, SliceDelta]]] = {}
        for group in self.a.slices if self.rows else ():
            places: dict[str, set[int]] = {}
            for n, (row, _) in enumerate(self.rows):
                value = _value(row, group)
                if isinstance(value, str | int | bool):
                    places.setdefault(str(value), set()).add(n)
            found[group] = {
                value: {name: self._slice(self.scored(name).only(where), name) for name in names}
                for value, where in sorted(places.items())
            }
        return found

    def _slice(self, both: Scored, name: str) -> SliceDelta:
        differences, bounds = both.differences, _bounds(name)
        span = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
        return SliceDelta(
            n=len(differences),
            mean_a=statistics.fmean(both.a) if differences else None,
            mean_b=statistics.fmean(both.b) if differences else None,
            delta=statistics.fmean(differences) if differences else None,
            interval=stats.mean_interval(differences, level=1 - self.alpha, bounds=span),
        )

    def regressions(self, name: str, limit: int) -> tuple[RowDelta, ...]:
        """The rows on which b is worse, the worst first, in the dataset's order where they are alike."""
        sign, both = 1 if self.a.metrics[name].better == "higher" else -1, self.scored(name)
        losses = [(sign * d, n) for d, n in zip(both.differences, both.places, strict=True) if sign * d < -NOISE]
        return tuple(_row_delta(*self.rows[n], name) for _, n in nsmallest(limit, losses))

    def measured(self) -> dict[str, Measured]:
        """Latency, tokens and cost, as far as both sides report them."""
        fields = {name: (getattr(self.a, name), getattr(self.b, name)) for name in MEASURED}
        return {name: self._measured(name, *both) for name, both in fields.items() if both[0].n and both[1].n}

    def _measured(self, name: str, a: Distribution, b: Distribution) -> Measured:
        both = [(getattr(row, name), getattr(other, name)) for row, other in self.rows]
        both = [(x, y) for x, y in both if x is not None and y is not None]
        level, delta, mean_a, mean_b = 1 - self.alpha, None, None, None
        if self.rows:
            differences = [y - x for x, y in both]
            if both:
                mean_a, mean_b = (statistics.fmean(side) for side in zip(*both, strict=True))
                delta = statistics.fmean(differences)
            interval = stats.bootstrap_interval(differences, level=level, seed=self.seed)
            if interval.low is None:
                interval = stats.mean_interval(differences, level=level)
        else:
            test = stats.welch(_reported(self.a, name), _reported(self.b, name), alpha=self.alpha)
            mean_a, mean_b, delta, interval = test.mean_a, test.mean_b, test.difference, test.interval
        points = {p: (getattr(a, p), getattr(b, p)) for p in ("p50", "p90", "p95", "p99")}
        return Measured(
            a=a,
            b=b,
            n=len(both),
            delta=delta,
            ratio=mean_b / mean_a if mean_a and mean_b is not None else None,
            interval=interval,
            percentiles={p: y - x for p, (x, y) in points.items()},
        )

    def incremental_cost(self) -> stats.IncrementalCost:
        """What one more accurate answer costs, over the pairs whose cost and accuracy are known on both sides."""
        full = []
        for pair in self.rows:
            bill = [(row.cost_usd, _score(row, "accurate").value) for row in pair]
            if all(cost is not None and accurate is not None for cost, accurate in bill):
                full.append([float(part) for one in bill for part in one if part is not None])
        columns = list(zip(*full, strict=True)) or [(), (), (), ()]
        return stats.incremental_cost(*map(list, columns), level=1 - self.alpha, seed=self.seed)


def _text(row: Result) -> str:
    return " ".join(row.query.split())


def _score(row: Result, name: str) -> Score:
    return row.scores.get(name, NOT_SCORED)


def _values(rows: Iterable[Result], name: str) -> list[float]:
    return [value for row in rows if (value := _score(row, name).value) is not None]


def _row_delta(row: Result, other: Result, name: str) -> RowDelta:
    x, y = _score(row, name), _score(other, name)
    a, b = x.value or 0.0, y.value or 0.0
    return RowDelta(query_id=row.query_id, query=row.query, a=a, b=b, delta=b - a, reason_a=x.reason, reason_b=y.reason)


def _sd(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 where there are fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = statistics.fmean(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def _coverage(a: Sequence[Result], b: Sequence[Result], name: str) -> dict[str, Any]:
    """Of each side, how many rows are scored, and how many are not by reason."""
    missing = [Counter(score.reason for row in side if (score := _score(row, name)).value is None) for side in (a, b)]
    return {
        "n_a": len(a) - missing[0].total(),
        "n_b": len(b) - missing[1].total(),
        "missing_a": dict(missing[0]),
        "missing_b": dict(missing[1]),
    }


def _reported(side: SystemReport, name: str) -> list[float]:
    return [value for row in side.results if (value := getattr(row, name)) is not None]


def _value(row: Result, group: str) -> object:
    """What a row has for ``category``, ``difficulty`` or ``metadata.NAME``."""
    name = group.removeprefix("metadata.")
    return getattr(row, group) if name == group else row.metadata.get(name)


def _bounds(name: str) -> tuple[float, float] | None:
    """Least and greatest value of a metric; None for one without, or that is not registered here."""
    try:
        return parse(name).bounds
    except (UnknownName, BadSettings):
        return None


def _too_few(n: int, alpha: float) -> str | None:
    """Why so few pairs can't show anything: even if all differed in one direction, p would be 2 / 2^n."""
    if n < 2:
        return f"{n} pairs: nothing to compare" if n == 0 else "1 pair shows no spread"
    least = 2.0 ** (1 - n)
    return f"{n} pairs: p can't be below {least:.3g}" if least > alpha else None


def _outcome(delta: Delta, p: float | None, alpha: float) -> Outcome:
    if delta.reason or p is None or delta.delta is None:
        return "can't tell"
    if p > alpha:
        return "no difference shown"
    return "better" if (delta.delta > 0) is (delta.better == "higher") else "worse"
