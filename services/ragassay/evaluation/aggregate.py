"""Results -> Report: one pass over the rows of each system, so a report can be made again at any time."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations, islice

import numpy as np

from ragassay.core.cost_sums import Between, CostPerAccurate, RatioSums
from ragassay.core.models import Result, Score
from ragassay.core.report import (
    Aggregate,
    Distribution,
    Evaluation,
    MeanBounds,
    Provenance,
    ReferenceJudge,
    Refusals,
    Report,
    RunInfo,
    Share,
    Slice,
    SystemReport,
)
from ragassay.core.specification import JobSpec
from ragassay.core.statistics import CorrectedMean, Interval
from ragassay.evaluation.accumulators import ScoreColumn, SystemAggregator, reference_judge, sums_where_known
from ragassay.evaluation.groups import Questions, RowIndexes
from ragassay.judges.local import NAMES
from ragassay.judges.support import left_out
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import Metric, parse
from ragassay.stats.intervals import Floats, averaged, mean_interval, wilson_interval
from ragassay.stats.ppi import METHOD, corrected_mean
from ragassay.stats.ratio import Stratum, difference_sums_interval, sums_interval
from ragassay.systems.load import cautions

MAX_PAIRED = 10  # systems of which every two are compared by their costs
_ALL = slice(None)
logger = logging.getLogger("ragassay")


def aggregate(
    run_id: str,
    created_at: str,
    provenance: Provenance,
    results: Mapping[str, Iterable[Result]],
    *,
    expected: int,
) -> Report:
    """The report on all systems, whose results are read once; incomplete when a system has fewer than ``expected``."""
    now, spec = datetime.now(UTC), provenance.configuration
    metrics = tuple(parse(name, own_metrics(spec)) for name in provenance.metrics)
    names = [metric.name for metric in metrics]
    counted = {name: SystemAggregator.of(rows, names) for name, rows in results.items()}
    _log_end(run_id, counted)
    systems = {name: _system(one, metrics, spec, _configuration(provenance, name)) for name, one in counted.items()}
    return Report(
        run=RunInfo(
            id=run_id,
            status="finished" if all(one.rows == expected for one in counted.values()) else "incomplete",
            rows=expected * len(counted),
            rows_done=sum(one.rows for one in counted.values()),
            created_at=created_at,
            finished_at=now.isoformat(timespec="milliseconds"),
            duration_s=round((now - datetime.fromisoformat(created_at)).total_seconds(), 3),
        ),
        provenance=provenance,
        cautions=(*_cautions(provenance, counted), *_cautions_of_load(provenance, systems)),
        between=_between(counted, expected),
        systems=systems,
    )


def _configuration(provenance: Provenance, system: str) -> Mapping[str, object] | None:
    """How a system is called; None for one that is not."""
    source = provenance.systems.get(system)
    return source.called.configuration if source and source.called else None


def _cautions(provenance: Provenance, counted: Mapping[str, SystemAggregator]) -> Iterator[str]:
    """A reference judge that failed too often; and how far the local judge agrees with people, where its scores stand alone."""
    spec, judge = provenance.configuration, provenance.judge
    failed = {name: one.verdicts.reference.too_many_failed(spec.max_missing) for name, one in counted.items()}
    for system, reason in failed.items():
        if reason is not None:
            yield f"{system}: {reason}; its means are not corrected"
    is_corrected = spec.references and not any(failed.values())
    judges = [str(one["name"]) for one in judge.get("raters", [judge])]
    name = next((one for one in judges if one in NAMES and not is_corrected), None)
    if name and any(one.verdicts.verdicts for one in counted.values()):
        least, most, correctness = left_out()
        agreed = (
            f"{least:.2f} to {most:.2f} on support, {correctness:.2f} on correctness (0.5 is guessing; docs/judges.md)"
        )
        yield f"judge {name} is a triage; its balanced accuracy on labelled sets that it was not fitted on: {agreed}"


def _cautions_of_load(provenance: Provenance, systems: Mapping[str, SystemReport]) -> Iterator[str]:
    for name, one in systems.items():
        if one.load and (called := provenance.systems[name].called):
            yield from cautions(name, one.load, called.configuration)


def _system(
    counted: SystemAggregator, metrics: Sequence[Metric], spec: JobSpec, called: Mapping[str, object] | None
) -> SystemReport:
    measured = {name: distribution(column.values) for name, column in counted.measured.items()}
    latency = measured["latency_ms"]
    throughput = latency.n * 1000 / latency.total if latency.total else None
    load = None if called is None else counted.load.load(called)
    if load:
        throughput = load.finished / load.wall_s if load.wall_s else None
    return SystemReport(
        queries=counted.rows,
        missing_from_run=counted.without_response,
        failed_responses=counted.failed_responses,
        queries_without_relevant=counted.retrieval.without_relevant,
        queries_without_hit=counted.retrieval.without_hit,
        metrics=_aggregates(counted, metrics, spec),
        slices=_slices(counted, metrics, spec),
        first_call_ms=counted.first_call_ms,
        throughput_qps=throughput,
        load=load,
        priced_by_us=counted.priced_by_us,
        cost_per_accurate_answer=cost_per_accurate(counted, spec),
        spending=counted.spending,
        refusals=refusals(counted, spec),
        evaluation=_evaluation(counted, spec),
        jury=counted.jury.jury,
        **measured,
    )


def _evaluation(counted: SystemAggregator, spec: JobSpec) -> Evaluation:
    verdicts, spent = counted.verdicts, counted.evaluation.total
    return Evaluation(
        usage=spent,
        waste=counted.waste.total,
        verdicts=verdicts.verdicts,
        evidence_dropped=verdicts.evidence_dropped,
        support_withdrawn=verdicts.support_withdrawn,
        suspicious=verdicts.suspicious,
        left_out=dict(sorted(counted.left_out.items())),
        reference=verdicts.reference if spec.references else None,
    )


def _aggregates(counted: SystemAggregator, metrics: Iterable[Metric], spec: JobSpec) -> dict[str, Aggregate]:
    """The aggregate of each metric over all rows, with what people's labels and repeated judgings say of it."""
    return {
        metric.name: _aggregate(
            column := counted.scores[metric.name],
            metric,
            spec,
            counted.questions,
            corrected=_corrected(counted, metric.name, spec),
            judge_sd=column.judge_sd,
        )
        for metric in metrics
    }


