"""Reports -> Comparison: any number of systems, of one run or of several, against a baseline. Pure and seeded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from itertools import chain, groupby
from typing import Any, cast

import numpy as np

from ragassay.analysis.describe import MAX_PAIRS, Sentences, accuracy_sentence, overall, pairs_to_show, sentences
from ragassay.analysis.difference import Contrast, Difference
from ragassay.analysis.models import ComparedSystem, Comparison, Matching, Pair, Regression
from ragassay.analysis.rows import MatchedRows, SystemRows
from ragassay.analysis.sides import LabelledSystem, Side, labelled
from ragassay.core.errors import AssayError, BadInput, BadSettings, UnknownName
from ragassay.core.eval_config import Correction, RunConfig
from ragassay.core.report import Provenance, ReportWithResults
from ragassay.core.statistics import IncrementalCost, ParetoFront, without_intervals
from ragassay.datasets.dataset import NUMBERED
from ragassay.metrics.composite import custom_metrics, described
from ragassay.metrics.metric import OPERATIONAL, Better, parse
from ragassay.stats.intervals import Floats, Questions, averaged, bootstrap_interval
from ragassay.stats.power import minimum_detectable_effect
from ragassay.stats.ratio import incremental_cost, pareto_front
from ragassay.stats.tests import correct, correction_named

# The metrics of a verdict, in this order, unless some are chosen; other cutoffs and near duplicates are in the table only.
HEADLINES = ("accurate", "correctness", "completeness", "faithfulness", "relevance", "ndcg@10", "recall@10")
EXAMPLES = 3
MAX_COMPARED = 1000  # queries of a report whose systems its verdict compares by all metrics
POWER = 0.8
NOISE = 1e-9  # scores that differ by less are alike
AXES: Mapping[str, Better] = {"accuracy": "higher", "cost_usd": "lower", "latency_p50_ms": "lower"}
SETTINGS = {"accurate": "accuracy rule", "relevant_from": "least relevant grade", "max_grade": "greatest grade"}


def compare(
    chosen: Sequence[Side | tuple[ReportWithResults, str | None]],
    *,
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
    alpha: float | None = None,
    correction: str | None = None,
    examples: int = EXAMPLES,
) -> Comparison:
    """Every other system against the baseline, the first one unless named.

    ``chosen`` holds reports, each with the name of one of its systems or None for all of them, and perhaps with what the
    caller calls it (``Side``). ``metrics`` None means all that every system has; then the usual ones, ``HEADLINES``,
    are primary and the rest is exploratory. The randomisation test of each primary metric and system, Welch's where no
    query is shared, goes into one ``correction``, which is that of the baseline's run unless named, and so is ``alpha``.
    ``examples`` limits the rows listed per metric.
    Raises BadInput where there are fewer than two systems, one is chosen twice, or no metric is common; UnknownName for
    a system, baseline or metric that is not there; BadSettings as ``check_terms`` does.
    """
    check_terms(alpha, correction, examples)
    systems = labelled(chosen)
    if len(systems) < 2:
        have = f"there is only {systems[0].label!r}" if systems else "there is none"
        raise BadInput(f"a comparison needs two systems, {have}", hint="name another run, or other data")
    first = systems[0] if baseline is None else _named(systems, baseline)
    statistics = first.report.provenance.configuration.statistics
    level = statistics.alpha if alpha is None else alpha
    pairs = _pairs(first, [one for one in systems if one is not first], metrics, level)
    method = statistics.correction if correction is None else correction_named(correction)
    return _compared(pairs, first.label, method, examples)


def compare_datasets(reports: Mapping[str, ReportWithResults], baseline: str) -> Comparison | None:
    """On each dataset, which has a report of the same systems, every other system against the ``baseline``.

    All tests go into the correction of their configuration. None if there is one system. Raises as ``compare`` does.
    """
    source = next(iter(reports.values())).provenance
    statistics = source.configuration.statistics
    metrics = None if source.configuration.metrics is None else source.metrics
    pairs: list[PairedSystems] = []
    for dataset, report in reports.items():
        of_dataset = "" if len(reports) == 1 else f" on {dataset}"
        systems = {name: LabelledSystem(f"{name}{of_dataset}", report, name) for name in report.systems}
        if len(systems) < 2:
            return None
        pairs += _pairs(systems.pop(baseline), list(systems.values()), metrics, statistics.alpha)
    return _compared(pairs, baseline, statistics.correction, EXAMPLES)


def check_terms(alpha: float | None, correction: str | None, examples: int) -> None:
    """Raise BadSettings for a correction that is none, an alpha outside 0..1, or fewer than no examples."""
    if alpha is not None and not 0 < alpha < 1:
        raise BadSettings(f"alpha must lie between 0 and 1, not {alpha:g}", hint="0.05 is usual")
    if examples < 0:
        raise BadSettings(f"examples must not be negative, not {examples}")
    if correction is not None:
        correction_named(correction)


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
        spec, labels = source.configuration, (self.a.label, self.b.label)
        custom, tests = custom_metrics(spec), spec.statistics.tests
        return Contrast(*labels, source.dataset.name, self.alpha, spec.seed, custom, tests=tests)

    @cached_property
    def matched(self) -> MatchedRows:
        """The rows about the same queries, in the order of ``a``."""
        return self.rows_a.matched(self.rows_b)

    def pair(self, differences: dict[str, Difference], examples: int) -> Pair:
        """What differs between the two, by ``differences`` that are decided; without a verdict."""
        sources = [one.report.provenance for one in (self.a, self.b)]
        by = {source.configuration.corrected_by for source in sources}
        operational = [name for name in OPERATIONAL if getattr(self.a.part, name).n and getattr(self.b.part, name).n]
        return Pair(
            a=self.a.label,
            b=self.b.label,
            matching=self._matching(same_dataset=sources[0].dataset.digest == sources[1].dataset.digest),
            metrics=differences,
            measured={name: self._untested(name, self.matched) for name in operational},
            incremental_cost=self._incremental_cost(),
            slices=dict(self._slices()),
            regressions=tuple(self._regressions(examples)),
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
        pairs, (a, b), is_primary = self.matched, (self.rows_a, self.rows_b), name in self.primary
        missing_a = a.missing(name, pairs.in_a if pairs else np.arange(len(a)))
        missing_b = b.missing(name, pairs.in_b if pairs else np.arange(len(b)))
        update: dict[str, Any] = {"exploratory": not is_primary, "missing_a": missing_a, "missing_b": missing_b}
        if not pairs:
            return self._unpaired(name).model_copy(update=update)
        update["n_a"], update["n_b"] = (len(pairs) - sum(one.values()) for one in (missing_a, missing_b))
        if is_primary:
            scored = pairs.scored(name)
            first, second = (averaged(column, scored.questions) for column in scored.values(name))
            update["bootstrap"] = bootstrap_interval(second - first, level=1 - self.alpha, seed=self.contrast.seed)
        limit = self.a.report.provenance.configuration.max_failed_share
        difference = self.contrast.of_rows(name, pairs, better=self._better(name), max_failed=limit)
        return difference.model_copy(update=update)

    def decided(self, difference: Difference, p: float | None, tests: int) -> Difference:
        """The difference with its ``p`` adjusted for so many ``tests``, and what follows from it."""
        decided = self.contrast.decided(difference, p, tests)
        alpha = self.alpha if difference.exploratory else self.alpha / tests
        if difference.corrected_by is not None or not difference.sd or alpha >= POWER:
            return decided
        mde = minimum_detectable_effect(difference.questions, difference.sd, alpha=alpha, power=POWER)
        return decided.model_copy(update={"mde": mde})

    def _untested(self, name: str, rows: MatchedRows) -> Difference:
        """An exploratory difference by the judge's own scores, without a test if the systems share queries."""
        if not self.matched:
            return self._unpaired(name).model_copy(update={"exploratory": True})
        better = self._better(name)
        return self.contrast.of_rows(name, rows, better=better, max_failed=1.0, tested=False, by_labels=False)

    def _unpaired(self, name: str) -> Difference:
        """The difference of rows that are about other queries, by means of questions."""
        means: list[Floats] = []
        counts = []
        for rows in (self.rows_a, self.rows_b):
            known = np.flatnonzero(np.isfinite(rows.values(name)))
            counts.append(len(known))
            means.append(averaged(rows.values(name)[known], rows.questions(known)))
        difference = self.contrast.unpaired(name, *means, better=self._better(name))
        return difference.model_copy(update={"n_a": counts[0], "n_b": counts[1]})

    def _slices(self) -> Iterator[tuple[str, dict[str, dict[str, Difference]]]]:
        """Untested differences for each field that groups the baseline's rows, each of its values and each metric."""
        for group, values in self.a.part.slices.items() if self.matched else ():
            of_value = {
                value: self.matched.only(np.isin(self.matched.in_a, places))
                for value, places in self.rows_a.slices(group).items()
            }
            if values:
                yield (
                    group,
                    {
                        value: {name: self._untested(name, rows) for name in self.metrics}
                        for value, rows in of_value.items()
                        if rows
                    },
                )

    def _regressions(self, limit: int) -> Iterator[Regression]:
        """The rows on which b is worse, each once: by each metric the worst, in the dataset's order if they are alike.

        A row that became accurate is none, whatever else is lower.
        """
        names = list(dict.fromkeys((*self.primary, *self.metrics)))
        names_by_row: dict[int, list[str]] = {}
        gains = {name: self._gain(name) for name in names}
        became_accurate = gains["accurate"] > NOISE if "accurate" in gains else False
        for name, gain in gains.items():
            worse = np.flatnonzero((gain < -NOISE) & ~np.array(became_accurate))
            for row in worse[np.argsort(gain[worse], kind="stable")[:limit]].tolist():
                names_by_row.setdefault(row, []).append(name)
        a, b = ({name: self.matched.values(name)[side] for name in names} for side in (0, 1))
        for pair, by in names_by_row.items():
            row = self.rows_a.results[self.matched.in_a[pair]]
            other = self.rows_b.results[self.matched.in_b[pair]]
            # the reason of "accurate" repeats another metric's score; that metric's reason is the judge's
            reasons = (other.scores[name].reason for name in sorted(by, key=lambda name: name == "accurate"))
            yield Regression(
                query_id=row.query_id,
                query_id_b=other.query_id,
                query=row.query,
                scores={name: (a[name][pair], b[name][pair]) for name in names if gains[name][pair] < -NOISE},
                answer_a=row.answer,
                answer_b=other.answer,
                why=next(filter(None, reasons), None),
            )

    def _gain(self, name: str) -> Floats:
        """By how much b is better on each matched row, NaN where a score is missing."""
        a, b = self.matched.values(name)
        return b - a if self._better(name) == "higher" else a - b

    def _better(self, name: str) -> Better:
        metrics = self.a.part.metrics
        return metrics[name].better if name in metrics else "lower"

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


