"""Results -> Report. Every total is recounted from the results, so a report can be made again at any time."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from ragassay.documents import (
    Aggregate,
    CostPerAccurate,
    Distribution,
    Evaluation,
    MeanBounds,
    Provenance,
    Refusals,
    Report,
    RunInfo,
    Share,
    Slice,
    Stopped,
    SystemReport,
)
from ragassay.judges.local import AGREEMENT
from ragassay.metrics import Metric, parse
from ragassay.models import Result, Sample, Score, Usage
from ragassay.specification import JobSpec
from ragassay.stats import mean_interval, ratio_interval, wilson_interval

logger = logging.getLogger("ragassay")
MOST_SLICES = 20  # a field with more distinct values than this is an identifier, not a group


def build(
    run_id: str,
    created_at: str,
    provenance: Provenance,
    results: Mapping[str, Sequence[Result]],
    *,
    expected: int,
    stopped: Stopped | None = None,
    interrupted: Usage = Usage(),  # noqa: B008 - frozen
) -> Report:
    """The report on all systems; it is incomplete when a system has fewer results than ``expected``.

    ``stopped``: judging ended early, and ``results`` are those of the rows evaluated till then.
    """
    metrics = tuple(parse(name, provenance.configuration.criteria) for name in provenance.metrics)
    now = datetime.now(UTC)
    expected = stopped.rows if stopped else expected
    complete = all(len(rows) == expected for rows in results.values())
    systems = {name: system(rows, metrics, provenance.configuration) for name, rows in results.items()}
    return Report(
        run=RunInfo(
            id=run_id,
            status="finished" if complete else "incomplete",
            rows=expected * len(results),
            rows_done=sum(map(len, results.values())),
            created_at=created_at,
            finished_at=now.isoformat(timespec="milliseconds"),
            duration_s=round((now - datetime.fromisoformat(created_at)).total_seconds(), 3),
        ),
        provenance=provenance,
        stopped=stopped,
        interrupted=interrupted,
        cautions=_cautions(provenance, results),
        systems={name: _watched(one, stopped, name) for name, one in systems.items()},
    )


def _cautions(provenance: Provenance, results: Mapping[str, Sequence[Result]]) -> tuple[str, ...]:
    """How far the local judge agrees with people, where it judged a row; of other judges nothing is known here."""
    name = str(provenance.judge["name"])
    if name not in AGREEMENT or not any(row.verdict for rows in results.values() for row in rows):
        return ()
    support, correctness = AGREEMENT[name]
    agreed = f"kappa {support[0]:.2f} to {support[1]:.2f} on support and {correctness:.2f} on correctness"
    return (f"judge {name} is a triage; its agreement with people on public sets: {agreed} (docs/judges.md)",)


def _watched(report: SystemReport, stopped: Stopped | None, name: str) -> SystemReport:
    """The system with the intervals that hold although judging was stopped by looking at them."""
    if stopped is None or stopped.of == "differences":
        return report
    changed = {m: report.metrics[m].model_copy(update={"interval": i}) for m, i in stopped.intervals[name].items()}
    return report.model_copy(update={"metrics": {**report.metrics, **changed}})


def system(rows: Sequence[Result], metrics: Sequence[Metric], spec: JobSpec) -> SystemReport:
    """Everything about one system."""
    latency = distribution(row.latency_ms for row in rows)
    return SystemReport(
        queries=len(rows),
        missing_from_run=sum(not row.responded for row in rows),
        failed_responses=sum(row.error is not None for row in rows),
        queries_without_relevant=sum(row.relevant == 0 for row in rows),
        queries_without_hit=sum(bool(row.relevant) and row.relevant_ranks == () for row in rows),
        metrics=aggregates(rows, metrics, spec),
        slices=slices(rows, metrics, spec),
        latency_ms=latency,
        retrieval_latency_ms=distribution(row.retrieval_latency_ms for row in rows),
        generation_latency_ms=distribution(row.generation_latency_ms for row in rows),
        first_call_ms=max((row.first_call_ms for row in rows if row.first_call_ms is not None), default=None),
        throughput_qps=latency.n * 1000 / latency.total if latency.total else None,
        input_tokens=distribution(row.input_tokens for row in rows),
        output_tokens=distribution(row.output_tokens for row in rows),
        cost_usd=distribution(row.cost_usd for row in rows),
        priced_by_us=sum(row.priced_by_us for row in rows),
        cost_per_accurate_answer=cost_per_accurate(rows, spec),
        refusals=refusals(rows, spec),
        evaluation=_evaluation(rows),
        results=tuple(rows),
    )


def aggregates(rows: Sequence[Result], metrics: Iterable[Metric], spec: JobSpec) -> dict[str, Aggregate]:
    """The aggregate of each metric."""
    return {m.name: aggregate([row.scores[m.name] for row in rows], m, spec) for m in metrics}


def aggregate(scores: Sequence[Score], metric: Metric, spec: JobSpec) -> Aggregate:
    """Mean, interval, coverage and bounds of one metric.

    Shares get Wilson's interval, other bounded means Wilson's with their own spread, the rest Student's t.
    """
    values = [score.value for score in scores if score.value is not None]
    missing = [score for score in scores if score.value is None]
    total = math.fsum(values)
    if metric.share:
        interval = wilson_interval(round(total), len(values), level=spec.confidence)
    else:
        method: Literal["t", "quasi-binomial"] = "t" if metric.bounds is None else "quasi-binomial"
        interval = mean_interval(values, level=spec.confidence, bounds=metric.bounds, method=method)
    mean = total / len(values) if values else None
    return Aggregate(
        kind=metric.kind,
        better=metric.better,
        mean=mean,
        n=len(values),
        missing=len(missing),
        failed=sum(score.missing == "failed" for score in missing),
        reasons=dict(sorted(Counter(score.reason or "" for score in missing).items())),
        interval=interval,
        bounds=_bounds(total, len(scores), len(missing), metric),
        sd=math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
        if mean is not None and len(values) > 1
        else None,
    )


def _bounds(total: float, n: int, missing: int, metric: Metric) -> MeanBounds | None:
    if metric.bounds is None or n == 0:
        return None
    low, high = ((total + missing * end) / n for end in metric.bounds)
    return MeanBounds(worst=low, best=high) if metric.better == "higher" else MeanBounds(worst=high, best=low)


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


def cost_per_accurate(rows: Sequence[Result], spec: JobSpec) -> CostPerAccurate:
    """Total cost over accurate answers, where both are known, with a bootstrap interval."""
    pairs = [pair for row in rows if (pair := cost_and_accuracy(row))]
    costs, accurate = [cost for cost, _ in pairs], [value for _, value in pairs]
    reason = None
    if not any("accurate" in row.scores for row in rows):
        reason = "accurate was not asked for"
    elif all(row.cost_usd is None for row in rows):
        reason = "no row has a known cost"
    elif not pairs:
        reason = "no row has both a known cost and an accuracy"
    elif not any(accurate):
        reason = "no answer is accurate"
    return CostPerAccurate(
        value=None if reason else math.fsum(costs) / math.fsum(accurate),
        interval=ratio_interval(costs, accurate, level=spec.confidence, seed=spec.seed),
        cost_usd=math.fsum(costs),
        accurate=round(math.fsum(accurate)),
        n=len(pairs),
        missing=len(rows) - len(pairs),
        reason=reason,
    )


def slices(rows: Sequence[Result], metrics: Sequence[Metric], spec: JobSpec) -> dict[str, dict[str, Slice]]:
    """The rows grouped by category, difficulty and every metadata field that groups them.

    A field of more than ``MOST_SLICES`` values has no slices, nor a metadata field that differs in most rows.
    """
    keys = dict.fromkeys(key for row in rows for key in row.metadata)
    groupings = {}
    for field in ("category", "difficulty", *(f"metadata.{key}" for key in keys)):
        groups: dict[str, list[Result]] = {}
        for row in rows:
            if (value := slice_value(row, field)) is not None:
                groups.setdefault(value, []).append(row)
        most = min(MOST_SLICES, max(1, len(rows) // 2)) if field.startswith("metadata.") else MOST_SLICES
        if groups and len(groups) <= most:
            groupings[field] = {value: _slice(group, metrics, spec) for value, group in sorted(groups.items())}
    return groupings


def slice_value(row: Result | Sample, name: str) -> str | None:
    """What a row has for ``category``, ``difficulty`` or ``metadata.NAME``; None for nothing that groups rows."""
    key = name.removeprefix("metadata.")
    value = getattr(row, name) if key == name else row.metadata.get(key)
    return str(value) if isinstance(value, str | int | bool) else None


def _slice(rows: Sequence[Result], metrics: Sequence[Metric], spec: JobSpec) -> Slice:
    return Slice(
        n=len(rows), metrics=aggregates(rows, metrics, spec), cost_per_accurate_answer=cost_per_accurate(rows, spec)
    )


def refusals(rows: Sequence[Result], spec: JobSpec) -> Refusals:
    """How often answers refuse, and how often they should."""
    judged = [row for row in rows if row.answer is not None and row.verdict and row.verdict.refusal is not None]
    refused = [row for row in judged if row.verdict and row.verdict.refusal]
    unanswerable = [row for row in rows if row.answerable is False]
    asked = [row for row in judged if row.answerable is False]
    right = sum(row.answerable is False for row in refused)
    no_verdict = "no verdict says whether the answer refuses"
    return Refusals(
        judged=len(judged),
        refused=len(refused),
        on_answerable=len(refused) - right,
        on_unanswerable=right,
        unanswerable=len(unanswerable),
        precision=_share(right, len(refused), spec, "no answer refuses" if judged else no_verdict),
        recall=_share(right, len(asked), spec, no_verdict if unanswerable else "every query can be answered"),
    )


def _share(count: int, n: int, spec: JobSpec, undefined: str) -> Share:
    """``count`` of ``n``; where ``n`` is 0, why there is no share."""
    interval = wilson_interval(count, n, level=spec.confidence)
    return Share(value=count / n if n else None, n=n, interval=interval, reason=None if n else undefined)


def _evaluation(rows: Sequence[Result]) -> Evaluation:
    verdicts = [row.verdict for row in rows if row.verdict]
    return Evaluation(
        usage=Usage.total(row.evaluation for row in rows),
        waste=Usage.total(row.waste for row in rows),
        evidence_dropped=sum(verdict.evidence_dropped for verdict in verdicts),
        support_withdrawn=sum(verdict.support_withdrawn for verdict in verdicts),
        suspicious=sum(bool(verdict.suspicious) for verdict in verdicts),
        left_out=dict(sorted(Counter(what for row in rows for what in row.left_out).items())),
    )


def log_end(report: Report) -> None:
    """Say that an evaluation has ended, and how well each system retrieved, where there are judgments."""
    for name, one in report.systems.items():
        ranks = [row.relevant_ranks for row in one.results if row.relevant_ranks is not None]
        logger.info(
            "evaluation of %d queries ends: %s, system %s%s", one.queries, report.run.id, name, _retrieval(ranks)
        )


def _retrieval(ranks: Sequence[tuple[int, ...]]) -> str:
    """P@5, P@10 and MRR of the queries that have judgments, given the ranks of their relevant results."""
    if not ranks:
        return ""
    p5, p10 = (sum(rank <= k for row in ranks for rank in row) / k / len(ranks) for k in (5, 10))
    mrr = math.fsum(1 / row[0] for row in ranks if row) / len(ranks)
    return f": P@5 {p5:.3f}, P@10 {p10:.3f}, MRR {mrr:.3f}"


def unscored(report: Report) -> dict[str, float]:
    """Per metric, the largest share over systems of rows that had the input and got no score because something failed.

    A system that was called counts as well, by its share of responses that failed.
    """
    worst: dict[str, float] = {}
    for system, one in report.systems.items():
        if report.provenance.systems[system].called and one.results:
            worst[f"responses of {system}"] = one.failed_responses / len(one.results)
        for name, metric in one.metrics.items():
            had_input = metric.n + metric.failed
            worst[name] = max(worst.get(name, 0.0), metric.failed / had_input if had_input else 0.0)
    return worst
