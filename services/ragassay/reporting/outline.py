"""What a report or a comparison says as a document, part by part: one outline for the page and for the PDF."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from ragassay.analysis.models import ComparedSystem, Comparison
from ragassay.core.errors import BadInput
from ragassay.core.formatting import cut, listed, number, percent, quantity
from ragassay.core.report import Report
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import parse
from ragassay.reporting import comparison as compared
from ragassay.reporting import failing, summary
from ragassay.reporting.charts import Chart, Drawn, scatter
from ragassay.reporting.csv import as_text
from ragassay.reporting.figures import KINDS, MetricRow, charts, metric_tables
from ragassay.reporting.grids import provenance, time
from ragassay.reporting.panels import panels
from ragassay.reporting.rows import row_grid
from ragassay.reporting.summary import Section
from ragassay.reporting.tables import Table

MOST_ROWS = 1000  # of the chosen fields, in a document
_LONGEST_CELL = 300


@dataclass(frozen=True)
class MeanTable:
    """Means of all systems, with their intervals."""

    title: str
    systems: tuple[str, ...]
    rows: tuple[MetricRow, ...]


@dataclass(frozen=True)
class Card:
    """A row to be read: its query, what names it, and texts with their labels."""

    title: str
    about: str
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Cards:
    """Rows to be read."""

    title: str
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Sentences:
    """Sentences; as a list."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Values with their names."""

    title: str
    facts: tuple[tuple[str, str], ...]


OutlinePart = MeanTable | Table | Chart | Cards | Sentences | Facts


@dataclass(frozen=True)
class Outline:
    """A document: what it is about, a sentence on each system, what limits its figures, and the rest of it in parts."""

    title: str
    about: str
    headlines: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    parts: tuple[OutlinePart, ...]
    ragassay: str
    created: datetime | None = None


def of_report(report: Report, fields: Sequence[str] = ()) -> Outline:
    """Figures, charts, what went wrong, the worst rows, what is missing and why, the method, and where it comes from."""
    source = report.provenance
    return Outline(
        title=source.configuration.name or f"Evaluation of {source.dataset.name}",
        about=f"{source.dataset.name}, {source.dataset.rows:,} queries, judge {source.judge['name']}, "
        f"{report.run.created_at[:16].replace('T', ' ')} UTC",
        headlines=tuple((name, failing.headline(one)) for name, one in report.systems.items()),
        notes=tuple(summary.notes(report)),
        parts=tuple(_parts(report, fields)),
        ragassay=source.ragassay,
        created=time(report.run.created_at),
    )


def _parts(report: Report, fields: Sequence[str]) -> Iterator[OutlinePart]:
    systems = tuple(report.systems)
    yield from (MeanTable(title, systems, tuple(rows)) for title, rows in metric_tables(report).items())
    yield from charts(report)
    for panel in panels(report):
        if shown := panel.chart or panel.table:
            yield shown
        else:
            yield Sentences(panel.name, (panel.failed,))
    slices = (failing.slice_section(report, field) for field in failing.slice_fields(report))
    others = [one for one in summary.sections(report) if one.title not in KINDS.values()]
    for section in (failing.failure_causes(report, examples=3), *slices, *others):
        if section is not None:
            yield _table(section, systems)
    if worst := failing.worst_rows(report):
        cards = (Card(row.query, f"{row.system}, {row.query_id}", row.texts) for row in worst)
        yield Cards("Read these first", tuple(cards))
    if missing := tuple(summary.missing(report)):
        yield Sentences("What is missing, and why", missing)
    if fields:
        yield rows_table(report, fields)
    yield Sentences("How this was measured", tuple(method(report)))
    if meanings := tuple(_meanings(report)):
        yield Facts("What the metrics are", meanings)
    rows = [
        (name, value) for name, value in provenance(report).rows if name != "caution" and not isinstance(value, dict)
    ]
    yield Facts("Where these numbers come from", tuple((name, _shown(value)) for name, value in rows))


def _table(section: Section, systems: tuple[str, ...]) -> Table:
    rows = tuple((label.strip(), *cells) for label, cells in section.rows)
    return Table(section.title, ("", *systems), rows, section.note)


def rows_table(report: Report, fields: Sequence[str], most: int = MOST_ROWS) -> Table:
    """The chosen fields of the first rows; a line below says how many there are more."""
    grid = row_grid(report, fields)
    rows = tuple(tuple(_shown(cell) for cell in row) for row in islice(grid.rows, most))
    left = sum(len(one.results) for one in report.systems.values()) - len(rows)
    note = f"The first {most:,} rows; {left:,} more are in the formats csv, json, parquet and xlsx." if left else ""
    return Table("Rows", tuple(grid.columns), rows, note)


