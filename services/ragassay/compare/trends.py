"""One figure over many runs: its values in time, and where its level changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ragassay.compare.figures import Figure
from ragassay.documents import Report
from ragassay.errors import NothingToEvaluate
from ragassay.models import FrozenModel
from ragassay.stats import ChangePoint, Interval, change_points


class Point(FrozenModel):
    """The figure in one run; without a value there is a ``reason``. ``n`` of ``rows`` rows were scored."""

    run: str
    created_at: str
    dataset: str
    dataset_digest: str
    value: float | None
    n: int
    rows: int
    interval: Interval | None = None
    reason: str | None = None


class Series(FrozenModel):
    """One system over the runs, oldest first. ``changes`` index into the points that have a value."""

    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]

    @property
    def known(self) -> tuple[Point, ...]:
        """The points that have a value: what ``changes`` count."""
        return tuple(point for point in self.points if point.value is not None)


class Trend(FrozenModel):
    """A figure over runs on one dataset. ``alpha`` is the chance that a series without any step shows one."""

    schema_version: Literal[1] = 1
    kind: Literal["trend"] = "trend"
    metric: str
    better: Literal["higher", "lower"]
    dataset: str
    alpha: float
    systems: dict[str, Series]


def trend(
    reports: Iterable[Report],
    metric: str,
    *,
    system: str | None = None,
    dataset: str | None = None,
    last: int | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    criteria: Iterable[str] = (),
) -> Trend:
    """``metric`` over ``reports``, oldest first, of each system or of one.

    Only runs on one dataset are compared: those whose dataset has the name ``dataset``, by default that of the newest
    run that has such a system. ``last`` keeps so many of them. ``criteria`` are names of the runs' own metrics. Raises
    NothingToEvaluate when none is left, UnknownName for a metric.
    """
    figure = Figure.parse(metric, criteria)
    points: list[tuple[str, Point]] = []
    for report in reports:
        source = report.provenance.dataset
        for name, one in report.systems.items():
            if system is not None and name != system:
                continue
            value = figure.measure(one.results, report.provenance.configuration)
            point = Point(
                run=report.run.id,
                created_at=report.run.created_at,
                dataset=source.name,
                dataset_digest=source.digest,
                value=value.value,
                n=value.n,
                rows=value.rows,
                interval=value.interval,
                reason=value.reason,
            )
            points.append((name, point))
    wanted = dataset if dataset is not None or not points else points[-1][1].dataset
    kept = [(name, point) for name, point in points if point.dataset == wanted]
    runs = list(dict.fromkeys(point.run for _, point in kept))
    kept = [(name, point) for name, point in kept if last is None or point.run in runs[-last:]]
    if not kept or wanted is None:
        which = f"{f' of system {system!r}' if system else ''}{f' on dataset {dataset!r}' if dataset else ''}"
        raise NothingToEvaluate(f"there is no finished run{which}", hint="make one: ragassay evaluate DATA")
    return Trend(
        metric=figure.name,
        better=figure.better,
        dataset=wanted,
        alpha=alpha,
        systems={name: _series([p for n, p in kept if n == name], alpha, seed) for name in dict(kept)},
    )


def _series(points: list[Point], alpha: float, seed: int) -> Series:
    values = [point.value for point in points if point.value is not None]
    return Series(points=tuple(points), changes=change_points(values, alpha=alpha, seed=seed))