def _pairs(
    first: LabelledSystem, others: Sequence[LabelledSystem], metrics: Sequence[str] | None, alpha: float
) -> list[PairedSystems]:
    """The other systems on a dataset, each with the first one."""
    names = _metrics((first, *others), metrics)
    primary = names if metrics is not None else [n for n in HEADLINES if n in names] or names[:5]
    rows = first.rows(first.part.slices)
    return [PairedSystems(first, other, rows, other.rows(), names, primary, alpha) for other in others]


def _compared(every: Sequence[PairedSystems], baseline: str, method: Correction, examples: int) -> Comparison:
    """The document; the p values of the primary metrics of all pairs are corrected together."""
    alpha, spec = every[0].alpha, every[0].a.report.provenance.configuration
    tested = [[two.difference(name) for name in two.metrics] for two in every]
    ps = [one.p for one in chain.from_iterable(tested) if not one.exploratory]
    family, adjusted = sum(p is not None for p in ps), iter(correct(ps, method))
    tests = 1 if method == "none" else max(1, family)
    pairs, of_pairs = list[Pair](), list[Sentences]()
    for two, of_pair in zip(every, tested, strict=True):
        decided = [two.decided(one, None if one.exploratory else next(adjusted), tests) for one in of_pair]
        pair = two.pair({one.metric: one for one in decided}, examples)
        differ = tuple(cautions(two.a.report.provenance, two.b.report.provenance))
        shown = pair if spec.statistics.intervals else without_intervals(pair)
        of_pairs.append(sentences(shown, two.primary, alpha, method, differ))
        pairs.append(pair.model_copy(update={"verdict": tuple(filter(None, of_pairs[-1]))}))
    sides = {one.label: _system(one) for two in every for one in (two.a, two.b)}
    apart = sorted({pair.b for pair in pairs if not pair.matching.paired})
    by_dataset = [list(of_dataset) for _, of_dataset in groupby(every, key=lambda two: two.a.label)]
    front = _pareto(sides, apart, baseline) if len(by_dataset) == 1 else ParetoFront()
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
        warnings=tuple(chain.from_iterable(map(_warnings, by_dataset))),
        pairs=tuple(pairs),
        pareto=front,
        verdict=overall(pairs, of_pairs, front),
    )
    return comparison if spec.statistics.intervals else cast("Comparison", without_intervals(comparison))