def _shown(cell: object) -> str:
    return number(cell) if isinstance(cell, float) else cut(as_text(cell), _LONGEST_CELL)


def method(report: Report) -> Iterator[str]:
    """How the figures of a report were made, in sentences."""
    source = report.provenance
    configuration = source.configuration
    yield (
        "Each figure is a mean over the rows that could be scored; n counts them. A row that could not be scored is missing, "
        "with the reason, and never counts as 0."
    )
    by_method: dict[str, list[str]] = {}
    for name, mean in next(iter(report.systems.values())).metrics.items():
        if mean.interval.low is not None:
            by_method.setdefault(mean.interval.method, []).append(name)
    made = "; ".join(f"{how} for {listed(names)}" for how, names in by_method.items())
    yield f"Intervals hold with a confidence of {percent(configuration.confidence)}" + (f": {made}." if made else ".")
    if "accurate" in source.metrics:
        yield f"An answer is accurate where {configuration.accurate}."
    model = source.judge.get("model")
    answers = f", which asks {model}" if model else ""
    yield f"The judge {source.judge['name']}{answers} gives one verdict on each answer; judged metrics are computed from it."
    yield f"Every random draw has the seed {configuration.seed}; the same data and configuration give the same figures."


def _meanings(report: Report) -> Iterator[tuple[str, str]]:
    try:
        own = own_metrics(report.provenance.configuration)
    except BadInput:
        own = {}
    for name in report.provenance.metrics:
        try:
            about = (own.get(name) or parse(name)).description
        except BadInput:  # of a plug-in that is not here
            continue
        if about:
            yield name, about


def of_comparison(comparison: Comparison) -> Outline:
    """The verdict, all tables, the queries on which a system is worse, slices, the method, and where it comes from."""
    return Outline(
        title=f"Comparison of {listed(comparison.sides)}",
        about=f"compared with {comparison.baseline}, alpha {comparison.alpha:g}, correction {comparison.correction}",
        headlines=tuple(("", sentence) for sentence in comparison.verdict),
        notes=comparison.warnings,
        parts=tuple(_parts_of(comparison)),
        ragassay=comparison.ragassay,
    )


def _parts_of(comparison: Comparison) -> Iterator[OutlinePart]:
    if chart := standing(comparison):
        yield chart
    yield from compared.tables(comparison)
    for pair in comparison.pairs:
        cards = (
            Card(row.query, row.label, (("scores", "; ".join(row.scores)), *row.answers, ("why", row.why or "")))
            for row in compared.regressions(pair)
        )
        if some := tuple(cards):
            yield Cards(compared.regressions_title(pair), some)
    yield from compared.slice_tables(comparison)
    yield Sentences("How this was compared", tuple(_method_of(comparison)))
    told = ("verdict", "warning")
    facts = (fact for fact in compared.side_grid(comparison).rows if fact[0] not in told and fact[1] is not None)
    yield Facts("Where these numbers come from", tuple((name, _shown(value)) for name, value in facts))


def _method_of(comparison: Comparison) -> Iterator[str]:
    yield "Rows of two systems are matched by their ids, else by the text of the query; a delta is that of the matched rows."
    yield (
        f"Better and worse are said where the difference is significant at {comparison.alpha:g}, corrected for "
        f"{comparison.family} tests ({comparison.correction}). Intervals are not corrected."
    )
    yield f"Every random draw has the seed {comparison.seed}."


def standing(
    comparison: Comparison,
    more: Callable[[ComparedSystem], dict[str, Any]] = lambda _: {},
    note: str = "Up and to the left is better.",
) -> Chart | None:
    """Accuracy against cost, if all systems report it and one is not free, else against latency; None if neither is known.

    ``more``: what else is drawn of a system, such as its ``address``.
    """
    sides = comparison.sides
    costs = {name: side.cost_usd for name, side in sides.items() if side.cost_usd is not None}
    times = {name: side.latency_p50_ms for name, side in sides.items() if side.latency_p50_ms is not None}
    priced = len(costs) == len(sides) and any(costs.values())
    across, unit = (costs, "USD a query") if priced else (times, "median latency, ms")
    if len(across) < len(sides):
        return None
    points = {}
    for name, side in sides.items():
        if side.accuracy is None:
            return None
        text = f"{name}: {number(side.accuracy)} accurate at {quantity(across[name])} {unit}"
        points[name] = Drawn(x=across[name], y=side.accuracy, text=text, **more(side))
    return scatter("Accuracy against what it takes", unit, "share of accurate answers", points, note=note)
