"""A report's figures as cells of tables, with the bars of their intervals, and as charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from urllib.parse import urlencode

from ragassay.core.formatting import interval, number, quantity
from ragassay.core.report import Aggregate, Report
from ragassay.core.statistics import Estimate, Interval
from ragassay.reporting.charts import Chart, Drawn, bars, dots
from ragassay.reporting.document import Bar, Cell, Figure, Link, Table

KINDS = {"quality": "Answer quality", "retrieval": "Retrieval", "performance": "Measured", "cost": "Measured"}
PERCENTAGES = frozenset(("gate_efficiency",))
AT_MOST = "At most: a row whose cause is gone may fail for another one."
NOT_REPORTED = "not reported"
_UNIT = (0.0, 1.0)
_two_digits = partial(number, digits=2)


def metric_tables(report: Report, rows: str = "") -> dict[str, Table]:
    """The metrics of a report, by what they are about, that of the headline first. ``rows``: where its rows are shown."""
    systems = list(report.systems.values())
    by = report.provenance.configuration.corrected_by
    found: dict[str, list[tuple[Cell, ...]]] = {title: [] for title in KINDS.values()}
    for name in sorted(report.provenance.metrics, key=lambda name: name != "accurate"):
        means = [system.metrics[name] for system in systems]
        scale = _scale(means)
        label = f"{name}, lower is better" if means[0].better == "lower" else name
        first = _sorted_rows(label, rows, name if means[0].better == "higher" else f"-{name}")
        cells = (_mean(mean, scale, by, percents=name in PERCENTAGES) for mean in means)
        found[KINDS[means[0].kind]].append((first, *cells))
    return {title: Table(title, ("", *report.systems), tuple(lines)) for title, lines in found.items() if lines}


def _sorted_rows(label: str, rows: str, sort: str) -> Cell:
    return Link(label, f"{rows}?{urlencode({'sort': sort})}") if rows else label


def at_a_glance(report: Report, tables: dict[str, Table], rows: str = "") -> Table | None:
    """How good the systems are, what they cost and how long they take; None unless one reports a cost or a time.

    ``tables``: the metrics as ``metric_tables`` has them, of which the first row says how good the systems are.
    """
    systems = list(report.systems.values())
    per_accurate = [one.cost_per_accurate_answer for one in systems]
    lines = [
        _measured("USD per 1,000 queries", [_thousand(one.cost_usd.mean) for one in systems], rows, "-cost_usd"),
        _measured(
            "USD per 1,000 accurate answers",
            [_thousand(one.value) for one in per_accurate],
            intervals=[of_thousand(one.interval) for one in per_accurate],
        ),
        _measured("latency p50, ms", [one.latency_ms.p50 for one in systems], rows, "-latency_ms"),
        _measured("latency p95, ms", [one.latency_ms.p95 for one in systems], rows, "-latency_ms"),
    ]
    known = [line for line in lines if line]
    good = next(iter(tables.values())).rows[0]
    return Table("At a glance", ("", *report.systems), (good, *known)) if known else None


def _thousand(usd: float | None) -> float | None:
    return None if usd is None else 1000 * usd


def of_thousand(ends: Interval) -> Interval:
    """The interval of 1,000 times the figure."""
    return ends.model_copy(update={"low": _thousand(ends.low), "high": _thousand(ends.high)})


def _measured(
    name: str, values: Sequence[float | None], rows: str = "", sort: str = "", intervals: Sequence[Interval] = ()
) -> tuple[Cell, ...] | None:
    """A cost or a time over all systems; None if no system has it."""
    if all(value is None for value in values):
        return None
    known = intervals or [Interval.absent("not computed", 0.95, "none")] * len(values)
    largest = max(value for value in [*values, *(one.high for one in known)] if value is not None)
    cells = (_quantity(value, one, largest) for value, one in zip(values, known, strict=True))
    return _sorted_rows(name, rows if sort else "", sort), *cells


def _quantity(value: float | None, ends: Interval, largest: float) -> Figure:
    if value is None:
        return Figure(NOT_REPORTED)
    bar = _bar(value, ends, (0.0, largest)) if largest > 0 else None
    return Figure(quantity(value), "" if ends.low is None else bounds(ends), bar=bar)


def _bar(value: float, ends: Interval, scale: tuple[float, float]) -> Bar:
    def place(at: float) -> float:
        return round(100 * at / scale[1], 2)

    low = value if ends.low is None else ends.low
    high = value if ends.low is None else scale[1] if ends.high is None else ends.high
    return Bar(place(value), place(low), place(high), f"0 to {quantity(scale[1])}")


def _scale(means: Sequence[Aggregate]) -> tuple[float, float] | None:
    """The scale that a metric's bars share: 0 to 1 where it has bounds, else 0 to the largest value shown."""
    shown = [
        value for mean in means for value in (mean.value, mean.interval.low, mean.interval.high) if value is not None
    ]
    if not shown or min(shown) < 0 or max(shown) == 0:
        return None
    bounded = all(mean.bounds is not None for mean in means) and max(shown) <= 1
    return _UNIT if bounded else (0.0, max(shown))


