"""Results -> Report: the rows of each system are read once, and columns of numbers are kept instead of rows.

A report can be made again at any time: of an incomplete run, or after people labelled rows.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from math import fsum, nan, sqrt
from typing import TypeAlias, cast

import numpy as np

from ragassay.core.eval_config import RunConfig
from ragassay.core.models import MissingCause, Result, Score, Usage
from ragassay.core.report import (
    Aggregate,
    Distribution,
    Evaluation,
    MeanBounds,
    Provenance,
    ReferenceJudge,
    Refusals,
    Report,
    ReportWithResults,
    RunInfo,
    Slice,
    SystemReport,
)
from ragassay.core.statistics import (
    CostPerAccurate,
    Estimate,
    Interval,
    Money,
    RatioSums,
    Spending,
    without_intervals,
)
from ragassay.evaluation.failures import fix_first
from ragassay.evaluation.groups import MAX_SLICES, RowIndexes, SliceGroups, numbered, question_of
from ragassay.evaluation.prepare import provenance as provenance_of
from ragassay.judges import local, local_weights
from ragassay.judges.agreement import JuryCount
from ragassay.judges.combine import spread
from ragassay.metrics.composite import custom_metrics
from ragassay.metrics.failures import Cause, attribute
from ragassay.metrics.metric import Metric, parse
from ragassay.stats.intervals import Floats, Questions, averaged, mean_interval, wilson_interval
from ragassay.stats.ppi import corrected_mean
from ragassay.stats.ratio import Stratum, cost_per_accurate, difference_sums_interval
from ragassay.storage.runs import Run
from ragassay.systems.runner import LoadStats, cautions

MEASURED = tuple(name for name, field in SystemReport.model_fields.items() if field.annotation is Distribution)
Rows: TypeAlias = RowIndexes | slice
_ALL = slice(None)
_JUDGING, _WASTE = "judging.", "waste."
logger = logging.getLogger("ragassay")


def finish(run: Run, uncertain_calls: int) -> ReportWithResults:
    """Aggregate the results into the report, and keep it. The record must say what judges.

    ``uncertain_calls``: all requests of the run with an unknown outcome; those that no row counts are interrupted calls.
    """
    record = run.record
    results = {system: run.rows(system) for system in record.systems}
    report = aggregate(record.id, record.created_at, provenance_of(record), results, expected=record.dataset.rows)
    counted = sum(system.evaluation.waste.uncertain_calls for system in report.systems.values())
    if uncertain_calls > counted:
        report = report.model_copy(update={"interrupted": Usage(uncertain_calls=uncertain_calls - counted)})
    run.save_report(report)
    return ReportWithResults.of(report, results)


def aggregate(
    run_id: str, created_at: str, provenance: Provenance, results: Mapping[str, Iterable[Result]], *, expected: int
) -> Report:
    """The report on all systems, whose results are read once; incomplete when a system has fewer than ``expected``."""
    now, spec = datetime.now(UTC), provenance.configuration
    metrics = tuple(parse(name, custom_metrics(spec)) for name in provenance.metrics)
    aggregated = {name: SystemAggregator(metrics, spec) for name in results}
    for name, rows in results.items():
        for row in rows:
            aggregated[name].add(row)
    _log_end(run_id, aggregated)
    called = {name: source.called.configuration for name, source in provenance.systems.items() if source.called}
    systems = {name: one.report(called.get(name)) for name, one in aggregated.items()}
    report = Report(
        run=RunInfo(
            id=run_id,
            status="finished" if all(one.rows == expected for one in aggregated.values()) else "incomplete",
            rows=expected * len(aggregated),
            rows_done=sum(one.rows for one in aggregated.values()),
            created_at=created_at,
            finished_at=now.isoformat(timespec="milliseconds"),
            duration_s=round((now - datetime.fromisoformat(created_at)).total_seconds(), 3),
        ),
        provenance=provenance,
        cautions=(
            *_cautions_of_judges(provenance, aggregated),
            *(line for name, one in systems.items() if one.load for line in cautions(name, one.load)),
        ),
        systems=systems,
    )
    return report if spec.statistics.intervals else cast("Report", without_intervals(report))


class Columns:
    """Columns of numbers by name, shape (rows,), NaN where a row has none. All rows have the same names.

    A column takes no memory until a row has another number than ``usual``: most runs leave most columns like that.
    """

    def __init__(self, usual: float | None) -> None:
        self._columns: dict[str, array[float]] = {}
        self._usual, self._rows = usual, 0

    def add(self, numbers: Mapping[str, float | None]) -> None:
        """The next row."""
        for name, value in numbers.items():
            column = self._columns.get(name)
            if column is None:
                if value == self._usual:
                    continue
                column = self._columns[name] = array("d", [_number(self._usual)]) * self._rows
            column.append(_number(value))
        self._rows += 1

    def __getitem__(self, name: str) -> Floats:
        column = self._columns.get(name)
        if column is None:
            return np.broadcast_to(np.float64(_number(self._usual)), self._rows)
        return np.asarray(column)  # a view, valid until the next row is added

    def count(self, name: str) -> int:
        """The sum of a column of counts, or of 1 and 0; a row without a number counts nothing."""
        return round(float(np.nansum(self[name])))

    def mean(self, name: str) -> float | None:
        """The mean of the rows that have a number; None if none has."""
        known = self[name][np.isfinite(self[name])]
        return fsum(known) / len(known) if len(known) else None

    def usage(self, prefix: str) -> Usage:
        """The sum of the columns of a ``Usage``; its cost is unknown where that of any row is."""
        sums = {field: fsum(self[prefix + field]) for field in Usage.model_fields}
        cost = None if np.isnan(sums["cost_usd"]) else sums["cost_usd"]
        whole = {field: round(value) for field, value in sums.items() if field not in ("cost_usd", "latency_ms")}
        return Usage(**whole, cost_usd=cost, latency_ms=sums["latency_ms"])

    def money(self, prefix: str, rows: RowIndexes) -> Money:
        """Cost and tokens of some rows; a row without both token counts adds neither."""
        cost, read, written = (self[prefix + name][rows] for name in ("cost_usd", "input_tokens", "output_tokens"))
        known, counted = np.isfinite(cost), np.isfinite(read) & np.isfinite(written)
        return Money(
            cost_usd=fsum(cost[known]),
            unknown=len(rows) - int(known.sum()),
            input_tokens=round(read[counted].sum()),
            output_tokens=round(written[counted].sum()),
        )


def _number(value: float | None) -> float:
    return nan if value is None else value


def _measured(row: Result) -> dict[str, float | None]:
    """What is measured of a row, by the names of ``Columns``."""
    ranks = row.relevant_ranks
    return {
        **{name: getattr(row, name) for name in MEASURED},
        # For the line that the log ends with, which has these whatever metrics are asked for.
        **{f"P@{k}": None if ranks is None else sum(rank <= k for rank in ranks) / k for k in (5, 10)},
        "MRR": None if ranks is None else 1 / ranks[0] if ranks else 0.0,
    }


def _counted(row: Result) -> dict[str, float | None]:
    """All that is summed up of a row, by the names of ``Columns``; what judging and waste took behind a prefix."""
    ranks, verdict = row.relevant_ranks, row.verdict
    refused = verdict.refusal if verdict and row.answer is not None else None
    return {
        **{_JUDGING + name: value for name, value in row.evaluation},
        **{_WASTE + name: value for name, value in row.waste},
        "priced_by_us": row.priced_by_us,
        "missing_from_run": not row.responded,
        "failed_responses": row.error is not None,
        "queries_without_relevant": row.relevant == 0,
        "queries_without_hit": bool(row.relevant) and ranks == (),
        "unanswerable": row.answerable is False,
        "by_reference": bool(row.by_reference_judges),
        "verdicts": verdict is not None,
        "suspicious": verdict is not None and bool(verdict.suspicious),
        "judged": refused is not None,
        "refused": refused is True,
        "on_unanswerable": refused is True and row.answerable is False,
        "unanswerable_judged": refused is not None and row.answerable is False,
    }


class ScoreColumn:
    """The scores of one metric: each row's value, or why it has none."""

    def __init__(self) -> None:
        self._values, self._ndcg_before, self._reason_codes = array("d"), Columns(None), array("i")
        self._draws: list[Sequence[float]] = []
        self._reasons: dict[tuple[MissingCause | None, str], int] = {}

    def add(self, score: Score, draws: Iterable[Sequence[float]] = ()) -> None:
        """The next row's, and for each judge that rated it several times what it would be by each of its ratings."""
        self._values.append(_number(score.value))
        self._ndcg_before.add({"ndcg_before": (score.details or {}).get("ndcg_before")})
        self._draws += draws
        missing = (score.missing, score.reason or "")
        code = -1 if score.value is not None else self._reasons.setdefault(missing, len(self._reasons))
        self._reason_codes.append(code)

    @property
    def values(self) -> Floats:
        """A view of shape (rows,), with NaN for a row without a score."""
        return np.asarray(self._values)

    def aggregate(
        self,
        metric: Metric,
        spec: RunConfig,
        questions: Questions,
        rows: Rows = _ALL,
        corrected: Estimate | None = None,
    ) -> Aggregate:
        """Mean, interval, coverage and bounds over some rows; several answers to one question are averaged first."""
        every = self.values[rows]
        scored = np.isfinite(every)
        of_row = None if questions is None else questions[rows]
        of_scored = None if of_row is None else of_row[scored]
        values = averaged(every[scored], of_scored)
        mean, sd = fsum(values) / len(values) if len(values) else None, None
        if mean is not None and len(values) > 1:
            sd = sqrt(fsum((values - mean) ** 2) / (len(values) - 1))
        interval = mean_interval(values, level=spec.statistics.confidence, bounds=metric.bounds, binary=metric.binary)
        bounds = None
        if len(values) and metric.bounds is not None:
            filled = (averaged(np.where(scored, every, end), of_row) for end in metric.bounds)
            low, high = (fsum(one) / len(one) for one in filled)
            bounds = MeanBounds(worst=low, best=high) if metric.better == "higher" else MeanBounds(worst=high, best=low)
        ndcg_before = self._ndcg_before["ndcg_before"][rows][scored]
        if np.isfinite(ndcg_before).any():
            mean, interval = _relative_change(values, averaged(ndcg_before, of_scored), spec)
        reasons, failed = self._missing(rows)
        n, of, caveat = int(scored.sum()), len(values), None
        if mean is not None and of < n:
            caveat = f"the mean of {of:,} question{'s'[: of != 1]} or conversation{'s'[: of != 1]}"
        return Aggregate(
            kind=metric.kind,
            better=metric.better,
            value=mean,
            n=n,
            reason=caveat,
            missing=reasons,
            failed=failed,
            interval=interval,
            bounds=bounds,
            sd=sd,
            corrected=corrected,
            judge_sd=spread(self._draws) if rows is _ALL else None,
        )

    def _missing(self, rows: Rows) -> tuple[dict[str, int], int]:
        """How many of the rows have no score by reason, and how many of them because something failed."""
        codes = np.asarray(self._reason_codes)[rows]
        counts = np.bincount(codes[codes >= 0], minlength=len(self._reasons)).tolist()
        reasons, failed = Counter[str](), 0
        for (cause, reason), count in zip(self._reasons, counts, strict=True):
            reasons[reason] += count
            failed += count if cause == "failed" else 0
        return {reason: count for reason, count in sorted(reasons.items()) if count}, failed