def _named(systems: Sequence[LabelledSystem], name: str) -> LabelledSystem:
    known = {f"{one.report.run.id}#{one.system}": one for one in systems} | {one.label: one for one in systems}
    if name not in known:
        raise UnknownName("baseline", name, [one.label for one in systems])
    return known[name]


def _metrics(systems: Sequence[LabelledSystem], asked: Sequence[str] | None) -> list[str]:
    """Canonical names of the metrics to compare."""
    common = [n for n in systems[0].part.metrics if all(n in one.part.metrics for one in systems)]
    if asked is None and not common:
        raise BadInput("the systems have no metric in common", hint="evaluate both with the same --metrics")
    if asked is None:
        return common
    names = [next((n for n in common if n.lower() == text.strip().lower()), "") or parse(text).name for text in asked]
    for name in names:
        if name not in common:
            lacking = next(one.label for one in systems if name not in one.part.metrics)
            raise BadInput(f"{lacking} has no {name}", hint=f"both have: {', '.join(common) or 'nothing'}")
    if not names:
        raise BadSettings("no metric is asked for", hint="leave metrics out for all of them")
    return list(dict.fromkeys(names))


def _system(one: LabelledSystem) -> ComparedSystem:
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
        fix_first=part.fix_first,
    )


def _pareto(sides: dict[str, ComparedSystem], apart: Sequence[str], baseline: str) -> ParetoFront:
    """The front of the systems that share questions with the baseline; those ``apart`` can't be placed."""
    axes = {axis: way for axis, way in AXES.items() if any(getattr(side, axis) is not None for side in sides.values())}
    points = {label: [getattr(side, axis) for axis in axes] for label, side in sides.items() if label not in apart}
    front = pareto_front(points, axes)
    unplaced = front.unplaced | dict.fromkeys(apart, f"it shares no question with {baseline}")
    return front.model_copy(update={"unplaced": unplaced})


