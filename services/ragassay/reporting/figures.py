"""A report's figures as they are drawn: means with the bars of their intervals, and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

from ragassay.core.formatting import interval, number, percent, quantity
from ragassay.core.report import Aggregate, Report
from ragassay.core.statistics import CorrectedMean, Estimate, Interval
from ragassay.reporting.charts import Chart, Drawn, bars, dots

KINDS = {"quality": "Answer quality", "retrieval": "Retrieval", "performance": "Measured", "cost": "Measured"}
PERCENTAGES = frozenset(("gate_efficiency",))
AT_MOST = "At most: a row whose cause is gone may fail for another one."
_UNIT = (0.0, 1.0)
_end = partial(number, digits=2)


@dataclass(frozen=True)
class Bar:
    """A mean with its interval, in percent of the width from ``low_end`` to ``high_end`` of the scale."""

    at: float
    low: float
    high: float
    scale: str


@dataclass(frozen=True)
class Cell:
    """A metric of a system: texts, and a bar where the scale has two ends."""

    mean: str
    interval: str
    n: str
    missing: int
    reasons: tuple[str, ...]
    bar: Bar | None
    corrected: str
    judge_sd: str


@dataclass(frozen=True)
class MetricRow:
    """A metric over all systems: a cell for each, and as text lines that begin with a label.

    ``sort``: what puts the worst rows first on a page of rows; empty if nothing does.
    """

    name: str
    better: str
    cells: tuple[Cell, ...]
    lines: tuple[tuple[str, ...], ...]
    sort: str = ""


def metric_tables(report: Report) -> dict[str, list[MetricRow]]:
    """The metrics of a report, by what they are about."""
    systems = list(report.systems.values())
    tables: dict[str, list[MetricRow]] = {title: [] for title in KINDS.values()}
    for name in sorted(
        report.provenance.metrics, key=lambda name: name != "accurate"
    ):  # what the headline is of comes first
        means = [system.metrics[name] for system in systems]
        ends = _ends(means)
        by = report.provenance.configuration.corrected_by
        cells = tuple(_cell(name, mean, ends, by) for mean in means)
        better = means[0].better
        sort = name if better == "higher" else f"-{name}"
        tables[KINDS[means[0].kind]].append(MetricRow(name, better, cells, tuple(_lines(name, means, by)), sort))
    return {title: rows for title, rows in tables.items() if rows}


def figure_row(
    name: str, values: Sequence[float | None], intervals: Sequence[Interval] | None = None, *, sort: str = ""
) -> MetricRow | None:
    """A cost or a time over all systems; None if no system has it."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    given = intervals or [Interval.absent("not computed", 0.95, "none")] * len(values)
    ends = max([*known, *(one.high for one in given if one.high is not None)])
    cells = tuple(_figure(value, one, ends) for value, one in zip(values, given, strict=True))
    lines = (name, *(_with_bounds(value, one) for value, one in zip(values, given, strict=True)))
    return MetricRow(name, "", cells, (lines,), sort)


def _with_bounds(value: float | None, ends: Interval) -> str:
    if value is None:
        return "not reported"
    return quantity(value) if ends.low is None else f"{quantity(value)} {bounds(ends)}"


def _figure(value: float | None, ends: Interval, most: float) -> Cell:
    if value is None:
        return Cell("not reported", "", "", 0, (), None, "", "")
    bar = None
    if most > 0:
        at = 100 * value / most
        low = at if ends.low is None else 100 * ends.low / most
        high = at if ends.low is None else 100.0 if ends.high is None else 100 * ends.high / most
        bar = Bar(round(at, 2), round(low, 2), round(high, 2), f"0 to {quantity(most)}")
    bounds = "" if ends.low is None else interval(ends, _end, "{} to {}")
    return Cell(quantity(value), bounds, "", 0, (), bar, "", "")


def _ends(means: Sequence[Aggregate]) -> tuple[float, float] | None:
    """The ends of the scale that a metric's bars share: 0 to 1 where it has bounds, else 0 to the largest value shown."""
    shown = [
        value for mean in means for value in (mean.value, mean.interval.low, mean.interval.high) if value is not None
    ]
    if not shown or min(shown) < 0:
        return None
    if all(mean.bounds is not None for mean in means) and max(shown) <= 1:
        return _UNIT
    return (0.0, max(shown)) if max(shown) > 0 else None


def _cell(name: str, mean: Aggregate, ends: tuple[float, float] | None, corrected_by: str) -> Cell:
    written = percent if name in PERCENTAGES else number
    bar = None
    low, high = mean.interval.low, mean.interval.high
    if ends and None not in (mean.value, low, high):
        at, start, end = (100 * (value or 0.0) / ends[1] for value in (mean.value, low, high))
        bar = Bar(round(at, 2), round(start, 2), round(end, 2), f"0 to {quantity(ends[1])}")
    corrected = mean.corrected
    return Cell(
        mean="not scored" if mean.value is None else written(mean.value),
        interval=interval(
            mean.interval, percent if name in PERCENTAGES else lambda value: number(value, 2), "{} to {}"
        ),
        n=f"{mean.n:,}",
        missing=mean.unscored,
        reasons=tuple(f"{count:,}: {reason}" for reason, count in mean.missing.items()),
        bar=bar,
        corrected=""
        if corrected is None or corrected.mean is None
        else f"{written(corrected.mean)} by {corrected.labels:,} {corrected_by}",
        judge_sd="" if mean.judge_sd is None else number(mean.judge_sd),
    )


