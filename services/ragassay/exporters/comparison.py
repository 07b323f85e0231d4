"""A comparison as JSON, as Markdown, and as the tables that the terminal shows too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from ragassay.compare.models import ComparedSystem, Comparison, Delta, OperationalDelta, Pair
from ragassay.compare.summary import frontier, times
from ragassay.exporters.failing import causes
from ragassay.exporters.summary import NOT_REPORTED, PER_ACCURATE, cost_per_accurate
from ragassay.render import (
    Exporters,
    interval,
    json_document,
    markdown_row,
    markdown_text,
    number,
    percent,
    quantity,
    signed,
)

UNITS = {"latency_ms": "ms", "retrieval_latency_ms": "ms", "generation_latency_ms": "ms", "cost_usd": "USD"}
_change = partial(quantity, sign="+")


@dataclass(frozen=True)
class Table:
    """A titled table, and a line below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def to_markdown(comparison: Comparison) -> bytes:
    """The verdict, all tables with the slices, and where the numbers come from."""
    lines = ["# Comparison", "", *(f"{markdown_text(sentence)}  " for sentence in comparison.verdict)]
    if comparison.warnings:
        lines += ["", "## Warnings", "", *(f"- {markdown_text(warning)}" for warning in comparison.warnings)]
    for table in [*tables(comparison), *slice_tables(comparison)]:
        lines += ["", f"## {markdown_text(table.title)}", "", markdown_row([markdown_text(c) for c in table.columns])]
        lines += [markdown_row(["---"] * len(table.columns))]
        lines += [markdown_row([markdown_text(cell) for cell in row]) for row in table.rows]
        lines += ["", markdown_text(table.note)] if table.note else []
    lines += ["", "## Where the numbers come from", ""]
    for name, side in comparison.sides.items():
        digests = f"dataset `{side.dataset.digest[:12]}`"
        digests += f", responses `{side.responses.digest[:12]}`" if side.responses else ""
        lines.append(f"- {markdown_text(name)}: run `{side.run}`, judge {markdown_text(side.judge)}, {digests}")
    return ("\n".join(lines) + "\n").encode()


EXPORTERS: Exporters[Comparison] = Exporters("comparison exporter")
EXPORTERS.add("json", json_document)
EXPORTERS.add("md", to_markdown)


def tables(comparison: Comparison) -> Iterator[Table]:
    """For each pair its metrics, what answers took and the worst regressions; then why answers failed."""
    level = percent(1 - comparison.alpha)
    corrected = "p" if comparison.correction == "none" else "p corrected"
    for pair in comparison.pairs:
        matching = pair.matching
        note = f"{matching.paired} of {max(matching.rows_a, matching.rows_b)} queries matched"
        note += f", {matching.only_a} only in {pair.a}" if matching.only_a else ""
        note += f", {matching.only_b} only in {pair.b}" if matching.only_b else ""
        note += f", {matching.different_text} with another text" if matching.different_text else ""
        note += f", {matching.different_truth} have another ground truth" if matching.different_truth else ""
        note += "; no query is shared: Welch's test of independent groups" if matching.method == "unpaired" else ""
        note += (
            ""
            if comparison.correction == "none"
            else f". p is corrected for {comparison.family} tests, intervals are not"
        )
        columns = ("metric", pair.a, pair.b, "delta", level, corrected, "n", "won/lost/tied", "")
        rows = tuple((name, *_cells(delta)) for name, delta in pair.metrics.items())
        yield Table(f"{pair.b} against {pair.a}", columns, rows, note)
        if pair.measured:
            taken = tuple((name, *_taken(name, m)) for name, m in pair.measured.items())
            columns = ("a query", pair.a, pair.b, "ratio", "delta", level, "p50 delta", "p95 delta", "n")
            yield Table(f"Time and cost: {pair.b} against {pair.a}", columns, taken, _more(pair))
        if worst := tuple(_regressions(pair)):
            heads = ("metric", "query id", "query", pair.a, pair.b)
            yield Table(f"Worst regressions: {pair.b} against {pair.a}", heads, worst)
    yield _standing(comparison)
    failed = causes({name: side.failures for name, side in comparison.sides.items()})
    rows = tuple((label, *cells) for label, cells in failed.rows)
    yield Table(failed.title, ("", *comparison.sides), rows, failed.note)


def slice_tables(comparison: Comparison) -> Iterator[Table]:
    """Deltas of the primary metrics within each slice."""
    for pair in comparison.pairs:
        rows = tuple(
            (
                f"{field} = {value}",
                name,
                str(one.n),
                "" if one.delta is None else signed(one.delta),
                interval(one.interval, signed),
            )
            for field, values in pair.slices.items()
            for value, metrics in values.items()
            for name, one in metrics.items()
            if name in comparison.primary
        )
        if rows:
            columns = ("slice", "metric", "n", "delta", percent(1 - comparison.alpha))
            note = "Exploratory: nothing corrects for the number of slices looked at."
            yield Table(f"Slices: {pair.b} against {pair.a}", columns, rows, note)


def _standing(comparison: Comparison) -> Table:
    """All systems over all their rows, and which are Pareto-optimal."""
    figures: dict[str, Callable[[ComparedSystem], str]] = {
        "accuracy": lambda side: _score(side.accuracy),
        "USD a query": lambda side: _reported(side.cost_usd),
        "latency p50 in ms": lambda side: _reported(side.latency_p50_ms),
        PER_ACCURATE: lambda side: cost_per_accurate(side.cost_per_accurate_answer),
    }
    rows = tuple((label, *map(figure, comparison.sides.values())) for label, figure in figures.items())
    return Table("Accuracy, cost and latency", ("", *comparison.sides), rows, frontier(comparison.pareto))


def _score(value: float | None) -> str:
    return "not scored" if value is None else number(value)


def _reported(value: float | None) -> str:
    return NOT_REPORTED if value is None else quantity(value)


def _cells(delta: Delta) -> tuple[str, ...]:
    p = delta.p_corrected
    counts = "" if delta.wins is None else f"{delta.wins}/{delta.losses}/{delta.ties}"
    return (
        _score(delta.mean_a),
        _score(delta.mean_b),
        "" if delta.delta is None else signed(delta.delta),
        interval(delta.interval, signed) if delta.interval.low is not None else "none",
        "" if p is None else f"{p:.2g}{delta.mark}",
        str(delta.n) if delta.paired else f"{delta.n_a}+{delta.n_b}",
        counts,
        delta.outcome,
    )


def _taken(name: str, taken: OperationalDelta) -> tuple[str, ...]:
    unit = f" {UNITS[name]}" if name in UNITS else ""
    return (
        f"{_reported(taken.a.mean)}{unit}",
        f"{_reported(taken.b.mean)}{unit}",
        "" if taken.ratio is None else times(taken.ratio),
        "" if taken.delta is None else _change(taken.delta),
        "none" if taken.interval.low is None else interval(taken.interval, _change),
        *(_change(taken.percentiles[p]) for p in ("p50", "p95")),
        str(taken.n),
    )


def _more(pair: Pair) -> str:
    more = pair.incremental_cost
    if more.value is None:
        return f"One more accurate answer: undefined ({more.reason})."
    bounds = interval(more.interval)
    return f"One more accurate answer costs {number(more.value)} USD ({bounds}, n={more.n})."


def _regressions(pair: Pair) -> Iterator[tuple[str, ...]]:
    for name, rows in pair.regressions.items():
        for row in rows:
            yield name, row.query_id, row.query, _score(row.a), _score(row.b)
