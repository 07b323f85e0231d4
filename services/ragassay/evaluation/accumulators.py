"""Accumulators over the rows of one system: each takes a row at a time, and keeps numbers instead of rows."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import fsum, nan, sqrt
from typing import TypeAlias

import numpy as np

from ragassay.core.cost_sums import Money, RatioSums, Spending
from ragassay.core.models import MissingCause, Result, Score, Usage, Verdict
from ragassay.core.report import Distribution, ReferenceJudge, SystemReport
from ragassay.evaluation.groups import MAX_SLICES, Questions, RowIndexes, SliceGroups, numbered, question_key
from ragassay.judges.jury_agreement import JuryCount
from ragassay.stats.intervals import Floats
from ragassay.systems.load import LoadCount

MEASURED = tuple(name for name, field in SystemReport.model_fields.items() if field.annotation is Distribution)
_COUNTED = ("calls", "cache_hits", "retries", "uncertain_calls")
_Cell: TypeAlias = tuple[str | None, str | None]


class FloatColumn:
    """A number for each row, or none."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, value: float | None) -> None:
        """The next row's."""
        self._values.append(nan if value is None else value)

    @property
    def values(self) -> Floats:
        """A view of shape (rows,), with NaN for a row that has none; valid until the next row is added."""
        return np.asarray(self._values)

    def known(self, rows: RowIndexes | slice = slice(None)) -> Floats:
        """The numbers of these rows that there are."""
        values = self.values[rows]
        return values[np.isfinite(values)]


class ScoreColumn:
    """The scores of one metric: each row's value, or why it has none."""

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self._values, self._before, self._reason_codes = FloatColumn(), FloatColumn(), array("q")
        self._judge_squares, self._judge_freedom = array("d"), 0
        self._reasons: dict[tuple[MissingCause | None, str], int] = {}
        for score in scores:
            self.add(score)

    def add(self, score: Score, samples: Iterable[Sequence[float]] = ()) -> None:
        """The next row's, and for each judge that rated it several times what it would be by each of its ratings."""
        self._values.add(score.value)
        self._before.add((score.details or {}).get("ndcg_before"))
        for of_judge in samples:
            mean = fsum(of_judge) / len(of_judge)
            self._judge_squares.append(fsum((value - mean) ** 2 for value in of_judge))
            self._judge_freedom += len(of_judge) - 1
        missing = (score.missing, score.reason or "")
        code = -1 if score.value is not None else self._reasons.setdefault(missing, len(self._reasons))
        self._reason_codes.append(code)

    @property
    def values(self) -> Floats:
        """A view of shape (rows,), with NaN for a row without a score."""
        return self._values.values

    @property
    def before_reranking(self) -> Floats:
        """The NDCG of each row before its results were reranked; NaN for all rows of other metrics."""
        return self._before.values

    @property
    def judge_sd(self) -> float | None:
        """The pooled standard deviation of one sample of a judge; None where no row has two samples of one."""
        return sqrt(fsum(self._judge_squares) / self._judge_freedom) if self._judge_freedom else None

    def missing(self, rows: RowIndexes | slice = slice(None)) -> tuple[dict[str, int], int]:
        """How many of the rows have no score by reason, and how many of them because something failed."""
        codes = np.asarray(self._reason_codes)[rows]
        counts = np.bincount(codes[codes >= 0], minlength=len(self._reasons)).tolist()
        reasons, failed = Counter[str](), 0
        for (cause, reason), count in zip(self._reasons, counts, strict=True):
            reasons[reason] += count
            failed += count if cause == "failed" else 0
        return {reason: count for reason, count in sorted(reasons.items()) if count}, failed


