"""What a report says, as a document: the answer, figures, what went wrong, what limits it, and how it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ragassay.analysis.comparison import verdict
from ragassay.core.formatting import listed, minute, number, percent
from ragassay.core.models import Usage
from ragassay.core.report import Distribution, JuryJudge, Report, ReportWithResults, SystemReport
from ragassay.evaluation.groups import MAX_SLICES
from ragassay.reporting.csv import short_text
from ragassay.reporting.document import Block, Document, Sentences, Table
from ragassay.reporting.failing import failures_of, fix_first, headline, headline_metric, worst_rows
from ragassay.reporting.figures import (
    NOT_REPORTED,
    NOTHING,
    PER_ACCURATE,
    at_a_glance,
    category_chart,
    estimate,
    fix_charts,
    metric_tables,
    of_rows,
    spent,
)
from ragassay.reporting.panels import panels
from ragassay.reporting.tabular import provenance, time

MAX_READ = 1000  # rows of a system that are read for the ids of those that are suspicious


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
    statistics = source.configuration.statistics
    level = percent(statistics.confidence) if statistics.intervals else "no"
    queries = "query" if source.dataset.rows == 1 else "queries"
    if failed is None:
        failed = [block for block in (failures_of(report), worst_rows(report)) if block]
    metrics = metric_tables(report, rows)
    first: list[Block | None] = [at_a_glance(report, metrics, rows), *fix_charts(report, rows), *failed]
    first += [*metrics.values(), category_chart(report, rows), *panels(report)]
    tables = list(_tables(report))
    return Document(
        title=source.configuration.name or f"Evaluation of {source.dataset.name}",
        about=f"{source.dataset.name}: {source.dataset.rows:,} {queries}, judge {source.judge['name']}, {level} intervals, "
        f"{minute(report.run.created_at)} UTC",
        answer=verdict(report) if answer is None else answer,
        headlines=tuple((name, headline(one)) for name, one in report.systems.items()),
        notes=tuple(_notes(report)),
        blocks=tuple(block for block in (*first, *([] if rows else tables)) if block),
        details=(*(tables if rows else []), *_details(report)),
        ragassay=source.ragassay,
        created=time(report.run.created_at),
    )


def _tables(report: Report) -> Iterator[Block]:
    """What to do, slices, time and money, and what is missing; a page folds them."""
    yield from fix_first(report)
    fields = ("category", "difficulty", *(field for one in report.systems.values() for field in one.slices))
    yield from filter(None, (_slices(report, field) for field in dict.fromkeys(fields)))
    for title, figures in _FIGURES.items():
        cells = [(label, *map(figure, report.systems.values())) for label, figure in figures.items()]
        shown = tuple(row for row in cells if not {NOT_REPORTED, NOTHING, ""}.issuperset(row[1:]))
        yield from [Table(title, ("", *report.systems), shown)] if shown else []
    if judges := _jury(report):
        yield Table("Jury", ("", *report.systems), judges)
    if missing := tuple(_missing(report)):
        yield Sentences("What is missing, and why", missing)


def _slices(report: Report, field: str) -> Table | None:
    """The headline metric by a field; None where no row has it, or all have the same value."""
    name = headline_metric(next(iter(report.systems.values())))
    by_system = [system.slices.get(field) for system in report.systems.values()]
    values = sorted({value for slices in by_system for value in slices or ()})
    title, columns = f"{name} by {field}", ("", *report.systems)
    if not values and any(slices is not None for slices in by_system):
        note = f"more than {MAX_SLICES} values are too many for slices; "
        return Table(title, columns, (), f"{note}ragassay show {report.run.id} --where {field}=NAME shows one")
    rows = tuple(
        (value, *(estimate(s[value].metrics[name], name) if s and value in s else "no row" for s in by_system))
        for value in values
    )
    return Table(title, columns, rows) if len(rows) > 1 else None


def _jury(report: Report) -> tuple[tuple[str, ...], ...]:
    """What each judge of a jury judged, how often it is with the others, and what it took."""
    rows: dict[str, list[str]] = {}
    for place, system in enumerate(report.systems.values()):
        if jury := system.jury:
            cells = {one.judge: _jury_judge(one) for one in jury.judges}
            for name, cell in (cells | {"rows on which they differ": f"{jury.disagreement} of {jury.rows}"}).items():
                rows.setdefault(name, [NOTHING] * len(report.systems))[place] = cell
    return tuple((name, *cells) for name, cells in rows.items())


def _jury_judge(judge: JuryJudge) -> str:
    failed = f", failed on {judge.failed}" if judge.failed else ""
    wasted = f", wasted {spent(judge.waste)}" if judge.waste != Usage() else ""
    agreed = f"{percent(judge.agreed / judge.labels)} of {judge.labels:,} labels" if judge.labels else "no label"
    return f"judged {judge.judged}{failed}; {agreed} as the jury; {spent(judge.usage)}{wasted}"


def _notes(report: ReportWithResults) -> Iterator[str]:
    """What limits the figures: a partial run, deleted rows, interrupted calls, cautions, suspicious rows."""
    if report.run.status != "finished":
        done = f"{report.run.rows_done:,} of {report.run.rows:,} rows are done"
        yield f"partial report: {done}, and every figure is of these alone"
    if any(len(report.results.get(name, ())) < one.queries for name, one in report.systems.items()):
        yield "rows: the rows of this run are deleted; the figures are of all rows, and worst rows and causes are left out"
    if calls := report.interrupted.uncertain_calls:
        have = "call has" if calls == 1 else "calls have"
        yield f"interrupted: {calls} {have} an unknown outcome and belong to no row; they may have been billed"
    yield from report.cautions
    for name, system in report.systems.items():
        if count := system.evaluation.suspicious:
            rows = report.results[name] if system.queries <= MAX_READ else ()
            marks = ((row.query_id, row.verdict.suspicious) for row in rows if row.verdict)
            marked = [f"{query} ({listed(labels)})" for query, labels in marks if labels]
            what = "hold text that addresses the judge or forges its form, or support that no context shows"
            yield f"{name}: {count} of {system.queries} rows {what}{': ' if marked else ''}{listed(marked)}"


def _missing(report: Report) -> Iterator[str]:
    """A line for each system, metric and reason for which scores are missing."""
    for name, system in report.systems.items():
        of = f"of {system.queries}"
        if system.missing_from_run:
            as_0 = any(mean.kind == "retrieval" for mean in system.metrics.values())
            counted = "; retrieval metrics count them as 0" if as_0 else ""
            yield f"{name}: {system.missing_from_run} {of} queries got no response{counted}"
        figures = {label: figure(system) for label, figure in _TIME_AND_COST.items() if label != _OF_STREAMS}
        if silent := [label for label, text in figures.items() if text == NOT_REPORTED]:
            yield f"{name}: {NOT_REPORTED}: {', '.join(silent)}"
        by_reason: dict[tuple[str, int], list[str]] = {}
        for metric, mean in system.metrics.items():
            ends = f" (mean {mean.bounds.worst:.3f} to {mean.bounds.best:.3f})" if mean.bounds and mean.n else ""
            for reason in mean.missing.items():
                by_reason.setdefault(reason, []).append(metric + ends)
        for (why, count), metrics in by_reason.items():
            yield f"{name}: {', '.join(metrics)}: {count} {of} without a score ({why})"
        if reference := system.evaluation.reference:
            for why, count in reference.reasons.items():
                yield f"{name}: the reference judge has no verdict on {count} of {reference.asked} rows ({why})"
        for judge in system.jury.judges if system.jury else ():
            for why, count in judge.reasons.items():
                yield f"{name}: {judge.judge} has no vote on {count} {of} rows ({why})"


def _details(report: Report) -> Iterator[Block]:
    """How the figures of a report were made, in sentences, and where they come from."""
    configuration, judge = report.provenance.configuration, report.provenance.judge
    means = next(iter(report.systems.values())).metrics.values()
    methods = dict.fromkeys(mean.interval.method for mean in means if mean.interval.low is not None)
    made = f" ({listed(methods)})" if methods else ""
    accurate = (
        f"An answer is accurate where {configuration.accurate}." if "accurate" in report.provenance.metrics else ""
    )
    model = f", which asks {judge['model']}" if judge.get("model") else ""
    method = (
        "Each figure is a mean over the rows that could be scored; n counts them.",
        "A row that could not be scored is missing, with the reason, and never counts as 0.",
        f"Intervals hold with a confidence of {percent(configuration.statistics.confidence)}{made}.",
        accurate,
        f"The judge {judge['name']}{model} gives one verdict on each answer; judged metrics are computed from it.",
        f"Every random draw has the seed {configuration.seed}; the same data and configuration give the same figures.",
    )
    yield Sentences("How this was measured", tuple(filter(None, method)))
    facts = ((name, value) for name, value in provenance(report).rows if name != "caution")
    rows = tuple((name, short_text(value)) for name, value in facts if not isinstance(value, dict))
    yield Table("Where these numbers come from", ("", ""), rows)


def _latency(spread: Distribution) -> str:
    if spread.p50 is None:
        return NOT_REPORTED
    digits = 0 if spread.p50 >= 10 else 1
    percentiles = " / ".join(f"{value:.{digits}f}" for value in (spread.p50, spread.p95, spread.p99))
    return f"{percentiles} ms n={of_rows(spread.n, spread.missing)}"


def _total(spread: Distribution, write: Callable[[float], str] = "{:,.0f}".format) -> str:
    if spread.mean is None or spread.total is None:
        return NOT_REPORTED
    return f"{write(spread.total)} ({write(spread.mean)} a query) n={of_rows(spread.n, spread.missing)}"


def _throughput(system: SystemReport) -> str:
    if system.throughput_qps is None:
        return NOT_REPORTED
    how = f"with {system.load.concurrency} in flight" if system.load else "one after another"
    return f"{system.throughput_qps:.2f} queries/s {how}"


def _refusals(of: str) -> Callable[[SystemReport], str]:
    """A rate of refusals, of a system that has any or was asked what can't be answered."""
    return lambda s: estimate(getattr(s.refusals, of)) if s.refusals.refused or s.refusals.unanswerable else ""