class SystemAggregator:
    """All that a report says of one system: rows are added one at a time, then ``report`` computes the figures."""

    def __init__(self, metrics: Sequence[Metric], spec: RunConfig) -> None:
        self._metrics, self._spec, self.rows = metrics, spec, 0
        self.scores = {metric.name: ScoreColumn() for metric in metrics}
        self.measured, self.counted = Columns(usual=None), Columns(usual=0)
        self._slices, self._load, self._jury = SliceGroups(), LoadStats(), JuryCount()
        self._left_out, self._reference_failures = Counter[str](), Counter[str]()
        self._labels: dict[str, dict[int, float]] = {}
        self._rows_by_cause: dict[Cause | None, array[int]] = {}
        self._rows_by_cell: dict[tuple[str | None, str | None], array[int]] = {}
        self._question_keys = array("q")

    def add(self, row: Result) -> None:
        """The next row."""
        for name, column in self.scores.items():
            column.add(row.scores[name], row.samples(name))
        self.measured.add(_measured(row))
        self.counted.add(_counted(row))
        for accumulator in (self._slices, self._load, self._jury):
            accumulator.add(row)
        self._left_out.update(row.left_out)
        if failure := attribute(row):
            self._rows_by_cause.setdefault(failure.cause, array("q")).append(self.rows)
        if row.reference_failure is not None:
            self._reference_failures[row.reference_failure] += 1
        for name, label in row.labels.items():
            self._labels.setdefault(name, {})[self.rows] = label
        self._question_keys.append(question_of(row))
        self._rows_by_cell.setdefault((row.category, row.model), array("q")).append(self.rows)
        self.rows += 1

    @property
    def accurate(self) -> Floats:
        """Whether each row is accurate, 1 or 0; NaN where that is unknown."""
        column = self.scores.get("accurate")
        return np.full(self.rows, nan) if column is None else column.values

    @property
    def cost(self) -> Floats:
        """What each row cost in USD; NaN where that is unknown."""
        return self.measured["cost_usd"]

    @cached_property
    def questions(self) -> Questions:
        """The number of each row's question, once all rows are added."""
        return numbered(self._question_keys)

    @cached_property
    def reference(self) -> ReferenceJudge:
        """How the judges did that correct the scores, once all rows are added."""
        return ReferenceJudge.of(self.counted.count("by_reference"), self._reference_failures)

    @cached_property
    def _label_columns(self) -> dict[str, Floats]:
        """By metric, the label of each row, NaN where there is none, once all rows are added."""
        return {name: np.array([of.get(n, nan) for n in range(self.rows)]) for name, of in self._labels.items()}

    def report(self, called: Mapping[str, object] | None) -> SystemReport:
        """The figures; ``called``: how the system is called, None for one that is not."""
        measured = {name: distribution(self.measured[name]) for name in MEASURED}
        latency, load = measured["latency_ms"], None if called is None else self._load.load(called)
        throughput = latency.n * 1000 / latency.total if latency.total else None
        if load:
            throughput = load.finished / load.wall_s if load.wall_s else None
        counted = ("missing_from_run", "failed_responses", "queries_without_relevant", "queries_without_hit")
        of_verdicts = ("verdicts", "suspicious")
        return SystemReport(
            queries=self.rows,
            **{name: self.counted.count(name) for name in (*counted, "priced_by_us")},
            metrics={one.name: self._aggregate(one, corrected=self._corrected(one.name)) for one in self._metrics},
            slices=self._by_slice(),
            throughput_qps=throughput,
            load=load,
            cost_per_accurate_answer=self._cost_per_accurate(),
            spending=self._spending,
            refusals=self._refusals(),
            fix_first=fix_first(self.accurate, self._rows_by_cause, self.questions, self._spec.statistics.confidence),
            evaluation=Evaluation(
                usage=self.counted.usage(_JUDGING),
                waste=self.counted.usage(_WASTE),
                **{name: self.counted.count(name) for name in of_verdicts},
                left_out=dict(sorted(self._left_out.items())),
                reference=self.reference if self._spec.references else None,
            ),
            jury=self._jury.jury,
            **measured,
        )

    def _aggregate(self, metric: Metric, rows: Rows = _ALL, corrected: Estimate | None = None) -> Aggregate:
        return self.scores[metric.name].aggregate(metric, self._spec, self.questions, rows, corrected)

    def _corrected(self, metric: str, rows: Rows = _ALL) -> Estimate | None:
        """The metric's mean over these rows corrected by the labels of it; None where there are none."""
        if (labels := self._label_columns.get(metric)) is None:
            return None
        failed = self.reference.too_many_failed(self._spec.max_failed_share)
        level, questions = self._spec.statistics.confidence, None if self.questions is None else self.questions[rows]
        scores = self.scores[metric].values[rows]
        return corrected_mean(labels[rows], scores, questions, level=level, failed=failed)

    def _by_slice(self) -> dict[str, dict[str, Slice]]:
        return {
            field: {
                value: Slice(
                    n=len(rows),
                    metrics={
                        one.name: self._aggregate(one, rows, self._corrected(one.name, rows)) for one in self._metrics
                    },
                    cost_per_accurate_answer=self._cost_per_accurate(rows),
                )
                for value, rows in groups.items()
            }
            for field, groups in self._slices
        }

    def _cost_per_accurate(self, rows: Rows = _ALL) -> CostPerAccurate:
        """Total cost over accurate answers, where both are known, with an interval by MOVER; of all rows or some of them."""
        cost, accurate = self.cost[rows], self.accurate[rows]
        known = np.isfinite(cost) & np.isfinite(accurate)
        sums = ratio_sums(cost, accurate)
        questions = sums.n if self.questions is None else len(np.unique(self.questions[rows][known]))
        reason = None
        if "accurate" not in self.scores:
            reason = "accurate was not asked for"
        elif not np.isfinite(cost).any():
            reason = "no row has a known cost"
        level = self._spec.statistics.confidence
        return cost_per_accurate(sums, [Stratum(sums, questions)], len(cost), level=level, reason=reason)

    def _refusals(self) -> Refusals:
        judged, refused, right = map(self.counted.count, ("judged", "refused", "on_unanswerable"))
        unanswerable = self.counted.count("unanswerable")
        no_verdict = "no verdict says whether the answer refuses"
        undefined = no_verdict if unanswerable else "every query can be answered"
        share = partial(share_of, right, level=self._spec.statistics.confidence)
        return Refusals(
            judged=judged,
            refused=refused,
            on_answerable=refused - right,
            on_unanswerable=right,
            unanswerable=unanswerable,
            precision=share(refused, undefined="no answer refuses" if judged else no_verdict),
            recall=share(self.counted.count("unanswerable_judged"), undefined=undefined),
        )

    @property
    def _spending(self) -> tuple[Spending, ...]:
        """What was spent by category and model; where there are more than ``MAX_SLICES`` of either, not by it."""
        few = [len({cell[n] for cell in self._rows_by_cell}) <= MAX_SLICES for n in range(2)]
        cells: dict[tuple[str | None, str | None], array[int]] = {}
        for (category, model), rows in self._rows_by_cell.items():
            cells.setdefault((category if few[0] else None, model if few[1] else None), array("q")).extend(rows)
        ordered = sorted(cells.items(), key=lambda cell: tuple((name is not None, name or "") for name in cell[0]))
        return tuple(
            Spending(
                category=category,
                model=model,
                rows=len(rows),
                serving=self.measured.money("", rows),
                judging=self.counted.money(_JUDGING, rows),
                waste=self.counted.money(_WASTE, rows),
                known=ratio_sums(self.cost[rows], self.accurate[rows]),
            )
            for (category, model), rows in ((cell, np.asarray(rows)) for cell, rows in ordered)
        )


