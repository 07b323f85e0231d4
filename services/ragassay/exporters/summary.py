"""A report's figures as words: one table of rows per section, shared by the terminal and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ragassay.documents import Aggregate, CostPerAccurate, Distribution, Report, SystemReport
from ragassay.models import Usage
from ragassay.stats import Interval

NOT_REPORTED = "not reported"
PERCENTAGES = frozenset(("gate_efficiency",))


@dataclass(frozen=True)
class Section:
    """A titled table: for each row a label and one cell per system."""

    title: str
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def sections(report: Report) -> list[Section]:
    """Retrieval, answer quality, time, money, and what the evaluation took."""
    systems = list(report.systems.values())
    names = report.provenance.metrics
    found = []
    for title, kinds in (
        ("Retrieval", {"retrieval"}),
        ("Answer quality", {"quality"}),
        ("Measured", {"performance", "cost"}),
    ):
        chosen = [name for name in names if systems[0].metrics[name].kind in kinds]
        rows = tuple(
            (name, tuple(aggregate(s.metrics[name], percent=name in PERCENTAGES) for s in systems)) for name in chosen
        )
        found.append(Section(title, rows))
    figures = tuple(_row(label, figure, systems) for label, figure in _SYSTEM)
    reported = tuple(row for row in figures if set(row[1]) != {NOT_REPORTED})
    found.append(Section("Time and cost of the system", reported))
    found.append(
        Section("Spent on the evaluation", tuple(_row(label, figure, systems) for label, figure in _EVALUATION))
    )
    return [section for section in found if section.rows]


def stopped(report: Report) -> str | None:
    """Why judging ended early and what that saved; None when it did not."""
    if report.stopped is None:
        rule = report.provenance.configuration.stop_when
        return None if rule is None else f"not stopped early: {rule} was not reached before the last chunk"
    found, all_rows = report.stopped, report.stopped.rows + report.stopped.rows_left
    return (
        f"stopped early, {found.reason}: {found.rows:,} of {all_rows:,} rows evaluated, "
        f"{found.calls_saved:,} judge calls saved"
    )


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
        if silent := [label for label, figure in _SYSTEM if figure(system) == NOT_REPORTED]:
            yield f"{name}: {NOT_REPORTED}: {', '.join(silent)}"
        by_reason: dict[tuple[str, int], list[str]] = {}
        for metric, found in system.metrics.items():
            for reason, count in found.reasons.items():
                by_reason.setdefault((reason, count), []).append(metric + _range(found))
        for (reason, count), metrics in by_reason.items():
            yield f"{name}: {', '.join(metrics)}: {count} of {system.queries} without a score ({reason})"


def _range(found: Aggregate) -> str:
    """What the mean would be if all that is missing were the worst, or the best."""
    return f" (mean {found.bounds.worst:.3f} to {found.bounds.best:.3f})" if found.bounds and found.n else ""


def aggregate(found: Aggregate, *, percent: bool = False) -> str:
    """``0.742 [0.65, 0.83] n=28/30``: mean, interval, and how many of the rows were scored. ``percent``: ``74.2%``."""
    rows = found.n + found.missing
    if found.mean is None:
        return f"not scored n=0/{rows}"
    if percent and found.interval.low is not None and found.interval.high is not None:
        bounds = f"[{found.interval.low:.0%}, {found.interval.high:.0%}]"
        return f"{found.mean:.1%} {bounds} {_count(found.n, found.missing)}"
    return f"{_number(found.mean)} {interval(found.interval)} {_count(found.n, found.missing)}"


def interval(found: Interval) -> str:
    """``[low, high]``; an infinite bound is ``unbounded``."""
    if found.low is None:
        return "[no interval]"
    high = "unbounded" if found.unbounded or found.high is None else _number(found.high, 2)
    return f"[{_number(found.low, 2)}, {high}]"


def cost_per_accurate(found: CostPerAccurate) -> str:
    """USD per accurate answer with its interval, or why there is none."""
    if found.value is None:
        return f"undefined: {found.reason}"
    return f"{_number(found.value)} {interval(found.interval)} {_count(found.n, found.missing)}"


def _count(n: int, missing: int) -> str:
    return f"n={n}/{n + missing}" if missing else f"n={n}"


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if abs(value) >= 0.01 or value == 0 else f"{value:.{digits}g}"


def _row(label: str, figure: Callable[[SystemReport], str], systems: list[SystemReport]) -> tuple[str, tuple[str, ...]]:
    return label, tuple(figure(system) for system in systems)


def _latency(found: Distribution) -> str:
    if found.p50 is None or found.p95 is None or found.p99 is None:
        return NOT_REPORTED
    digits = 0 if found.p50 >= 10 else 1
    figures = " / ".join(f"{value:.{digits}f}" for value in (found.p50, found.p95, found.p99))
    return f"{figures} ms {_count(found.n, found.missing)}"


def _tokens(found: Distribution) -> str:
    if found.mean is None or found.total is None:
        return NOT_REPORTED
    return f"{found.total:,.0f} ({found.mean:,.0f} a query) {_count(found.n, found.missing)}"


def _money(found: Distribution) -> str:
    if found.mean is None or found.total is None:
        return NOT_REPORTED
    return f"{_number(found.total)} ({_number(found.mean)} a query) {_count(found.n, found.missing)}"


def _usage(used: Usage) -> str:
    if not (used.calls or used.cache_hits or used.retries or used.uncertain_calls):
        return "nothing"
    tokens, cost = (
        used.input_tokens + used.output_tokens,
        "unknown" if used.cost_usd is None else _number(used.cost_usd),
    )
    parts = [f"{used.calls} calls", f"{tokens:,} tokens", f"{cost} USD"]
    parts += [f"{used.cache_hits} from cache"] * bool(used.cache_hits)
    parts += [f"{used.uncertain_calls} perhaps paid"] * bool(used.uncertain_calls)
    return ", ".join(parts)


def _throughput(report: SystemReport) -> str:
    return NOT_REPORTED if report.throughput_qps is None else f"{report.throughput_qps:.2f} queries/s one after another"


_SYSTEM: tuple[tuple[str, Callable[[SystemReport], str]], ...] = (
    ("latency p50 / p95 / p99", lambda s: _latency(s.latency_ms)),
    ("retrieval latency", lambda s: _latency(s.retrieval_latency_ms)),
    ("generation latency", lambda s: _latency(s.generation_latency_ms)),
    ("throughput", _throughput),
    ("input tokens", lambda s: _tokens(s.input_tokens)),
    ("output tokens", lambda s: _tokens(s.output_tokens)),
    ("cost in USD", lambda s: _money(s.cost_usd)),
    ("USD per accurate answer", lambda s: cost_per_accurate(s.cost_per_accurate_answer)),
)
_EVALUATION: tuple[tuple[str, Callable[[SystemReport], str]], ...] = (
    ("judge, used", lambda s: _usage(s.evaluation.usage)),
    ("judge, wasted", lambda s: _usage(s.evaluation.waste)),
)
