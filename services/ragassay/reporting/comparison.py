"""What a comparison says, as a document, and its figures as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from ragassay.analysis.describe import frontier, times
from ragassay.analysis.difference import Difference
from ragassay.analysis.models import ComparedSystem, Comparison, Pair, Regression
from ragassay.core.formatting import interval, json_document, listed, number, p_value, percent, quantity, signed
from ragassay.core.report import Distribution
from ragassay.core.statistics import Interval
from ragassay.reporting import csv, xlsx
from ragassay.reporting.charts import Chart, Drawn, dots, scatter
from ragassay.reporting.csv import short_text
from ragassay.reporting.document import Block, Card, Cards, Cell, Document, Figure, Link, Sentences, Table
from ragassay.reporting.exporters import Exporters, of_document
from ragassay.reporting.failing import what_went_wrong
from ragassay.reporting.figures import NOT_REPORTED, estimate
from ragassay.reporting.grids import Grid, Kind
from ragassay.reporting.summary import PER_ACCURATE

UNITS = {
    **dict.fromkeys(("latency_ms", "first_token_ms", "retrieval_latency_ms", "generation_latency_ms"), "ms"),
    "cost_usd": "USD",
}
_change = partial(quantity, sign="+")


MOST_CARDS = 5  # on a page, which leads to the list of all that got worse
TONES = {"better": "good", "worse": "bad"}


def to_csv(comparison: Comparison, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """A line for each pair and metric."""
    return csv.lines(delta_grid(comparison).of(fields))


def to_xlsx(comparison: Comparison, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The sheets Differences (a row for each pair and metric), and Systems, with where they come from."""
    return xlsx.workbook([delta_grid(comparison).of(fields), side_grid(comparison)])


def sides_to_csv(comparison: Comparison) -> Iterator[bytes]:
    """What the systems are, and how they were compared."""
    return csv.lines(side_grid(comparison))


_DELTAS: dict[str, Kind] = {
    **dict.fromkeys(("a", "b", "metric", "better"), "text"),
    **dict.fromkeys(("mean_a", "mean_b", "delta", "low", "high", "level", "p", "p_adjusted"), "number"),
    "outcome": "text",
    **dict.fromkeys(("n", "n_a", "n_b", "wins", "losses", "ties"), "integer"),
    "reason": "text",
}


def delta_grid(comparison: Comparison) -> Grid:
    """A line for each pair and metric: what ``Difference`` has of it, as labels correct it where they do."""
    rows = []
    for pair in comparison.pairs:
        for one in pair.metrics.values():
            ends = one.interval
            found = one.model_dump(include=set(_DELTAS)) | {"low": ends.low, "high": ends.high}
            found["level"] = None if ends.low is None else ends.level
            rows.append([found.get(column) for column in _DELTAS])
    return Grid("Differences", _DELTAS, rows)


def side_grid(comparison: Comparison) -> Grid:
    """What the systems are, and how they were compared, by name."""
    rows: list[tuple[str, object]] = [("verdict", sentence) for sentence in comparison.verdict]
    rows += [("warning", warning) for warning in comparison.warnings]
    for name, side in comparison.sides.items():
        of = {"run": side.run, "system": side.system, "judge": side.judge, "queries": side.queries}
        of |= {"dataset": side.dataset.name, "dataset_digest": side.dataset.digest, "accuracy": side.accuracy}
        of |= {"cost_usd": side.cost_usd, "latency_p50_ms": side.latency_p50_ms}
        of |= {"cost_per_accurate_answer": side.cost_per_accurate_answer.value}
        rows += [(f"{name}: {key}", value) for key, value in of.items()]
    shared = ("ragassay", "baseline", "alpha", "correction", "family", "seed")
    rows += [(key, getattr(comparison, key)) for key in shared]
    return Grid("Systems", {"name": "text", "value": "text"}, rows)


def tables(comparison: Comparison) -> Iterator[Table]:
    """For each pair the primary metrics."""
    level = percent(1 - comparison.alpha)
    for pair in comparison.pairs:
        yield _of_pair(comparison, pair, level)


