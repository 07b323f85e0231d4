"""Which rows of two systems are about the same query, and how their scores differ there.

Everything that compares uses ``match``: comparisons, gates and stop rules have one meaning of "the same query".
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from typing import Any, Literal, NamedTuple, TypeVar

from ragassay import stats
from ragassay.analysis.labels import difference_by_labels
from ragassay.analysis.models import Delta, DeltaOutcome, Matching, OperationalDelta, RowDelta, SliceDelta
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.formatting import p_value
from ragassay.core.models import Result, Score
from ragassay.core.protocols import AsksQuery
from ragassay.core.report import Aggregate, Distribution, SystemReport
from ragassay.datasets.dataset import NUMBERED, plain_text
from ragassay.evaluation.recount import Questions, questions_of, slice_value
from ragassay.evaluation.reports import cost_and_accuracy
from ragassay.metrics import Metric, parse
from ragassay.metrics.base import OPERATIONAL
from ragassay.stats.columns import averaged

NOT_WORSE_MARGIN = 0.05  # "no worse" means by less than this share of a metric's range
POWER = 0.8
NO_SHARED_QUESTION = "they share no question"
NOISE = 1e-9  # scores that differ by less are alike
NOT_SCORED = Score.absent("was not computed", "no_input")


A = TypeVar("A", bound=AsksQuery)


def match(a: Sequence[A], b: Sequence[A]) -> list[tuple[A, A]]:
    """(row of ``a``, row of ``b``) for each query that both have, in the order of ``a``.

    The same query is the same id and, white space aside, the same text. An id that only numbers the row tells nothing
    in another file: rows with such an id that are left match on text alone, where one row on either side has it.
    """
    by_id = {row.query_id: row for row in b}
    partners = {
        row.query_id: other
        for row in a
        if (other := by_id.get(row.query_id)) is not None and plain_text(row.query) == plain_text(other.query)
    }
    left_a = _by_text(row for row in a if row.query_id not in partners)
    left_b = _by_text(row for row in b if row.query_id not in partners)
    for text, rows in left_a.items():
        candidates = left_b.get(text, [])
        if len(rows) == len(candidates) == 1 and any(
            NUMBERED.fullmatch(row.query_id) for row in (rows[0], candidates[0])
        ):
            partners[rows[0].query_id] = candidates[0]
    return [(row, partners[row.query_id]) for row in a if row.query_id in partners]


class PairedScores(NamedTuple):
    """Scores of both systems on the matched rows that have both; ``places`` are indexes of those rows."""

    places: list[int]
    a: list[float]
    b: list[float]

    @property
    def differences(self) -> list[float]:
        """b - a, row by row."""
        return [y - x for x, y in zip(self.a, self.b, strict=True)]

    def only(self, places: AbstractSet[int]) -> PairedScores:
        """Those of some of the matched rows."""
        kept = [n for n, place in enumerate(self.places) if place in places]
        return PairedScores([self.places[n] for n in kept], [self.a[n] for n in kept], [self.b[n] for n in kept])

    def by_question(self, questions: Questions) -> tuple[list[float], list[float]]:
        """The scores of a and of b, averaged over the answers to each question; ``questions`` is of all matched rows."""
        if questions is None:
            return self.a, self.b
        return averaged(self.a, questions[self.places]), averaged(self.b, questions[self.places])


@dataclass(frozen=True)
class PairedSystems:
    """The baseline's report ``a`` beside another system's ``b``. ``own``: the metrics of the baseline's run itself.

    ``max_missing``: the largest share of rows on which a reference judge may fail and still correct a difference.
    """

    a: SystemReport
    b: SystemReport
    alpha: float = 0.05
    seed: int = 0
    own: Mapping[str, Metric] = field(default_factory=dict)
    max_missing: float = 0.05
    _scores: dict[str, PairedScores] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def rows(self) -> list[tuple[Result, Result]]:
        """The matched rows, in the order of ``a``."""
        return match(self.a.results, self.b.results)

    @cached_property
    def questions(self) -> Questions:
        """The number of each matched row's question."""
        return questions_of(row for row, _ in self.rows)

    def scores(self, name: str) -> PairedScores:
        """The matched rows that have a score on both sides; looked up once for each metric."""
        if name not in self._scores:
            self._scores[name] = _scored(
                (n, _score(one, name).value, _score(other, name).value) for n, (one, other) in enumerate(self.rows)
            )
        return self._scores[name]

    def left_over(self) -> tuple[list[Result], list[Result]]:
        """Rows of ``a`` without a partner although ``b`` asks the same: more than once on a side, and under other ids."""
        paired = {row.query_id for row, _ in self.rows}, {other.query_id for _, other in self.rows}
        left_a, left_b = (
            _by_text(row for row in system.results if row.query_id not in ids)
            for system, ids in zip((self.a, self.b), paired, strict=True)
        )
        repeated: list[Result] = []
        other_ids: list[Result] = []
        for text in [text for text in left_a if text in left_b]:
            once = len(left_a[text]) == len(left_b[text]) == 1
            (other_ids if once else repeated).extend(left_a[text])
        return repeated, other_ids

    def matching(self, *, same_dataset: bool) -> Matching:
        """How many rows belong together, and why the others don't."""
        a, b = self.a.results, self.b.results
        left_a = {row.query_id for row in a} - {row.query_id for row, _ in self.rows}
        left_b = {row.query_id for row in b} - {other.query_id for _, other in self.rows}
        different_text = sum(not NUMBERED.fullmatch(query_id) for query_id in left_a & left_b)
        repeated, other_ids = self.left_over()
        return Matching(
            method="paired" if self.rows else "unpaired",
            same_dataset=same_dataset,
            rows_a=len(a),
            rows_b=len(b),
            paired=len(self.rows),
            only_a=len(left_a) - different_text,
            only_b=len(left_b) - different_text,
            different_text=different_text,
            different_truth=sum(
                (row.ground_truth_answer, row.relevant) != (other.ground_truth_answer, other.relevant)
                for row, other in self.rows
            ),
            repeated=len(repeated),
            other_ids=len(other_ids),
        )

    def delta(self, name: str, *, primary: bool) -> Delta:
        """One metric before any correction: ``p_corrected`` is null and the outcome open until ``decided``.

        A metric that is not ``primary`` is exploratory.
        """
        aggregate = self.a.metrics[name]
        found = self._paired_delta(name, aggregate) if self.rows else self._unpaired_delta(name, aggregate)
        if primary and found.paired is not None:
            a, b = self.scores(name).by_question(self.questions)
            differences = [y - x for x, y in zip(a, b, strict=True)]
            second = stats.bootstrap_interval(differences, level=1 - self.alpha, seed=self.seed)
            found = found.model_copy(update={"paired": found.paired.model_copy(update={"bootstrap": second})})
        return found.model_copy(update={"exploratory": not primary})

    def _paired_delta(self, name: str, aggregate: Aggregate) -> Delta:
        both = self.scores(name)
        test = stats.paired(*both.by_question(self.questions), alpha=self.alpha, seed=self.seed, **self._scale(name))
        higher = aggregate.better == "higher"
        rows = [self.rows[place] for place in both.places]
        references = [one.evaluation.reference for one in (self.a, self.b) if one.evaluation.reference]
        failed = next(filter(None, (one.too_many_failed(self.max_missing) for one in references)), None)
        by_labels = difference_by_labels(name, rows, both.differences, level=1 - self.alpha, failed=failed)
        corrected = by_labels if by_labels and by_labels.mean is not None else None
        return Delta(
            kind=aggregate.kind,
            better=aggregate.better,
            n=len(both.places),
            **_coverage([row for row, _ in self.rows], [row for _, row in self.rows], name),
            mean_a=test.mean_a,
            mean_b=test.mean_b,
            delta=test.difference,
            interval=test.interval,
            p=corrected.p if corrected else test.randomisation.p,
            p_corrected=None,
            mark="",
            outcome="can't tell",
            reason=None if corrected else too_few(test.n, self.alpha),
            wins=test.wins if higher else test.losses,
            losses=test.losses if higher else test.wins,
            ties=test.ties,
            paired=test,
            by_labels=by_labels,
        )

    def _unpaired_delta(self, name: str, aggregate: Aggregate) -> Delta:
        a, b = (
            _means_of_questions([(row, _score(row, name).value) for row in system.results])
            for system in (self.a, self.b)
        )
        test = stats.welch(a, b, alpha=self.alpha, bounds=bounds_of(name, self.own))
        return Delta(
            kind=aggregate.kind,
            better=aggregate.better,
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

    def decided(self, name: str, delta: Delta, p: float | None, tests: int) -> Delta:
        """The delta with its ``p`` corrected for so many ``tests``, and what follows from it.

        An exploratory one is not corrected: its outcome goes by its own p and has no mark.
        """
        if delta.exploratory:
            p, tests = delta.p, 1
        alpha = self.alpha / tests
        size, ends = delta.decided
        outcome, reason = outcome_of(delta.better, size, ends, delta.p, p, self.alpha, tests, delta.reason)
        if not self.rows:  # one of them may have had the easier questions
            outcome, reason = "can't tell", reason or NO_SHARED_QUESTION
        more: dict[str, Any] = {
            "p_corrected": None if delta.exploratory else p,
            "mark": "" if delta.exploratory or not self.rows else stats.marks(p),
            "outcome": outcome,
            "reason": reason,
        }
        if delta.labels is None:
            more |= {"detectable": _detectable(delta, alpha), "not_worse": self._not_worse(name, alpha, delta)}
        return delta.model_copy(update=more)

    def _not_worse(self, name: str, alpha: float, delta: Delta) -> stats.NonInferiority | None:
        bounds, both = bounds_of(name, self.own), self.scores(name)
        if bounds is None or not both.a:
            return None
        margin = NOT_WORSE_MARGIN * (bounds[1] - bounds[0])
        a, b = both.by_question(self.questions)
        return stats.non_inferiority(a, b, margin, alpha=alpha / 2, better=delta.better, **self._scale(name))

    def _scale(self, name: str) -> dict[str, Any]:
        """What kind of scores a metric has: their bounds, and whether they are yes or no."""
        metric = known_metric(name, self.own)
        return {"bounds": metric and metric.bounds, "binary": metric is not None and metric.share}

    def slices(self, names: Sequence[str]) -> dict[str, dict[str, dict[str, SliceDelta]]]:
        """Deltas for each field that groups the baseline's rows, each of its values and each metric."""
        slices: dict[str, dict[str, dict[str, SliceDelta]]] = {}
        for group in self.a.slices if self.rows else ():
            places: dict[str, set[int]] = {}
            for n, (row, _) in enumerate(self.rows):
                if (value := slice_value(row, group)) is not None:
                    places.setdefault(value, set()).add(n)
            slices[group] = {
                value: {name: self._slice(self.scores(name).only(where), name) for name in names}
                for value, where in sorted(places.items())
            }
        return slices

    def _slice(self, both: PairedScores, name: str) -> SliceDelta:
        a, b = both.by_question(self.questions)
        return SliceDelta(
            n=len(both.a),
            mean_a=statistics.fmean(a) if a else None,
            mean_b=statistics.fmean(b) if b else None,
            delta=statistics.fmean(y - x for x, y in zip(a, b, strict=True)) if a else None,
            interval=stats.difference_interval(a, b, level=1 - self.alpha, **self._scale(name)),
        )

    def regressions(self, names: Sequence[str], limit: int) -> dict[str, tuple[RowDelta, ...]]:
        """By metric the rows on which b is worse, the worst first, in the dataset's order where they are alike."""
        return {name: rows for name in names if (rows := self._regressions(name, names, limit))}

    def _regressions(self, name: str, names: Sequence[str], limit: int) -> tuple[RowDelta, ...]:
        sign, both = self._sign(name), self.scores(name)
        losses = [(sign * d, n) for d, n in zip(both.differences, both.places, strict=True) if sign * d < -NOISE]
        return tuple(_row_delta(*self.rows[n], name, self._worse(n, names)) for _, n in nsmallest(limit, losses))

    def _worse(self, place: int, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        row, other = self.rows[place]
        scores = {name: (_score(row, name).value, _score(other, name).value) for name in names}
        return {
            name: (x, y)
            for name, (x, y) in scores.items()
            if x is not None and y is not None and self._sign(name) * (y - x) < -NOISE
        }

    def _sign(self, name: str) -> int:
        return 1 if self.a.metrics[name].better == "higher" else -1

    def operational(self) -> dict[str, OperationalDelta]:
        """Latency, tokens and cost, as far as both systems report them."""
        reported = {name: (getattr(self.a, name), getattr(self.b, name)) for name in OPERATIONAL}
        return {name: self._operational(name, *both) for name, both in reported.items() if both[0].n and both[1].n}

    def _operational(self, name: str, a: Distribution, b: Distribution) -> OperationalDelta:
        pairs = [(n, getattr(row, name), getattr(other, name)) for n, (row, other) in enumerate(self.rows)]
        both = _scored(pairs)
        delta, mean_a, mean_b = None, None, None
        if self.rows:
            values_a, values_b = both.by_question(self.questions)
            if values_a:
                mean_a, mean_b = statistics.fmean(values_a), statistics.fmean(values_b)
                delta = statistics.fmean(y - x for x, y in zip(values_a, values_b, strict=True))
            interval = stats.difference_interval(values_a, values_b, level=1 - self.alpha)
        else:
            test = stats.welch(_reported(self.a, name), _reported(self.b, name), alpha=self.alpha)
            mean_a, mean_b, delta, interval = test.mean_a, test.mean_b, test.difference, test.interval
        points = {p: (getattr(a, p), getattr(b, p)) for p in ("p50", "p90", "p95", "p99")}
        return OperationalDelta(
            a=a,
            b=b,
            n=len(both.places),
            delta=delta,
            ratio=mean_b / mean_a if mean_a and mean_b is not None else None,
            interval=interval,
            percentiles={p: y - x for p, (x, y) in points.items()},
        )

    def incremental_cost(self, names: tuple[str, str]) -> stats.IncrementalCost:
        """The marginal cost of one more accurate answer, over the pairs whose cost and accuracy are known on both sides.

        ``names`` of a and b: for the reason.
        """
        pairs = [(cost_and_accuracy(row), cost_and_accuracy(other)) for row, other in self.rows]
        known = {n: (*a, *b) for n, (a, b) in enumerate(pairs) if a and b}
        columns = list(zip(*known.values(), strict=True)) or [(), (), (), ()]
        asked = None if self.questions is None else len(set(self.questions[list(known)].tolist()))
        return stats.incremental_cost(*map(list, columns), names=names, questions=asked, level=1 - self.alpha)


def _scored(pairs: Iterable[tuple[int, float | None, float | None]]) -> PairedScores:
    """The pairs that have a value on both sides."""
    known = [(n, x, y) for n, x, y in pairs if x is not None and y is not None]
    return PairedScores([n for n, _, _ in known], [x for _, x, _ in known], [y for _, _, y in known])


def _by_text(rows: Iterable[A]) -> dict[str, list[A]]:
    grouped: dict[str, list[A]] = {}
    for row in rows:
        grouped.setdefault(plain_text(row.query), []).append(row)
    return grouped


def _score(row: Result, name: str) -> Score:
    return row.scores.get(name, NOT_SCORED)


def _row_delta(row: Result, other: Result, name: str, worse: dict[str, tuple[float, float]]) -> RowDelta:
    x, y = _score(row, name), _score(other, name)
    a, b = x.value or 0.0, y.value or 0.0
    return RowDelta(
        query_id=row.query_id,
        query_id_b=other.query_id,
        query=row.query,
        a=a,
        b=b,
        delta=b - a,
        worse=worse,
        answer_a=row.answer,
        answer_b=other.answer,
        reason_a=x.reason,
        reason_b=y.reason,
    )


def _detectable(delta: Delta, alpha: float) -> float | None:
    if delta.paired is None or not (sd := delta.paired.sd) or alpha >= POWER:
        return None
    return stats.minimum_detectable_effect(delta.paired.n, sd, alpha=alpha, power=POWER)


def _coverage(a: Sequence[Result], b: Sequence[Result], name: str) -> dict[str, Any]:
    """Of each system, how many rows are scored, and how many are not by reason."""
    missing = [Counter(score.reason for row in rows if (score := _score(row, name)).value is None) for rows in (a, b)]
    return {
        "n_a": len(a) - missing[0].total(),
        "n_b": len(b) - missing[1].total(),
        "missing_a": dict(missing[0]),
        "missing_b": dict(missing[1]),
    }


def _reported(system: SystemReport, name: str) -> list[float]:
    return _means_of_questions([(row, getattr(row, name)) for row in system.results])


def _means_of_questions(rows: Iterable[tuple[Result, float | None]]) -> list[float]:
    """The values that there are, averaged over the answers to each question."""
    known = [(row, value) for row, value in rows if value is not None]
    values, questions = [value for _, value in known], questions_of(row for row, _ in known)
    return values if questions is None else averaged(values, questions)


def known_metric(name: str, own: Mapping[str, Metric]) -> Metric | None:
    """The metric of that name; None for one that is not registered here."""
    try:
        return parse(name, own)
    except (UnknownName, BadSettings):
        return None


def bounds_of(name: str, own: Mapping[str, Metric]) -> tuple[float, float] | None:
    """Least and greatest value of a metric; None for one without, or that is not registered here."""
    metric = known_metric(name, own)
    return metric.bounds if metric else None


def too_few(n: int, alpha: float) -> str | None:
    """Why so few pairs can't show anything: even if all differed in one direction, p would be 2 / 2^n."""
    if n < 2:
        return f"{n} pairs: nothing to compare" if n == 0 else "1 pair shows no spread"
    least = 2.0 ** (1 - n)
    return f"{n} pairs: p can't be below {least:.3g}" if least > alpha else None


def outcome_of(
    better: Literal["higher", "lower"],
    size: float | None,
    ends: stats.Interval,
    p: float | None,
    p_corrected: float | None,
    alpha: float,
    tests: int,
    reason: str | None,
) -> tuple[DeltaOutcome, str | None]:
    """What follows from a difference, and the reason if nothing does; ``p_corrected`` is ``p`` among so many ``tests``.

    An interval that leaves out 0 is no "no difference shown", even if the test finds nothing.
    """
    if reason or p is None or p_corrected is None or size is None:
        return "can't tell", reason
    if p_corrected <= alpha:
        return ("better" if (size > 0) is (better == "higher") else "worse"), None
    if ends.low is None or ends.contains(0.0):
        return "no difference shown", None
    corrected = f", {p_value(p_corrected)} corrected for {tests} tests" if tests > 1 else ""
    return "can't tell", f"the interval leaves out 0, but p is {p_value(p)}{corrected}"
