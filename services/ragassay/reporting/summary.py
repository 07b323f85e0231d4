"""A report's figures as tables of text, and sentences on what limits them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ragassay.core.formatting import listed, number, percent
from ragassay.core.models import Usage
from ragassay.core.report import (
    Aggregate,
    Distribution,
    JuryMember,
    Report,
    ReportWithResults,
    SystemReport,
)
from ragassay.reporting.document import Table
from ragassay.reporting.figures import NOT_REPORTED, estimate, of_rows

Figures = Sequence[tuple[str, Callable[[SystemReport], str]]]
MOST_READ = 1000  # rows of a system that are read for the ids of those that are suspicious
NOTHING = "nothing"
PER_ACCURATE = "USD per accurate answer"


def sections(report: Report) -> Iterator[Table]:
    """Refusals, time and money of the systems, what the evaluation took, and the jury, as far as there is any."""
    systems, names = report.systems.values(), report.provenance.metrics
    if any(s.refusals.refused or s.refusals.unanswerable for s in systems):
        yield _table("Refusals", report, _REFUSALS)
    figures = [(label, figure) for label, figure in _SYSTEM if label != PER_ACCURATE or "accurate" in names]
    yield _table("Time and cost of the system", report, figures)
    yield _table("Spent on the evaluation", report, _EVALUATION)
    if any(s.jury for s in systems):
        yield Table("Jury", ("", *report.systems), tuple(_jury(list(systems))))


def _table(title: str, report: Report, figures: Figures) -> Table:
    """The figures that any system has."""
    rows = [(label, *map(figure, report.systems.values())) for label, figure in figures]
    shown = tuple(row for row in rows if any(row[1:]) and set(row[1:]) not in ({NOT_REPORTED}, {NOTHING}))
    return Table(title, ("", *report.systems), shown)


def _jury(systems: list[SystemReport]) -> Iterator[tuple[str, ...]]:
    """What each member of a jury judged, how often it is with the others, and what it took."""
    juries = [s.jury for s in systems]
    for name in dict.fromkeys(one.judge for jury in juries if jury for one in jury.members):
        members = [next((one for one in jury.members if one.judge == name), None) if jury else None for jury in juries]
        yield name, *(_member(one) for one in members)
    yield "rows on which they differ", *(f"{jury.divided} of {jury.rows}" if jury else NOTHING for jury in juries)


def _member(member: JuryMember | None) -> str:
    if member is None:
        return NOTHING
    failed = f", failed on {member.failed}" if member.failed else ""
    wasted = f", wasted {spent(member.waste)}" if member.waste != Usage() else ""
    agreed = f"{percent(member.agreed / member.labels)} of {member.labels:,} labels" if member.labels else "no label"
    return f"judged {member.judged}{failed}; {agreed} as the jury; {spent(member.usage)}{wasted}"


def partial(report: Report) -> str | None:
    """How many rows a report is of where the run has done only part of them; None for a whole one."""
    if report.run.status == "finished":
        return None
    expected = report.provenance.dataset.rows
    done = sum(system.queries for system in report.systems.values())
    of_each = [f"{name} {one.queries:,} of {expected:,}" for name, one in report.systems.items()]
    each = f" ({', '.join(of_each)})" if len(of_each) > 1 else ""
    rows = expected * len(of_each)
    return f"partial report: {done:,} of {rows:,} rows are done{each}, and every figure is of these alone"


def interrupted(report: Report) -> str | None:
    """How many calls with an unknown outcome no row counts, as after a kill; None where there is none."""
    calls = report.interrupted.uncertain_calls
    if not calls:
        return None
    have = "call has" if calls == 1 else "calls have"
    return f"interrupted: {calls} {have} an unknown outcome and belong to no row; they may have been billed"


def rows_deleted(report: ReportWithResults) -> str | None:
    """Says that rows of the run are deleted, so that no row is shown; None while they are kept."""
    if all(len(report.results.get(name, ())) >= one.queries for name, one in report.systems.items()):
        return None
    return "rows: the rows of this run are deleted; the figures are of all rows, and worst rows and causes are left out"


def notes(report: ReportWithResults) -> Iterator[str]:
    """What limits the figures: a partial run, deleted rows, interrupted calls, cautions, suspicious rows."""
    yield from filter(None, (partial(report), rows_deleted(report), interrupted(report)))
    yield from report.cautions
    yield from suspicious(report)


def missing(report: Report) -> Iterator[str]:
    """A line for each system, metric and reason for which scores are missing."""
    for name, system in report.systems.items():
        if system.missing_from_run:
            counted = (
                "; retrieval metrics count them as 0"
                if any(m.kind == "retrieval" for m in system.metrics.values())
                else ""
            )
            yield f"{name}: {system.missing_from_run} of {system.queries} queries got no response{counted}"
        figures = [(label, figure) for label, figure in _SYSTEM if label not in _WHERE_CALLED]
        if silent := [label for label, figure in figures if figure(system) == NOT_REPORTED]:
            yield f"{name}: {NOT_REPORTED}: {', '.join(silent)}"
        by_reason: dict[tuple[str, int], list[str]] = {}
        for metric, mean in system.metrics.items():
            for reason, count in mean.missing.items():
                by_reason.setdefault((reason, count), []).append(metric + _range(mean))
        for (reason, count), metrics in by_reason.items():
            yield f"{name}: {', '.join(metrics)}: {count} of {system.queries} without a score ({reason})"
        if reference := system.evaluation.reference:
            for reason, count in reference.reasons.items():
                yield f"{name}: the reference judge has no verdict on {count} of {reference.asked} rows ({reason})"
        for member in system.jury.members if system.jury else ():
            for reason, count in member.reasons.items():
                yield f"{name}: {member.judge} has no vote on {count} of {system.queries} rows ({reason})"


def suspicious(report: ReportWithResults) -> Iterator[str]:
    """A line for each system some of whose rows the judge's verdict marks as suspicious, with their labels."""
    for name, system in report.systems.items():
        if not system.evaluation.suspicious:
            continue
        rows = report.results[name] if system.queries <= MOST_READ else ()
        marked = [
            f"{row.query_id} ({listed(row.verdict.suspicious)})"
            for row in rows
            if row.verdict and row.verdict.suspicious
        ]
        what = "hold text that addresses the judge or forges its form, or support that no context shows"
        named = f": {listed(marked)}" if marked else ""
        yield f"{name}: {system.evaluation.suspicious} of {system.queries} rows {what}{named}"