def more_tables(comparison: Comparison) -> Iterator[Table]:
    """For each pair the exploratory metrics and what answers took; then all systems, and why answers failed."""
    level = percent(1 - comparison.alpha)
    for pair in comparison.pairs:
        if any(one.exploratory for one in pair.metrics.values()):
            columns = ("metric", pair.a, pair.b, "delta", level, "p", "n", "won/lost/tied", "alone")
            note = "Each metric by itself: nothing corrects for how many there are."
            title = f"Exploratory metrics: {pair.b} against {pair.a}"
            yield Table(title, columns, _metric_rows(pair, exploratory=True), note, ("n", level))
        if pair.measured:
            a, b = comparison.sides[pair.a].measured, comparison.sides[pair.b].measured
            taken = tuple((name, *_taken(one, a[name], b[name])) for name, one in pair.measured.items())
            columns = ("a query", pair.a, pair.b, "ratio", "delta", level, "p50 delta", "p95 delta", "n")
            title, least = f"Time and cost: {pair.b} against {pair.a}", ("p50 delta", "p95 delta", "n", level, "delta")
            yield Table(title, columns, taken, _more(pair), least)
    yield from standing_table(comparison)
    sides = {name: side.failures for name, side in comparison.sides.items()}
    if "accurate" in comparison.metrics or any(one.unknown < one.rows for one in sides.values()):
        counts: dict[str, dict[Any, int]] = {
            name: {cause: found.n for cause, found in one.causes.items()} for name, one in sides.items()
        }
        for name, one in sides.items():
            counts[name]["not_attributed"] = sum(one.unattributed.values())
        yield from filter(None, [what_went_wrong(counts, {name: one.rows for name, one in sides.items()})])


def dataset_tables(comparison: Comparison) -> Iterator[Table]:
    """Of several datasets: each primary metric of every system on each of them, with the difference from the baseline."""
    if len({pair.a for pair in comparison.pairs}) < 2:
        return
    for name in comparison.primary:
        cells: dict[str, dict[str, str]] = {comparison.baseline: {}}
        for pair in comparison.pairs:
            side, one = comparison.sides[pair.b], pair.metrics.get(name)
            dataset = side.dataset.name
            cells[comparison.baseline][dataset] = _score(one.mean_a) if one else "not computed"
            change = f" ({signed(one.delta)}{one.mark})" if one and one.delta is not None else ""
            cells.setdefault(side.system, {})[dataset] = f"{_score(one.mean_b)}{change}" if one else "not computed"
        datasets = list(cells[comparison.baseline])
        rows = tuple((system, *(of_system[dataset] for dataset in datasets)) for system, of_system in cells.items())
        yield Table(f"{name} on each dataset", ("", *datasets), rows)


def _metric_rows(pair: Pair, *, exploratory: bool) -> tuple[tuple[Cell, ...], ...]:
    """The metrics of a pair, that of the headline first."""
    deltas = sorted(pair.metrics.items(), key=lambda item: item[0] != "accurate")
    return tuple(_row(name, one, pair.corrected_by) for name, one in deltas if one.exploratory is exploratory)


def _of_pair(comparison: Comparison, pair: Pair, level: str) -> Table:
    matching = pair.matching
    note = f"{matching.paired} of {max(matching.rows_a, matching.rows_b)} queries matched"
    note += f", {matching.only_a} only in {pair.a}" if matching.only_a else ""
    note += f", {matching.only_b} only in {pair.b}" if matching.only_b else ""
    note += f", {matching.different_text} with another text" if matching.different_text else ""
    note += f", {matching.different_truth} have another ground truth" if matching.different_truth else ""
    note += "; no query is shared: Welch's test of independent groups" if matching.method == "unpaired" else ""
    alone = comparison.correction == "none" or comparison.family < 2
    note += "" if alone else f". p is corrected for {comparison.family} tests, intervals are not"
    columns = ("metric", pair.a, pair.b, "delta", level, "p" if alone else "p corrected", "n", "won/lost/tied")
    rows = _metric_rows(pair, exploratory=False)
    return Table(f"{pair.b} against {pair.a}", (*columns, "difference"), rows, note, ("n", level))


def _regressions(comparison: Comparison, pair: Pair, pages: str) -> Cards:
    return Cards(
        f"Worst regressions: {pair.b} against {pair.a}",
        tuple(_regression(comparison, pair, row, pages) for row in pair.regressions[: MOST_CARDS if pages else None]),
    )


def _regression(comparison: Comparison, pair: Pair, row: Regression, pages: str) -> Card:
    """A query on which b is worse: its id in a, with that in b if it is another one; scores, answers, why b's is worse."""
    elsewhere = "" if row.query_id_b == row.query_id else f" ({row.query_id_b} of {pair.b})"
    scores = (f"{name} {number(a, beside=b)} -> {number(b, beside=a)}" for name, (a, b) in row.scores.items())
    answers = ((pair.a, row.answer_a or "no answer"), (pair.b, row.answer_b or "no answer"))
    texts = (("scores", ", ".join(scores)), *(answers if row.answer_a or row.answer_b else ()), ("why", row.why or ""))
    links = []
    for name, query_id in ((pair.a, row.query_id), (pair.b, row.query_id_b)) if pages else ():
        side = comparison.sides[name]
        address = f"{pages}/{side.run}/row?{urlencode({'system': side.system, 'id': query_id})}"
        links.append(Link(f"{name}: the whole row", address))
    return Card(row.query, f"{row.query_id}{elsewhere}", texts, tuple(links))


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


