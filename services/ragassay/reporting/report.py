"""What a report says, as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ragassay.analysis.verdict import verdict
from ragassay.core.errors import BadInput
from ragassay.core.formatting import listed, percent
from ragassay.core.report import Report, ReportWithResults
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import parse
from ragassay.reporting import failing, summary
from ragassay.reporting.csv import short_text
from ragassay.reporting.document import Block, Card, Cards, Document, Facts, MeanTable, Sentences
from ragassay.reporting.figures import KINDS, charts, fix_charts, metric_tables
from ragassay.reporting.grids import provenance, time
from ragassay.reporting.markdown import to_markdown
from ragassay.reporting.panels import panels
from ragassay.reporting.rows import row_grid
from ragassay.reporting.tables import Table

MOST_ROWS = 1000  # of the chosen fields, on a page
MOST_ROWS_IN_MARKDOWN = 100  # a comment on a pull request holds 65,536 characters


def markdown(report: ReportWithResults, fields: Sequence[str] = ()) -> bytes:
    """The report for a pull request or a wiki; ``fields``: of the rows too, as a table."""
    return to_markdown(of_report(report, fields, MOST_ROWS_IN_MARKDOWN), "report")


def of_report(report: ReportWithResults, fields: Sequence[str] = (), most: int = MOST_ROWS) -> Document:
    """Figures, charts, what went wrong, the worst rows, what is missing and why, the method, and where it comes from.

    ``fields``: of the first ``most`` rows too, as a table.
    """
    source = report.provenance
    return Document(
        title=source.configuration.name or f"Evaluation of {source.dataset.name}",
        about=f"{source.dataset.name}, {source.dataset.rows:,} queries, judge {source.judge['name']}, "
        f"{report.run.created_at[:16].replace('T', ' ')} UTC",
        answer=verdict(report),
        headlines=tuple((name, failing.headline(one)) for name, one in report.systems.items()),
        notes=tuple(summary.notes(report)),
        blocks=tuple(_blocks(report)),
        details=tuple(_details(report, fields, most)),
        ragassay=source.ragassay,
        created=time(report.run.created_at),
    )


def in_short(report: ReportWithResults) -> Document:
    """The report as it is printed: a sentence on each system, the figures, what went wrong, what limits the figures."""
    source = report.provenance
    level = percent(source.configuration.statistics.confidence)
    about = f"{source.dataset.name}: {source.dataset.rows} queries, judge {source.judge['name']}, {level} intervals"
    fields, gaps = failing.slice_fields(report), tuple(summary.missing(report))
    slices = (failing.slice_section(report, field, failing.MOST_SLICES_SHOWN) for field in fields[:2])
    what_failed = (failing.failure_causes(report), *failing.fix_first(report))
    more = (f"also by {listed(fields[2:])}: -o FILE.md has them",) if fields[2:] else ()
    sentences = {"What is missing, and why": gaps, "Slices": more}
    return Document(
        about,
        answer=(about, *verdict(report)),
        headlines=tuple((name, failing.headline(one)) for name, one in report.systems.items()),
        notes=tuple(summary.notes(report)),
        blocks=(
            *summary.sections(report),
            *(one for one in (*what_failed, *slices) if one is not None),
            *worst_cards(report),
            *(Sentences(title, lines) for title, lines in sentences.items() if lines),
        ),
    )


def worst_cards(report: ReportWithResults) -> Iterator[Cards]:
    """The few worst rows of each system, if anything is wrong with any."""
    if worst := failing.worst_rows(report):
        yield Cards("Worst rows", tuple(Card(row.query, f"{row.system} {row.query_id}", row.texts) for row in worst))


def _blocks(report: ReportWithResults) -> Iterator[Block]:
    systems = tuple(report.systems)
    tables = metric_tables(report)
    if figures := summary.at_a_glance(report, tables):
        yield MeanTable("At a glance", systems, figures)
    yield from fix_charts(report)
    yield from (MeanTable(title, systems, tuple(rows)) for title, rows in tables.items())
    yield from charts(report)
    for panel in panels(report):
        if shown := panel.chart or panel.table:
            yield shown
        else:
            yield Sentences(panel.name, (panel.failed,))
    slices = (failing.slice_section(report, field) for field in failing.slice_fields(report))
    others = [one for one in summary.sections(report) if one.title not in KINDS.values()]
    for section in (failing.failure_causes(report, examples=3), *failing.fix_first(report), *slices, *others):
        if section is not None:
            yield section
    yield from worst_cards(report)
    if missing := tuple(summary.missing(report)):
        yield Sentences("What is missing, and why", missing)


def _details(report: ReportWithResults, fields: Sequence[str], most: int) -> Iterator[Block]:
    if fields:
        yield _rows_table(report, fields, most)
    yield Sentences("How this was measured", tuple(method(report)))
    if meanings := tuple(_meanings(report)):
        yield Facts("What the metrics are", meanings)
    rows = [
        (name, value) for name, value in provenance(report).rows if name != "caution" and not isinstance(value, dict)
    ]
    yield Facts("Where these numbers come from", tuple((name, short_text(value)) for name, value in rows))


def _rows_table(report: ReportWithResults, fields: Sequence[str], most: int) -> Table:
    """The chosen fields of the first rows; a line below says how many there are more."""
    grid = row_grid(report, fields)
    rows = tuple(tuple(short_text(cell) for cell in row) for row in islice(grid.rows, most))
    left = sum(map(len, report.results.values())) - len(rows)
    note = f"The first {most:,} rows; {left:,} more are in the formats csv, json, parquet and xlsx." if left else ""
    return Table("Rows", tuple(grid.columns), rows, note)


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
    yield f"Intervals hold with a confidence of {percent(configuration.statistics.confidence)}" + (
        f": {made}." if made else "."
    )
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
