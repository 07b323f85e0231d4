"""What a report is made of: numbers and counts of one system's results, gathered in one pass that keeps no row."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, islice
from math import fsum, isnan, nan, sqrt
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ragassay.core.cost_sums import Between, Money, RatioSums, Spending
from ragassay.core.models import MissingCause, Result, Sample, Score, Usage, Verdict
from ragassay.core.report import Distribution, ReferenceJudge, SystemReport
from ragassay.core.specification import JobSpec
from ragassay.core.statistics import CorrectedMean, Interval
from ragassay.stats.ppi import METHOD, corrected_mean

Questions: TypeAlias = npt.NDArray[np.int64] | None  # the number of each row's question; None: each row has its own
MOST_PAIRED = 10  # systems of which every two are held against each other
MOST_SLICES = 20  # a field with more distinct values than this is an identifier, not a group
MEASURED = tuple(name for name, field in SystemReport.model_fields.items() if field.annotation is Distribution)
_COUNTED = ("calls", "cache_hits", "retries", "uncertain_calls", "input_tokens", "output_tokens")


class Numbers:
    """A number of each row, or none."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, value: float | None) -> None:
        """The next row's."""
        self._values.append(nan if value is None else value)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, place: int) -> float | None:
        value = self._values[place]
        return None if isnan(value) else value

    def __iter__(self) -> Iterator[float | None]:
        return (None if isnan(value) else value for value in self._values)


class ScoreColumn:
    """The scores of one metric: each row's value, or why it has none."""

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self._values, self._why = Numbers(), array("i")
        self._judge_squares, self._judge_freedom = array("d"), 0
        self._before: dict[int, float] = {}
        self._reasons: dict[tuple[MissingCause | None, str], int] = {}
        for score in scores:
            self.add(score)

    def add(self, score: Score) -> None:
        """The next row's."""
        self._values.add(score.value)
        judgings = score.judgings
        if len(judgings) > 1:
            mean = fsum(judgings) / len(judgings)
            self._judge_squares.append(fsum((value - mean) ** 2 for value in judgings))
            self._judge_freedom += len(judgings) - 1
        if score.details and "ndcg_before" in score.details:
            self._before[len(self._values) - 1] = score.details["ndcg_before"]
        missing = (score.missing, score.reason or "")
        self._why.append(-1 if score.value is not None else self._reasons.setdefault(missing, len(self._reasons)))

    @property
    def judge_sd(self) -> float | None:
        """The pooled standard deviation of one judging of the same answer; None where no answer was judged twice."""
        return sqrt(fsum(self._judge_squares) / self._judge_freedom) if self._judge_freedom else None

    def __getitem__(self, place: int) -> float | None:
        return self._values[place]

    def before_reranking(self, places: Iterable[int] | None = None) -> list[float]:
        """The NDCG before reranking of each row that has a score, of all rows or of some; of other metrics none."""
        return list(self._before.values()) if places is None else [self._before[n] for n in places if n in self._before]

    def of(self, places: Iterable[int] | None = None) -> tuple[list[float], Counter[str], int]:
        """The values that there are, the reasons of the rows that lack one, and how many failed: of all rows, or of some."""
        reasons = list(self._reasons)
        values: list[float] = []
        missing: Counter[str] = Counter()
        failed = 0
        for place in range(len(self._why)) if places is None else places:
            if (value := self._values[place]) is not None:
                values.append(value)
            else:
                cause, reason = reasons[self._why[place]]
                missing[reason] += 1
                failed += cause == "failed"
        return values, missing, failed


class Spent:
    """What calls took, summed up exactly."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._cost_is_known = True
        self._costs, self._latencies = array("d"), array("d")

    def add(self, usage: Usage) -> None:
        """The next row's."""
        for name in _COUNTED:
            self._counts[name] += getattr(usage, name)
        if usage.cost_usd is None:
            self._cost_is_known = False
        elif usage.cost_usd:
            self._costs.append(usage.cost_usd)
        if usage.latency_ms:
            self._latencies.append(usage.latency_ms)

    @property
    def total(self) -> Usage:
        """The sum; its cost is unknown where that of any row is."""
        cost = fsum(self._costs) if self._cost_is_known else None
        return Usage(**self._counts, cost_usd=cost, latency_ms=fsum(self._latencies))


