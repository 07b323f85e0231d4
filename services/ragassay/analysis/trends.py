"""One figure over many runs: its values in time, and where its level changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from ragassay.analysis.comparison import cautions
from ragassay.analysis.figures import Figure
from ragassay.core.errors import AssayError, NothingToEvaluate
from ragassay.core.models import FrozenModel
from ragassay.core.report import Provenance, Report
from ragassay.core.statistics import ChangePoint, Estimate
from ragassay.metrics.composite import custom_metrics
from ragassay.metrics.metric import Metric
from ragassay.stats.changepoint import change_points
from ragassay.storage.runs import Entry, Run


class Point(Estimate):
    """The figure in one run.

    ``changed``: what was not as in the point before, such as the judge's version, a threshold or the number of queries.
    """

    run: str
    created_at: str
    status: Literal["finished", "incomplete"] = "finished"
    changed: tuple[str, ...] = ()
    dataset: str
    dataset_digest: str


class Series(FrozenModel):
    """One system over the runs, oldest first. ``changes`` index into the points that have a value."""

    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]

    @property
    def known(self) -> tuple[Point, ...]:
        """The points that have a value: what ``changes`` count."""
        return tuple(point for point in self.points if point.value is not None)


class Trend(FrozenModel):
    """A figure over runs on one dataset with one judge; ``left_out`` counts the others by what kept them out.

    ``alpha`` is the chance that a series without any step shows one.
    """

    schema_version: Literal[1] = 1
    kind: Literal["trend"] = "trend"
    metric: str
    better: Literal["higher", "lower"]
    dataset: str
    judge: str
    left_out: dict[str, int]
    alpha: float
    systems: dict[str, Series]


def trend(
    runs: Iterable[Entry],
    metric: str,
    *,
    system: str | None = None,
    dataset: str | None = None,
    judge: str | None = None,
    last: int | None = None,
    alpha: float = 0.05,
    seed: int = 0,
) -> Trend:
    """``metric`` over ``runs``, which come newest first, of each system or of one.

    Only runs on one dataset with one judge are compared: the named ones, by default those of the newest run that has such
    a system. A dataset of another name with the same content is the same, unless the name is given. ``last``: at most
    this number of runs.
    Runs are chosen by their records, and of the reports of those that count only this figure is read. Raises NothingToEvaluate
    if none is left, UnknownName for a metric.
    """
    left_out = Counter[str]()
    digest: str | None = None
    chosen: list[Run] = []
    for entry in runs:
        if len(chosen) == last:
            break
        if entry.run is None:
            left_out["that can't be read"] += 1
            continue
        record = entry.run.record
        if record.kind != "evaluation" or (system is not None and system not in record.systems):
            continue
        if entry.status != "finished":
            left_out["not finished"] += 1
        elif judge is not None and record.spec.judged_by != judge:
            left_out[f"with the judge {record.spec.judged_by}"] += 1
        elif dataset is not None and record.dataset.name != dataset and record.dataset.digest != digest:
            left_out[f"on the dataset {record.dataset.name}"] += 1
        else:
            if dataset is None:
                dataset, digest = record.dataset.name, record.dataset.digest
            judge = record.spec.judged_by
            chosen.append(entry.run)
    custom: dict[str, Metric] = {}
    for run in chosen:
        custom = {**custom_metrics(run.record.spec), **custom}  # of one name, the newest
    figure = Figure.parse(metric, custom)
    reports: list[Report] = []
    for run in chosen:
        try:
            reports.append(run.report(figure.column))
        except AssayError:
            left_out["that can't be read"] += 1
    if not reports or dataset is None or judge is None:
        named = {"of system": system, "on dataset": dataset, "with judge": judge}
        which = "".join(f" {what} {name!r}" for what, name in named.items() if name is not None)
        raise NothingToEvaluate(f"there is no finished run{which}", hint="make one: ragassay evaluate DATA")
    reports.reverse()
    names = dict.fromkeys(name for report in reports for name in report.systems if system in (None, name))
    return Trend(
        metric=figure.name,
        better=figure.better,
        dataset=dataset,
        judge=judge,
        left_out=dict(left_out),
        alpha=alpha,
        systems={name: _series(reports, name, figure, alpha, seed) for name in names},
    )


def _series(reports: Sequence[Report], system: str, figure: Figure, alpha: float, seed: int) -> Series:
    points: list[Point] = []
    before: Provenance | None = None
    for report in reports:
        if system not in report.systems:
            continue
        source, estimate = report.provenance, figure.of(report.systems[system])
        points.append(
            Point(
                run=report.run.id,
                created_at=report.run.created_at,
                status=report.run.status,
                changed=() if before is None else tuple(cautions(before, source)),
                dataset=source.dataset.name,
                dataset_digest=source.dataset.digest,
                **{name: getattr(estimate, name) for name in Estimate.model_fields},
            )
        )
        before = source
    values = [point.value for point in points if point.value is not None]
    return Series(points=tuple(points), changes=change_points(values, alpha=alpha, seed=seed))