class UsageColumn:
    """What calls to a provider spent for each row; sums are exact."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._cost, self._latency_ms = FloatColumn(), FloatColumn()
        self._input, self._output = array("q"), array("q")

    def add(self, usage: Usage) -> None:
        """The next row's."""
        for name in _COUNTED:
            self._counts[name] += getattr(usage, name)
        self._cost.add(usage.cost_usd)
        self._latency_ms.add(usage.latency_ms)
        self._input.append(usage.input_tokens)
        self._output.append(usage.output_tokens)

    @property
    def total(self) -> Usage:
        """The sum; its cost is unknown where that of any row is."""
        costs = self._cost.values
        return Usage(
            **self._counts,
            input_tokens=sum(self._input),
            output_tokens=sum(self._output),
            cost_usd=None if np.isnan(costs).any() else fsum(costs),
            latency_ms=fsum(self._latency_ms.values),
        )

    def money(self, rows: RowIndexes) -> Money:
        """What some rows spent."""
        known = self._cost.known(rows)
        return Money(
            cost_usd=fsum(known),
            unknown=len(rows) - len(known),
            input_tokens=int(np.asarray(self._input)[rows].sum()),
            output_tokens=int(np.asarray(self._output)[rows].sum()),
        )


class RetrievalCounts:
    """P@5, P@10 and MRR of the queries that have relevance judgments, for the log."""

    def __init__(self) -> None:
        self.without_relevant = self.without_hit = 0
        self._in_first = {5: 0, 10: 0}
        self._reciprocal_ranks = array("d")

    def add(self, row: Result) -> None:
        """The next row."""
        self.without_relevant += row.relevant == 0
        self.without_hit += bool(row.relevant) and row.relevant_ranks == ()
        if (ranks := row.relevant_ranks) is not None:
            for k in self._in_first:
                self._in_first[k] += sum(rank <= k for rank in ranks)
            self._reciprocal_ranks.append(1 / ranks[0] if ranks else 0.0)

    @property
    def figures(self) -> dict[str, float]:
        """To three decimals; empty where no query has judgments."""
        if not (n := len(self._reciprocal_ranks)):
            return {}
        precision = {f"P@{k}": round(found / k / n, 3) for k, found in self._in_first.items()}
        return {**precision, "MRR": round(fsum(self._reciprocal_ranks) / n, 3)}


class VerdictCounts:
    """What the judge's verdicts are like: how many there are, and how often answers refuse."""

    def __init__(self) -> None:
        self.verdicts = self.references_asked = self.evidence_dropped = self.support_withdrawn = self.suspicious = 0
        self.judged = self.refused = self.refused_rightly = self.unanswerable = self.unanswerable_judged = 0
        self.labels: dict[str, dict[int, float]] = {}
        self._rows, self._failures = 0, Counter[str]()

    def add(self, row: Result) -> None:
        """The next row."""
        self.unanswerable += row.answerable is False
        if row.verdict:
            self._add_verdict(row, row.verdict)
        self.references_asked += bool(row.by_reference_judges)
        if (failure := row.reference_failure) is not None:
            self._failures[failure] += 1
        for name in {name for one in row.ratings if one.role == "reference" for name in one.scores}:
            self.labels.setdefault(name, {})[self._rows] = row.label(name) or 0.0
        self._rows += 1

    def _add_verdict(self, row: Result, verdict: Verdict) -> None:
        self.verdicts += 1
        self.evidence_dropped += verdict.evidence_dropped
        self.support_withdrawn += verdict.support_withdrawn
        self.suspicious += bool(verdict.suspicious)
        if row.answer is not None and verdict.refusal is not None:
            self.judged += 1
            self.refused += verdict.refusal
            self.unanswerable_judged += row.answerable is False
            self.refused_rightly += verdict.refusal and row.answerable is False

    @property
    def reference(self) -> ReferenceJudge:
        """How the judges did that correct the scores."""
        return reference_judge(self.references_asked, self._failures)


def reference_judge(asked: int, failures: Counter[str]) -> ReferenceJudge:
    """How reference judges did on the rows that they were asked about."""
    return ReferenceJudge(asked=asked, failed=failures.total(), reasons=dict(sorted(failures.items())))