def _corrected(counted: SystemAggregator, metric: str, spec: JobSpec) -> CorrectedMean | None:
    """The metric's mean corrected by the labels of it; None where there are none."""
    if not (labels := counted.verdicts.labels.get(metric)):
        return None
    scores = (None if math.isnan(score) else score for score in counted.scores[metric].values.tolist())
    failed = counted.verdicts.reference.too_many_failed(spec.max_missing)
    return corrected_by_labels(
        ((labels.get(n), score) for n, score in enumerate(scores)), level=spec.confidence, failed=failed
    )


def mean_score(scores: Iterable[Score], metric: Metric, spec: JobSpec, questions: Questions = None) -> Aggregate:
    """Mean, interval, coverage and bounds of one metric; ``questions`` has the number of each row's question.

    Several answers to one question are averaged first. Shares get Wilson's interval, other bounded means Wilson's with
    their own spread, the rest Student's t.
    """
    return _aggregate(ScoreColumn(scores), metric, spec, questions)


def _aggregate(
    scores: ScoreColumn,
    metric: Metric,
    spec: JobSpec,
    questions: Questions,
    rows: RowIndexes | slice = _ALL,
    *,
    corrected: CorrectedMean | None = None,
    judge_sd: float | None = None,
) -> Aggregate:
    every = scores.values[rows]
    scored = np.isfinite(every)
    of_row = None if questions is None else questions[rows]
    of_scored = None if of_row is None else of_row[scored]
    values = _by_question(every[scored], of_scored)
    reasons, failed = scores.missing(rows)
    mean = math.fsum(values) / len(values) if values else None
    sd = None
    if mean is not None and len(values) > 1:
        sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    if metric.share and {0.0, 1.0}.issuperset(values):
        interval = wilson_interval(round(math.fsum(values)), len(values), level=spec.confidence)
    else:
        interval = mean_interval(values, level=spec.confidence, bounds=metric.bounds)
    bounds = None
    if values and metric.bounds is not None:
        low, high = (_mean(_by_question(np.where(scored, every, end), of_row)) for end in metric.bounds)
        bounds = MeanBounds(worst=low, best=high) if metric.better == "higher" else MeanBounds(worst=high, best=low)
    before = scores.before_reranking[rows][scored]
    if np.isfinite(before).any():
        mean, interval = _relative_change(values, _by_question(before, of_scored), spec)
    return Aggregate(
        kind=metric.kind,
        better=metric.better,
        mean=mean,
        n=int(scored.sum()),
        missing=len(every) - int(scored.sum()),
        failed=failed,
        reasons=reasons,
        interval=interval,
        bounds=bounds,
        sd=sd,
        corrected=corrected,
        judge_sd=judge_sd,
    )


