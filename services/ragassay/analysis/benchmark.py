"""The benchmark document: systems on datasets, each dataset with its report and its comparison with the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib import metadata
from typing import Literal

from ragassay.analysis.comparison import HEADLINES, compare_all
from ragassay.analysis.models import Comparison
from ragassay.analysis.sides import Side
from ragassay.core.eval_config import Correction
from ragassay.core.models import FrozenModel
from ragassay.core.report import Report, ReportWithResults


class BenchmarkedDataset(FrozenModel):
    """One dataset: the report of its run, without rows, and what differs from the baseline; null with one system."""

    report: Report
    comparison: Comparison | None


class Standing(FrozenModel):
    """On how many datasets a system is better or worse than the baseline by one metric, as the corrected tests say.

    ``not_shown``: no difference is shown. ``unknown``: the rows can't tell, or the metric was not computed there.
    """

    better: int
    worse: int
    not_shown: int
    unknown: int


class Benchmark(FrozenModel):
    """Systems on datasets. ``family`` p values were corrected together: all systems, datasets and metrics.

    ``metrics`` are those that the summary speaks of; ``standings`` has each system but the baseline, by metric. Times are
    UTC, ISO 8601. There is no mean over datasets: it would hide one that lacks a metric, and weigh unlike things alike.
    """

    schema_version: Literal[2] = 2
    kind: Literal["benchmark"] = "benchmark"
    ragassay: str
    id: str
    name: str | None
    created_at: str
    finished_at: str
    baseline: str
    alpha: float
    correction: Correction
    family: int
    metrics: tuple[str, ...]
    datasets: dict[str, BenchmarkedDataset]
    standings: dict[str, dict[str, Standing]]

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, the baseline first."""
        return self.baseline, *self.standings


def compared(
    reports: Mapping[str, ReportWithResults], baseline: str, *, alpha: float, correction: Correction
) -> dict[str, Comparison]:
    """By dataset, each other system against the baseline; empty where there is none. All tests are corrected together.

    The verdicts are of the metrics that were asked for, else of the usual ones.
    """
    groups = []
    for report in reports.values():
        names = [baseline, *(name for name in report.systems if name != baseline)]
        groups.append([Side(report, name) for name in names])
    if any(len(group) < 2 for group in groups):
        return {}
    source = next(iter(reports.values())).provenance
    metrics = None if source.configuration.metrics is None else source.metrics
    return dict(zip(reports, compare_all(groups, metrics=metrics, alpha=alpha, correction=correction), strict=True))


def benchmark(
    reports: Mapping[str, ReportWithResults],
    comparisons: Mapping[str, Comparison],
    baseline: str,
    *,
    id: str,  # noqa: A002 - as the field is called
    name: str | None,
    created_at: str,
    alpha: float,
    correction: Correction,
) -> Benchmark:
    """The document of reports by dataset, and of what ``compared`` says of them."""
    metrics = _headlines(reports, comparisons)
    first = next(iter(reports.values()))
    others = [system for system in first.systems if system != baseline]
    return Benchmark(
        ragassay=metadata.version("ragassay"),
        id=id,
        name=name,
        created_at=created_at,
        finished_at=max(report.run.finished_at for report in reports.values()),
        baseline=baseline,
        alpha=alpha,
        correction=correction,
        family=next((one.family for one in comparisons.values()), 0),
        metrics=metrics,
        datasets={
            dataset: BenchmarkedDataset(report=report.figures, comparison=comparisons.get(dataset))
            for dataset, report in reports.items()
        },
        standings={system: {m: _standing(comparisons, system, m) for m in metrics} for system in others},
    )


def _headlines(reports: Mapping[str, ReportWithResults], comparisons: Mapping[str, Comparison]) -> tuple[str, ...]:
    """What the summary speaks of: what a comparison does, on any dataset."""
    computed = dict.fromkeys(name for report in reports.values() for name in report.provenance.metrics)
    primary = {name for one in comparisons.values() for name in one.primary}
    if not primary:
        primary = {name for name in HEADLINES if name in computed} or set(list(computed)[:5])
    ordered = dict.fromkeys((*(name for name in HEADLINES if name in primary), *computed))
    return tuple(name for name in ordered if name in primary)


def _standing(comparisons: Mapping[str, Comparison], system: str, metric: str) -> Standing:
    outcomes: Counter[str] = Counter()
    for one in comparisons.values():
        label = next(label for label, side in one.sides.items() if side.system == system)
        pair = next(pair for pair in one.pairs if pair.b == label)
        outcomes[pair.metrics[metric].outcome if metric in pair.metrics else "can't tell"] += 1
    return Standing(
        better=outcomes["better"],
        worse=outcomes["worse"],
        not_shown=outcomes["no difference shown"],
        unknown=outcomes["can't tell"],
    )
