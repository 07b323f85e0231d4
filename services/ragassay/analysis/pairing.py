"""How the scores of two systems differ on the queries that both have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ragassay.analysis.difference import Better, Contrast, Difference
from ragassay.analysis.models import Matching, Pair, Regression
from ragassay.analysis.rows import MatchedRows, SystemRows
from ragassay.analysis.sides import LabelledSystem
from ragassay.core.statistics import IncrementalCost
from ragassay.datasets.dataset import NUMBERED
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import OPERATIONAL
from ragassay.stats.intervals import averaged, bootstrap_interval
from ragassay.stats.power import minimum_detectable_effect
from ragassay.stats.ratio import incremental_cost

POWER = 0.8
NOISE = 1e-9  # scores that differ by less are alike


@dataclass(frozen=True)
class PairedSystems:
    """The baseline ``a`` and another system ``b`` with their rows, to be compared by ``metrics``.

    The ``primary`` ones are tested together at level ``alpha``, the others are exploratory.
    """

    a: LabelledSystem
    b: LabelledSystem
    rows_a: SystemRows
    rows_b: SystemRows
    metrics: Sequence[str]
    primary: Sequence[str]
    alpha: float

    @cached_property
    def contrast(self) -> Contrast:
        """The names of the two, and what all differences between them share."""
        source = self.a.report.provenance
        own = own_metrics(source.configuration)
        return Contrast(self.a.label, self.b.label, source.dataset.name, self.alpha, source.configuration.seed, own)

    @cached_property
    def matched(self) -> MatchedRows:
        """The rows about the same queries, in the order of ``a``."""
        return self.rows_a.matched(self.rows_b)

    def pair(self, deltas: dict[str, Difference], examples: int) -> Pair:
        """What differs between the two, by ``deltas`` that are decided; without a verdict."""
        sources = [one.report.provenance for one in (self.a, self.b)]
        by = {source.configuration.corrected_by for source in sources}
        return Pair(
            a=self.a.label,
            b=self.b.label,
            matching=self._matching(same_dataset=sources[0].dataset.digest == sources[1].dataset.digest),
            metrics=deltas,
            measured=self._operational(),
            incremental_cost=self._incremental_cost(),
            slices=self._slices(),
            regressions=self._regressions(list(dict.fromkeys((*self.primary, *self.metrics))), examples),
            verdict=(),
            corrected_by=by.pop() if len(by) == 1 else "labels",
        )

    def _matching(self, *, same_dataset: bool) -> Matching:
        """How many rows belong together, and why the others don't."""
        a, b, pairs = self.rows_a, self.rows_b, self.matched
        left_a = set(a.ids) - {a.ids[place] for place in pairs.in_a.tolist()}
        left_b = set(b.ids) - {b.ids[place] for place in pairs.in_b.tolist()}
        different_text = sum(not NUMBERED.fullmatch(query_id) for query_id in left_a & left_b)
        return Matching(
            method="paired" if pairs else "unpaired",
            same_dataset=same_dataset,
            rows_a=len(a),
            rows_b=len(b),
            paired=len(pairs),
            only_a=len(left_a) - different_text,
            only_b=len(left_b) - different_text,
            different_text=different_text,
            different_truth=int((np.asarray(a.truths)[pairs.in_a] != np.asarray(b.truths)[pairs.in_b]).sum()),
        )

    def difference(self, name: str) -> Difference:
        """One metric before any correction: the outcome is open until ``decided``."""
        pairs, (a, b) = self.matched, (self.rows_a, self.rows_b)
        places = (pairs.in_a, pairs.in_b) if pairs else (np.arange(len(a)), np.arange(len(b)))
        missing = a.missing(name, places[0]), b.missing(name, places[1])
        more: dict[str, Any] = {
            "exploratory": name not in self.primary,
            "n_a": len(places[0]) - sum(missing[0].values()),
            "n_b": len(places[1]) - sum(missing[1].values()),
            "missing_a": missing[0],
            "missing_b": missing[1],
        }
        if not pairs:
            return self._unpaired(name).model_copy(update=more)
        if name in self.primary:
            scored = pairs.scored(name)
            first, second = (averaged(column, scored.questions) for column in scored.values(name))
            more["bootstrap"] = bootstrap_interval(second - first, level=1 - self.alpha, seed=self.contrast.seed)
        return self._paired(name, pairs).model_copy(update=more)

    def _paired(self, name: str, rows: MatchedRows, *, tested: bool = True) -> Difference:
        """The difference on matched rows; without a test it goes by the judge's own scores."""
        limit = self.a.report.provenance.configuration.max_failed_share
        return self.contrast.of_rows(
            name, rows, better=self._better(name), max_failed=limit, tested=tested, by_labels=tested
        )

    def _unpaired(self, name: str) -> Difference:
        """The difference of rows that are about other queries, by means of questions."""
        means = []
        for rows in (self.rows_a, self.rows_b):
            known = np.flatnonzero(np.isfinite(rows.values(name)))
            means.append(averaged(rows.values(name)[known], rows.questions(known)))
        return self.contrast.unpaired(name, *means, better=self._better(name))

    def decided(self, difference: Difference, p: float | None, tests: int) -> Difference:
        """The difference with its ``p`` adjusted for so many ``tests``, and what follows from it."""
        alpha = self.alpha if difference.exploratory else self.alpha / tests
        decided = self.contrast.decided(difference, p, tests)
        if difference.corrected_by is not None:
            return decided
        return decided.model_copy(update={"detectable": _detectable(difference, alpha)})

    def _slices(self) -> dict[str, dict[str, dict[str, Difference]]]:
        """Untested differences for each field that groups the baseline's rows, each of its values and each metric."""
        slices: dict[str, dict[str, dict[str, Difference]]] = {}
        for group, values in self.a.part.slices.items() if self.matched else ():
            if not values:
                continue
            slices[group] = {}
            for value, places in self.rows_a.slices(group).items():
                if rows := self.matched.only(np.isin(self.matched.in_a, places)):
                    slices[group][value] = {name: self._paired(name, rows, tested=False) for name in self.metrics}
        return slices

    def _regressions(self, names: Sequence[str], limit: int) -> tuple[Regression, ...]:
        """The rows on which b is worse, each once: by each metric the worst, in the dataset's order if they are alike."""
        names_by_row: dict[int, list[str]] = {}
        for name in names:
            a, b = self.matched.values(name)
            gain = (b - a) * self._sign(name)
            worse = np.flatnonzero(gain < -NOISE)
            if limit and len(worse) > limit:
                worse = worse[gain[worse] <= np.partition(gain[worse], limit - 1)[limit - 1]]
            for row in worse[np.argsort(gain[worse], kind="stable")[:limit]].tolist():
                names_by_row.setdefault(row, []).append(name)
        return tuple(self._regression(row, by, names) for row, by in names_by_row.items())

    def _sign(self, name: str) -> int:
        """1 if a higher value is better, -1 if a lower one is."""
        return 1 if self._better(name) == "higher" else -1

    def _regression(self, pair: int, by: Sequence[str], names: Sequence[str]) -> Regression:
        i, j = self.matched.in_a[pair], self.matched.in_b[pair]
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
        metrics = self.a.part.metrics
        return metrics[name].better if name in metrics else "lower"

    def _operational(self) -> dict[str, Difference]:
        """Latency, tokens and cost, as far as both systems report them."""
        names = [name for name in OPERATIONAL if getattr(self.a.part, name).n and getattr(self.b.part, name).n]
        if self.matched:
            return {name: self._paired(name, self.matched, tested=False) for name in names}
        return {name: self._unpaired(name).model_copy(update={"exploratory": True}) for name in names}

    def _incremental_cost(self) -> IncrementalCost:
        """The marginal cost of one more accurate answer, over the pairs whose cost and accuracy are known on both sides."""
        pairs = self.matched.scored("cost_usd", "accurate")
        (cost_a, cost_b), (accurate_a, accurate_b) = pairs.values("cost_usd"), pairs.values("accurate")
        return incremental_cost(
            cost_a,
            accurate_a,
            cost_b,
            accurate_b,
            names=(self.a.label, self.b.label),
            questions=None if pairs.questions is None else len(np.unique(pairs.questions)),
            level=1 - self.alpha,
        )


def _detectable(difference: Difference, alpha: float) -> float | None:
    if not difference.sd or alpha >= POWER:
        return None
    return minimum_detectable_effect(difference.questions, difference.sd, alpha=alpha, power=POWER)
