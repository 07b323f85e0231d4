"""Numbers about many rows, for gates and trends: means of metrics, percentiles, the cost of an accurate answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.models import Result, Score
from ragassay.core.specification import JobSpec
from ragassay.evaluation import reports
from ragassay.evaluation.recount import Recount, corrected_by_labels, questions_of, reference_of
from ragassay.metrics import Metric, parse
from ragassay.metrics.base import FIGURES, OPERATIONAL, unknown
from ragassay.metrics.judged import is_judged
from ragassay.metrics.own import own_metrics
from ragassay.stats import Interval

PER_ACCURATE, SUSPICIOUS, *REFUSALS = FIGURES
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "total")


@dataclass(frozen=True, slots=True)
class Corrected:
    """A figure by ``labels`` on some rows. Where they are too few there is no value, and the ``reason``."""

    value: float | None
    labels: int
    interval: Interval
    reason: str | None


@dataclass(frozen=True, slots=True)
class FigureValue:
    """A figure over some rows. ``n`` of them have what it takes; without a value there is a ``reason``.

    ``corrected``: the figure by labels, where some of the rows have one of it.
    """

    value: float | None
    n: int
    rows: int
    interval: Interval | None = None
    reason: str | None = None
    corrected: Corrected | None = None

    @property
    def coverage(self) -> float:
        """Share of the rows that have a score; 0 where there is no row."""
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
        name, _, statistic = text.strip().rpartition(".")
        if name.lower() in OPERATIONAL:
            if statistic.lower() not in STATISTICS:
                raise UnknownName("statistic", statistic, STATISTICS)
            return cls(name.lower(), statistic.lower())
        if statistic.lower() in STATISTICS and name:
            raise BadSettings(f"{text!r}: only {', '.join(OPERATIONAL)} have percentiles and a total")
        if text.strip().lower() == PER_ACCURATE:
            return cls(PER_ACCURATE, "ratio", own)
        if text.strip().lower() == SUSPICIOUS:
            return cls(SUSPICIOUS, "count", own)
        if text.strip().lower() in REFUSALS:
            return cls(text.strip().lower(), "share", own)
        try:
            return cls(parse(text, own).name, own=own)
        except UnknownName:
            raise unknown(text, *FIGURES, *own) from None

    @property
    def name(self) -> str:
        """As it is written; parses back to the same figure."""
        return (
            self.column if self.statistic in ("mean", "ratio", "count", "share") else f"{self.column}.{self.statistic}"
        )

    @property
    def is_mean(self) -> bool:
        """Is it a mean of one value per query, so that two runs can be paired?"""
        return self.statistic == "mean" and self.column.partition("@")[0] != "reranking_improvement"

    @property
    def has_interval(self) -> bool:
        """Is there a confidence interval for it?"""
        return self.statistic in ("mean", "ratio", "share")

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

    def known_to(self, results: Sequence[Result]) -> bool:
        """Was it computed at all?"""
        column = self._computed_from
        if column == SUSPICIOUS or column in REFUSALS:
            return any(row.verdict for row in results)
        return column in OPERATIONAL or any(column in row.scores for row in results)

    def applies_to(self, row: Result) -> bool:
        """Can the row have it? Where the query can't be answered, what is undefined for that lacks nothing."""
        score = row.scores.get(self.column)
        return row.answerable is not False or score is None or score.missing != "undefined"

    def comes_with(self, metrics: Collection[str]) -> bool:
        """Is it computed by a run of these metrics?"""
        column = self._computed_from
        if column == SUSPICIOUS or column in REFUSALS:
            return any(is_judged(parse(name, self.own)) for name in metrics)
        return column in OPERATIONAL or column in metrics

    def values(self, row: Result) -> tuple[float, ...] | None:
        """What one row adds to it, which may be nothing; None where the row was not scored."""
        if self.column == PER_ACCURATE:
            return reports.cost_and_accuracy(row)
        if self.column == SUSPICIOUS:
            return (float(bool(row.verdict.suspicious)),) if row.verdict else None
        if self.column in REFUSALS:
            return self._refusal(row)
        value = self._score_of(row).value
        return None if value is None else (value,)

    def missing_reasons(self, results: Sequence[Result]) -> Counter[str]:
        """Why rows that could have it lack it, and how many do."""
        column = self._computed_from
        lacking = [row for row in results if self.applies_to(row) and self.values(row) is None]
        scores = (row.scores.get(column) for row in lacking)
        return Counter((score.reason if score and score.value is None else None) or "not scored" for score in scores)

    def measure(self, results: Sequence[Result], spec: JobSpec) -> FigureValue:
        """The figure over ``results``, computed by the code that computes the report."""
        known, results = self.known_to(results), [row for row in results if self.applies_to(row)]
        rows = len(results)
        if not known:
            what = "no row has a verdict" if self.column in FIGURES[1:] else f"{self._computed_from} was not computed"
            return FigureValue(None, 0, rows, reason=what)
        if self.column == SUSPICIOUS:
            marks = [values[0] for row in results if (values := self.values(row))]
            return FigureValue(sum(marks), len(marks), rows)
        if self.column in REFUSALS:
            share = getattr(reports.refusals(Recount(results), spec), self.column.removeprefix("refusal_"))
            unknown = sum(self.values(row) is None for row in results)
            return FigureValue(share.value, share.n, share.n + unknown, share.interval, share.reason)
        if self.column == PER_ACCURATE:
            ratio = reports.cost_per_accurate(Recount(results), spec)
            return FigureValue(ratio.value, ratio.n, rows, ratio.interval, ratio.reason)
        scores = [self._score_of(row) for row in results]
        if all(score.value is None for score in scores):
            return FigureValue(
                None,
                0,
                rows,
                reason=f"none of {rows} rows has a score" if rows else "there are no rows that could have one",
            )
        if self.statistic == "mean":
            metric = own_metrics(spec).get(self.column, self.metric)
            mean = reports.aggregate(scores, metric, spec, questions_of(results))
            return FigureValue(mean.mean, mean.n, rows, mean.interval, corrected=self._corrected(results, scores, spec))
        distribution = reports.distribution(score.value for score in scores)
        return FigureValue(getattr(distribution, self.statistic), distribution.n, rows)

    def _corrected(self, rows: Sequence[Result], scores: Sequence[Score], spec: JobSpec) -> Corrected | None:
        labels = [row.reference_labels.get(self.column) for row in rows]
        if labels.count(None) == len(labels):
            return None
        values = (score.value for score in scores)
        failed = reference_of(rows).too_many_failed(spec.max_missing)
        mean = corrected_by_labels(zip(labels, values, strict=True), level=spec.confidence, failed=failed)
        return Corrected(mean.mean, mean.labels, mean.interval, mean.reason)

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

    def _score_of(self, row: Result) -> Score:
        """One row's score; latency, tokens and cost are on the row where no metric asked for them."""
        if (score := row.scores.get(self.column)) is not None and score.value is not None:
            return score
        value = getattr(row, self.column) if self.column in OPERATIONAL else None
        return Score.absent("not scored", "no_input") if value is None else Score(value=float(value))

    @property
    def _computed_from(self) -> str:
        return "accurate" if self.column == PER_ACCURATE else self.column