class SystemAggregator:
    """All that a report says of one system, accumulated row by row."""

    def __init__(self, metrics: Iterable[str] = ()) -> None:
        self.rows = self.without_response = self.failed_responses = self.priced_by_us = 0
        self.first_call_ms: float | None = None
        self.scores = {name: ScoreColumn() for name in metrics}
        self.measured = {name: FloatColumn() for name in MEASURED}
        self.accurate, self.accuracy_asked = FloatColumn(), array("b")
        self.evaluation, self.waste, self.left_out = UsageColumn(), UsageColumn(), Counter[str]()
        self.slices, self.load, self.jury = SliceGroups(), LoadCount(), JuryCount()
        self.retrieval, self.verdicts = RetrievalCounts(), VerdictCounts()
        self._question_keys = array("q")
        self._cells: dict[_Cell, array[int]] = {}

    @classmethod
    def of(cls, rows: Iterable[Result], metrics: Iterable[str] = ()) -> SystemAggregator:
        """The aggregator after all these rows."""
        one = cls(metrics)
        for row in rows:
            one.add(row)
        return one

    def add(self, row: Result) -> None:
        """The next row."""
        self._cells.setdefault((row.category, row.model), array("q")).append(self.rows)
        self.rows += 1
        self.without_response += not row.responded
        self.failed_responses += row.error is not None
        self.priced_by_us += row.priced_by_us
        if row.first_call_ms is not None:
            self.first_call_ms = max(row.first_call_ms, self.first_call_ms or 0.0)
        self._question_keys.append(question_key(row))
        for name, column in self.scores.items():
            column.add(row.scores[name], row.samples(name))
        for name, measured in self.measured.items():
            measured.add(getattr(row, name))
        accurate = row.scores.get("accurate")
        self.accurate.add(accurate.value if accurate else None)
        self.accuracy_asked.append(accurate is not None)
        self.evaluation.add(row.evaluation)
        self.waste.add(row.waste)
        self.left_out.update(row.left_out)
        for accumulator in (self.slices, self.load, self.jury, self.retrieval, self.verdicts):
            accumulator.add(row)

    @cached_property
    def questions(self) -> Questions:
        """The number of each row's question, once all rows are added."""
        return numbered(self._question_keys)

    @property
    def spending(self) -> tuple[Spending, ...]:
        """What was spent by category and model; where there are more than ``MAX_SLICES`` of either, not by it."""
        few = [len({cell[n] for cell in self._cells}) <= MAX_SLICES for n in range(2)]
        cells: dict[_Cell, array[int]] = {}
        for (category, model), rows in self._cells.items():
            cells.setdefault((category if few[0] else None, model if few[1] else None), array("q")).extend(rows)
        ordered = sorted(cells.items(), key=lambda cell: tuple((name is not None, name or "") for name in cell[0]))
        return tuple(self._spent(category, model, np.asarray(rows)) for (category, model), rows in ordered)

    def _spent(self, category: str | None, model: str | None, rows: RowIndexes) -> Spending:
        cost, given, made = (self.measured[n].values[rows] for n in ("cost_usd", "input_tokens", "output_tokens"))
        counted = np.isfinite(given) & np.isfinite(made)
        costs = cost[np.isfinite(cost)]
        return Spending(
            category=category,
            model=model,
            rows=len(rows),
            serving=Money(
                cost_usd=fsum(costs),
                unknown=len(rows) - len(costs),
                input_tokens=round(given[counted].sum()),
                output_tokens=round(made[counted].sum()),
            ),
            judging=self.evaluation.money(rows),
            waste=self.waste.money(rows),
            known=sums_where_known(cost, self.accurate.values[rows]),
        )


def sums_where_known(cost: Floats, accurate: Floats) -> RatioSums:
    """Sums of both over the rows that have both."""
    known = np.isfinite(cost) & np.isfinite(accurate)
    return RatioSums.of(zip(cost[known].tolist(), accurate[known].tolist(), strict=True))
