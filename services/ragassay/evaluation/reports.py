"""Results -> Report. Every total is recounted from the results, so a report can be made again at any time."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import numpy as np
import numpy.typing as npt

from ragassay.core.cost_sums import CostPerAccurate, RatioSums
from ragassay.core.models import Result, Score, Usage
from ragassay.core.report import (
    Aggregate,
    Distribution,
    Evaluation,
    MeanBounds,
    Provenance,
    Refusals,
    Report,
    RunInfo,
    Share,
    Slice,
    Source,
    SystemReport,
)
from ragassay.core.specification import JobSpec
from ragassay.core.statistics import Interval
from ragassay.evaluation.recount import MEASURED, Questions, Recount, ScoreColumn, between, corrected
from ragassay.judges.jury_agreement import JuryCount
from ragassay.judges.local import NAMES
from ragassay.judges.sharing import is_chosen
from ragassay.judges.support import left_out
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import Metric, parse
from ragassay.stats.intervals import averaged, mean_interval, wilson_interval
from ragassay.stats.ratio import Stratum, difference_sums_interval, sums_interval
from ragassay.systems.load import LoadCount, cautions

logger = logging.getLogger("ragassay")


def build(
    run_id: str,
    created_at: str,
    provenance: Provenance,
    results: Mapping[str, Sequence[Result]],
    *,
    expected: int,
    interrupted: Usage = Usage(),  # noqa: B008 - frozen
) -> Report:
    """The report on all systems; it is incomplete when a system has fewer results than ``expected``.

    Each system's results are gone through once, and kept as they are given; the log has the figures of the end.
    """
    now, spec = datetime.now(UTC), provenance.configuration
    metrics = tuple(parse(name, own_metrics(spec)) for name in provenance.metrics)
    loads = {name: LoadCount() for name in results}
    names = [metric.name for metric in metrics]
    juries = {name: JuryCount() for name in results}
    asked = partial(is_chosen, share=spec.judge_share, seed=spec.seed)
    counted = {
        name: Recount(juries[name].counting(loads[name].counting(rows)), names, asked) for name, rows in results.items()
    }
    systems = {
        name: _loaded(_system(one, results[name], metrics, spec), loads[name], provenance.systems.get(name)).model_copy(
            update={"jury": juries[name].jury}
        )
        for name, one in counted.items()
    }
    _log_end(run_id, counted)
    return Report(
        run=RunInfo(
            id=run_id,
            status="finished" if all(one.rows == expected for one in counted.values()) else "incomplete",
            rows=expected * len(results),
            rows_done=sum(map(len, results.values())),
            created_at=created_at,
            finished_at=now.isoformat(timespec="milliseconds"),
            duration_s=round((now - datetime.fromisoformat(created_at)).total_seconds(), 3),
        ),
        provenance=provenance,
        interrupted=interrupted,
        cautions=(
            *_cautions(provenance, counted),
            *_cautions_of_load(provenance, systems),
        ),
        between=between(counted, expected),
        systems=systems,
    )


def _cautions(provenance: Provenance, counted: Mapping[str, Recount]) -> Iterator[str]:
    """A reference judge that failed too often; and how far the local judge agrees with people, where its scores stand alone."""
    spec, judge = provenance.configuration, provenance.judge
    failed = {name: one.reference.too_many_failed(spec.max_missing) for name, one in counted.items()}
    for system, reason in failed.items():
        if reason is not None:
            yield f"{system}: {reason}; its means are not corrected"
    name = str(judge["cheap"]["name"] if "cheap" in judge and any(failed.values()) else judge["name"])
    if name in NAMES and any(one.verdicts for one in counted.values()):
        least, most, correctness = left_out()
        agreed = (
            f"{least:.2f} to {most:.2f} on support, {correctness:.2f} on correctness (0.5 is guessing; docs/judges.md)"
        )
        yield f"judge {name} is a triage; its balanced accuracy on labelled sets that it was not fitted on: {agreed}"


def _cautions_of_load(provenance: Provenance, systems: Mapping[str, SystemReport]) -> Iterator[str]:
    for name, one in systems.items():
        if one.load and (called := provenance.systems[name].called):
            yield from cautions(name, one.load, called.configuration)


def _loaded(report: SystemReport, count: LoadCount, source: Source | None) -> SystemReport:
    """The system with how it was asked, where it was called; throughput is then what was measured."""
    called = source and source.called
    load = count.load(called.configuration) if called else None
    if not load:
        return report
    throughput = load.finished / load.wall_s if load.wall_s else None
    return report.model_copy(update={"load": load, "throughput_qps": throughput})


def _system(counted: Recount, rows: Sequence[Result], metrics: Sequence[Metric], spec: JobSpec) -> SystemReport:
    measured = {name: distribution(counted.measured[name]) for name in MEASURED}
    latency, spent = measured["latency_ms"], counted.evaluation.total
    not_asked = counted.verdicts - counted.asked
    return SystemReport(
        queries=counted.rows,
        missing_from_run=counted.without_response,
        failed_responses=counted.failed_responses,
        queries_without_relevant=counted.without_relevant,
        queries_without_hit=counted.without_hit,
        metrics={
            name: one.model_copy(
                update={"corrected": corrected(counted, name, spec), "judge_sd": counted.scores[name].judge_sd}
            )
            for name, one in _aggregates(counted, metrics, spec).items()
        },
        slices=_slices(counted, metrics, spec),
        first_call_ms=counted.first_call_ms,
        throughput_qps=latency.n * 1000 / latency.total if latency.total else None,
        priced_by_us=counted.priced_by_us,
        cost_per_accurate_answer=cost_per_accurate(counted, spec),
        spending=counted.spending,
        refusals=refusals(counted, spec),
        evaluation=Evaluation(
            usage=spent,
            waste=counted.waste.total,
            verdicts=counted.verdicts,
            evidence_dropped=counted.evidence_dropped,
            support_withdrawn=counted.support_withdrawn,
            suspicious=counted.suspicious,
            left_out=dict(sorted(counted.left_out.items())),
            not_asked=not_asked,
            calls_saved=round(not_asked * (spent.calls + spent.cache_hits) / max(counted.asked, 1)),
            reference=None if spec.judge_share is None else counted.reference,
        ),
        results=rows,
        **measured,
    )


def _aggregates(
    counted: Recount, metrics: Iterable[Metric], spec: JobSpec, places: Sequence[int] | None = None
) -> dict[str, Aggregate]:
    """The aggregate of each metric, over all rows or those at ``places``."""
    return {m.name: _aggregate(counted.scores[m.name], m, spec, counted.questions, places) for m in metrics}


def aggregate(scores: Iterable[Score], metric: Metric, spec: JobSpec, questions: Questions = None) -> Aggregate:
    """Mean, interval, coverage and bounds of one metric; ``questions`` has the number of each row's question.

    Several answers to one question are averaged first. Shares get Wilson's interval, other bounded means Wilson's with
    their own spread, the rest Student's t.
    """
    return _aggregate(ScoreColumn(scores), metric, spec, questions)


def _aggregate(
    scores: ScoreColumn, metric: Metric, spec: JobSpec, questions: Questions, places: Sequence[int] | None = None
) -> Aggregate:
    known, reasons, failed = scores.of(places)
    missing, bounds = reasons.total(), None
    values, of_question = known, None
    if questions is not None:
        rows = range(len(questions)) if places is None else places
        of_question = questions[[n for n in rows if scores[n] is not None]]
        values = averaged(known, of_question)
    total = math.fsum(values)
    if known and metric.bounds is not None:
        ends = [(total + missing * end) / (len(values) + missing) for end in metric.bounds]
        if questions is not None and missing:
            ends = [_mean_if_missing_were(end, [scores[n] for n in rows], questions[rows]) for end in metric.bounds]
        bounds = MeanBounds(worst=ends[0], best=ends[1])
        if metric.better == "lower":
            bounds = MeanBounds(worst=ends[1], best=ends[0])
    if metric.share and {0.0, 1.0}.issuperset(values):
        interval = wilson_interval(round(total), len(values), level=spec.confidence)
    else:
        interval = mean_interval(values, level=spec.confidence, bounds=metric.bounds)
    mean = total / len(values) if values else None
    sd = None
    if mean is not None and len(values) > 1:
        sd = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
    if before := scores.before_reranking(places):
        numbers = np.arange(len(before)) if of_question is None else of_question
        mean, interval = _relative_change(averaged(known, numbers), averaged(before, numbers), spec)
    return Aggregate(
        kind=metric.kind,
        better=metric.better,
        mean=mean,
        n=len(known),
        missing=missing,
        failed=failed,
        reasons=dict(sorted(reasons.items())),
        interval=interval,
        bounds=bounds,
        sd=sd,
    )


def _relative_change(changes: Sequence[float], before: Sequence[float], spec: JobSpec) -> tuple[float | None, Interval]:
    """The mean change over the mean before, and its interval; undefined if that mean is 0."""
    sums = RatioSums.of(zip(changes, before, strict=True))
    if not sums.accurate:
        return None, Interval.absent("ndcg was 0 before reranking on every query", spec.confidence, "fieller")
    ends = difference_sums_interval([Stratum(sums, sums.n)], level=spec.confidence)
    return sums.cost_usd / sums.accurate, ends


def _mean_if_missing_were(end: float, scores: Sequence[float | None], questions: npt.NDArray[np.int64]) -> float:
    """The mean over questions if each row without a score had the score ``end``."""
    means = averaged([end if score is None else score for score in scores], questions)
    return math.fsum(means) / len(means)


def distribution(reported: Iterable[float | None]) -> Distribution:
    """Mean, total and percentiles of what was reported."""
    everything = list(reported)
    values = sorted(value for value in everything if value is not None)
    if not values:
        return Distribution(n=0, missing=len(everything))
    total = math.fsum(values)
    return Distribution(
        n=len(values),
        missing=len(everything) - len(values),
        mean=total / len(values),
        total=total,
        **{f"p{p}": _percentile(values, p) for p in (50, 90, 95, 99)},
    )


def _percentile(ordered: Sequence[float], p: float) -> float:
    """Linear interpolation between the two nearest ranks."""
    place = (len(ordered) - 1) * p / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def cost_and_accuracy(row: Result) -> tuple[float, float] | None:
    """What an answer cost in USD, and whether it is accurate; None where either is unknown."""
    accurate = row.scores.get("accurate")
    if row.cost_usd is None or accurate is None or accurate.value is None:
        return None
    return row.cost_usd, accurate.value


def cost_per_accurate(counted: Recount, spec: JobSpec, places: Sequence[int] | None = None) -> CostPerAccurate:
    """Total cost over accurate answers, where both are known, with an interval by MOVER; of all rows or those at ``places``."""
    places = range(counted.rows) if places is None else places
    cost_usd, accuracy = counted.measured["cost_usd"], counted.accurate
    known = [
        (n, cost, right) for n in places if (cost := cost_usd[n]) is not None and (right := accuracy[n]) is not None
    ]
    sums = RatioSums.of((cost, right) for _, cost, right in known)
    asked = len(known) if counted.questions is None else len({int(counted.questions[n]) for n, *_ in known})
    reason = None
    if not any(counted.accuracy_asked[n] for n in places):
        reason = "accurate was not asked for"
    elif all(cost_usd[n] is None for n in places):
        reason = "no row has a known cost"
    elif not known:
        reason = "no row has both a known cost and an accuracy"
    elif not sums.accurate:
        reason = "no answer is accurate"
    return CostPerAccurate(
        value=None if reason else sums.cost_usd / sums.accurate,
        interval=sums_interval([Stratum(sums, asked)], level=spec.confidence),
        cost_usd=sums.cost_usd,
        accurate=round(sums.accurate),
        n=len(known),
        questions=asked,
        missing=len(places) - len(known),
        reason=reason,
    )


def _slices(counted: Recount, metrics: Sequence[Metric], spec: JobSpec) -> dict[str, dict[str, Slice]]:
    """The rows grouped by category, difficulty and every metadata field that groups them."""
    return {
        field: {
            value: Slice(
                n=len(places),
                metrics=_aggregates(counted, metrics, spec, places),
                cost_per_accurate_answer=cost_per_accurate(counted, spec, places),
            )
            for value, places in groups.items()
        }
        for field, groups in counted.groups
    }


def refusals(counted: Recount, spec: JobSpec) -> Refusals:
    """How often answers refuse, and how often they should."""
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


def _log_end(run_id: str, counted: Mapping[str, Recount]) -> None:
    """Say that an evaluation has ended, and how well each system retrieved, where there are judgments."""
    for name, one in counted.items():
        told = ", ".join(f"{figure} {value:.3f}" for figure, value in one.retrieval.items())
        about = {"event": "evaluation_ended", "run": run_id, "system": name, "queries": one.rows, **one.retrieval}
        form = "evaluation of %d queries ends: %s, system %s%s"
        logger.info(form, one.rows, run_id, name, told and f": {told}", extra=about)


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
        if report.provenance.systems[system].called and one.results:
            worst[f"responses of {system}"] = one.failed_responses / len(one.results)
        if (reference := one.evaluation.reference) and reference.asked:
            share = reference.failed / reference.asked
            worst["reference judge"] = max(worst.get("reference judge", 0.0), share)
        for name, metric in one.metrics.items():
            had_input = metric.n + metric.failed
            worst[name] = max(worst.get(name, 0.0), metric.failed / had_input if had_input else 0.0)
    return worst