def standing_table(comparison: Comparison) -> Iterator[Table]:
    """What is known of all systems over all their rows, and which are Pareto-optimal; no table if nothing is."""
    figures: dict[str, tuple[Callable[[ComparedSystem], object], Callable[[ComparedSystem], str]]] = {
        "accuracy": (lambda side: side.accuracy, lambda side: _score(side.accuracy)),
        "USD a query": (lambda side: side.cost_usd, lambda side: _reported(side.cost_usd)),
        "latency p50 in ms": (lambda side: side.latency_p50_ms, lambda side: _reported(side.latency_p50_ms)),
        PER_ACCURATE: (lambda side: side.cost_usd, lambda side: estimate(side.cost_per_accurate_answer)),
    }
    sides = comparison.sides
    known = {
        name: write for name, (of, write) in figures.items() if any(of(side) is not None for side in sides.values())
    }
    if known:
        rows = tuple((label, *(write(side) for write in known.values())) for label, side in sides.items())
        yield Table("Accuracy, cost and latency", ("system", *known), rows, frontier(comparison.pareto))


def _score(value: float | None, none: str = "not scored") -> str:
    return none if value is None else number(value)


def _reported(value: float | None) -> str:
    return NOT_REPORTED if value is None else quantity(value)


def _row(name: str, delta: Difference, corrected_by: str) -> tuple[Cell, ...]:
    """The row of a metric; delta, interval and p are by labels if they correct it."""
    p = delta.p if delta.exploratory else delta.p_adjusted
    none = "no pair" if delta.paired and delta.n == 0 else "not scored"
    outcome = "not shown" if delta.outcome == "no difference shown" else delta.outcome
    return (
        name if delta.corrected_by is None else f"{name}, by {delta.corrected_by} {corrected_by}",
        _score(delta.mean_a, none),
        _score(delta.mean_b, none),
        "" if delta.delta is None else signed(delta.delta),
        interval(delta.interval, signed) if delta.interval.low is not None else "none",
        "" if p is None else f"{p_value(p)}{delta.mark}",
        str(delta.n) if delta.paired else f"{delta.n_a}+{delta.n_b}",
        "" if delta.wins is None else f"{delta.wins}/{delta.losses}/{delta.ties}",
        Figure(outcome, tone=TONES.get(delta.outcome, "")),
    )


def _taken(taken: Difference, a: Distribution, b: Distribution) -> tuple[str, ...]:
    unit = f" {UNITS[taken.metric]}" if taken.metric in UNITS else ""
    return (
        f"{_reported(a.mean)}{unit}",
        f"{_reported(b.mean)}{unit}",
        "" if taken.ratio is None else times(taken.ratio),
        "" if taken.delta is None else _change(taken.delta),
        "none" if taken.interval.low is None else interval(taken.interval, _change),
        *(_change(getattr(b, p) - getattr(a, p)) for p in ("p50", "p95")),
        str(taken.n),
    )


def _more(pair: Pair) -> str:
    more = pair.incremental_cost
    if more.value is None:
        return f"One more accurate answer has no price: {more.reason}."
    bounds = interval(more.interval)
    caveat = f"; {more.interval.reason}" if more.interval.low is not None and more.interval.reason else ""
    return f"One more accurate answer costs {number(more.value)} USD ({bounds}, n={more.n}{caveat})."


def of_comparison(
    comparison: Comparison, pages: str = "", intervals: Mapping[str, Interval] = MappingProxyType({})
) -> Document:
    """The verdict, all tables, the queries on which a system is worse, slices, the method, and where it comes from.

    ``pages``: the address of the page of runs, to which runs and rows lead. ``intervals``: of accuracy, by system.
    """
    return Document(
        title=f"Comparison of {listed(comparison.sides)}",
        about=f"compared with {comparison.baseline}, alpha {comparison.alpha:g}, correction {comparison.correction}",
        answer=comparison.verdict,
        notes=comparison.warnings,
        blocks=tuple(_blocks(comparison, pages, intervals)),
        details=tuple(_details(comparison, pages)),
        ragassay=comparison.ragassay,
    )