def _mean(mean: Aggregate, scale: tuple[float, float] | None, by: str, *, percents: bool) -> Figure:
    notes = {"judge sd": "" if mean.judge_sd is None else number(mean.judge_sd)}
    if found := mean.corrected:
        known = f"{number(found.mean)} {bounds(found.interval)} by {found.labels:,} {by}"
        notes["corrected"] = found.reason or "" if found.mean is None else known
    known_notes = tuple((label, text) for label, text in notes.items() if text)
    if mean.value is None:
        return Figure("not scored", "", f"0/{mean.rows}", _reasons(mean), known_notes)
    write = "{:.0%}".format if percents else _two_digits
    return Figure(
        f"{mean.value:.1%}" if percents else number(mean.value),
        bounds(mean.interval, write),
        of_rows(mean.n, mean.unscored),
        _reasons(mean),
        known_notes,
        _bar(mean.value, mean.interval, scale) if scale and mean.interval.low is not None else None,
    )


def _reasons(mean: Estimate) -> tuple[str, ...]:
    return tuple(f"{count:,}: {reason}" for reason, count in mean.missing.items())


def estimate(one: Estimate) -> str:
    """``0.742 [0.65, 0.83] n=28/30``: the value, its interval, and how many of the rows were scored; or why there is none."""
    if one.value is None:
        return f"undefined: {one.reason}" if one.reason else f"not scored n=0/{one.rows}"
    return f"{share(one)} n={of_rows(one.n, one.unscored)}"


def of_rows(n: int, missing: int) -> str:
    """``28/30``: how many of the rows were scored."""
    return f"{n}/{n + missing}" if missing else f"{n}"


def share(one: Estimate) -> str:
    """``0.500 [0.33, 0.67]``."""
    return "not known" if one.value is None else f"{number(one.value)} {bounds(one.interval)}"


def bounds(ends: Interval | None, write: Callable[[float], str] = _two_digits) -> str:
    """``[0.65, 0.83]``, or that there is none."""
    return "[no interval]" if ends is None or ends.low is None else interval(ends, write, "[{}, {}]")


def category_chart(report: Report, rows: str = "") -> Chart | None:
    """How good answers are by category, the lowest mean first. ``rows``: where the rows are shown, to which dots lead."""
    metric = next((name for name in ("accurate", "faithfulness") if name in report.provenance.metrics), None)
    by_category: dict[str, dict[str, Drawn]] = {}
    for name, one in report.systems.items():
        for value, part in one.slices.get("category", {}).items():
            if metric and (mean := part.metrics.get(metric)) and mean.value is not None:
                text = f"{value}, {name}: {number(mean.value)}, n={mean.n:,}"
                address = rows and f"{rows}?{urlencode({'category': value, 'system': name})}"
                by_category.setdefault(value, {})[name] = Drawn(value, mean.value, text, mean.interval, address)
    note = "Lines are intervals; the category with the lowest mean comes first."
    lowest = dict(sorted(by_category.items(), key=lambda one: min(drawn.y for drawn in one[1].values())))
    return dots(f"{metric} by category", "mean", lowest, ends=_UNIT, note=note)


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