_OF_STREAMS = "first token p50 / p95 / p99"
_TIME_AND_COST: dict[str, Callable[[SystemReport], str]] = {
    "latency p50 / p95 / p99": lambda s: _latency(s.latency_ms),
    _OF_STREAMS: lambda s: _latency(s.first_token_ms),
    "retrieval latency": lambda s: _latency(s.retrieval_latency_ms),
    "generation latency": lambda s: _latency(s.generation_latency_ms),
    "throughput": _throughput,
    "input tokens": lambda s: _total(s.input_tokens),
    "output tokens": lambda s: _total(s.output_tokens),
    "cost in USD": lambda s: _total(s.cost_usd, number),
    PER_ACCURATE: lambda s: estimate(s.cost_per_accurate_answer) if "accurate" in s.metrics else "",
}
_FIGURES = {
    "Refusals": {"refusal precision": _refusals("precision"), "refusal recall": _refusals("recall")},
    "Time and cost of the system": _TIME_AND_COST,
    "Spent on the evaluation": {
        "judge, used": lambda s: spent(s.evaluation.usage),
        "judge, wasted": lambda s: spent(s.evaluation.waste),
        "refused by its provider": lambda s: listed(f"{what}: {n} rows" for what, n in s.evaluation.left_out.items()),
    },
}