def _judge(source: Provenance) -> str:
    return str(source.judge.get("name", "unknown"))


def _warnings(of_dataset: Sequence[PairedSystems]) -> Iterator[str]:
    """What keeps the numbers of the pairs of one dataset from being comparable, or what was left out."""
    for two in of_dataset:
        for difference in cautions(two.a.report.provenance, two.b.report.provenance):
            yield f"{two.a.label} and {two.b.label}: {difference}"
    systems = list({one.label: one for two in of_dataset for one in (two.a, two.b)}.values())
    for one in systems:
        if one.report.run.status != "finished":
            yield f"{one.label}: run {one.report.run.id} is incomplete"
        if marked := one.part.evaluation.suspicious:
            yield f"{one.label}: {marked} of {one.part.queries} rows are suspicious: their scores may be steered"
    for name in dict.fromkeys(name for one in systems for name in one.part.metrics):
        if without := [one.label for one in systems if name not in one.part.metrics]:
            yield f"{name} is not compared: {', '.join(without)} did not compute it"


def cautions(a: Provenance, b: Provenance) -> Iterator[str]:
    """What was not the same when two runs were evaluated: judge, embeddings, settings, code, dataset."""
    judges = _judge(a), _judge(b)
    if judges[0] != judges[1]:
        yield f"not the same judge: {judges[0]} and {judges[1]}"
    elif parts := [key for key in sorted({*a.judge, *b.judge}) if a.judge.get(key) != b.judge.get(key)]:
        yield f"not the same judge: {judges[0]} with other settings ({', '.join(parts)})"
    compared = {"embeddings": (a.embeddings or "none", b.embeddings or "none")}
    compared |= {what: (getattr(a.configuration, key), getattr(b.configuration, key)) for key, what in SETTINGS.items()}
    for what, (one, other) in compared.items():
        if one != other:
            yield f"not the same {what}: {one} and {other}"
    left, right = a.configuration.composites, b.configuration.composites
    for name in sorted(left.keys() & right.keys()):
        if left[name] != right[name]:  # by weights, which may be written in another order
            yield f"not the same {name}: {described(left[name])} and {described(right[name])}"
    if a.code_digest != b.code_digest:
        yield f"not the same code: ragassay {a.ragassay} and {b.ragassay}, digests differ"
    if a.dataset.digest != b.dataset.digest:
        names = (f"{one.dataset.name} ({one.dataset.rows} queries)" for one in (a, b))
        yield f"not the same dataset: {' and '.join(names)} differ in questions, truths or labels"


