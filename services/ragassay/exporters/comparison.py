"""A comparison as JSON, as Markdown, and as the tables that the terminal shows too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import orjson

from ragassay.comparisons import Cause, Comparison, Delta, Failures, Measured, Pair, Side
from ragassay.conclusions import frontier, signed, span
from ragassay.errors import BadSettings, UnknownName
from ragassay.exporters.markdown import markdown_row, markdown_text
from ragassay.exporters.summary import NOT_REPORTED, cost_per_accurate
from ragassay.files import write_whole

Exporter = Callable[[Comparison], bytes]
UNITS = {"latency_ms": "ms", "retrieval_latency_ms": "ms", "generation_latency_ms": "ms", "cost_usd": "USD"}


@dataclass(frozen=True)
class Table:
    """A titled table, and a line below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def to_json(found: Comparison) -> bytes:
    """The document, indented; ``ragassay schema comparison`` prints its schema."""
    return orjson.dumps(found.model_dump(mode="json"), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def to_markdown(found: Comparison) -> bytes:
    """The verdict, all tables with the slices, and where the numbers come from."""
    lines = ["# Comparison", "", *(f"{markdown_text(sentence)}  " for sentence in found.verdict)]
    if found.warnings:
        lines += ["", "## Warnings", "", *(f"- {markdown_text(warning)}" for warning in found.warnings)]
    for table in [*tables(found), *slice_tables(found)]:
        lines += ["", f"## {markdown_text(table.title)}", "", markdown_row([markdown_text(c) for c in table.columns])]
        lines += [markdown_row(["---"] * len(table.columns))]
        lines += [markdown_row([markdown_text(cell) for cell in row]) for row in table.rows]
        lines += ["", markdown_text(table.note)] if table.note else []
    lines += ["", "## Where the numbers come from", ""]
    for name, side in found.sides.items():
        digests = f"dataset `{side.dataset.digest[:12]}`"
        digests += f", responses `{side.responses.digest[:12]}`" if side.responses else ""
        lines.append(f"- {markdown_text(name)}: run `{side.run}`, judge {markdown_text(side.judge)}, {digests}")
    return ("\n".join(lines) + "\n").encode()


EXPORTERS: dict[str, Exporter] = {"json": to_json, "md": to_markdown}


def exporter_for(path: Path) -> Exporter:
    """The exporter of a file's extension; raises BadSettings, or UnknownName for an extension that is none of ours."""
    extension = path.suffix.removeprefix(".")
    if not extension:
        raise BadSettings(f"output {str(path)!r} has no extension", hint=f"one of: {', '.join(EXPORTERS)}")
    if path.is_dir() or not path.parent.is_dir():
        raise BadSettings(f"output {str(path)!r} is a folder, or lies in none", hint="name a file in a folder")
    if extension not in EXPORTERS:
        raise UnknownName("format of a comparison", extension, EXPORTERS)
    return EXPORTERS[extension]


def export(found: Comparison, path: Path) -> None:
    """Write the comparison to a file; it is whole or absent."""
    write_whole(path, exporter_for(path)(found))


def tables(found: Comparison) -> Iterator[Table]:
    """For each pair its metrics, what answers took and the worst regressions; then why answers failed."""
    level = f"{100 * (1 - found.alpha):.3g} %"
    corrected = "p" if found.correction == "none" else "p corrected"
    for pair in found.pairs:
        matching = pair.matching
        note = f"{matching.paired} of {max(matching.rows_a, matching.rows_b)} queries matched"
        note += f", {matching.only_a} only in {pair.a}" if matching.only_a else ""
        note += f", {matching.only_b} only in {pair.b}" if matching.only_b else ""
        note += f", {matching.different_text} ask something else" if matching.different_text else ""
        note += f", {matching.different_truth} have another ground truth" if matching.different_truth else ""
        note += "; no query is shared: Welch's test of independent groups" if matching.method == "unpaired" else ""
        note += "" if found.correction == "none" else f". p is corrected for {found.family} tests, intervals are not"
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
    yield _standing(found)
    yield _failures({name: side.failures for name, side in found.sides.items()})


def slice_tables(found: Comparison) -> Iterator[Table]:
    """Deltas of the primary metrics within each slice."""
    for pair in found.pairs:
        rows = tuple(
            (f"{field} = {value}", name, str(one.n), "" if one.delta is None else signed(one.delta), span(one.interval))
            for field, values in pair.slices.items()
            for value, metrics in values.items()
            for name, one in metrics.items()
            if name in found.primary
        )
        if rows:
            columns = ("slice", "metric", "n", "delta", f"{100 * (1 - found.alpha):.3g} %")
            note = "Exploratory: nothing corrects for the number of slices looked at."
            yield Table(f"Slices: {pair.b} against {pair.a}", columns, rows, note)


def number(value: float | None) -> str:
    """Three decimals, or three digits of a small number."""
    if value is None:
        return "not scored"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.3f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"


def _standing(found: Comparison) -> Table:
    """All systems over all their rows, and who is beaten by nobody."""
    figures: dict[str, Callable[[Side], str]] = {
        "accuracy": lambda side: number(side.accuracy),
        "USD a query": lambda side: NOT_REPORTED if side.cost_usd is None else number(side.cost_usd),
        "latency p50 in ms": lambda side: NOT_REPORTED if side.latency_p50_ms is None else number(side.latency_p50_ms),
        "USD per accurate answer": lambda side: cost_per_accurate(side.cost_per_accurate_answer),
    }
    rows = tuple((label, *map(figure, found.sides.values())) for label, figure in figures.items())
    return Table("Accuracy, cost and latency", ("", *found.sides), rows, frontier(found.pareto))


def _cells(delta: Delta) -> tuple[str, ...]:
    p = delta.p_corrected
    counts = "" if delta.wins is None else f"{delta.wins}/{delta.losses}/{delta.ties}"
    return (
        number(delta.mean_a),
        number(delta.mean_b),
        "" if delta.delta is None else signed(delta.delta),
        span(delta.interval) if delta.interval.low is not None else "none",
        "" if p is None else f"{p:.2g}{delta.mark}",
        str(delta.n) if delta.paired else f"{delta.n_a}+{delta.n_b}",
        counts,
        delta.outcome,
    )


def _taken(name: str, found: Measured) -> tuple[str, ...]:
    unit = f" {UNITS[name]}" if name in UNITS else ""
    return (
        f"{number(found.a.mean)}{unit}",
        f"{number(found.b.mean)}{unit}",
        "" if found.ratio is None else f"{found.ratio:.2g}x",
        "" if found.delta is None else _change(found.delta),
        "none"
        if found.interval.low is None
        else f"{_change(found.interval.low)}..{_change(found.interval.high or 0.0)}",
        *(_change(found.percentiles[p]) for p in ("p50", "p95")),
        str(found.n),
    )


def _change(value: float) -> str:
    return f"{value:+.0f}" if abs(value) >= 100 else f"{value:+.3g}"


def _more(pair: Pair) -> str:
    more = pair.incremental_cost
    if more.value is None:
        return f"One more accurate answer: undefined ({more.reason})."
    ends = more.interval
    high = "unbounded" if ends.high is None else number(ends.high)
    bounds = f"no interval: {ends.reason}" if ends.low is None else f"{number(ends.low)}..{high}"
    return f"One more accurate answer costs {number(more.value)} USD ({bounds}, n={more.n})."


def _regressions(pair: Pair) -> Iterator[tuple[str, ...]]:
    for name, rows in pair.regressions.items():
        for row in rows:
            yield name, row.query_id, row.query, number(row.a), number(row.b)


def _failures(found: dict[str, Failures]) -> Table:
    rows: list[tuple[str, ...]] = [
        ("accurate", *(f"{one.accurate}/{one.rows}" for one in found.values())),
        ("not accurate", *(str(one.inaccurate) for one in found.values())),
    ]
    for cause in get_args(Cause):
        counts = [one.causes[cause].n if cause in one.causes else 0 for one in found.values()]
        if any(counts):
            rows.append((f"  {cause.replace('_', ' ')}", *map(str, counts)))
    for kind, fields in (("  not attributed: ", "unattributed"), ("accuracy unknown: ", "unknown_reasons")):
        for reason in dict.fromkeys(reason for one in found.values() for reason in getattr(one, fields)):
            counts = [getattr(one, fields).get(reason, 0) for one in found.values()]
            rows.append((f"{kind}{reason}", *map(str, counts)))
    return Table("Why answers are not accurate", ("", *found), tuple(rows), _examples(found))


def _examples(found: dict[str, Failures]) -> str:
    listed: Sequence[str] = [
        f"{name}: {cause.replace('_', ' ')} {', '.join(example.query_id for example in counted.examples)}"
        for name, one in found.items()
        for cause, counted in one.causes.items()
    ]
    return f"For example: {'; '.join(listed)}." if listed else ""
