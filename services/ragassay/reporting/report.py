"""What a report says, as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragassay.analysis.comparison import verdict
from ragassay.core.errors import BadInput
from ragassay.core.formatting import listed, percent
from ragassay.core.report import Report, ReportWithResults
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import parse
from ragassay.reporting import failing, summary
from ragassay.reporting.csv import short_text
from ragassay.reporting.document import Block, Document, Sentences, Table
from ragassay.reporting.figures import at_a_glance, category_chart, fix_charts, metric_tables
from ragassay.reporting.grids import provenance, time
from ragassay.reporting.panels import panels


def of_report(
    report: ReportWithResults,
    *,
    rows: str = "",
    answer: tuple[str, ...] | None = None,
    failed: Sequence[Block] | None = None,
) -> Document:
    """Figures, charts, what went wrong, the worst rows, what is missing and why, the method, and where it comes from.

    ``rows``: the address of the page of rows, to which figures lead.
    ``answer`` and ``failed``: the verdict, and what went wrong, if they are known already; without them all rows are read.
    """
    source = report.provenance
    level = percent(source.configuration.statistics.confidence)
    return Document(
        title=source.configuration.name or f"Evaluation of {source.dataset.name}",
        about=f"{source.dataset.name}: {source.dataset.rows:,} queries, judge {source.judge['name']}, {level} intervals, "
        f"{report.run.created_at[:16].replace('T', ' ')} UTC",
        answer=verdict(report) if answer is None else answer,
        headlines=tuple((name, failing.headline(one)) for name, one in report.systems.items()),
        notes=tuple(summary.notes(report)),
        blocks=(*_blocks(report, rows, failed), *(() if rows else _tables(report))),
        details=(*(_tables(report) if rows else ()), *_details(report)),
        ragassay=source.ragassay,
        created=time(report.run.created_at),
    )


def _blocks(report: ReportWithResults, rows: str, failed: Sequence[Block] | None) -> Iterator[Block]:
    tables = metric_tables(report, rows)
    glance = at_a_glance(report, tables, rows)
    if failed is None:
        failed = [one for one in (failing.failures_of(report), failing.worst_rows(report)) if one]
    yield from [glance] if glance else []
    yield from fix_charts(report, rows)
    yield from failed
    yield from tables.values()
    yield from filter(None, [category_chart(report, rows)])
    yield from panels(report)


def _tables(report: ReportWithResults) -> Iterator[Block]:
    """What to do, slices, time and money, and what is missing; a page folds them."""
    yield from failing.fix_first(report)
    fields = failing.slice_fields(report)[:2]
    yield from filter(None, (failing.slice_section(report, field, failing.MOST_SLICES_SHOWN) for field in fields))
    yield from (section for section in summary.sections(report) if section.rows)
    if missing := tuple(summary.missing(report)):
        yield Sentences("What is missing, and why", missing)


def _details(report: ReportWithResults) -> Iterator[Block]:
    yield from filter(None, (failing.slice_section(report, field) for field in failing.slice_fields(report)[2:]))
    yield Sentences("How this was measured", tuple(method(report)))
    if meanings := tuple(_meanings(report)):
        yield Table("What the metrics are", ("metric", "what it is"), meanings)
    rows = [
        (name, short_text(value))
        for name, value in provenance(report).rows
        if name != "caution" and not isinstance(value, dict)
    ]
    yield Table("Where these numbers come from", ("", ""), tuple(rows))


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
