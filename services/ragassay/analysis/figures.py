"""Numbers about many rows, for gates and trends: means of metrics, percentiles, the cost of an accurate answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ragassay.core.cost_sums import CostPerAccurate
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.models import FrozenModel, Result, Score
from ragassay.core.report import Share, SystemReport
from ragassay.core.specification import JobSpec
from ragassay.core.statistics import Interval
from ragassay.evaluation.aggregate import (
    SystemAggregator,
    corrected_by_labels,
    cost_and_accuracy,
    cost_per_accurate,
    distribution,
    mean_score,
    reference_of,
    refusals,
)
from ragassay.evaluation.groups import questions_of
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import FIGURES, OPERATIONAL, Metric, parse, unknown

PER_ACCURATE, SUSPICIOUS, *REFUSALS = FIGURES
NO_VERDICT = "no row has a verdict"
NOT_SCORED = Score.absent("not scored", "no_input")
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "total")


class Measured(FrozenModel):
    """A figure of ``n`` of ``rows`` rows; against a baseline, of the ``n`` of its ``rows`` that are scored in both runs.

    ``drop`` is positive if ``value`` is worse than ``baseline``, whichever way is better; ``interval`` is that of the
    drop then, the one that a comparison of both runs shows, turned if higher is better. ``shown``: do the data show the
    drop? None if so few queries differ that no test could show it, with the ``reason``. A figure that is no mean has no
    interval: its value shows the drop. ``corrected_by``: how many labels correct all of these; ``judged`` is the figure by
    the judge's own scores then. ``uncorrected`` says why labels could not correct it.
    """

    n: int
    rows: int
    value: float | None = None
    baseline: float | None = None
    drop: float | None = None
    interval: Interval | None = None
    shown: bool | None = None
    reason: str | None = None
    corrected_by: int | None = None
    judged: float | None = None
    uncorrected: str | None = None

    @property
    def coverage(self) -> float:
        """Share of the rows, or of the baseline's queries, that are scored, of those that can be."""
        return self.n / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A number about many rows, by its name: ``ndcg@10``, ``latency_ms.p95``, ``cost_per_accurate_answer``.

    ``suspicious`` counts the rows of which the judge's verdict is marked so; ``refusal_precision`` and
    ``refusal_recall`` are shares, of the refusals and of the queries that can't be answered.
    """

    column: str
    statistic: str = "mean"
    own: Mapping[str, Metric] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, own: Mapping[str, Metric] = MappingProxyType({})) -> Figure:
        """The figure that a name means; raises UnknownName and BadSettings as the metrics' own parser does.

        ``own``: metrics that the runs define themselves.
        """
        name, _, statistic = text.strip().lower().rpartition(".")
        if name in OPERATIONAL:
            if statistic not in STATISTICS:
                raise UnknownName("statistic", statistic, STATISTICS)
            return cls(name, statistic)
        if statistic in STATISTICS and name:
            raise BadSettings(f"{text!r}: only {', '.join(OPERATIONAL)} have percentiles and a total")
        if (whole := text.strip().lower()) in FIGURES:
            return cls(whole, own=own)
        try:
            return cls(parse(text, own).name, own=own)
        except UnknownName:
            raise unknown(text, *FIGURES, *own) from None

    @property
    def name(self) -> str:
        """As it is written; parses back to the same figure."""
        return self.column if self.statistic == "mean" else f"{self.column}.{self.statistic}"

    @property
    def is_mean(self) -> bool:
        """Is it a mean of one value per query, so that two runs can be paired?"""
        return (
            self.statistic == "mean"
            and self.column not in FIGURES
            and self.column.partition("@")[0] != "reranking_improvement"
        )

    @property
    def better(self) -> Literal["higher", "lower"]:
        """Which way is up."""
        if self.column in FIGURES:
            return "higher" if self.column in REFUSALS else "lower"
        return self.metric.better

    @property
    def metric(self) -> Metric:
        """The metric behind it; for the cost of an accurate answer, the cost."""
        return parse("cost_usd" if self.column == PER_ACCURATE else self.column, self.own)

    def comes_with(self, metrics: Collection[str]) -> bool:
        """Is it computed by a run of these metrics?"""
        if self.column == SUSPICIOUS or self.column in REFUSALS:
            return any(parse(name, self.own).uses_judge for name in metrics)
        return self._computed_from in OPERATIONAL or self._computed_from in metrics

    def of(self, system: SystemReport) -> Measured:
        """The figure as a report has it, by the judge's own scores."""
        if self.column == PER_ACCURATE:
            cost = system.cost_per_accurate_answer
            return _measured(cost, cost.n, cost.n + cost.missing)
        if self.column == SUSPICIOUS:
            if not system.evaluation.verdicts:
                return Measured(n=0, rows=system.queries, reason=NO_VERDICT)
            return Measured(n=system.evaluation.verdicts, rows=system.queries, value=system.evaluation.suspicious)
        if self.column in REFUSALS:
            share = getattr(system.refusals, self.column.removeprefix("refusal_"))
            return _measured(share, share.n, share.n)
        if self.column in system.metrics and self.statistic == "mean":
            mean = system.metrics[self.column]
            reason = None if mean.mean is not None else mean.interval.reason if mean.n else _unscored(mean.missing)
            return Measured(
                n=mean.n, rows=mean.n + mean.missing, value=mean.mean, interval=mean.interval, reason=reason
            )
        if self.column not in OPERATIONAL:
            return Measured(n=0, rows=system.queries, reason=f"{self.column} was not computed")
        reported = getattr(system, self.column)
        value = getattr(reported, self.statistic)
        rows = reported.n + reported.missing
        return Measured(n=reported.n, rows=rows, value=value, reason=_unscored(rows) if value is None else None)

    def measure(self, results: Sequence[Result], spec: JobSpec) -> Measured:
        """The figure over some rows, such as those of a slice or of matched queries, by the code that computes reports.

        If enough of the rows have labels, they correct it.
        """
        results = [row for row in results if self.applies_to(row)]
        n, rows = self.coverage(results)
        if self.column == PER_ACCURATE:
            cost = cost_per_accurate(SystemAggregator.of(results), spec)
            return _measured(cost, n, rows)
        if self.column == SUSPICIOUS:
            marks = [values[0] for row in results if (values := self.values(row))]
            return Measured(n=n, rows=rows, value=sum(marks) if marks else None, reason=None if marks else NO_VERDICT)
        if self.column in REFUSALS:
            share = getattr(refusals(SystemAggregator.of(results), spec), self.column.removeprefix("refusal_"))
            return _measured(share, n, rows)
        if self.column not in OPERATIONAL and not any(self.column in row.scores for row in results):
            return Measured(n=0, rows=rows, reason=f"{self.column} was not computed")
        if not n:
            return Measured(n=0, rows=rows, reason=_unscored(rows))
        numbers = [value[0] if (value := self.values(row)) else None for row in results]
        if self.statistic != "mean":
            reported = distribution(numbers)
            return Measured(n=n, rows=rows, value=getattr(reported, self.statistic))
        scores = [  # latency, tokens and cost are on the row if no metric asked for them
            score
            if (score := row.scores.get(self.column, NOT_SCORED)).value is not None or value is None
            else Score(value=value)
            for row, value in zip(results, numbers, strict=True)
        ]
        mean = mean_score(scores, own_metrics(spec).get(self.column, self.metric), spec, questions_of(results))
        labels = [row.label(self.column) for row in results]
        found = Measured(n=n, rows=rows, value=mean.mean, interval=mean.interval)
        if all(label is None for label in labels):
            return found
        pairs = zip(labels, (score.value for score in scores), strict=True)
        failed = reference_of(results).too_many_failed(spec.max_missing)
        corrected = corrected_by_labels(pairs, level=spec.confidence, failed=failed)
        if corrected.mean is None:
            return found.model_copy(update={"uncorrected": corrected.reason})
        by_labels = {"value": corrected.mean, "interval": corrected.interval, "corrected_by": corrected.labels}
        return found.model_copy(update={**by_labels, "judged": mean.mean})

    def values(self, row: Result) -> tuple[float, ...] | None:
        """What one row adds to it, which may be nothing; None if the row was not scored."""
        if self.column == PER_ACCURATE:
            return cost_and_accuracy(row)
        if self.column == SUSPICIOUS:
            return (float(bool(row.verdict.suspicious)),) if row.verdict else None
        if self.column in REFUSALS:
            return self._refusal(row)
        score = row.scores.get(self.column)
        value = score.value if score else None
        if value is None and self.column in OPERATIONAL:
            value = getattr(row, self.column)
        return None if value is None else (float(value),)

    def applies_to(self, row: Result) -> bool:
        """Can the row have it? A score that is undefined because the query can't be answered is not missing."""
        score = row.scores.get(self.column)
        return row.answerable is not False or score is None or score.missing != "undefined"

    def coverage(self, rows: Sequence[Result]) -> tuple[int, int]:
        """How many rows are scored, of how many that the figure is about."""
        about = [values for row in rows if self.applies_to(row) and (values := self.values(row)) != ()]
        return sum(values is not None for values in about), len(about)

    def missing_reasons(self, rows: Sequence[Result]) -> Counter[str]:
        """Why rows that could have it lack it, and how many do."""
        missing = (row for row in rows if self.applies_to(row) and self.values(row) is None)
        scores: list[Score | None] = [row.scores.get(self._computed_from) for row in missing]
        return Counter((score.reason if score and score.value is None else None) or "not scored" for score in scores)

    def _refusal(self, row: Result) -> tuple[float, ...] | None:
        """Is the refusal right, or the query that can't be answered refused? Empty for other rows; None: not known."""
        refusal = row.verdict.refusal if row.verdict else None
        if self.column == "refusal_recall" and row.answerable is not False:
            return ()
        if refusal is None:
            return None
        if self.column == "refusal_recall":
            return (float(refusal),)
        return (float(row.answerable is False),) if refusal else ()

    @property
    def _computed_from(self) -> str:
        return "accurate" if self.column == PER_ACCURATE else self.column


def _unscored(rows: int) -> str:
    return f"none of {rows} rows has a score" if rows else "there are no rows that could have one"


def _measured(figure: CostPerAccurate | Share, n: int, rows: int) -> Measured:
    return Measured(n=n, rows=rows, value=figure.value, interval=figure.interval, reason=figure.reason)