def verdict(report: ReportWithResults) -> tuple[str, ...]:
    """Each system of a report against the first: accuracy, the metrics that differ, cost and time. Empty for one system.

    Above 1,000 queries: on accurate answers alone. If the systems can't be compared, the reason.
    """
    spec = report.provenance.configuration
    if len(report.systems) < 2:
        return ()
    if report.provenance.dataset.rows > MAX_COMPARED:
        results = report.results
        if "accurate" not in report.provenance.metrics or len(set(map(len, results.values()))) > 1:
            return ()
        rows = {name: SystemRows(of_system, ("accurate",)) for name, of_system in results.items()}
        questions = next(iter(rows.values())).questions(np.arange(len(next(iter(rows.values())))))
        scores = {name: of_system.values("accurate") for name, of_system in rows.items()}
        return tuple(by_accuracy(scores, questions, spec))
    try:
        comparison = compare([(report, None)])
    except AssayError as error:
        return (error.message,)
    lines: list[str] = []
    for pair in (comparison.pairs[n] for n in pairs_to_show(comparison.pairs)):
        of_pair = sentences(pair, comparison.primary, comparison.alpha, comparison.correction)
        lines += filter(None, (of_pair.in_short, of_pair.finding, of_pair.price))
    more = len(comparison.pairs) - MAX_PAIRS
    return (*lines, f"{more} more systems are in the comparison.") if more > 0 else tuple(lines)


def by_accuracy(scores: Mapping[str, Any], questions: Questions, spec: RunConfig) -> Iterator[str]:
    """How often each system is accurate against the first one. ``scores``: (queries,) by system, NaN if unknown."""
    baseline, *others = scores
    for name in others:
        known = np.isfinite(scores[name]) & np.isfinite(scores[baseline])
        if not known.any():
            continue
        contrast = Contrast(baseline, name, "", spec.statistics.alpha, spec.seed, tests=spec.statistics.tests)
        groups = None if questions is None else questions[known]
        difference = contrast.paired(
            "accurate", scores[baseline][known], scores[name][known], questions=groups, better="higher"
        )
        difference = contrast.decided(difference, difference.p, 1)
        yield accuracy_sentence(difference if spec.statistics.intervals else without_intervals(difference))
