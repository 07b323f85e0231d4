"""How the scores of two systems differ on the queries that both have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ragassay.analysis.difference import Better, Contrast, Difference
from ragassay.analysis.models import Matching, Regression
from ragassay.analysis.rows import SystemRows, match
from ragassay.core.report import SystemReport
from ragassay.core.statistics import IncrementalCost
from ragassay.datasets.dataset import NUMBERED
from ragassay.evaluation.groups import Questions, RowIndexes
from ragassay.metrics.metric import OPERATIONAL
from ragassay.stats.intervals import Floats, averaged, bootstrap_interval
from ragassay.stats.power import minimum_detectable_effect
from ragassay.stats.ratio import incremental_cost

POWER = 0.8
NOISE = 1e-9  # scores that differ by less are alike


@dataclass(frozen=True)
class PairedSystems:
    """The report ``a`` of the baseline with the report ``b`` of another system and their rows; ``contrast`` names them.

    ``max_failed_share``: the largest share of rows on which a reference judge may fail and still correct a difference.
    """

    a: SystemReport
    b: SystemReport
    rows_a: SystemRows
    rows_b: SystemRows
    contrast: Contrast
    max_failed_share: float = 0.05

    @cached_property
    def matched(self) -> tuple[RowIndexes, RowIndexes]:
        """Places of the matched rows in ``a`` and in ``b``, in the order of ``a``."""
        return match(self.rows_a, self.rows_b)

    @cached_property
    def questions(self) -> Questions:
        """The number of each matched row's question."""
        return self.rows_a.questions(self.matched[0])

    @property
    def pairs(self) -> int:
        """How many rows are matched."""
        return len(self.matched[0])

    def matching(self, *, same_dataset: bool) -> Matching:
        """How many rows belong together, and why the others don't."""
        a, b, (in_a, in_b) = self.rows_a, self.rows_b, self.matched
        left_a = set(a.ids) - {a.ids[place] for place in in_a.tolist()}
        left_b = set(b.ids) - {b.ids[place] for place in in_b.tolist()}
        different_text = sum(not NUMBERED.fullmatch(query_id) for query_id in left_a & left_b)
        return Matching(
            method="paired" if self.pairs else "unpaired",
            same_dataset=same_dataset,
            rows_a=len(a),
            rows_b=len(b),
            paired=self.pairs,
            only_a=len(left_a) - different_text,
            only_b=len(left_b) - different_text,
            different_text=different_text,
            different_truth=int((np.asarray(a.truths)[in_a] != np.asarray(b.truths)[in_b]).sum()),
        )

    def difference(self, name: str, *, primary: bool) -> Difference:
        """One metric before any correction: the outcome is open until ``decided``.

        A metric that is not ``primary`` is exploratory.
        """
        places = self.matched if self.pairs else (np.arange(len(self.rows_a)), np.arange(len(self.rows_b)))
        missing = [rows.missing(name, of) for rows, of in zip((self.rows_a, self.rows_b), places, strict=True)]
        more: dict[str, Any] = {
            "exploratory": not primary,
            "n_a": len(places[0]) - sum(missing[0].values()),
            "n_b": len(places[1]) - sum(missing[1].values()),
            "missing_a": missing[0],
            "missing_b": missing[1],
        }
        if not self.pairs:
            return self._unpaired(name).model_copy(update=more)
        if primary:
            a, b = self._by_question(name)
            more["bootstrap"] = bootstrap_interval(b - a, level=1 - self.contrast.alpha, seed=self.contrast.seed)
        return self._paired(name, self._scored(name)).model_copy(update=more)

    def _values(self, name: str) -> tuple[Floats, Floats]:
        """The scores of both systems on the matched rows, NaN if there is none."""
        return self.rows_a.values(name)[self.matched[0]], self.rows_b.values(name)[self.matched[1]]

    def _scored(self, name: str) -> RowIndexes:
        """Which of the matched rows have a score on both sides."""
        a, b = self._values(name)
        return np.flatnonzero(np.isfinite(a) & np.isfinite(b))

    def _paired(self, name: str, rows: RowIndexes, *, tested: bool = True) -> Difference:
        """The difference on some of the matched rows; without a test it goes by the judge's own scores too."""
        a, b = self._values(name)
        labels = None
        if tested and (name in self.rows_a.labels or name in self.rows_b.labels):
            of_a, of_b = self.rows_a.labels_of(name)[self.matched[0]], self.rows_b.labels_of(name)[self.matched[1]]
            labels = (of_b - of_a)[rows]
        return self.contrast.paired(
            name,
            a[rows],
            b[rows],
            better=self._better(name),
            questions=None if self.questions is None else self.questions[rows],
            labels=labels,
            failed=self._failed,
            tested=tested,
        )

    def _unpaired(self, name: str) -> Difference:
        """The difference of rows that are about other queries, by means of questions."""
        a, b = (
            averaged(values[known], rows.questions(known))
            for rows in (self.rows_a, self.rows_b)
            for values in (rows.values(name),)
            for known in (np.flatnonzero(np.isfinite(values)),)
        )
        return self.contrast.unpaired(name, a, b, better=self._better(name))

    @property
    def _failed(self) -> str | None:
        """Why labels of a reference judge correct nothing."""
        references = [one.evaluation.reference for one in (self.a, self.b) if one.evaluation.reference]
        return next(filter(None, (one.too_many_failed(self.max_failed_share) for one in references)), None)

    def _by_question(self, name: str) -> tuple[Floats, Floats]:
        """The scores of a and of b where both have one, averaged over the answers to each question."""
        (a, b), rows = self._values(name), self._scored(name)
        of_row = None if self.questions is None else self.questions[rows]
        return averaged(a[rows], of_row), averaged(b[rows], of_row)

    def decided(self, difference: Difference, p: float | None, tests: int) -> Difference:
        """The difference with its ``p`` adjusted for so many ``tests``, and what follows from it."""
        alpha = self.contrast.alpha if difference.exploratory else self.contrast.alpha / tests
        decided = self.contrast.decided(difference, p, tests)
        if difference.corrected_by is not None:
            return decided
        return decided.model_copy(update={"detectable": _detectable(difference, alpha)})

    def slices(self, names: Sequence[str]) -> dict[str, dict[str, dict[str, Difference]]]:
        """Untested differences for each field that groups the baseline's rows, each of its values and each metric."""
        scored = {name: self._scored(name) for name in names}
        slices: dict[str, dict[str, dict[str, Difference]]] = {}
        for group, values in self.a.slices.items() if self.pairs else ():
            if not values:
                continue
            slices[group] = {}
            for value, places in self.rows_a.slices(group).items():
                rows = np.flatnonzero(np.isin(self.matched[0], places))
                slices[group][value] = {
                    name: self._paired(name, np.intersect1d(rows, scored[name], assume_unique=True), tested=False)
                    for name in (names if len(rows) else ())
                }
        return {group: {value: by for value, by in values.items() if by} for group, values in slices.items()}

    def regressions(self, names: Sequence[str], limit: int) -> tuple[Regression, ...]:
        """The rows on which b is worse, each once: by each metric the worst, in the dataset's order if they are alike."""
        names_by_row: dict[int, list[str]] = {}
        for name in names:
            gain = self._gains(name)
            worse = np.flatnonzero(gain < -NOISE)
            if limit and len(worse) > limit:
                worse = worse[gain[worse] <= np.partition(gain[worse], limit - 1)[limit - 1]]
            for row in worse[np.argsort(gain[worse], kind="stable")[:limit]].tolist():
                names_by_row.setdefault(row, []).append(name)
        return tuple(self._regression(row, by, names) for row, by in names_by_row.items())

    def _gains(self, name: str) -> Floats:
        """How much better b is than a on each matched row."""
        a, b = self._values(name)
        return (b - a) * self._sign(name)

    def _sign(self, name: str) -> int:
        """1 if a higher value is better, -1 if a lower one is."""
        return 1 if self._better(name) == "higher" else -1

    def _regression(self, pair: int, by: Sequence[str], names: Sequence[str]) -> Regression:
        i, j = self.matched[0][pair], self.matched[1][pair]
        row, other = self.rows_a.results[i], self.rows_b.results[j]
        scores = {name: (float(self.rows_a.values(name)[i]), float(self.rows_b.values(name)[j])) for name in names}
        # the reason of "accurate" repeats another metric's score; that metric's reason is the judge's
        reasons = (other.scores[name].reason for name in sorted(by, key=lambda name: name == "accurate"))
        return Regression(
            query_id=row.query_id,
            query_id_b=other.query_id,
            query=row.query,
            scores={name: (a, b) for name, (a, b) in scores.items() if (b - a) * self._sign(name) < -NOISE},
            answer_a=row.answer,
            answer_b=other.answer,
            why=next(filter(None, reasons), None),
        )

    def _better(self, name: str) -> Better:
        return self.a.metrics[name].better if name in self.a.metrics else "lower"

    def operational(self) -> dict[str, Difference]:
        """Latency, tokens and cost, as far as both systems report them."""
        names = [name for name in OPERATIONAL if getattr(self.a, name).n and getattr(self.b, name).n]
        if self.pairs:
            return {name: self._paired(name, self._scored(name), tested=False) for name in names}
        return {name: self._unpaired(name).model_copy(update={"exploratory": True}) for name in names}

    def incremental_cost(self) -> IncrementalCost:
        """The marginal cost of one more accurate answer, over the pairs whose cost and accuracy are known on both sides."""
        names, columns = (self.contrast.a, self.contrast.b), [np.empty(0)] * 4
        rows = np.empty(0, np.int64)
        if "accurate" in self.a.metrics and "accurate" in self.b.metrics:
            columns = [*self._values("cost_usd"), *self._values("accurate")]
            rows = np.flatnonzero(np.isfinite(columns).all(axis=0))
        cost_a, cost_b, accurate_a, accurate_b = (column[rows] for column in columns)
        asked = None if self.questions is None else len(np.unique(self.questions[rows]))
        level = 1 - self.contrast.alpha
        return incremental_cost(cost_a, accurate_a, cost_b, accurate_b, names=names, questions=asked, level=level)


def _detectable(difference: Difference, alpha: float) -> float | None:
    if not difference.sd or alpha >= POWER:
        return None
    return minimum_detectable_effect(difference.questions, difference.sd, alpha=alpha, power=POWER)