def _lines(name: str, means: Sequence[Aggregate], by: str) -> Iterator[tuple[str, ...]]:
    """The means of a metric and, below them, the judge's own spread and what labels, or a reference judge, make of these."""
    yield name, *(aggregate(mean, percent=name in PERCENTAGES) for mean in means)
    if any(mean.judge_sd is not None for mean in means):
        yield f"{name}, judge sd", *("" if mean.judge_sd is None else number(mean.judge_sd) for mean in means)
    if any(mean.corrected for mean in means):
        yield f"{name}, corrected", *(_corrected(mean.corrected, by) for mean in means)


def _corrected(found: CorrectedMean | None, by: str) -> str:
    if found is None:
        return f"no {by}"
    if found.mean is None:
        return found.reason or ""
    return f"{number(found.mean)} {bounds(found.interval)} {found.labels} {by}"


def aggregate(metric: Aggregate, *, percent: bool = False) -> str:
    """``0.742 [0.65, 0.83] n=28/30``: mean, interval, and how many of the rows were scored. ``percent``: ``74.2%``."""
    if metric.value is None:
        return f"not scored n=0/{metric.n + metric.unscored}"
    mean = f"{metric.value:.1%}" if percent else number(metric.value)
    ends = bounds(metric.interval, "{:.0%}".format) if percent else bounds(metric.interval)
    return f"{mean} {ends} {of_rows(metric.n, metric.unscored)}"


def of_rows(n: int, missing: int) -> str:
    """``n=28/30``: how many of the rows were scored."""
    return f"n={n}/{n + missing}" if missing else f"n={n}"


def share(one: Estimate) -> str:
    """``0.500 [0.33, 0.67]``."""
    return "not known" if one.value is None else f"{number(one.value)} {bounds(one.interval)}"


def bounds(ends: Interval | None, write: Callable[[float], str] = _end) -> str:
    """``[0.65, 0.83]``, or that there is none."""
    return "[no interval]" if ends is None or ends.low is None else interval(ends, write, "[{}, {}]")


def charts(report: Report, rows: str = "") -> Iterator[Chart]:
    """How long responses took, what they and their grading cost, and how good they are by category.

    ``rows``: where the rows are shown; none, where a chart links to nothing.
    """
    times = {
        f"{name}, {share}": Drawn(x=name, y=value, text=f"{quantity(value)} ms")
        for name, one in report.systems.items()
        for share in ("p50", "p95", "p99")
        if (value := getattr(one.latency_ms, share)) is not None
    }
    costs = {
        f"{name}, {what}": Drawn(x=name, y=usd, text=f"{number(usd)} USD")
        for name, one in report.systems.items()
        for what, usd in (("serving", one.cost_usd.total), ("judging", one.evaluation.usage.cost_usd))
        if usd
    }
    yield from filter(None, [bars("Latency of a response", "ms", times), bars("Spent on these rows", "USD", costs)])
    for metric in [name for name in ("accurate", "faithfulness") if name in report.provenance.metrics][:1]:
        by_category: dict[str, dict[str, Drawn]] = {}
        for name, one in report.systems.items():
            for value, part in one.slices.get("category", {}).items():
                if (mean := part.metrics.get(metric)) and mean.value is not None:
                    by_category.setdefault(value, {})[name] = Drawn(
                        x=value,
                        y=mean.value,
                        text=f"{value}, {name}: {number(mean.value)}, n={mean.n:,}",
                        interval=mean.interval,
                        address=rows and f"{rows}?{urlencode({'category': value, 'system': name})}",
                    )
        note = "Lines are intervals; the category with the lowest mean comes first."
        lowest = dict(sorted(by_category.items(), key=lambda one: min(drawn.y for drawn in one[1].values())))
        if chart := dots(f"{metric} by category", "mean", lowest, ends=_UNIT, note=note):
            yield chart


def fix_charts(report: Report, rows: str = "") -> Iterator[Chart]:
    """What accuracy would be at most if causes of failure were fixed one after the other, for each system."""
    for name, one in report.systems.items():
        if (fixes := one.fix_first) and fixes.causes and fixes.accurate.value is not None:
            levels = {"now": Drawn(x="now", y=fixes.accurate.value, text=share(fixes.accurate))}
            for fix in fixes.causes:
                address = rows and f"{rows}?{urlencode({'failure': fix.cause, 'system': name})}"
                levels[fix.cause.replace("_", " ")] = Drawn(
                    fix.cause, fix.cumulative.value or 0.0, share(fix.cumulative), fix.cumulative.interval, address
                )
            title = "What to fix first" if len(report.systems) == 1 else f"What to fix first: {name}"
            if drawn := bars(title, "accuracy at most", levels, note=f"{AT_MOST} Lines are intervals.", waterfall=True):
                yield drawn
