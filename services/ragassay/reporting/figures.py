"""A report's figures as text, as cells of tables with the bars of their intervals, and as charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import urlencode

from ragassay.core.formatting import interval, number, of_metric, percent, quantity
from ragassay.core.models import Usage
from ragassay.core.report import Aggregate, Report
from ragassay.core.statistics import Estimate, IncrementalCost, Interval
from ragassay.reporting.charts import COLOURS, Chart, Drawn, bars, dots
from ragassay.reporting.document import Bar, Cell, Figure, Link, Table

KINDS = {"quality": "Answer quality", "retrieval": "Retrieval", "performance": "Measured", "cost": "Measured"}
AT_MOST = "At most: a row whose cause is gone may fail for another one."
NOT_REPORTED, NOTHING = "not reported", "nothing"
PER_ACCURATE = "USD per accurate answer"


def metric_tables(report: Report, rows: str = "") -> dict[str, Table]:
    """The metrics of a report, by what they are about, that of the headline first. ``rows``: where its rows are shown."""
    systems = report.systems.values()
    by = report.provenance.configuration.corrected_by
    lines: dict[str, list[tuple[Cell, ...]]] = {title: [] for title in KINDS.values()}
    for name in sorted(report.provenance.metrics, key=lambda name: name != "accurate"):
        means = [system.metrics[name] for system in systems]
        shown = [
            end for mean in means for end in (mean.value, mean.interval.low, mean.interval.high) if end is not None
        ]
        top = max(shown, default=0.0)
        if top <= 1 and all(mean.bounds for mean in means):
            top = 1.0
        if min(shown, default=0.0) < 0:
            top = 0.0  # no scale, so that no bar is drawn
        is_lower = means[0].better == "lower"
        first = _sorted_rows(f"{name}, lower is better" if is_lower else name, rows, f"-{name}" if is_lower else name)
        lines[KINDS[means[0].kind]].append((first, *(_mean(name, mean, top, by) for mean in means)))
    return {title: Table(title, ("", *report.systems), tuple(found)) for title, found in lines.items() if found}


def _sorted_rows(label: str, rows: str, sort: str) -> Cell:
    return Link(label, f"{rows}?{urlencode({'sort': sort})}") if rows and sort else label


def _mean(name: str, mean: Aggregate, top: float, by: str) -> Figure:
    notes = [] if mean.judge_sd is None else [("judge sd", number(mean.judge_sd))]
    if found := mean.corrected:
        known = f"{share(found, name)} by {found.corrected_by:,} {by}"
        notes.append(("corrected", found.reason or "" if found.value is None else known))
    reasons = tuple(f"{count:,}: {reason}" for reason, count in mean.missing.items())
    if mean.value is None:
        return Figure("not scored", "", f"0/{mean.rows}", reasons, tuple(notes))
    bar = None if mean.interval.low is None else _bar(mean.value, mean.interval, top)
    count = of_rows(mean.n, mean.unscored)
    return Figure(of_metric(name, mean.value), bounds(mean.interval, name), count, reasons, tuple(notes), bar)


def _bar(value: float, ci: Interval | None, top: float) -> Bar | None:
    """A value and its interval on a scale from 0 to ``top``; none if that is 0."""
    if top <= 0:
        return None
    low, high = (value, value) if ci is None or ci.low is None else (ci.low, top if ci.high is None else ci.high)
    at, start, end = (round(100 * place / top, 2) for place in (value, low, high))
    return Bar(at, start, end, f"0 to {quantity(top)}")


def at_a_glance(report: Report, tables: dict[str, Table], rows: str = "") -> Table | None:
    """How good the systems are, what they cost and how long they take; None unless one reports a cost or a time.

    ``tables``: the metrics as ``metric_tables`` has them, of which the first row says how good the systems are.
    """
    systems = list(report.systems.values())
    per_accurate = [one.cost_per_accurate_answer for one in systems]
    measured = (
        ("USD per 1,000 queries", "-cost_usd", [_thousand(one.cost_usd.mean) for one in systems]),
        ("USD per 1,000 accurate answers", "", [_thousand(one.value) for one in per_accurate]),
        ("latency p50, ms", "-latency_ms", [one.latency_ms.p50 for one in systems]),
        ("latency p95, ms", "-latency_ms", [one.latency_ms.p95 for one in systems]),
    )
    lines: list[tuple[Cell, ...]] = [next(iter(tables.values())).rows[0]]
    for name, sort, values in measured:
        cis = [None if sort else of_thousand(one.interval) for one in per_accurate]  # only cost per answer has one
        known = [end for end in (*values, *(ci.high for ci in cis if ci)) if end is not None]
        if any(value is not None for value in values):
            cells = (_quantity(value, ci, max(known)) for value, ci in zip(values, cis, strict=True))
            lines.append((_sorted_rows(name, rows, sort), *cells))
    return Table("At a glance", ("", *report.systems), tuple(lines)) if len(lines) > 1 else None


def _quantity(value: float | None, ci: Interval | None, top: float) -> Figure:
    if value is None:
        return Figure(NOT_REPORTED)
    return Figure(quantity(value), bounds(ci) if ci and ci.low is not None else "", bar=_bar(value, ci, top))


def _thousand(usd: float | None) -> float | None:
    return None if usd is None else 1000 * usd


def of_thousand(ci: Interval) -> Interval:
    """The interval of 1,000 times the figure."""
    return ci.model_copy(update={"low": _thousand(ci.low), "high": _thousand(ci.high)})


def estimate(one: Estimate, metric: str = "") -> str:
    """``0.742 [0.65, 0.83] n=28/30``: the value, its interval, and how many of the rows were scored; or why there is none.

    ``metric``: whose mean it is, if it is one.
    """
    if one.value is None:
        return f"undefined: {one.reason}" if one.reason else f"not scored n=0/{one.rows}"
    return f"{share(one, metric)} n={of_rows(one.n, one.unscored)}"


def of_rows(n: int, missing: int) -> str:
    """``28/30``: how many of the rows were scored."""
    return f"{n}/{n + missing}" if missing else f"{n}"


def share(one: Estimate, metric: str = "") -> str:
    """``0.500 [0.33, 0.67]``; ``metric``: whose mean it is."""
    return "not known" if one.value is None else f"{of_metric(metric, one.value)} {bounds(one.interval, metric)}"


def bounds(ci: Interval | None, metric: str = "", write: Callable[[float], str] | None = None) -> str:
    """``[0.65, 0.83]``, or that there is none; ``write``: how the ends are written, if not as those of the ``metric``."""
    end = write or partial(of_metric, metric, digits=2)
    return "[no interval]" if ci is None or ci.low is None else interval(ci, end, "[{}, {}]")


def spent(used: Usage) -> str:
    """Calls, tokens and USD; ``nothing`` where there was no call."""
    if not (used.calls or used.cache_hits or used.retries or used.uncertain_calls):
        return NOTHING
    cost = "unknown" if used.cost_usd is None else number(used.cost_usd)
    parts = [f"{used.calls} calls", f"{used.input_tokens + used.output_tokens:,} tokens", f"{cost} USD"]
    parts += [f"{used.cache_hits} from cache"] if used.cache_hits else []
    parts += [f"{used.uncertain_calls} perhaps paid"] if used.uncertain_calls else []
    return ", ".join(parts)


def marginal_cost(cost: IncrementalCost) -> str:
    """``1,000 more accurate answers cost 23 USD (95 % interval 11 to 190, n=30).``, or why they have no price."""
    if cost.value is None:
        return f"more accurate answers have no price: {cost.reason}."
    ends = interval(of_thousand(cost.interval), quantity, "{} to {}")
    sure = ends if cost.interval.low is None else f"{percent(cost.interval.level)} interval {ends}"
    caveat = f"; {cost.interval.reason}" if cost.interval.low is not None and cost.interval.reason else ""
    return f"1,000 more accurate answers cost {quantity(1000 * cost.value)} USD ({sure}, n={cost.n}{caveat})."


def fix_charts(report: Report, rows: str = "") -> Iterator[Chart]:
    """What to fix first in each system. ``rows``: where the rows are shown, to which bars lead."""
    for n, (name, one) in enumerate(report.systems.items()):
        if not (fixes := one.fix_first) or not fixes.causes or fixes.accurate.value is None:
            continue
        levels = {"now": Drawn("now", fixes.accurate.value, share(fixes.accurate))}
        for fix in fixes.causes:
            address = rows and f"{rows}?{urlencode({'failure': fix.cause, 'system': name})}"
            after = fix.cumulative
            drawn = Drawn(fix.cause, after.value or 0.0, share(after), after.interval, address)
            levels[fix.cause.replace("_", " ")] = drawn
        title = "What to fix first" if len(report.systems) == 1 else f"What to fix first: {name}"
        unit = "accuracy once this cause and those above are fixed"
        note = f"{AT_MOST} Lines are intervals."
        if chart := bars(title, unit, levels, note=note, waterfall=True, number=n % COLOURS + 1):
            yield chart


def category_chart(report: Report, rows: str = "") -> Chart | None:
    """How good answers are by category, the lowest mean first. ``rows``: where the rows are shown, to which dots lead."""
    metric = next((name for name in ("accurate", "faithfulness") if name in report.provenance.metrics), None)
    by_category: dict[str, dict[str, Drawn]] = {}
    for name, one in report.systems.items():
        for value, part in one.slices.get("category", {}).items():
            if metric and (mean := part.metrics[metric]).value is not None:
                text = f"{value}, {name}: {number(mean.value)}, n={mean.n:,}"
                address = rows and f"{rows}?{urlencode({'category': value, 'system': name})}"
                by_category.setdefault(value, {})[name] = Drawn(value, mean.value, text, mean.interval, address)
    note = "Lines are intervals; the category with the lowest mean comes first."
    lowest = dict(sorted(by_category.items(), key=lambda one: min(drawn.y for drawn in one[1].values())))
    return dots(f"{metric} by category", "mean", lowest, ends=(0.0, 1.0), note=note)
