"""Which rows of two systems are about the same query, and how their scores differ there.

Everything that compares uses ``match``: comparisons, gates and stop rules have one meaning of "the same query".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from typing import Any, NamedTuple, TypeVar

from ragassay.analysis.difference import Better, Contrast, Difference, bounds_of
from ragassay.analysis.models import Matching, Regression
from ragassay.core.models import Result, Score
from ragassay.core.protocols import AsksQuery
from ragassay.core.report import SystemReport
from ragassay.core.statistics import IncrementalCost, NonInferiority
from ragassay.datasets.dataset import NUMBERED, plain_text
from ragassay.evaluation.aggregate import cost_and_accuracy
from ragassay.evaluation.groups import Questions, questions_of, slice_value
from ragassay.metrics.metric import OPERATIONAL
from ragassay.stats.intervals import averaged, bootstrap_interval
from ragassay.stats.power import minimum_detectable_effect
from ragassay.stats.ratio import incremental_cost
from ragassay.stats.tests import non_inferiority

NOT_WORSE_MARGIN = 0.05  # "no worse" means by less than this share of a metric's range
POWER = 0.8
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

    def only(self, places: AbstractSet[int]) -> PairedScores:
        """Those of some of the matched rows."""
        kept = [n for n, place in enumerate(self.places) if place in places]
        return PairedScores([self.places[n] for n in kept], [self.a[n] for n in kept], [self.b[n] for n in kept])


@dataclass(frozen=True)
class PairedSystems:
    """The report ``a`` of the baseline with the report ``b`` of another system and their rows; ``contrast`` names them.

    ``max_missing``: the largest share of rows on which a reference judge may fail and still correct a difference.
    """

    a: SystemReport
    b: SystemReport
    rows_a: Sequence[Result]
    rows_b: Sequence[Result]
    contrast: Contrast
    max_missing: float = 0.05
    _scores: dict[str, PairedScores] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def rows(self) -> list[tuple[Result, Result]]:
        """The matched rows, in the order of ``a``."""
        return match(self.rows_a, self.rows_b)

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
            _by_text(row for row in rows if row.query_id not in ids)
            for rows, ids in zip((self.rows_a, self.rows_b), paired, strict=True)
        )
        repeated: list[Result] = []
        other_ids: list[Result] = []
        for text in [text for text in left_a if text in left_b]:
            once = len(left_a[text]) == len(left_b[text]) == 1
            (other_ids if once else repeated).extend(left_a[text])
        return repeated, other_ids

    def matching(self, *, same_dataset: bool) -> Matching:
        """How many rows belong together, and why the others don't."""
        a, b = self.rows_a, self.rows_b
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

    def difference(self, name: str, *, primary: bool) -> Difference:
        """One metric before any correction: the outcome is open until ``decided``.

        A metric that is not ``primary`` is exploratory.
        """
        better = self.a.metrics[name].better
        if not self.rows:
            a, b = (
                _means_of_questions([(row, _score(row, name).value) for row in rows])
                for rows in (self.rows_a, self.rows_b)
            )
            found = self.contrast.unpaired(name, a, b, better=better)
            coverage = _coverage(self.rows_a, self.rows_b, name)
        else:
            found = self._paired(name, self.scores(name))
            coverage = _coverage([row for row, _ in self.rows], [row for _, row in self.rows], name)
        if primary and found.paired:
            changes = [y - x for x, y in zip(*self._by_question(self.scores(name)), strict=True)]
            level, seed = 1 - self.contrast.alpha, self.contrast.seed
            coverage["bootstrap"] = bootstrap_interval(changes, level=level, seed=seed)
        return found.model_copy(update={"exploratory": not primary, **coverage})

    def _paired(self, name: str, both: PairedScores, *, tested: bool = True) -> Difference:
        """The difference of the scores; without a test it goes by the judge's own scores too."""
        rows = [self.rows[place] for place in both.places] if tested else ()
        questions = None if self.questions is None else self.questions[both.places]
        about: dict[str, Any] = {"better": self._better(name), "failed": self._failed, "tested": tested}
        return self.contrast.paired(name, rows, both.a, both.b, questions, **about)

    @property
    def _failed(self) -> str | None:
        """Why labels of a reference judge correct nothing."""
        references = [one.evaluation.reference for one in (self.a, self.b) if one.evaluation.reference]
        return next(filter(None, (one.too_many_failed(self.max_missing) for one in references)), None)

    def _by_question(self, both: PairedScores) -> tuple[Sequence[float], Sequence[float]]:
        """The scores of a and of b, averaged over the answers to each question."""
        if self.questions is None:
            return both.a, both.b
        return averaged(both.a, self.questions[both.places]), averaged(both.b, self.questions[both.places])

    def decided(self, difference: Difference, p: float | None, tests: int) -> Difference:
        """The difference with its ``p`` adjusted for so many ``tests``, and what follows from it."""
        alpha = self.contrast.alpha if difference.exploratory else self.contrast.alpha / tests
        decided = self.contrast.decided(difference, p, tests)
        if difference.labels is not None:
            return decided
        more = {"detectable": _detectable(difference, alpha), "not_worse": self._not_worse(difference, alpha)}
        return decided.model_copy(update=more)

    def _not_worse(self, difference: Difference, alpha: float) -> NonInferiority | None:
        name = difference.metric
        bounds, both = bounds_of(name, self.contrast.own), self.scores(name)
        if bounds is None or not both.a:
            return None
        margin, scale = NOT_WORSE_MARGIN * (bounds[1] - bounds[0]), self.contrast.scale(name)
        return non_inferiority(*self._by_question(both), margin, alpha=alpha / 2, better=difference.better, **scale)

    def slices(self, names: Sequence[str]) -> dict[str, dict[str, dict[str, Difference]]]:
        """Untested differences for each field that groups the baseline's rows, each of its values and each metric."""
        slices: dict[str, dict[str, dict[str, Difference]]] = {}
        for group, values in self.a.slices.items() if self.rows else ():
            if not values:
                continue
            places: dict[str, set[int]] = {}
            for n, (row, _) in enumerate(self.rows):
                if (value := slice_value(row, group)) is not None:
                    places.setdefault(value, set()).add(n)
            slices[group] = {
                value: {name: self._paired(name, self.scores(name).only(where), tested=False) for name in names}
                for value, where in sorted(places.items())
            }
        return slices

    def regressions(self, names: Sequence[str], limit: int) -> tuple[Regression, ...]:
        """The rows on which b is worse, each once: by each metric the worst, in the dataset's order if they are alike."""
        metrics_by_place: dict[int, list[str]] = {}
        for name in names:
            sign, both = self._sign(name), self.scores(name)
            changes = ((sign * (y - x), n) for x, y, n in zip(both.a, both.b, both.places, strict=True))
            for _, n in nsmallest(limit, ((change, n) for change, n in changes if change < -NOISE)):
                metrics_by_place.setdefault(n, []).append(name)
        return tuple(self._regression(n, by, names) for n, by in metrics_by_place.items())

    def _regression(self, place: int, by: Sequence[str], names: Sequence[str]) -> Regression:
        row, other = self.rows[place]
        # the reason of "accurate" repeats another metric's score; that metric's reason is the judge's
        reasons = (_score(other, name).reason for name in sorted(by, key=lambda name: name == "accurate"))
        return Regression(
            query_id=row.query_id,
            query_id_b=other.query_id,
            query=row.query,
            scores=self._worse(place, names),
            answer_a=row.answer,
            answer_b=other.answer,
            why=next(filter(None, reasons), None),
        )

    def _worse(self, place: int, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        row, other = self.rows[place]
        scores = {name: (_score(row, name).value, _score(other, name).value) for name in names}
        return {
            name: (x, y)
            for name, (x, y) in scores.items()
            if x is not None and y is not None and self._sign(name) * (y - x) < -NOISE
        }

    def _sign(self, name: str) -> int:
        return 1 if self._better(name) == "higher" else -1

    def _better(self, name: str) -> Better:
        return self.a.metrics[name].better if name in self.a.metrics else "lower"

    def operational(self) -> dict[str, Difference]:
        """Latency, tokens and cost, as far as both systems report them."""
        names = [name for name in OPERATIONAL if getattr(self.a, name).n and getattr(self.b, name).n]
        return {name: self._operational(name) for name in names}

    def _operational(self, name: str) -> Difference:
        if self.rows:
            both = _scored((n, getattr(row, name), getattr(other, name)) for n, (row, other) in enumerate(self.rows))
            return self._paired(name, both, tested=False)
        found = self.contrast.unpaired(name, _reported(self.rows_a, name), _reported(self.rows_b, name), better="lower")
        return found.model_copy(update={"exploratory": True})

    def incremental_cost(self) -> IncrementalCost:
        """The marginal cost of one more accurate answer, over the pairs whose cost and accuracy are known on both sides."""
        names = (self.contrast.a, self.contrast.b)
        pairs = [(cost_and_accuracy(row), cost_and_accuracy(other)) for row, other in self.rows]
        known = {n: (*a, *b) for n, (a, b) in enumerate(pairs) if a and b}
        columns = list(zip(*known.values(), strict=True)) or [(), (), (), ()]
        asked = None if self.questions is None else len(set(self.questions[list(known)].tolist()))
        return incremental_cost(*map(list, columns), names=names, questions=asked, level=1 - self.contrast.alpha)


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


def _detectable(difference: Difference, alpha: float) -> float | None:
    if not difference.sd or alpha >= POWER:
        return None
    return minimum_detectable_effect(difference.questions, difference.sd, alpha=alpha, power=POWER)


def _coverage(a: Sequence[Result], b: Sequence[Result], name: str) -> dict[str, Any]:
    """Of each system, how many rows are scored, and how many are not by reason."""
    missing = [Counter(score.reason for row in rows if (score := _score(row, name)).value is None) for rows in (a, b)]
    return {
        "n_a": len(a) - missing[0].total(),
        "n_b": len(b) - missing[1].total(),
        "missing_a": dict(missing[0]),
        "missing_b": dict(missing[1]),
    }


def _reported(rows: Sequence[Result], name: str) -> list[float]:
    return _means_of_questions([(row, getattr(row, name)) for row in rows])


def _means_of_questions(rows: Iterable[tuple[Result, float | None]]) -> list[float]:
    """The values that there are, averaged over the answers to each question."""
    known = [(row, value) for row, value in rows if value is not None]
    values, questions = [value for _, value in known], questions_of(row for row, _ in known)
    return values if questions is None else averaged(values, questions)