def _by_question(values: Floats, questions: Questions) -> list[float]:
    """The values, averaged over the answers to each question; ``questions`` has the number of each value's question."""
    means: list[float] = averaged(values, questions).tolist()
    return means


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _relative_change(changes: Sequence[float], before: Sequence[float], spec: JobSpec) -> tuple[float | None, Interval]:
    """The mean change over the mean before, and its interval; undefined if that mean is 0."""
    sums = RatioSums.of(zip(changes, before, strict=True))
    if not sums.accurate:
        return None, Interval.absent("ndcg was 0 before reranking on every query", spec.confidence, "fieller")
    ci = difference_sums_interval([Stratum(sums, sums.n)], level=spec.confidence)
    return sums.cost_usd / sums.accurate, ci


def distribution(reported: Iterable[float | None] | Floats) -> Distribution:
    """Mean, total and percentiles of what was reported; None and NaN are missing."""
    every = np.array(list(reported), np.float64)
    values = every[np.isfinite(every)]
    if not len(values):
        return Distribution(n=0, missing=len(every))
    total = math.fsum(values)
    p50, p90, p95, p99 = np.percentile(values, (50, 90, 95, 99)).tolist()
    return Distribution(
        n=len(values),
        missing=len(every) - len(values),
        mean=total / len(values),
        total=total,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
    )


def cost_and_accuracy(row: Result) -> tuple[float, float] | None:
    """What an answer cost in USD, and whether it is accurate; None where either is unknown."""
    accurate = row.scores.get("accurate")
    if row.cost_usd is None or accurate is None or accurate.value is None:
        return None
    return row.cost_usd, accurate.value


def cost_per_accurate(counted: SystemAggregator, spec: JobSpec, rows: RowIndexes | slice = _ALL) -> CostPerAccurate:
    """Total cost over accurate answers, where both are known, with an interval by MOVER; of all rows or some of them."""
    cost, accurate = counted.measured["cost_usd"].values[rows], counted.accurate.values[rows]
    known = np.isfinite(cost) & np.isfinite(accurate)
    sums = sums_where_known(cost, accurate)
    questions = sums.n if counted.questions is None else len(np.unique(counted.questions[rows][known]))
    reason = None
    if not np.asarray(counted.accuracy_asked)[rows].any():
        reason = "accurate was not asked for"
    elif not np.isfinite(cost).any():
        reason = "no row has a known cost"
    elif not sums.n:
        reason = "no row has both a known cost and an accuracy"
    elif not sums.accurate:
        reason = "no answer is accurate"
    return CostPerAccurate(
        value=None if reason else sums.cost_usd / sums.accurate,
        interval=sums_interval([Stratum(sums, questions)], level=spec.confidence),
        cost_usd=sums.cost_usd,
        accurate=round(sums.accurate),
        n=sums.n,
        questions=questions,
        missing=len(cost) - sums.n,
        reason=reason,
    )


