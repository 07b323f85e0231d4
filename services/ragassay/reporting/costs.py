"""What a cost report says, as a document, and its groups as CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ragassay.analysis.costs import LEVEL, CostGroup, CostReport
from ragassay.core.formatting import interval, json_document, listed, number, percent, quantity
from ragassay.core.statistics import CostPerAccurate, IncrementalCost, Money
from ragassay.reporting.charts import Chart, Drawn, scatter
from ragassay.reporting.csv import line
from ragassay.reporting.document import Cell, Document, Figure, Table
from ragassay.reporting.exporters import Exporters, of_document
from ragassay.reporting.figures import bounds, marginal_cost, of_thousand

NONE = "(none)"
MAX_NAMED, MAX_POINTS = 3, 12  # groups in the first sentence, and in the chart
_UNIT = "USD per 1,000 accurate answers"


def of_costs(report: CostReport, marginal: Mapping[str, IncrementalCost] = MappingProxyType({})) -> Document:
    """What accurate answers cost, accuracy against cost, and what was spent, by group.

    ``marginal``: what one more accurate answer costs, by which system replaces which.
    """
    keys = report.asked.by
    differing = [key for key in keys if len({group.key[key] for group in report.groups}) > 1]
    groups = {
        ", ".join(group.key[key] or NONE for key in differing or keys[-1:]) or "all": group for group in report.groups
    }
    chart = _chart(groups)
    return Document(
        "What an accurate answer costs",
        about=_about(report),
        answer=(*_answer(groups), *_of_marginal(marginal)),
        notes=report.warnings,
        blocks=(*([chart] if chart else []), *_tables(report)),
    )


def _answer(groups: Mapping[str, CostGroup]) -> Iterator[str]:
    """1,000 accurate answers by group, the cheapest first."""
    costs = {name: group.cost_per_accurate_answer for name, group in groups.items()}
    known = sorted((one.value, name) for name, one in costs.items() if one.value is not None)
    if not known:
        reasons = dict.fromkeys(one.reason or "" for one in costs.values())
        yield f"What an accurate answer costs is not known: {listed(reasons)}."
        return
    cheapest, *others = [name for _, name in known]
    high = costs[cheapest].interval.high
    shown = [f"{_thousand(costs[name])}{'' if name == 'all' else f' with {name}'}" for _, name in known[:MAX_NAMED]]
    more = f"; {len(known) - MAX_NAMED} more are in the table" if len(known) > MAX_NAMED else ""
    yield f"1,000 accurate answers cost {listed(shown)}{more}."
    lows = {name: costs[name].interval.low for name in others if _thousand(costs[name]) != _thousand(costs[cheapest])}
    overlapping = [name for name, low in lows.items() if high is None or low is None or low <= high]
    if overlapping:
        few = "These data are too few to be sure"
        if all(costs[name].interval.low is not None for name in (cheapest, *overlapping)):
            few += ": the intervals of the two costs overlap"
        yield f"An accurate answer seems to cost less with {cheapest} than with {listed(overlapping)}. {few}."
    elif lows:
        yield f"An accurate answer costs less with {cheapest} than with {listed(lows)}: the intervals do not overlap."


def _of_marginal(marginal: Mapping[str, IncrementalCost]) -> Iterator[str]:
    """What one more accurate answer costs, those with a price first; of many replacements the first few, and a count."""
    priced_first = sorted(marginal.items(), key=lambda one: one[1].value is None)
    for name, cost in priced_first[:MAX_NAMED]:
        yield f"With {name}, {marginal_cost(cost)}"
    if (more := len(marginal) - MAX_NAMED) > 0:
        without = sum(cost.value is None for _, cost in priced_first[MAX_NAMED:])
        yield f"Systems not listed: {more}, of these without a price: {without}."


def _thousand(cost: CostPerAccurate) -> str:
    ci = of_thousand(cost.interval)
    level = "" if ci.low is None else f" ({percent(ci.level)} interval {interval(ci, quantity, '{} to {}')})"
    return f"{quantity(1000 * (cost.value or 0.0))} USD{level}"


def _about(report: CostReport) -> str:
    """What the numbers are of: runs, days, and what is left out."""
    days = [report.asked.local(time).date().isoformat() for time in (report.total.first, report.total.last)]
    runs = "1 run" if report.reports == 1 else f"{report.reports:,} runs"
    unfinished = f", {report.total.incomplete} of them incomplete" if report.total.incomplete else ""
    left = f"; left out: {listed(f'{n:,} {why}' for why, n in report.left_out.items())}" if report.left_out else ""
    return f"{runs}{unfinished}, {' to '.join(dict.fromkeys(days))} ({report.asked.zone}){left}"


def _chart(groups: Mapping[str, CostGroup]) -> Chart | None:
    """Accuracy against the cost of 1,000 accurate answers, a point with both intervals for each group."""
    points = {}
    for name, group in groups.items():
        cost, accuracy = group.cost_per_accurate_answer, group.accuracy
        if cost.value is not None and accuracy.value is not None:
            text = f"{name}: {_thousand(cost)}, {percent(round(accuracy.value, 2))} accurate"
            ends = accuracy.interval, "", of_thousand(cost.interval)
            points[name] = Drawn(1000 * cost.value, accuracy.value, text, *ends)
    note = f"Up and to the left is better. Lines are {percent(LEVEL)} intervals."
    few = points if len(points) <= MAX_POINTS else {}
    return scatter("Accuracy against cost", _UNIT, "share of accurate answers", few, note=note)


def _tables(report: CostReport) -> Iterator[Table]:
    """Accurate answers and their cost by group, and what was spent by group; nothing if no cost is known and none was made."""
    lost = report.interrupted.calls or report.interrupted.uncertain_calls
    is_spent = lost or any(money.cost_usd for money in _money(report.total).values())
    if report.total.serving.unknown == report.total.rows and not is_spent:
        return
    by = tuple(report.asked.by) or ("",)
    named = [(tuple(value or NONE for value in group.key.values()) or ("all",), group) for group in report.groups]
    reasons = Counter(group.cost_per_accurate_answer.reason for group in report.groups)
    note = "An interval counts each question once, however many runs answered it."
    note += "".join(f" None: {why} ({count:,}x)." for why, count in reasons.items() if why)
    columns = (*by, _UNIT, "accurate", "rows", "unknown cost", "runs")
    rows = tuple((*names, *_of_group(group)) for names, group in named)
    yield Table("By " + " and ".join(by) if report.asked.by else "All", columns, rows, note, ("runs",))
    note = "What the system spent, what the judge spent, and what was paid for replies that could not be used."
    if lost:
        note += f" {lost} more calls have an unknown outcome and belong to no row; they may have been billed."
    if len(named) > 1:
        named.append((("all", *("" for _ in by[1:])), report.total))
    spent = tuple((*names, *(_usd(money) for money in _money(group).values())) for names, group in named)
    yield Table("Spent in USD", (*by, *_money(report.total)), spent, note)


def _of_group(group: CostGroup) -> tuple[Cell, ...]:
    cost, accuracy = group.cost_per_accurate_answer, group.accuracy.value
    price = Figure("none")
    if cost.value is not None:
        price = Figure(quantity(1000 * cost.value), bounds(of_thousand(cost.interval), write=quantity))
    accurate = Figure("unknown")
    if accuracy is not None:
        accurate = Figure(percent(round(accuracy, 2)), f"{cost.accurate:,} of {cost.n:,}")
    return price, accurate, f"{group.rows:,}", f"{group.serving.unknown:,}", f"{group.reports:,}"


def _money(group: CostGroup) -> dict[str, Money]:
    return {"serving": group.serving, "judging": group.judging, "waste": group.waste}


def _usd(money: Money) -> str:
    """``0.0214``, ``0.0214 + 3 unknown``: rows without a known cost are not free."""
    return number(money.cost_usd) + (f" + {money.unknown:,} unknown" if money.unknown else "")


def to_csv(report: CostReport) -> bytes:
    """A line for each group; what is unknown is an empty cell."""
    rows: list[list[object]] = [[*report.asked.by, *_flat(report.total)]]
    rows += ([*group.key.values(), *_flat(group).values()] for group in report.groups)
    return b"".join(map(line, rows))


def _flat(group: CostGroup) -> dict[str, object]:
    cost = group.cost_per_accurate_answer
    flat: dict[str, object] = {
        name: getattr(group, name) for name in ("reports", "incomplete", "first", "last", "rows")
    }
    flat |= {"known": cost.n, "unknown_cost": group.serving.unknown, "questions": cost.questions}
    flat |= {"accurate": cost.accurate, "cost_usd": cost.cost_usd, "cost_per_accurate_answer": cost.value}
    flat |= {name: getattr(cost.interval, name) for name in ("low", "high", "unbounded")}
    flat["reason"] = cost.reason or cost.interval.reason
    for name, money in _money(group).items():
        flat |= {f"{name}_usd": money.cost_usd, f"{name}_unknown_rows": money.unknown}
        flat |= {f"{name}_input_tokens": money.input_tokens, f"{name}_output_tokens": money.output_tokens}
    return flat


EXPORTERS: Exporters[CostReport] = Exporters(
    "cost exporter", {**of_document("costs", of_costs), "csv": to_csv, "json": json_document}
)
