"""Numbers about many rows by their names, for gates and trends: means of metrics, percentiles, the cost of an accurate answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.report import Slice, SystemReport
from ragassay.core.statistics import Estimate
from ragassay.metrics.metric import FIGURES, OPERATIONAL, Metric, parse, unknown

PER_ACCURATE, SUSPICIOUS, *REFUSALS = FIGURES
NO_VERDICT = "no row has a verdict"
NOT_KNOWN = "no verdict says whether the answer refuses"
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "total")


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

    def is_of_slices(self, metrics: Collection[str]) -> bool:
        """Does a run of these metrics keep it for each slice?"""
        return self.column == PER_ACCURATE or (self.column not in REFUSALS and self.name in metrics)

    def of(self, part: SystemReport | Slice) -> Estimate:
        """The figure as a report has it, of a system or of a slice of its rows, by the judge's own scores.

        Of a slice there are metrics and the cost of an accurate answer.
        """
        rows = part.n if isinstance(part, Slice) else part.queries
        if self.column == PER_ACCURATE:
            return part.cost_per_accurate_answer
        if self.column in part.metrics and self.statistic == "mean":
            mean = part.metrics[self.column]
            reason = None if mean.value is not None else mean.interval.reason if mean.n else _unscored(mean.unscored)
            return mean.model_copy(update={"reason": reason})
        if isinstance(part, Slice) or self.column not in (*FIGURES, *OPERATIONAL):
            return Estimate(value=None, n=0, missing={"not computed": rows}, reason=f"{self.column} was not computed")
        if self.column == SUSPICIOUS:
            n = part.evaluation.verdicts
            return _counted(n, {"no verdict": rows - n}, part.evaluation.suspicious, NO_VERDICT)
        if self.column in REFUSALS:
            share: Estimate = getattr(part.refusals, self.column.removeprefix("refusal_"))
            unknown = rows - part.refusals.judged
            return share.model_copy(update={"missing": {NOT_KNOWN: unknown}}) if unknown else share
        reported = getattr(part, self.column)
        missing = {f"the response has no {self.column}": reported.missing}
        return _counted(reported.n, missing, getattr(reported, self.statistic), _unscored(reported.missing))

    @property
    def _computed_from(self) -> str:
        return "accurate" if self.column == PER_ACCURATE else self.column


def _counted(n: int, missing: Mapping[str, int], value: float | None, reason: str) -> Estimate:
    """An estimate without an interval; None with the reason if no row is scored."""
    some = {why: rows for why, rows in missing.items() if rows}
    return Estimate(value=value if n else None, n=n, missing=some, reason=None if n else reason)


def _unscored(rows: int) -> str:
    return f"none of {rows} rows has a score" if rows else "there are no rows that could have one"