def _relative_change(changes: Floats, before: Floats, spec: RunConfig) -> tuple[float | None, Interval]:
    """The mean change over the mean before, and its interval; undefined if that mean is 0."""
    before_total = fsum(before)
    if not before_total:
        return None, Interval.absent(
            "ndcg was 0 before reranking on every query", spec.statistics.confidence, "fieller"
        )
    ci = difference_sums_interval([_stratum_of_ratio(changes, before)], level=spec.statistics.confidence)
    return fsum(changes) / before_total, ci


def _stratum_of_ratio(numerator: Floats, denominator: Floats) -> Stratum:
    """The sums behind the interval of any ratio of means: its numerator stands as the cost, its denominator as accurate."""
    sums = RatioSums.of(zip(numerator.tolist(), denominator.tolist(), strict=True))
    return Stratum(sums, sums.n)


def distribution(every: Floats) -> Distribution:
    """Mean, total and percentiles of what was reported; NaN is missing."""
    values = every[np.isfinite(every)]
    missing = len(every) - len(values)
    if not len(values):
        return Distribution(n=0, missing=missing)
    total = fsum(values)
    percentiles = zip(("p50", "p90", "p95", "p99"), np.percentile(values, (50, 90, 95, 99)).tolist(), strict=True)
    return Distribution(n=len(values), missing=missing, mean=total / len(values), total=total, **dict(percentiles))


