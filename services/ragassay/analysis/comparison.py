"""Reports -> Comparison: any number of systems, of one run or of several, against a baseline. Pure and seeded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from typing import Any, cast

import numpy as np

from ragassay.analysis.describe import overall, sentences
from ragassay.analysis.difference import Better, Contrast, Difference
from ragassay.analysis.models import ComparedSystem, Comparison, Matching, Pair, Pareto, Regression
from ragassay.analysis.rows import MatchedRows, SystemRows
from ragassay.analysis.sides import LabelledSystem, Side, labelled
from ragassay.core.errors import BadInput, BadSettings, UnknownName
from ragassay.core.eval_config import Correction
from ragassay.core.report import Provenance, ReportWithResults
from ragassay.core.statistics import IncrementalCost, without_intervals
from ragassay.datasets.dataset import NUMBERED
from ragassay.metrics.composite import described, own_metrics
from ragassay.metrics.metric import OPERATIONAL, parse
from ragassay.stats.intervals import averaged, bootstrap_interval
from ragassay.stats.power import minimum_detectable_effect
from ragassay.stats.ratio import incremental_cost, pareto_front
from ragassay.stats.tests import correct, correction_named

# What a verdict speaks of, in this order, where nobody chose metrics; cutoffs and near duplicates stay in the table.
HEADLINES = ("accurate", "correctness", "completeness", "faithfulness", "relevance", "ndcg@10", "recall@10")
EXAMPLES = 3
POWER = 0.8
NOISE = 1e-9  # scores that differ by less are alike
AXES: Mapping[str, Better] = {"accuracy": "higher", "cost_usd": "lower", "latency_p50_ms": "lower"}
SETTINGS = {"accurate": "accuracy rule", "relevant_from": "least relevant grade", "max_grade": "greatest grade"}


def compare(
    chosen: Sequence[Side | tuple[ReportWithResults, str | None]],
    *,
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
    alpha: float = 0.05,
    correction: str = "holm",
    examples: int = EXAMPLES,
) -> Comparison:
    """Every other system against the baseline, the first one unless named.

    ``chosen`` holds reports, each with the name of one of its systems or None for all of them, and perhaps with what the
    caller calls it (``Side``). ``metrics`` None stands for all that every system has; then the usual ones, ``HEADLINES``,
    are primary and the rest is exploratory. The randomisation test of each primary metric and system, Welch's where no
    query is shared, goes into one ``correction``. ``examples`` limits the rows
    listed per metric and cause.
    Raises BadInput where there are fewer than two systems, one is chosen twice, or no metric is common; UnknownName for
    a system, baseline or metric that is not there; BadSettings as ``check_terms`` does.
    """
    method = check_terms(alpha, correction, examples)
    systems = labelled(chosen)
    if len(systems) < 2:
        have = f"there is only {systems[0].label!r}" if systems else "there is none"
        raise BadInput(f"a comparison needs two systems, {have}", hint="name another run: ragassay compare A B")
    first = _baseline(systems, baseline)
    group = _group(first, [one for one in systems if one is not first], metrics, alpha, examples)
    return _compared([group], first.label, alpha, method, examples)


def compare_datasets(
    reports: Mapping[str, ReportWithResults], baseline: str, *, alpha: float = 0.05, correction: str = "holm"
) -> Comparison | None:
    """On each dataset, which has a report of the same systems, every other system against the ``baseline``.

    All tests go into one ``correction``. None if there is one system. Raises as ``compare`` does.
    """
    method = check_terms(alpha, correction, EXAMPLES)
    source = next(iter(reports.values())).provenance
    metrics = None if source.configuration.metrics is None else source.metrics
    groups = []
    for dataset, report in reports.items():
        of_dataset = "" if len(reports) == 1 else f" on {dataset}"
        systems = {name: LabelledSystem(f"{name}{of_dataset}", report, name) for name in report.systems}
        if len(systems) < 2:
            return None
        groups.append(_group(systems.pop(baseline), list(systems.values()), metrics, alpha, EXAMPLES))
    return _compared(groups, baseline, alpha, method, EXAMPLES)


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
        decided = self.contrast.decided(difference, p, tests)
        alpha = self.alpha if difference.exploratory else self.alpha / tests
        if difference.corrected_by is not None or not difference.sd or alpha >= POWER:
            return decided
        least = minimum_detectable_effect(difference.questions, difference.sd, alpha=alpha, power=POWER)
        return decided.model_copy(update={"detectable": least})

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


def _group(
    first: LabelledSystem, others: Sequence[LabelledSystem], metrics: Sequence[str] | None, alpha: float, examples: int
) -> list[PairedSystems]:
    """The other systems on a dataset, each with the first one."""
    names = _metrics((first, *others), metrics)
    primary = names if metrics is not None else [n for n in HEADLINES if n in names] or names[:5]
    rows = first.rows(first.part.slices, examples)
    return [PairedSystems(first, other, rows, other.rows((), examples), names, primary, alpha) for other in others]


def _compared(
    groups: Sequence[list[PairedSystems]], baseline: str, alpha: float, method: Correction, examples: int
) -> Comparison:
    """The document of groups of systems; the p values of all their primary metrics are corrected together."""
    every = [two for group in groups for two in group]
    tested = [[two.difference(name) for name in two.metrics] for two in every]
    spec = every[0].a.report.provenance.configuration
    if not spec.statistics.tests:
        untested = {"p": None, "reason": "left out: statistics.tests is false", "t_test": None}
        tested = [[one.model_copy(update=untested) for one in of_pair] for of_pair in tested]
    ps = [one.p for of_pair in tested for one in of_pair if not one.exploratory]
    family, adjusted = sum(p is not None for p in ps), iter(correct(ps, method))
    tests = 1 if method == "none" else max(1, family)
    pairs, said = [], []
    for two, of_pair in zip(every, tested, strict=True):
        decided = [two.decided(one, None if one.exploratory else next(adjusted), tests) for one in of_pair]
        pair = two.pair({one.metric: one for one in decided}, examples)
        differs = tuple(cautions(two.a.report.provenance, two.b.report.provenance))
        said.append(sentences(pair, two.primary, alpha, method, differs))
        pairs.append(pair.model_copy(update={"verdict": said[-1].verdict}))
    sides = {one.label: _system(one, rows) for two in every for one, rows in ((two.a, two.rows_a), (two.b, two.rows_b))}
    apart = {pair.b for pair in pairs if not pair.matching.paired}
    front = _pareto(sides, apart, baseline) if len(groups) == 1 else Pareto()
    comparison = Comparison(
        ragassay=metadata.version("ragassay"),
        baseline=baseline,
        sides=sides,
        metrics=tuple(dict.fromkeys(name for two in every for name in two.metrics)),
        primary=tuple(dict.fromkeys(name for two in every for name in two.primary)),
        alpha=alpha,
        correction=method,
        family=family,
        seed=spec.seed,
        warnings=tuple(warning for group in groups for warning in _warnings(group)),
        pairs=tuple(pairs),
        pareto=front,
        verdict=overall(pairs, said, front),
    )
    return comparison if spec.statistics.intervals else cast("Comparison", without_intervals(comparison))


def check_terms(alpha: float, correction: str, examples: int) -> Correction:
    """The correction of that name; BadSettings for one that is none, an alpha outside 0..1, or fewer than no examples."""
    if not 0 < alpha < 1:
        raise BadSettings(f"alpha must lie between 0 and 1, not {alpha:g}", hint="0.05 is usual")
    if examples < 0:
        raise BadSettings(f"examples must not be negative, not {examples}")
    return correction_named(correction)


def _baseline(systems: Sequence[LabelledSystem], name: str | None) -> LabelledSystem:
    if name is None:
        return systems[0]
    whole = {f"{one.report.run.id}#{one.system}": one for one in systems}
    known = {**whole, **{one.label: one for one in systems}}
    if name not in known:
        raise UnknownName("baseline", name, [one.label for one in systems])
    return known[name]


def _metrics(systems: Sequence[LabelledSystem], asked: Sequence[str] | None) -> list[str]:
    """Canonical names of the metrics to compare."""
    common = [n for n in systems[0].part.metrics if all(n in one.part.metrics for one in systems)]
    if asked is None:
        if not common:
            raise BadInput("the systems have no metric in common", hint="evaluate both with the same --metrics")
        return common
    known = {name.lower(): name for name in common}
    names = []
    for text in asked:
        name = known.get(text.strip().lower()) or parse(text).name
        if name not in common:
            lacking = next(one.label for one in systems if name not in one.part.metrics)
            raise BadInput(f"{lacking} has no {name}", hint=f"both have: {', '.join(common) or 'nothing'}")
        names.append(name)
    if not names:
        raise BadSettings("no metric is asked for", hint="leave metrics out for all of them")
    return list(dict.fromkeys(names))


def _system(one: LabelledSystem, rows: SystemRows) -> ComparedSystem:
    part, source = one.part, one.report.provenance
    return ComparedSystem(
        run=one.report.run.id,
        system=one.system,
        dataset=source.dataset,
        responses=source.systems.get(one.system),
        judge=_judge(source),
        queries=part.queries,
        accuracy=part.metrics["accurate"].value if "accurate" in part.metrics else None,
        cost_usd=part.cost_usd.mean,
        latency_p50_ms=part.latency_ms.p50,
        measured={name: known for name in OPERATIONAL if (known := getattr(part, name)).n},
        cost_per_accurate_answer=part.cost_per_accurate_answer,
        failures=rows.failures,
    )


def _pareto(sides: dict[str, ComparedSystem], apart: AbstractSet[str], baseline: str) -> Pareto:
    """The front of the systems that share questions with the baseline; those ``apart`` can't be placed."""
    axes = {axis: way for axis, way in AXES.items() if any(getattr(side, axis) is not None for side in sides.values())}
    points = {label: [getattr(side, axis) for axis in axes] for label, side in sides.items() if label not in apart}
    front = pareto_front(points, axes)
    unplaced = front.unplaced | dict.fromkeys(sorted(apart), f"it shares no question with {baseline}")
    return Pareto(axes=tuple(axes), systems=front.model_copy(update={"unplaced": unplaced}))