def _slices(counted: SystemAggregator, metrics: Sequence[Metric], spec: JobSpec) -> dict[str, dict[str, Slice]]:
    """The rows grouped by category, difficulty and every metadata field that groups them."""
    return {
        field: {
            value: Slice(
                n=len(rows),
                metrics={
                    metric.name: _aggregate(counted.scores[metric.name], metric, spec, counted.questions, rows)
                    for metric in metrics
                },
                cost_per_accurate_answer=cost_per_accurate(counted, spec, rows),
            )
            for value, rows in groups.items()
        }
        for field, groups in counted.slices
    }


def refusals(aggregated: SystemAggregator, spec: JobSpec) -> Refusals:
    """How often answers refuse, and how often they should."""
    counted = aggregated.verdicts
    judged, refused, right = counted.judged, counted.refused, counted.refused_rightly
    no_verdict = "no verdict says whether the answer refuses"
    undefined = no_verdict if counted.unanswerable else "every query can be answered"
    return Refusals(
        judged=judged,
        refused=refused,
        on_answerable=refused - right,
        on_unanswerable=right,
        unanswerable=counted.unanswerable,
        precision=_share(right, refused, spec, "no answer refuses" if judged else no_verdict),
        recall=_share(right, counted.unanswerable_judged, spec, undefined),
    )


def _share(count: int, n: int, spec: JobSpec, undefined: str) -> Share:
    """``count`` of ``n``; where ``n`` is 0, why there is no share."""
    interval = wilson_interval(count, n, level=spec.confidence)
    return Share(value=count / n if n else None, n=n, interval=interval, reason=None if n else undefined)


def _between(counted: Mapping[str, SystemAggregator], expected: int) -> tuple[Between, ...]:
    """Every two of the systems that have all ``expected`` rows, which are of the same queries in the same order."""
    complete = [(name, one) for name, one in counted.items() if one.rows == expected]
    return tuple(
        Between(
            a=name_a,
            b=name_b,
            sums=sums_where_known(
                b.measured["cost_usd"].values - a.measured["cost_usd"].values, b.accurate.values - a.accurate.values
            ),
        )
        for (name_a, a), (name_b, b) in combinations(islice(complete, MAX_PAIRED), 2)
    )


def reference_of(rows: Iterable[Result]) -> ReferenceJudge:
    """How a reference judge did on those of the rows that it was asked about."""
    asked = [row for row in rows if row.by_reference_judges]
    failures = Counter(row.reference_failure for row in asked if row.reference_failure is not None)
    return reference_judge(len(asked), failures)


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


def _log_end(run_id: str, counted: Mapping[str, SystemAggregator]) -> None:
    """Log that an evaluation has ended, and how well each system retrieved, where there are relevance judgments."""
    for name, one in counted.items():
        retrieval = one.retrieval.figures
        listed = ", ".join(f"{figure} {value:.3f}" for figure, value in retrieval.items())
        about = {"event": "evaluation_ended", "run": run_id, "system": name, "queries": one.rows, **retrieval}
        form = "evaluation of %d queries ends: %s, system %s%s"
        logger.info(form, one.rows, run_id, name, listed and f": {listed}", extra=about)


def beyond(report: Report, limit: float) -> str | None:
    """What to say where more than a share ``limit`` of a metric's rows failed; None where no metric has so many."""
    shares = {name: share for name, share in unscored(report).items() if share > limit}
    named = ", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items()))
    return f"rows without a score because something failed: {named}" if shares else None


def unscored(report: Report) -> dict[str, float]:
    """Per metric, the largest share over systems of rows that had the input and got no score because something failed.

    A system that was called counts as well, by its share of responses that failed, and so does a reference judge.
    """
    worst: dict[str, float] = {}
    for system, one in report.systems.items():
        if report.provenance.systems[system].called and one.queries:
            worst[f"responses of {system}"] = one.failed_responses / one.queries
        if (reference := one.evaluation.reference) and reference.asked:
            share = reference.failed / reference.asked
            worst["reference judge"] = max(worst.get("reference judge", 0.0), share)
        for name, metric in one.metrics.items():
            had_input = metric.n + metric.failed
            worst[name] = max(worst.get(name, 0.0), metric.failed / had_input if had_input else 0.0)
    return worst
