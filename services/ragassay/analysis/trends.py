"""One figure over many runs: its values in time, and where its level changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from ragassay.analysis.comparison import cautions
from ragassay.analysis.figures import Figure
from ragassay.core.errors import NothingToEvaluate
from ragassay.core.models import FrozenModel
from ragassay.core.report import Provenance, Report, Source
from ragassay.metrics import Metric
from ragassay.stats import ChangePoint, Interval, change_points


class Point(FrozenModel):
    """The figure in one run; without a value there is a ``reason``. ``n`` of ``rows`` rows were scored.

    ``changed``: what was not as in the point before, such as the judge's version, a threshold or the number of queries.
    """

    run: str
    created_at: str
    status: Literal["finished", "incomplete"] = "finished"
    changed: tuple[str, ...] = ()
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


class Followed:
    """Which runs a trend is over: those on one dataset with one judge, by default those of the first that it is shown.

    A dataset of another name with the same questions, truths and labels is the same, unless the name is given.
    """

    def __init__(self, dataset: str | None, judge: str | None) -> None:
        self.dataset, self.judge = dataset, judge
        self.left_out: Counter[str] = Counter()
        self._digest: str | None = None

    def takes(self, dataset: Source, judge: str) -> bool:
        """Is a run on that dataset with that judge one of them? To be shown the newest first; the others are counted."""
        if self.judge is not None and judge != self.judge:
            self.left_out[f"with the judge {judge}"] += 1
            return False
        if self.dataset is not None and dataset.name != self.dataset and dataset.digest != self._digest:
            self.left_out[f"on the dataset {dataset.name}"] += 1
            return False
        if self.dataset is None:
            self.dataset, self._digest = dataset.name, dataset.digest
        self.judge = judge
        return True


def trend(
    reports: Iterable[Report],
    metric: str,
    *,
    system: str | None = None,
    dataset: str | None = None,
    judge: str | None = None,
    last: int | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    own: Mapping[str, Metric] = MappingProxyType({}),
) -> Trend:
    """``metric`` over ``reports``, oldest first, of each system or of one.

    Only runs on one dataset with one judge are compared: those of that name, by default those of the newest run that has
    such a system. ``last`` keeps so many of them. ``own`` are the runs' own metrics. Raises
    NothingToEvaluate when none is left, UnknownName for a metric.
    """
    figure = Figure.parse(metric, own)
    runs: list[tuple[Provenance, dict[str, Point]]] = []
    for report in reports:
        source = report.provenance
        points: dict[str, Point] = {}
        for name, one in report.systems.items():
            if system is not None and name != system:
                continue
            value = figure.measure(one.results, source.configuration)
            points[name] = Point(
                run=report.run.id,
                created_at=report.run.created_at,
                status=report.run.status,
                dataset=source.dataset.name,
                dataset_digest=source.dataset.digest,
                value=value.value,
                n=value.n,
                rows=value.rows,
                interval=value.interval,
                reason=value.reason,
            )
        if points:
            runs.append((source, points))
    followed = Followed(dataset, judge)
    kept = [one for one in reversed(runs) if followed.takes(one[0].dataset, one[0].configuration.judged_by)][:last][
        ::-1
    ]
    if not kept or followed.dataset is None or followed.judge is None:
        asked = {"of system": system, "on dataset": dataset, "with judge": judge}
        which = "".join(f" {what} {name!r}" for what, name in asked.items() if name is not None)
        raise NothingToEvaluate(f"there is no finished run{which}", hint="make one: ragassay evaluate DATA")
    names = dict.fromkeys(name for _, points in kept for name in points)
    return Trend(
        metric=figure.name,
        better=figure.better,
        dataset=followed.dataset,
        judge=followed.judge,
        left_out=dict(followed.left_out),
        alpha=alpha,
        systems={name: _series(kept, name, alpha, seed) for name in names},
    )


def _series(runs: list[tuple[Provenance, dict[str, Point]]], system: str, alpha: float, seed: int) -> Series:
    points: list[Point] = []
    before: Provenance | None = None
    for source, by_system in runs:
        if (point := by_system.get(system)) is not None:
            changed = () if before is None else cautions(before, source)
            points.append(point.model_copy(update={"changed": changed}))
            before = source
    values = [point.value for point in points if point.value is not None]
    return Series(points=tuple(points), changes=change_points(values, alpha=alpha, seed=seed))