def _judge(source: Provenance) -> str:
    return str(source.judge.get("name", "unknown"))


def _warnings(group: Sequence[PairedSystems]) -> Iterator[str]:
    """What keeps the numbers from being comparable, or what was left out."""
    first, others = group[0].a, [two.b for two in group]
    for other in others:
        for difference in cautions(first.report.provenance, other.report.provenance):
            yield f"{first.label} and {other.label}: {difference}"
    for one in (first, *others):
        if one.report.run.status != "finished":
            yield f"{one.label}: run {one.report.run.id} is incomplete"
        if marked := one.part.evaluation.suspicious:
            yield f"{one.label}: {marked} of {one.part.queries} rows are suspicious: their scores may be steered"
    for name in dict.fromkeys(name for one in (first, *others) for name in one.part.metrics):
        without = [one.label for one in (first, *others) if name not in one.part.metrics]
        if without:
            yield f"{name} is not compared: {', '.join(without)} did not compute it"


def cautions(a: Provenance, b: Provenance) -> Iterator[str]:
    """What was not the same when two runs were evaluated: judge, embeddings, settings, code, dataset."""
    if a.judge != b.judge:
        if _judge(a) != _judge(b):
            yield f"not the same judge: {_judge(a)} and {_judge(b)}"
        else:
            parts = [key for key in sorted({*a.judge, *b.judge}) if a.judge.get(key) != b.judge.get(key)]
            yield f"not the same judge: {_judge(a)} with other settings ({', '.join(parts)})"
    if a.embeddings != b.embeddings:
        yield f"not the same embeddings: {a.embeddings or 'none'} and {b.embeddings or 'none'}"
    for field, what in SETTINGS.items():
        left, right = (getattr(source.configuration, field) for source in (a, b))
        if left != right:
            yield f"not the same {what}: {left} and {right}"
    left, right = a.configuration.composites, b.configuration.composites
    for name in sorted(left.keys() & right.keys()):
        if left[name] != right[name]:
            yield f"not the same {name}: {described(left[name])} and {described(right[name])}"
    if a.code_digest != b.code_digest:
        yield f"not the same code: ragassay {a.ragassay} and {b.ragassay}, digests differ"
    if a.dataset.digest != b.dataset.digest:
        names = (f"{one.dataset.name} ({one.dataset.rows} queries)" for one in (a, b))
        yield f"not the same dataset: {' and '.join(names)} differ in questions, truths or labels"
