"""Judging that ends when the question is decided: rows come in random order, under intervals that may be looked at at will."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from ragassay.documents import Report
from ragassay.errors import BadSettings, NotFound
from ragassay.metrics import Metric, parse
from ragassay.models import JobSpec, Result
from ragassay.stats import ConfidenceSequence, Interval, stop_rule

T = TypeVar("T")
Scores = Mapping[str, Mapping[str, float]]  # by metric, then by query id


def order(spec: JobSpec, rows: int) -> list[int]:
    """The places of the dataset's rows in the order in which they are evaluated.

    The dataset's own order, unless a rule may end judging early: then a random one, by the seed, because an interval
    that is looked at again and again says nothing of rows that are sorted by topic or difficulty.
    """
    places = list(range(rows))
    if spec.stop_when is not None:
        random.Random(spec.seed).shuffle(places)  # noqa: S311 - nothing secret
    return places


def sorted_back(spec: JobSpec, rows: int, evaluated: Sequence[T]) -> list[T]:
    """The first so many evaluated rows, in the dataset's order."""
    if spec.stop_when is None:
        return list(evaluated)
    placed = dict(zip(order(spec, rows), evaluated, strict=False))
    return [placed[place] for place in sorted(placed)]


class Watch:
    """Follows the scores of a run, chunk by chunk in the order of evaluation, until its rule is satisfied.

    The same chunks give the same answer, whoever asks and however often: what is stopped is found again from the results.
    Raises BadSettings when the rule can't be followed: no metric to watch, or nothing to decide against.
    """

    def __init__(
        self, spec: JobSpec, metrics: Sequence[Metric], systems: Sequence[str], baseline: Scores | None = None
    ) -> None:
        self.rule = stop_rule(spec.stop_when or "")
        self.chunks = 0
        self.why: str | None = None
        self._against = spec.baseline
        self._baseline = baseline
        self._metrics = _watched(self.rule.metrics, metrics)
        compared = [name for name in systems if name != spec.baseline]
        if self.rule.watches == "differences":
            self._check(systems, compared)
        self._sequences = {
            (system, metric.name): ConfidenceSequence(spec.confidence, self._bounds(metric))
            for system in (compared if self.rule.watches == "differences" else systems)
            for metric in self._metrics
        }

    def _check(self, systems: Sequence[str], compared: Sequence[str]) -> None:
        if self._against is None:
            raise BadSettings(
                f"stop_when: {self.rule.text}: there is no baseline",
                hint="name one: baseline: SYSTEM, RUN or RUN#SYSTEM",
            )
        if not compared:
            raise BadSettings(f"stop_when: {self.rule.text}: the baseline {self._against} is the only system")
        if self._against not in systems and self._baseline is None:
            raise NotFound(f"stop_when: there is no baseline {self._against!r}", hint=f"systems: {', '.join(systems)}")

    def _bounds(self, metric: Metric) -> tuple[float, float]:
        low, high = metric.bounds or (0.0, 1.0)
        return (low - high, high - low) if self.rule.watches == "differences" else (low, high)

    def update(self, chunk: Mapping[str, Sequence[Result]]) -> str | None:
        """Take in one chunk's results, by system; why judging may stop now, None while it must go on."""
        if self.why is None:
            self.chunks += 1
            for (system, metric), sequence in self._sequences.items():
                sequence.update(self._values(chunk, system, metric))
            self.why = self.rule.why_stop({self._label(*key): one for key, one in self._sequences.items()})
        return self.why

    def _values(self, chunk: Mapping[str, Sequence[Result]], system: str, metric: str) -> list[float]:
        """Scores, or differences from the baseline's score of the same query, where they are known."""
        own = _scores(chunk[system], metric)
        if self.rule.watches == "scores":
            return list(own.values())
        if self._against is not None and self._against in chunk:
            other: Mapping[str, float] = _scores(chunk[self._against], metric)
        else:
            other = (self._baseline or {}).get(metric, {})
        return [value - other[query] for query, value in own.items() if query in other]

    def _label(self, system: str, metric: str) -> str:
        only = len({name for name, _ in self._sequences}) == 1 and self.rule.watches == "scores"
        against = f" - {self._against}" if self.rule.watches == "differences" else ""
        return metric if only else f"{metric} of {system}{against}"

    @property
    def intervals(self) -> dict[str, dict[str, Interval]]:
        """By system and metric: the interval now, of the mean or of the difference, which holds although one stopped."""
        found: dict[str, dict[str, Interval]] = {}
        for (system, metric), sequence in self._sequences.items():
            found.setdefault(system, {})[metric] = sequence.interval
        return found


def _watched(names: Sequence[str], metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics that the rule names; without names, all those that the judge's verdict gives."""
    computed = {metric.name: metric for metric in metrics}
    watched = [parse(name) for name in names] or [metric for metric in metrics if metric.sees == "Verdict"]
    if not watched:
        raise BadSettings("stop_when: no judged metric is computed, so nothing would be saved")
    for metric in watched:
        if metric.name not in computed:
            raise BadSettings(f"stop_when: {metric.name} is not computed", hint=f"computed: {', '.join(computed)}")
        if metric.bounds is None:
            raise BadSettings(f"stop_when: {metric.name} has no least and greatest value, so it can't be watched")
    return watched


def _scores(results: Sequence[Result], metric: str) -> dict[str, float]:
    found = {result.query_id: result.scores[metric].value for result in results if metric in result.scores}
    return {query: value for query, value in found.items() if value is not None}


def baseline_scores(report: Report, system: str | None) -> Scores:
    """The scores of a stored report's system, or of its only one; raises NotFound, and BadSettings when it has several."""
    if system is None and len(report.systems) > 1:
        names = ", ".join(report.systems)
        raise BadSettings(f"run {report.run.id} has several systems", hint=f"name one, such as RUN#SYSTEM: {names}")
    if system is not None and system not in report.systems:
        raise NotFound(f"{report.run.id} has no system {system!r}", hint=f"it has: {', '.join(report.systems)}")
    rows = report.systems[system or next(iter(report.systems))].results
    return {metric: _scores(rows, metric) for metric in report.provenance.metrics}