def _heat(comparison: Comparison) -> Table:
    """Every metric, that of the headline first, with each system's mean and how it differs from the baseline."""
    rows: list[tuple[Cell, ...]] = []
    for name in sorted(comparison.metrics, key=lambda name: name != "accurate"):
        deltas = [pair.metrics[name] for pair in comparison.pairs]
        first = next((delta.mean_a for delta in deltas if delta.mean_a is not None), None)
        others = (
            Figure(_score(delta.mean_b), delta.outcome + delta.mark, tone=TONES.get(delta.outcome, ""))
            for delta in deltas
        )
        rows.append((name, Figure(_score(first)), *others))
    columns = ("metric", comparison.baseline, *(pair.b for pair in comparison.pairs))
    note = f"Better and worse against {comparison.baseline}; * below 0.05, ** below 0.01, *** below 0.001."
    return Table("All systems", columns, tuple(rows), note)


def differences_chart(comparison: Comparison) -> Chart | None:
    """Each primary metric's difference from the baseline with its interval, a dot for each system."""
    rows: dict[str, dict[str, Drawn]] = {}
    for name in comparison.primary:
        for pair in comparison.pairs:
            if (one := pair.metrics.get(name)) is None:
                continue
            if one.delta is not None and abs(one.delta) <= 1:
                text = f"{name}, {pair.b}: {signed(one.delta)} ({interval(one.interval, signed)}), {one.outcome}"
                rows.setdefault(name, {})[pair.b] = Drawn(x=name, y=one.delta, text=text, interval=one.interval)
    note = f"Right of 0, the figure is higher than that of {comparison.baseline}. Lines are intervals."
    level = percent(1 - comparison.alpha)
    return dots(
        f"Differences from {comparison.baseline}", f"difference, {level} interval", rows, write=signed, note=note
    )


def _blocks(comparison: Comparison, pages: str, intervals: Mapping[str, Interval]) -> Iterator[Block]:
    yield from filter(None, (differences_chart(comparison), standing_chart(comparison, pages, intervals)))
    yield from dataset_tables(comparison)
    if len(comparison.pairs) > 1 and len({pair.a for pair in comparison.pairs}) == 1:
        yield _heat(comparison)
    yield from tables(comparison)
    yield from () if pages else more_tables(comparison)
    yield from (_regressions(comparison, pair, pages) for pair in comparison.pairs if pair.regressions)


def _details(comparison: Comparison, pages: str) -> Iterator[Block]:
    yield from more_tables(comparison) if pages else ()
    yield from slice_tables(comparison)
    yield Sentences("How this was compared", tuple(_method_of(comparison)))
    facts: list[tuple[Cell, ...]] = [
        (name, Link(str(value), f"{pages}/{value}") if pages and name.endswith(": run") else short_text(value))
        for name, value in side_grid(comparison).rows
        if name not in ("verdict", "warning") and value is not None
    ]
    yield Table("Where these numbers come from", ("", ""), tuple(facts))


def _method_of(comparison: Comparison) -> Iterator[str]:
    yield "Rows of two systems are matched by their ids, else by the text of the query; a delta is that of the matched rows."
    yield (
        f"Better and worse are said where the difference is significant at {comparison.alpha:g}, corrected for "
        f"{comparison.family} tests ({comparison.correction}). Intervals are not corrected."
    )
    yield f"Every random draw has the seed {comparison.seed}."


def standing_chart(
    comparison: Comparison, pages: str = "", intervals: Mapping[str, Interval] = MappingProxyType({})
) -> Chart | None:
    """Accuracy against cost, if all systems report it and one is not free, else against latency; None if neither is known."""
    sides = comparison.sides
    costs = {name: 1000 * side.cost_usd for name, side in sides.items() if side.cost_usd is not None}
    times = {name: side.latency_p50_ms for name, side in sides.items() if side.latency_p50_ms is not None}
    priced = len(costs) == len(sides) and any(costs.values())
    across, unit = (costs, "USD per 1,000 queries") if priced else (times, "median latency, ms")
    if len(across) < len(sides):
        return None
    points = {}
    for name, side in sides.items():
        if side.accuracy is None:
            return None
        text = f"{name}: {number(side.accuracy)} accurate at {quantity(across[name])} {unit}"
        address = pages and f"{pages}/{side.run}"
        points[name] = Drawn(x=across[name], y=side.accuracy, text=text, address=address, interval=intervals.get(name))
    note = "Up and to the left is better."
    note += " Lines are intervals of the accuracy over all rows of a system." if intervals else ""
    return scatter("Accuracy against what it takes", unit, "share of accurate answers", points, note=note)


EXPORTERS: Exporters[Comparison] = Exporters(
    "comparison exporter",
    {
        **of_document("comparison", of_comparison),
        "csv": to_csv,
        "summary.csv": sides_to_csv,
        "json": json_document,
        "xlsx": to_xlsx,
    },
)
