"""Numbers about many rows by their names, for gates and trends: means of metrics, percentiles, the cost of an accurate answer."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ragassay.analysis.rows import ANSWERABLE, REFUSAL, Mask, SystemRows
from ragassay.analysis.rows import SUSPICIOUS as SUSPICIOUS_ROW
from ragassay.core.cost_sums import RatioSums
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.eval_config import EvalConfig
from ragassay.core.report import SystemReport
from ragassay.core.statistics import Estimate
from ragassay.evaluation.aggregate import corrected_by_labels, distribution, relative_change
from ragassay.evaluation.groups import RowIndexes
from ragassay.metrics.metric import FIGURES, OPERATIONAL, Metric, parse, unknown
from ragassay.stats.intervals import Floats, averaged, score_interval
from ragassay.stats.ratio import Stratum, sums_interval

PER_ACCURATE, SUSPICIOUS, *REFUSALS = FIGURES
NO_VERDICT = "no row has a verdict"
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

    def of(self, system: SystemReport) -> Estimate:
        """The figure as a report has it, by the judge's own scores."""
        if self.column == PER_ACCURATE:
            return system.cost_per_accurate_answer
        if self.column == SUSPICIOUS:
            n, value = system.evaluation.verdicts, system.evaluation.suspicious
            return _counted(n, {"no verdict": system.queries - n}, value, NO_VERDICT)
        if self.column in REFUSALS:
            share: Estimate = getattr(system.refusals, self.column.removeprefix("refusal_"))
            return share
        if self.column in system.metrics and self.statistic == "mean":
            mean = system.metrics[self.column]
            reason = None if mean.value is not None else mean.interval.reason if mean.n else _unscored(mean.unscored)
            return mean.model_copy(update={"reason": reason})
        if self.column not in OPERATIONAL:
            return Estimate(value=None, n=0, missing={"": system.queries}, reason=f"{self.column} was not computed")
        reported = getattr(system, self.column)
        missing = {f"the response has no {self.column}": reported.missing}
        return _counted(reported.n, missing, getattr(reported, self.statistic), _unscored(reported.missing))

    def over(self, rows: SystemRows, places: RowIndexes, spec: EvalConfig) -> Estimate:
        """The figure over some rows, such as those of a slice or of matched queries; labels correct it if there are enough."""
        places = places[self.about(rows)[places]]
        scored = np.isfinite(self.values(rows)[places])
        known, missing = places[scored], self._missing(rows, places[~scored])
        values = self.values(rows)[known]
        if self.column == SUSPICIOUS:
            return _counted(len(known), missing, float(values.sum()), NO_VERDICT)
        if self.column not in (*FIGURES, *OPERATIONAL, *rows.metrics):
            return Estimate(value=None, n=0, missing=missing, reason=f"{self.column} was not computed")
        if not len(known):
            return Estimate(value=None, n=0, missing=missing, reason=self._undefined(rows, places))
        if self.statistic != "mean":
            return _counted(len(known), missing, getattr(distribution(values), self.statistic), "")
        questions = rows.questions(known)
        if self.column == PER_ACCURATE:
            sums = RatioSums.of(zip(values.tolist(), rows.values("accurate")[known].tolist(), strict=True))
            asked = sums.n if questions is None else len(np.unique(questions))
            return Estimate(
                value=sums.cost_usd / sums.accurate if sums.accurate else None,
                n=sums.n,
                missing=missing,
                interval=sums_interval([Stratum(sums, asked)], level=spec.statistics.confidence),
                reason=None if sums.accurate else "no answer is accurate",
            )
        means = averaged(values, questions)
        interval = score_interval(means, level=spec.statistics.confidence, bounds=self._bounds, share=self._share)
        mean: float | None = math.fsum(means) / len(means)
        if (before := rows.before.get(self.column)) is not None:
            of_known = np.array([before[n] for n in known.tolist()])
            mean, interval = relative_change(means, averaged(of_known, questions), spec)
        found: dict[str, Any] = {"value": mean, "n": len(known), "missing": missing, "interval": interval}
        if self.column in rows.labels:
            labels = rows.labels_of(self.column)[known]
            failed = rows.reference(places).too_many_failed(spec.max_missing)
            corrected = corrected_by_labels(labels, values, level=spec.statistics.confidence, failed=failed)
            if corrected.mean is None:
                return Estimate(**found, reason=corrected.reason)
            found |= {"value": corrected.mean, "interval": corrected.interval}
            return Estimate(**found, corrected_by=corrected.labels, uncorrected=mean)
        return Estimate(**found, reason=None if mean is not None else interval.reason)

    def values(self, rows: SystemRows) -> Floats:
        """What each row adds to it, NaN for a row that is not scored."""
        if self.column == PER_ACCURATE:
            accurate = rows.values("accurate") if "accurate" in rows.metrics else np.full(len(rows), np.nan)
            return np.where(np.isfinite(accurate), rows.values("cost_usd"), np.nan)
        if self.column == SUSPICIOUS:
            return rows.values(SUSPICIOUS_ROW)
        if self.column == "refusal_recall":
            return rows.values(REFUSAL)
        if self.column == "refusal_precision":
            right = (rows.values(ANSWERABLE) == 0).astype(float)
            return np.where(np.isfinite(rows.values(REFUSAL)), right, np.nan)
        if self.column in OPERATIONAL and self.column in rows.metrics:
            scores = rows.values(self.column)
            return np.where(np.isfinite(scores), scores, rows.reported(self.column))
        if self.column in (*OPERATIONAL, *rows.metrics):
            return rows.values(self.column)
        return np.full(len(rows), np.nan)

    def about(self, rows: SystemRows) -> Mask:
        """Which rows it is about. A score that is undefined because the query can't be answered is not missing."""
        unanswerable: Mask = rows.values(ANSWERABLE) == 0
        if self.column == "refusal_recall":
            return unanswerable
        if self.column == "refusal_precision":
            return np.asarray(rows.values(REFUSAL) != 0)
        return ~(unanswerable & rows.undefined(self.column))

    def _missing(self, rows: SystemRows, places: RowIndexes) -> dict[str, int]:
        """Why rows that could have it lack it, and how many do."""
        metric = "accurate" if self.column == PER_ACCURATE else self.column
        reasons = rows.missing(metric, places) if metric in rows.metrics else {}
        if more := len(places) - sum(reasons.values()):
            reasons["not scored"] = more
        return reasons

    def _undefined(self, rows: SystemRows, places: RowIndexes) -> str:
        """Why there is no value without a scored row."""
        if self.column == PER_ACCURATE:
            return "no row has both a known cost and an accuracy"
        if self.column not in REFUSALS:
            return _unscored(len(places))
        judged = np.isfinite(rows.values(REFUSAL)).any()
        if self.column == "refusal_recall":
            return "no verdict says whether the answer refuses" if len(places) else "every query can be answered"
        return "no answer refuses" if judged else "no verdict says whether the answer refuses"

    @property
    def _bounds(self) -> tuple[float, float] | None:
        return (0.0, 1.0) if self.column in REFUSALS else self.metric.bounds

    @property
    def _share(self) -> bool:
        return self.column in REFUSALS or self.metric.share

    @property
    def _computed_from(self) -> str:
        return "accurate" if self.column == PER_ACCURATE else self.column


def _counted(n: int, missing: Mapping[str, int], value: float | None, reason: str) -> Estimate:
    """An estimate without an interval; None with the reason if no row is scored."""
    some = {why: rows for why, rows in missing.items() if rows}
    return Estimate(value=value if n else None, n=n, missing=some, reason=None if n else reason)


def _unscored(rows: int) -> str:
    return f"none of {rows} rows has a score" if rows else "there are no rows that could have one"
