"""Numbers about many rows, for gates and trends: means of metrics, percentiles, the cost of an accurate answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragassay import reports
from ragassay.errors import BadSettings, UnknownName
from ragassay.metrics import Metric, parse
from ragassay.metrics.base import OPERATIONAL, unknown
from ragassay.models import JobSpec, Result, Score
from ragassay.stats import Interval

PER_ACCURATE = "cost_per_accurate_answer"
SUSPICIOUS = "suspicious"
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "total")


@dataclass(frozen=True, slots=True)
class FigureValue:
    """A figure over some rows. ``n`` of them have what it takes; without a value there is a ``reason``."""

    value: float | None
    n: int
    rows: int
    interval: Interval | None = None
    reason: str | None = None

    @property
    def coverage(self) -> float:
        """Share of the rows that have a score; 0 where there is no row."""
        return self.n / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A number about many rows, by its name: ``ndcg@10``, ``latency_ms.p95``, ``cost_per_accurate_answer``.

    ``suspicious`` counts the rows of which the judge's verdict is marked so.
    """

    column: str
    statistic: str = "mean"

    @classmethod
    def parse(cls, text: str) -> Figure:
        """The figure that a name means; raises UnknownName and BadSettings as the metrics' own parser does."""
        name, _, statistic = text.strip().rpartition(".")
        if name.lower() in OPERATIONAL:
            if statistic.lower() not in STATISTICS:
                raise UnknownName("statistic", statistic, STATISTICS)
            return cls(name.lower(), statistic.lower())
        if statistic.lower() in STATISTICS and name:
            raise BadSettings(f"{text!r}: only {', '.join(OPERATIONAL)} have percentiles and a total")
        if text.strip().lower() == PER_ACCURATE:
            return cls(PER_ACCURATE, "ratio")
        if text.strip().lower() == SUSPICIOUS:
            return cls(SUSPICIOUS, "count")
        try:
            return cls(parse(text).name)
        except UnknownName:
            raise unknown(text, PER_ACCURATE, SUSPICIOUS) from None

    @property
    def name(self) -> str:
        """As it is written; parses back to the same figure."""
        return self.column if self.statistic in ("mean", "ratio", "count") else f"{self.column}.{self.statistic}"

    @property
    def is_mean(self) -> bool:
        """Is it a mean of one value per query, so that two runs can be paired?"""
        return self.statistic == "mean"

    @property
    def has_interval(self) -> bool:
        """Is there a confidence interval for it?"""
        return self.statistic in ("mean", "ratio")

    @property
    def better(self) -> Literal["higher", "lower"]:
        """Which way is up."""
        return "lower" if self.column in (PER_ACCURATE, SUSPICIOUS) else self.metric.better

    @property
    def metric(self) -> Metric:
        """The metric behind it; for the cost of an accurate answer, the cost."""
        return parse("cost_usd" if self.column == PER_ACCURATE else self.column)

    def known_to(self, results: Sequence[Result]) -> bool:
        """Was it computed at all?"""
        column = self._computed_from
        if column == SUSPICIOUS:
            return any(row.verdict for row in results)
        return column in OPERATIONAL or any(column in row.scores for row in results)

    def values(self, row: Result) -> tuple[float, ...] | None:
        """What one row adds to it; None where the row was not scored."""
        if self.column == PER_ACCURATE:
            return reports.cost_and_accuracy(row)
        if self.column == SUSPICIOUS:
            return (float(bool(row.verdict.suspicious)),) if row.verdict else None
        value = self._score_of(row).value
        return None if value is None else (value,)

    def measure(self, results: Sequence[Result], spec: JobSpec) -> FigureValue:
        """The figure over ``results``, computed by the code that computes the report."""
        rows = len(results)
        if not self.known_to(results):
            what = "no row has a verdict" if self.column == SUSPICIOUS else f"{self._computed_from} was not computed"
            return FigureValue(None, 0, rows, reason=what)
        if self.column == SUSPICIOUS:
            marks = [values[0] for row in results if (values := self.values(row))]
            return FigureValue(sum(marks), len(marks), rows)
        if self.column == PER_ACCURATE:
            ratio = reports.cost_per_accurate(results, spec)
            return FigureValue(ratio.value, ratio.n, rows, ratio.interval, ratio.reason)
        scores = [self._score_of(row) for row in results]
        if all(score.value is None for score in scores):
            return FigureValue(
                None, 0, rows, reason=f"none of {rows} rows has a score" if rows else "there are no rows"
            )
        if self.statistic == "mean":
            mean = reports.aggregate(scores, self.metric, spec)
            return FigureValue(mean.mean, mean.n, rows, mean.interval)
        distribution = reports.distribution(score.value for score in scores)
        return FigureValue(getattr(distribution, self.statistic), distribution.n, rows)

    def _score_of(self, row: Result) -> Score:
        """One row's score; latency, tokens and cost are on the row where no metric asked for them."""
        if (score := row.scores.get(self.column)) is not None and score.value is not None:
            return score
        value = getattr(row, self.column) if self.column in OPERATIONAL else None
        return Score.absent("not scored", "no_input") if value is None else Score(value=float(value))

    @property
    def _computed_from(self) -> str:
        return "accurate" if self.column == PER_ACCURATE else self.column