def ratio_sums(cost: Floats, accurate: Floats) -> RatioSums:
    """Sums of both over the rows that have both."""
    known = np.isfinite(cost) & np.isfinite(accurate)
    return RatioSums.of(zip(cost[known].tolist(), accurate[known].tolist(), strict=True))


def share_of(count: int, n: int, *, level: float, undefined: str) -> Estimate:
    """``count`` of ``n``; where ``n`` is 0, why there is no share."""
    interval = wilson_interval(count, n, level=level)
    return Estimate(value=count / n if n else None, n=n, interval=interval, reason=None if n else undefined)


def _cautions_of_judges(provenance: Provenance, aggregated: Mapping[str, SystemAggregator]) -> Iterator[str]:
    """A reference judge that failed too often; and how far the local judge agrees with people, where its scores stand alone."""
    spec, judge = provenance.configuration, provenance.judge
    failed = {name: one.reference.too_many_failed(spec.max_failed_share) for name, one in aggregated.items()}
    for system, reason in failed.items():
        if reason is not None:
            yield f"{system}: {reason}; its means are not corrected"
    is_corrected = spec.references and not any(failed.values())
    judges = [str(one["name"]) for one in judge.get("raters", [judge])]
    if local.NAME in judges and not is_corrected and any(one.counted.count("verdicts") for one in aggregated.values()):
        measured = local_weights.BALANCED_ACCURACY
        yield (
            "judge local is a triage; its balanced accuracy on labelled sets that it was not fitted on: "
            f"{measured['support_min']:.2f} to {measured['support_max']:.2f} on support, "
            f"{measured['correctness']:.2f} on correctness (0.5 is guessing)"
        )


def _log_end(run_id: str, aggregated: Mapping[str, SystemAggregator]) -> None:
    """Log P@5, P@10 and MRR of each system: by the ranks of the rows, since these metrics need not be among the run's."""
    for name, one in aggregated.items():
        means = {figure: one.measured.mean(figure) for figure in ("P@5", "P@10", "MRR")}
        retrieval = {figure: round(mean, 3) for figure, mean in means.items() if mean is not None}
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
