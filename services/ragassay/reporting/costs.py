"""What a cost report says, as a document, and its groups as CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ragassay.analysis.costs import LEVEL, CostGroup, CostReport
from ragassay.core.cost_sums import CostPerAccurate, Money
from ragassay.core.formatting import interval, json_document, listed, number, percent, quantity
from ragassay.reporting.charts import Chart, Drawn, scatter
from ragassay.reporting.csv import line
from ragassay.reporting.document import Block, Cell, Document, Figure, Table
from ragassay.reporting.exporters import Exporters, of_document
from ragassay.reporting.figures import bounds, of_thousand

NONE = "(none)"
MOST_NAMED, MOST_POINTS = 3, 12  # groups in the first sentence, and in the chart


def of_costs(report: CostReport) -> Document:
    """What accurate answers cost, accuracy against cost, and what was spent, by group."""
    groups = _named(report.groups)
    blocks: list[Block] = [chart] if (chart := _chart(groups)) else []
    blocks += _tables(report)
    return Document(
        "What an accurate answer costs",
        about=_about(report),
        answer=tuple(_answer(groups)),
        notes=report.warnings,
        blocks=tuple(blocks),
    )


def _named(groups: Sequence[CostGroup]) -> dict[str, CostGroup]:
    """The groups by what sets them apart: a value that all of them share is left out, unless it is the only one."""
    keys = [key for key in (groups[0].key if groups else ()) if len({group.key[key] for group in groups}) > 1]
    last = list(groups[0].key)[-1:] if groups else []
    return {", ".join(group.key[key] or NONE for key in keys or last) or "all": group for group in groups}


def _answer(groups: Mapping[str, CostGroup]) -> Iterator[str]:
    """1,000 accurate answers by group, the cheapest first."""
    costs = {name: group.cost_per_accurate_answer for name, group in groups.items()}
    known = {name: one for name, one in costs.items() if one.value is not None}
    if not known:
        yield f"What an accurate answer costs is not known: {listed(dict.fromkeys(one.reason or '' for one in costs.values()))}."
        return
    cheapest = sorted(known, key=lambda name: known[name].value or 0.0)
    shown = [f"{_thousand(known[name])}{'' if name == 'all' else f' with {name}'}" for name in cheapest[:MOST_NAMED]]
    more = f"; {len(known) - len(shown)} more are in the table" if len(known) > len(shown) else ""
    yield f"1,000 accurate answers cost {listed(shown)}{more}."
    if any(_overlap(known[cheapest[0]], known[name]) for name in cheapest[1:]):
        yield f"The intervals overlap: that {cheapest[0]} is cheaper is not shown."


def _thousand(cost: CostPerAccurate) -> str:
    ends = of_thousand(cost.interval)
    level = "" if ends.low is None else f" ({percent(ends.level)} interval {interval(ends, quantity, '{} to {}')})"
    return f"{quantity(1000 * (cost.value or 0.0))} USD{level}"


def _overlap(a: CostPerAccurate, b: CostPerAccurate) -> bool:
    """Could both cost the same, as far as their intervals say?"""
    return a.interval.high is None or b.interval.low is None or b.interval.low <= a.interval.high


def _about(report: CostReport) -> str:
    """What the numbers are of: runs, days, and what is left out."""
    first, last = (report.asked.local(time).date().isoformat() for time in (report.total.first, report.total.last))
    days = first if first == last else f"{first} to {last}"
    runs = "1 run" if report.reports == 1 else f"{report.reports:,} runs"
    unfinished = f", {report.total.incomplete} of them incomplete" if report.total.incomplete else ""
    left = f"; left out: {listed(f'{n:,} {why}' for why, n in report.left_out.items())}" if report.left_out else ""
    return f"{runs}{unfinished}, {days} ({report.asked.zone}){left}"


def _chart(groups: Mapping[str, CostGroup]) -> Chart | None:
    """Accuracy against the cost of 1,000 accurate answers, a point with both intervals for each group."""
    points = {}
    for name, group in groups.items():
        cost, accuracy = group.cost_per_accurate_answer, group.accuracy
        if cost.value is not None and accuracy.value is not None:
            text = f"{name}: {_thousand(cost)}, {percent(round(accuracy.value, 2))} accurate"
            points[name] = Drawn(
                1000 * cost.value, accuracy.value, text, accuracy.interval, "", of_thousand(cost.interval)
            )
    if len(points) > MOST_POINTS:
        return None
    note = f"Up and to the left is better. Lines are {percent(LEVEL)} intervals."
    unit = "USD per 1,000 accurate answers"
    return scatter("Accuracy against cost", unit, "share of accurate answers", points, note=note)


def _tables(report: CostReport) -> Iterator[Table]:
    """Accurate answers and their cost by group, and what was spent by group."""
    by = tuple(report.asked.by) or ("",)
    named = [(tuple(_name(value) for value in group.key.values()) or ("all",), group) for group in report.groups]
    reasons = Counter(one.reason for group in report.groups if (one := group.cost_per_accurate_answer).reason)
    note = "An interval counts each question once, however many runs answered it (docs/cost.md)."
    note += "".join(f" None: {why} ({count:,}x)." for why, count in reasons.items())
    columns = (*by, "USD per 1,000 accurate answers", "accurate", "rows", "unknown cost", "runs")
    rows = tuple((*names, *_of_group(group)) for names, group in named)
    yield Table("By " + " and ".join(by) if report.asked.by else "All", columns, rows, note, ("runs",))
    columns = (*by, "serving", "judging", "waste")
    spent = tuple((*names, *_spent(group)) for names, group in named)
    total = ("all", *("" for _ in by[1:]), *_spent(report.total))
    note = "What the system spent, what the judge spent, and what was paid for replies that could not be used."
    if lost := report.interrupted.calls or report.interrupted.uncertain_calls:
        note += f" {lost} more calls have an unknown outcome and belong to no row; they may have been billed."
    yield Table("Spent in USD", columns, (*spent, total) if len(spent) > 1 else spent, note)


def _name(value: str | None) -> str:
    return NONE if value is None else value


def _of_group(group: CostGroup) -> tuple[Cell, ...]:
    cost, accuracy = group.cost_per_accurate_answer, group.accuracy.value
    return (
        Figure("none")
        if cost.value is None
        else Figure(quantity(1000 * cost.value), bounds(of_thousand(cost.interval), quantity)),
        Figure("" if accuracy is None else percent(round(accuracy, 2)), f"{cost.accurate:,} of {cost.n:,}"),
        f"{group.rows:,}",
        f"{group.serving.unknown:,}",
        f"{group.reports:,}",
    )


def _spent(group: CostGroup) -> tuple[str, ...]:
    return _usd(group.serving), _usd(group.judging), _usd(group.waste)


def _usd(money: Money) -> str:
    """``0.0214``, ``0.0214 + 3 unknown``: rows without a known cost are not free."""
    return number(money.cost_usd) + (f" + {money.unknown:,} unknown" if money.unknown else "")


def to_csv(report: CostReport) -> bytes:
    """A line for each group; what is unknown is an empty cell."""
    header: list[object] = [*report.asked.by, *_flat(report.total)]
    rows = ([*group.key.values(), *_flat(group).values()] for group in report.groups)
    return b"".join(line(cells) for cells in chain([header], rows))


def _flat(group: CostGroup) -> dict[str, object]:
    cost = group.cost_per_accurate_answer
    flat: dict[str, object] = {
        "reports": group.reports,
        "incomplete": group.incomplete,
        "first": group.first,
        "last": group.last,
        "rows": group.rows,
        "known": cost.n,
        "unknown_cost": group.serving.unknown,
        "questions": cost.questions,
        "accurate": cost.accurate,
        "cost_usd": cost.cost_usd,
        "cost_per_accurate_answer": cost.value,
        "low": cost.interval.low,
        "high": cost.interval.high,
        "unbounded": cost.interval.unbounded,
        "reason": cost.reason or cost.interval.reason,
    }
    for name, money in (("serving", group.serving), ("judging", group.judging), ("waste", group.waste)):
        flat |= {f"{name}_usd": money.cost_usd, f"{name}_unknown_rows": money.unknown}
        flat |= {f"{name}_input_tokens": money.input_tokens, f"{name}_output_tokens": money.output_tokens}
    return flat


EXPORTERS: Exporters[CostReport] = Exporters(
    "cost exporter", {**of_document("costs", of_costs), "csv": to_csv, "json": json_document}
)
