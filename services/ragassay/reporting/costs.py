"""What a cost report says, as a document, and its groups as CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from ragassay.analysis.costs import CostGroup, CostReport
from ragassay.core.cost_sums import Money
from ragassay.core.formatting import interval, json_document, listed, number, percent
from ragassay.reporting.csv import line
from ragassay.reporting.document import Document
from ragassay.reporting.exporters import Exporters
from ragassay.reporting.markdown import to_markdown
from ragassay.reporting.tables import Table

NONE = "(none)"


def of_costs(report: CostReport) -> Document:
    """Runs, days and what is left out; accurate answers and what was spent by group."""
    return Document(
        "Cost of accurate answers",
        answer=tuple(_headlines(report)),
        notes=report.warnings,
        blocks=tuple(_tables(report)),
    )


def _headlines(report: CostReport) -> Iterator[str]:
    """What the numbers are of: runs, days, and what is left out."""
    first, last = (report.asked.local(time).date().isoformat() for time in (report.total.first, report.total.last))
    days = first if first == last else f"{first} to {last}"
    runs = "1 run" if report.reports == 1 else f"{report.reports:,} runs"
    unfinished = f", {report.total.incomplete} of them incomplete" if report.total.incomplete else ""
    yield f"{runs}{unfinished}, {days} ({report.asked.zone})"
    if report.left_out:
        yield f"left out: {listed(f'{count:,} {why}' for why, count in report.left_out.items())}"


def _tables(report: CostReport) -> Iterator[Table]:
    """Accurate answers and their cost by group, and what was spent by group."""
    by = tuple(report.asked.by) or ("",)
    named = [(tuple(_name(value) for value in group.key.values()) or ("all",), group) for group in report.groups]
    reasons = Counter(one.reason for group in report.groups if (one := group.cost_per_accurate_answer).reason)
    note = "An interval counts each question once, however many runs answered it (docs/cost.md)."
    note += "".join(f" None: {why} ({count:,}x)." for why, count in reasons.items())
    columns = (*by, "USD per accurate answer", percent(0.95))
    columns += ("accurate", "known", "unknown cost", "runs")
    rows = tuple((*names, *_answer(group)) for names, group in named)
    yield Table("Cost of an accurate answer", columns, rows, note, ("runs",))
    columns = (*by, "serving", "judging", "waste")
    rows = tuple((*names, *_spent(group)) for names, group in named)
    total = ("all", *("" for _ in by[1:]), *_spent(report.total))
    rows += (total,) if len(rows) > 1 else ()
    note = "What the system spent, what the judge spent, and what was paid for replies that could not be used."
    if lost := report.interrupted.calls or report.interrupted.uncertain_calls:
        note += f" {lost} more calls have an unknown outcome and belong to no row; they may have been billed."
    yield Table("Spent in USD", columns, rows, note)


def _name(value: str | None) -> str:
    return NONE if value is None else value


def _answer(group: CostGroup) -> tuple[str, ...]:
    cost = group.cost_per_accurate_answer
    return (
        number(cost.value),
        "none" if cost.interval.low is None else interval(cost.interval),
        f"{cost.accurate:,}",
        f"{cost.n:,}/{group.rows:,}",
        f"{group.serving.unknown:,}",
        f"{group.reports:,}",
    )


def _spent(group: CostGroup) -> tuple[str, ...]:
    return _usd(group.serving), _usd(group.judging), _usd(group.waste)


def _usd(money: Money) -> str:
    """``0.0214``, ``0.0214 + 3 unknown``: rows without a known cost are not free."""
    return number(money.cost_usd) + (f" + {money.unknown:,} unknown" if money.unknown else "")


def markdown(report: CostReport) -> bytes:
    """The costs for a pull request or a wiki."""
    return to_markdown(of_costs(report), "costs")


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


EXPORTERS: Exporters[CostReport] = Exporters("cost exporter", {"csv": to_csv, "json": json_document, "md": markdown})