class RowGroups:
    """The places of the rows that share a value of category, difficulty or a field of the metadata."""

    def __init__(self) -> None:
        self._rows = 0
        self._by_field: dict[str, dict[str, array[int]] | None] = {"category": {}, "difficulty": {}}

    def add(self, row: Result) -> None:
        """The next row. A field that has more than ``MOST_SLICES`` values is given up."""
        for field in ("category", "difficulty", *(f"metadata.{key}" for key in row.metadata)):
            groups = self._by_field.setdefault(field, {})
            if groups is None or (value := slice_value(row, field)) is None:
                continue
            if value not in groups and len(groups) == MOST_SLICES:
                self._by_field[field] = None
            else:
                groups.setdefault(value, array("i")).append(self._rows)
        self._rows += 1

    def __iter__(self) -> Iterator[tuple[str, dict[str, array[int]]]]:
        """Fields that group the rows, each with the rows of its values; no metadata field that differs in most rows."""
        for field, groups in self._by_field.items():
            most = max(1, self._rows // 2) if field.startswith("metadata.") else MOST_SLICES
            if groups and len(groups) <= most:
                yield field, dict(sorted(groups.items()))


class Bills:
    """What calls took, row by row."""

    def __init__(self) -> None:
        self._cost, self._input, self._output = Numbers(), array("d"), array("d")

    def add(self, usage: Usage) -> None:
        """The next row's."""
        self._cost.add(usage.cost_usd)
        self._input.append(usage.input_tokens)
        self._output.append(usage.output_tokens)

    def at(self, places: Iterable[int]) -> Money:
        """What some rows spent."""
        costs = [self._cost[place] for place in places]
        known = [cost for cost in costs if cost is not None]
        return Money(
            cost_usd=fsum(known),
            unknown=len(costs) - len(known),
            input_tokens=round(fsum(self._input[place] for place in places)),
            output_tokens=round(fsum(self._output[place] for place in places)),
        )


class Recount:
    """All that a report says of one system's results, but for the results themselves.

    ``is_asked``: was the judge that corrects the scores asked about a query? Without it: about each that has a verdict.
    """

    def __init__(
        self,
        results: Iterable[Result],
        metrics: Iterable[str] = (),
        is_asked: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._is_asked = is_asked
        self.asked = self.rows = self.without_response = self.failed_responses = self.without_relevant = (
            self.without_hit
        ) = 0
        self.priced_by_us = self.verdicts = self.evidence_dropped = self.support_withdrawn = self.suspicious = 0
        self.judged = self.refused = self.refused_rightly = self.unanswerable = self.unanswerable_judged = 0
        self.first_call_ms: float | None = None
        self.scores = {name: ScoreColumn() for name in metrics}
        self.measured = {name: Numbers() for name in MEASURED}
        self.accurate, self.accuracy_asked = Numbers(), array("b")
        self.reference_labels: dict[str, dict[int, float]] = {}
        self._reference_failures = Counter[str]()
        self._asked = array("q")
        self.evaluation, self.waste, self.left_out, self.groups = Spent(), Spent(), Counter[str](), RowGroups()
        self._judging, self._wasted = Bills(), Bills()
        self._in_first = {5: 0, 10: 0}
        self._reciprocal_ranks = array("d")
        self._cells: dict[tuple[str | None, str | None], array[int]] = {}
        for result in results:
            self._add(result)

    def _add(self, row: Result) -> None:
        self.rows += 1
        self._asked.append(question_key(row))
        self.without_response += not row.responded
        self.failed_responses += row.error is not None
        self.without_relevant += row.relevant == 0
        self.without_hit += bool(row.relevant) and row.relevant_ranks == ()
        if (ranks := row.relevant_ranks) is not None:
            for k in self._in_first:
                self._in_first[k] += sum(rank <= k for rank in ranks)
            self._reciprocal_ranks.append(1 / ranks[0] if ranks else 0.0)
        self.priced_by_us += row.priced_by_us
        for name, column in self.scores.items():
            column.add(row.scores[name])
        for name, numbers in self.measured.items():
            numbers.add(getattr(row, name))
        if row.first_call_ms is not None:
            self.first_call_ms = max(row.first_call_ms, self.first_call_ms or 0.0)
        accurate = row.scores.get("accurate")
        self.accurate.add(accurate.value if accurate else None)
        self.accuracy_asked.append(accurate is not None)
        self.unanswerable += row.answerable is False
        if row.verdict:
            self._add_verdict(row, row.verdict)
        if row.reference_failure is not None:
            self._reference_failures[row.reference_failure] += 1
        for name, label in row.reference_labels.items():
            self.reference_labels.setdefault(name, {})[self.rows - 1] = label
        self.evaluation.add(row.evaluation)
        self.waste.add(row.waste)
        self.left_out.update(row.left_out)
        self.groups.add(row)
        self._judging.add(row.evaluation)
        self._wasted.add(row.waste)
        self._cells.setdefault((row.category, row.model), array("i")).append(self.rows - 1)

    @cached_property
    def questions(self) -> Questions:
        """The number of each row's question."""
        return numbered(self._asked)

    @property
    def reference(self) -> ReferenceJudge:
        """How the judge did that corrects the scores, where one was asked about some of the rows."""
        failed = self._reference_failures.total()
        return ReferenceJudge(
            asked=max(self.asked, failed), failed=failed, reasons=dict(sorted(self._reference_failures.items()))
        )

    @property
    def retrieval(self) -> dict[str, float]:
        """P@5, P@10 and MRR of the queries that have judgments, to three decimals."""
        n = len(self._reciprocal_ranks)
        if not n:
            return {}
        figures = {f"P@{k}": found / k / n for k, found in self._in_first.items()}
        return {name: round(value, 3) for name, value in {**figures, "MRR": fsum(self._reciprocal_ranks) / n}.items()}

    @property
    def spending(self) -> tuple[Spending, ...]:
        """What was spent by category and model; where there are more than ``MOST_SLICES`` of either, not by it."""
        named = [len({cell[n] for cell in self._cells}) <= MOST_SLICES for n in range(2)]
        cells: dict[tuple[str | None, str | None], array[int]] = {}
        for (category, model), places in self._cells.items():
            cells.setdefault((category if named[0] else None, model if named[1] else None), array("i")).extend(places)
        ordered = sorted(cells.items(), key=lambda cell: tuple((name is not None, name or "") for name in cell[0]))
        return tuple(self._spent(category, model, places) for (category, model), places in ordered)

    def _spent(self, category: str | None, model: str | None, places: array[int]) -> Spending:
        numbers = (self.measured["cost_usd"], self.measured["input_tokens"], self.measured["output_tokens"])
        rows = [(*(column[place] for column in numbers), self.accurate[place]) for place in places]
        costs = [cost for cost, *_ in rows if cost is not None]
        tokens = [(given, made) for _, given, made, _ in rows if given is not None and made is not None]
        return Spending(
            category=category,
            model=model,
            rows=len(rows),
            serving=Money(
                cost_usd=fsum(costs),
                unknown=len(rows) - len(costs),
                input_tokens=round(fsum(given for given, _ in tokens)),
                output_tokens=round(fsum(made for _, made in tokens)),
            ),
            judging=self._judging.at(places),
            waste=self._wasted.at(places),
            known=RatioSums.of((cost, right) for cost, _, _, right in rows if cost is not None and right is not None),
        )

    def _add_verdict(self, row: Result, verdict: Verdict) -> None:
        self.verdicts += 1
        self.asked += self._is_asked(row.query_id)
        self.evidence_dropped += verdict.evidence_dropped
        self.support_withdrawn += verdict.support_withdrawn
        self.suspicious += bool(verdict.suspicious)
        if row.answer is not None and verdict.refusal is not None:
            self.judged += 1
            self.refused += verdict.refusal
            self.unanswerable_judged += row.answerable is False
            self.refused_rightly += verdict.refusal and row.answerable is False


def between(counted: Mapping[str, Recount], expected: int) -> tuple[Between, ...]:
    """Every two of the systems that have all ``expected`` rows, which are of the same queries in the same order."""
    complete = [(name, one) for name, one in counted.items() if one.rows == expected]
    pairs = combinations(islice(complete, MOST_PAIRED), 2)
    return tuple(_between(a, b, of_a, of_b) for (a, of_a), (b, of_b) in pairs)


def _between(name_a: str, name_b: str, a: Recount, b: Recount) -> Between:
    columns = (a.measured["cost_usd"], a.accurate, b.measured["cost_usd"], b.accurate)
    sums = RatioSums.of(
        (cost_b - cost_a, right_b - right_a)
        for cost_a, right_a, cost_b, right_b in zip(*columns, strict=True)
        if cost_a is not None and right_a is not None and cost_b is not None and right_b is not None
    )
    return Between(a=name_a, b=name_b, sums=sums)


def question_key(row: Result) -> int:
    """The same number for rows that ask the same and have the same ground truth: several answers to one question."""
    return hash((" ".join(row.query.split()), *row.ground_truth_answer))


def numbered(keys: Sequence[int]) -> Questions:
    """The number of each row's question, in order of first appearance, from its key; None if each row has its own.

    If all rows have the same key, what they ask is an instruction, and each row is a question of its own.
    """
    _, first, place = np.unique(np.asarray(keys, np.int64), return_index=True, return_inverse=True)
    return None if len(first) in (1, len(keys)) else np.argsort(np.argsort(first))[place]


def questions_of(rows: Iterable[Result]) -> Questions:
    """The number of each row's question."""
    return numbered([question_key(row) for row in rows])


def slice_value(row: Result | Sample, name: str) -> str | None:
    """What a row has for ``category``, ``difficulty`` or ``metadata.NAME``; None for nothing that groups rows."""
    key = name.removeprefix("metadata.")
    value = getattr(row, name) if key == name else row.metadata.get(key)
    return str(value) if isinstance(value, str | int | bool) else None


def reference_of(rows: Iterable[Result]) -> ReferenceJudge:
    """How a reference judge did on those of the rows that it was asked about."""
    asked = [row for row in rows if row.reference_labels or row.reference_failure is not None]
    reasons = Counter(row.reference_failure for row in asked if row.reference_failure is not None)
    return ReferenceJudge(asked=len(asked), failed=reasons.total(), reasons=dict(sorted(reasons.items())))


def corrected(counted: Recount, metric: str, spec: JobSpec) -> CorrectedMean | None:
    """The metric's mean corrected by the labels of it; None where there are none."""
    labels, scores = counted.reference_labels.get(metric), counted.scores[metric]
    if not labels:
        return None
    failed = counted.reference.too_many_failed(spec.max_missing)
    rows = ((labels.get(n), scores[n]) for n in range(counted.rows))
    return corrected_by_labels(rows, level=spec.confidence, failed=failed)


def corrected_by_labels(
    rows: Iterable[tuple[float | None, float | None]],
    *,
    level: float,
    differences: bool = False,
    failed: str | None = None,
) -> CorrectedMean:
    """The corrected mean of rows, each its label and its score, from 0 to 1; those without a score are left out.

    ``differences``: labels and scores are those of two systems, one taken from the other. ``failed``: why labels that there
    are may be no random part of the rows, so that they correct nothing.
    """
    scored = [(label, score) for label, score in rows if score is not None]
    labels = [label for label, _ in scored if label is not None]
    scores = [score for label, score in scored if label is not None]
    others = [score for label, score in scored if label is None]
    if failed is not None:
        absent = Interval.absent(failed, level, METHOD)
        return CorrectedMean(labels=len(labels), rows=len(scored), interval=absent, reason=failed)
    return corrected_mean(labels, scores, others, bounds=(0.0, 1.0), level=level, differences=differences)