def _range(mean: Aggregate) -> str:
    """What the mean would be if all that is missing were the worst, or the best."""
    return f" (mean {mean.bounds.worst:.3f} to {mean.bounds.best:.3f})" if mean.bounds and mean.n else ""


def _latency(spread: Distribution) -> str:
    if spread.p50 is None or spread.p95 is None or spread.p99 is None:
        return NOT_REPORTED
    digits = 0 if spread.p50 >= 10 else 1
    figures = " / ".join(f"{value:.{digits}f}" for value in (spread.p50, spread.p95, spread.p99))
    return f"{figures} ms n={of_rows(spread.n, spread.missing)}"


def _first_call(system: SystemReport) -> str:
    return "" if system.first_call_ms is None else f"; first call {system.first_call_ms:.0f} ms, start included"


def _tokens(spread: Distribution) -> str:
    if spread.mean is None or spread.total is None:
        return NOT_REPORTED
    return f"{spread.total:,.0f} ({spread.mean:,.0f} a query) n={of_rows(spread.n, spread.missing)}"


def _money(spread: Distribution) -> str:
    if spread.mean is None or spread.total is None:
        return NOT_REPORTED
    return f"{number(spread.total)} ({number(spread.mean)} a query) n={of_rows(spread.n, spread.missing)}"


def spent(used: Usage) -> str:
    """Calls, tokens and USD; ``nothing`` where there was no call."""
    if not (used.calls or used.cache_hits or used.retries or used.uncertain_calls):
        return NOTHING
    tokens = used.input_tokens + used.output_tokens
    cost = "unknown" if used.cost_usd is None else number(used.cost_usd)
    parts = [f"{used.calls} calls", f"{tokens:,} tokens", f"{cost} USD"]
    parts += [f"{used.cache_hits} from cache"] * bool(used.cache_hits)
    parts += [f"{used.uncertain_calls} perhaps paid"] * bool(used.uncertain_calls)
    return ", ".join(parts)


def _throughput(report: SystemReport) -> str:
    if report.throughput_qps is None:
        return NOT_REPORTED
    how = "one after another"
    if load := report.load:
        how = f"with {load.concurrency} in flight" + (f", {load.rate:g}/s asked for" if load.rate else "")
    return f"{report.throughput_qps:.2f} queries/s {how}"


def _retried(report: SystemReport) -> str:
    if not (report.load and report.load.retried):
        return NOT_REPORTED
    return f"{report.load.retried} queries, {report.load.attempts} requests in all"


_FIRST_TOKEN, _AGAIN = "first token p50 / p95 / p99", "tried again"
_WHERE_CALLED = (_FIRST_TOKEN, _AGAIN)
_SYSTEM: Figures = (
    ("latency p50 / p95 / p99", lambda s: _latency(s.latency_ms) + _first_call(s)),
    (_FIRST_TOKEN, lambda s: _latency(s.first_token_ms)),
    ("retrieval latency", lambda s: _latency(s.retrieval_latency_ms)),
    ("generation latency", lambda s: _latency(s.generation_latency_ms)),
    ("throughput", _throughput),
    (_AGAIN, _retried),
    ("input tokens", lambda s: _tokens(s.input_tokens)),
    ("output tokens", lambda s: _tokens(s.output_tokens)),
    ("cost in USD", lambda s: _money(s.cost_usd)),
    (PER_ACCURATE, lambda s: estimate(s.cost_per_accurate_answer)),
)
_REFUSALS: Figures = (
    ("refusal precision", lambda s: estimate(s.refusals.precision)),
    ("refusal recall", lambda s: estimate(s.refusals.recall)),
)
_EVALUATION: Figures = (
    ("judge, used", lambda s: spent(s.evaluation.usage)),
    ("judge, wasted", lambda s: spent(s.evaluation.waste)),
    ("refused by its provider", lambda s: listed(f"{what}: {n} rows" for what, n in s.evaluation.left_out.items())),
)
