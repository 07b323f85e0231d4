"""Numbers about many rows by their names, for gates and trends: means of metrics, percentiles, the cost of an accurate answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.report import Slice, SystemReport
from ragassay.core.statistics import Estimate
from ragassay.metrics.metric import FIGURES, OPERATIONAL, Better, Metric, parse, unknown

PER_ACCURATE, SUSPICIOUS, *REFUSALS = FIGURES
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "total")
NOT_PAIRED = ("reranking_improvement",)  # a ratio of means, not a mean of one value per query


@dataclass(frozen=True, slots=True)
class Figure:
    """A number about many rows, by its name: ``ndcg@10``, ``latency_ms.p95``, ``cost_per_accurate_answer``.

    ``suspicious`` counts the rows of which the judge's verdict is marked so; ``refusal_precision`` and
    ``refusal_recall`` are shares, of the refusals and of the queries that can't be answered.
    """

    column: str
    better: Better = "lower"
    statistic: str = "mean"

    @classmethod
    def parse(cls, text: str, custom: Mapping[str, Metric] = MappingProxyType({})) -> Figure:
        """The figure that a name means; ``custom``: metrics that the runs define. Raises UnknownName and BadSettings."""
        name = text.strip().lower()
        column, _, statistic = name.rpartition(".")
        if name in FIGURES:
            return cls(name, "higher" if name in REFUSALS else "lower")
        if column in OPERATIONAL:
            if statistic not in STATISTICS:
                raise UnknownName("statistic", statistic, STATISTICS)
            return cls(column, statistic=statistic)
        if column and statistic in STATISTICS:
            raise BadSettings(f"{text!r}: only {', '.join(OPERATIONAL)} have percentiles and a total")
        try:
            metric = parse(text, custom)
        except UnknownName:
            raise unknown(text, *FIGURES, *custom) from None
        return cls(metric.name, metric.better)

    @property
    def name(self) -> str:
        """As it is written; parses back to the same figure."""
        return self.column if self.statistic == "mean" else f"{self.column}.{self.statistic}"

    @property
    def is_mean(self) -> bool:
        """Is it a mean of one value per query, so that two runs can be paired?"""
        family = self.column.partition("@")[0]
        return self.statistic == "mean" and self.column not in FIGURES and family not in NOT_PAIRED

    def comes_with(self, metrics: Collection[str], custom: Mapping[str, Metric]) -> bool:
        """Is it computed by a run of these metrics?"""
        if self.column == SUSPICIOUS or self.column in REFUSALS:
            return any(parse(name, custom).uses_judge for name in metrics)
        needed = "accurate" if self.column == PER_ACCURATE else self.column
        return needed in OPERATIONAL or needed in metrics

    def is_of_slices(self, metrics: Collection[str]) -> bool:
        """Does a run of these metrics keep it for each slice?"""
        return self.column == PER_ACCURATE or self.name in metrics

    def of(self, part: SystemReport | Slice) -> Estimate:
        """The figure as a report has it, of a system or of a slice of its rows, by the judge's own scores."""
        if self.column == PER_ACCURATE:
            return part.cost_per_accurate_answer
        mean = part.metrics.get(self.column) if self.statistic == "mean" else None
        if mean is not None:
            reason = None if mean.value is not None else mean.interval.reason if mean.n else _unscored(mean.unscored)
            return mean.model_copy(update={"reason": reason})
        if isinstance(part, SystemReport) and self.column == SUSPICIOUS:
            judged = part.evaluation.verdicts
            return _counted(part.evaluation.suspicious, judged, "no verdict", part.queries - judged)
        if isinstance(part, SystemReport) and self.column in REFUSALS:
            share: Estimate = getattr(part.refusals, self.column.removeprefix("refusal_"))
            unknown_rows = part.queries - part.refusals.judged
            missing = {"no verdict says whether the answer refuses": unknown_rows} if unknown_rows else {}
            return share.model_copy(update={"missing": missing})
        if isinstance(part, SystemReport) and self.column in OPERATIONAL:
            reported = getattr(part, self.column)
            why = f"the response has no {self.column}"
            return _counted(getattr(reported, self.statistic), reported.n, why, reported.missing)
        rows = part.n if isinstance(part, Slice) else part.queries
        return Estimate(value=None, n=0, missing={"not computed": rows}, reason=f"{self.column} was not computed")


def _counted(value: float | None, n: int, why: str, unscored: int) -> Estimate:
    """An estimate without an interval; None with the reason if no row is scored."""
    missing = {why: unscored} if unscored else {}
    return Estimate(value=value if n else None, n=n, missing=missing, reason=None if n else _unscored(unscored))


def _unscored(rows: int) -> str:
    return f"none of {rows} rows has a score" if rows else "there are no rows that could have one"
