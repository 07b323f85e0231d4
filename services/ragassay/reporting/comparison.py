"""What a comparison says, as a document, and its figures as grids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from ragassay.analysis.describe import frontier, times
from ragassay.analysis.difference import Difference
from ragassay.analysis.models import Comparison, Pair, Pairwise
from ragassay.core.formatting import (
    changes_of,
    cut,
    interval,
    json_document,
    listed,
    number,
    of_metric,
    p_value,
    percent,
    quantity,
    signed,
)
from ragassay.core.statistics import Interval
from ragassay.reporting import csv, xlsx
from ragassay.reporting.charts import Chart, Drawn, dots, scatter
from ragassay.reporting.csv import short_text
from ragassay.reporting.document import Block, Cell, Document, Figure, Link, Sentences, Table
from ragassay.reporting.exporters import Exporters, of_document
from ragassay.reporting.failing import what_went_wrong
from ragassay.reporting.figures import NOT_REPORTED, PER_ACCURATE, estimate, marginal_cost, spent
from ragassay.reporting.tabular import Grid, Kind

TONES = {"better": "good", "worse": "bad"}
MAX_ROWS, MAX_SCORES = 10, 3  # that got worse, of which pages and JSON have all; scores of a row
_LONGEST = 160  # characters of a text on a page
_NOT_SCORED, _NOT_COMPUTED = "not scored", "not computed"
_change = partial(quantity, sign="+")
_DELTAS: dict[str, Kind] = {
    **dict.fromkeys(("a", "b", "metric", "better"), "text"),
    **dict.fromkeys(("mean_a", "mean_b", "delta", "low", "high", "level", "p", "p_adjusted"), "number"),
    "outcome": "text",
    **dict.fromkeys(("n", "n_a", "n_b", "wins", "losses", "ties"), "integer"),
    "reason": "text",
}


def delta_grid(comparison: Comparison) -> Grid:
    """A row for each pair and metric, as labels correct it where they do."""
    rows = []
    for one in (one for pair in comparison.pairs for one in pair.metrics.values()):
        ci = one.interval
        ends = {"low": ci.low, "high": ci.high, "level": None if ci.low is None else ci.level}
        cells = one.model_dump(include=set(_DELTAS)) | ends
        rows.append([cells.get(column) for column in _DELTAS])
    return Grid("Differences", _DELTAS, rows)


def side_grid(comparison: Comparison) -> Grid:
    """What the systems are, and how they were compared, by name."""
    rows: list[tuple[str, Any]] = [("verdict", sentence) for sentence in comparison.verdict]
    rows += [("warning", warning) for warning in comparison.warnings]
    for name, side in comparison.sides.items():
        about: dict[str, Any] = {key: getattr(side, key) for key in ("run", "system", "judge", "queries")}
        about |= {"dataset": side.dataset.name, "dataset_digest": side.dataset.digest}
        about |= {key: getattr(side, key) for key in ("accuracy", "cost_usd", "latency_p50_ms")}
        about["cost_per_accurate_answer"] = side.cost_per_accurate_answer.value
        rows += [(f"{name}: {key}", value) for key, value in about.items()]
    shared = ("ragassay", "baseline", "alpha", "correction", "family", "seed")
    rows += [(key, getattr(comparison, key)) for key in shared]
    return Grid("Systems", {"name": "text", "value": "text"}, rows)


def of_comparison(
    comparison: Comparison, pages: str = "", intervals: Mapping[str, Interval] = MappingProxyType({})
) -> Document:
    """The verdict, charts, all tables, the queries on which a system is worse, the method, and where it comes from.

    ``pages``: the address of the page of runs, to which runs and rows lead. ``intervals``: of accuracy, by system.
    """
    charts = _differences_chart(comparison), _accuracy_chart(comparison, pages, intervals)
    overview, of_pairs = list(_overview(comparison)), list(metric_tables(comparison))
    more = list[Block](_more_tables(comparison))
    if comparison.pairwise:
        more.insert(0, Sentences("Asked which answer is better", tuple(_pairwise(comparison, comparison.pairwise))))
    details = list(_details(comparison, pages))
    decisive, others = (overview, [*of_pairs, *more]) if overview else (of_pairs, more)
    blocks: list[Block | None] = [*charts, *decisive, _worse(comparison, pages)]
    if pages:  # the rest is to unfold
        details = [*others, *details]
    else:
        blocks += others
    return Document(
        title=f"Comparison of {listed(comparison.sides)}",
        about=f"compared with {comparison.baseline}, alpha {comparison.alpha:g}, correction {comparison.correction}",
        answer=comparison.verdict,
        notes=comparison.warnings,
        blocks=tuple(block for block in blocks if block),
        details=tuple(details),
        ragassay=comparison.ragassay,
    )


def _pairwise(comparison: Comparison, one: Pairwise) -> Iterator[str]:
    """How often order decided which answer a model prefers, and what asking it took."""
    yield f"{one.flipped} of {one.asked} pairs flipped with the order of the answers, and count as ties."
    for difference in (pair.metrics["preference"] for pair in comparison.pairs):
        yield from (f"Not judged: {count} pairs: {why}." for why, count in difference.missing_b.items())
    yield f"{one.judge}: {spent(one.usage)}."


def _overview(comparison: Comparison) -> Iterator[Table]:
    """Many systems: every metric of each; on several datasets, a table of datasets for each primary metric."""
    note = f"Against {comparison.baseline}: * p below 0.05, ** below 0.01, *** below 0.001."
    if len({pair.a for pair in comparison.pairs}) > 1:
        for name in comparison.primary:
            cells: dict[str, dict[str, Cell]] = {}
            for pair in comparison.pairs:
                one = pair.metrics.get(name)
                baseline = _score(one.mean_a, name) if one else _NOT_COMPUTED
                for label, cell in ((pair.a, baseline), (pair.b, _against(one) if one else _NOT_COMPUTED)):
                    side = comparison.sides[label]
                    cells.setdefault(side.system, {})[side.dataset.name] = cell
            datasets = list(cells[comparison.baseline])
            rows = tuple((system, *(of_system[name] for name in datasets)) for system, of_system in cells.items())
            yield Table(f"{name} on each dataset", ("", *datasets), rows, note)
    elif len(comparison.pairs) > 1:
        differences = {name: [pair.metrics[name] for pair in comparison.pairs] for name in _names(comparison)}
        first = {name: next((d.mean_a for d in of if d.mean_a is not None), None) for name, of in differences.items()}
        rows = tuple((name, _score(first[name], name), *map(_against, of)) for name, of in differences.items())
        yield Table("All systems", ("metric", comparison.baseline, *(pair.b for pair in comparison.pairs)), rows, note)


def _names(comparison: Comparison) -> list[str]:
    """The metrics: accuracy, the other primary ones, then the exploratory ones."""
    return sorted(dict.fromkeys((*comparison.primary, *comparison.metrics)), key=lambda name: name != "accurate")


def _against(one: Difference) -> Figure:
    outcome = f", {one.outcome}" if one.outcome in TONES else ""
    change = "" if one.delta is None else f"({changes_of(one.metric)(one.delta)}{one.stars}{outcome})"
    return Figure(_score(one.mean_b, one.metric), change, tone=TONES.get(one.outcome, ""))


def metric_tables(comparison: Comparison, *, exploratory: bool = False) -> Iterator[Table]:
    """For each pair its primary metrics, that of the headline first; or the ``exploratory`` ones."""
    level = percent(1 - comparison.alpha)
    corrected = not exploratory and comparison.correction != "none" and comparison.family > 1
    for pair in comparison.pairs:
        columns = ("metric", pair.a, pair.b, "delta", level, "p corrected" if corrected else "p", "n", "won/lost/tied")
        deltas = [(name, pair.metrics[name]) for name in _names(comparison) if name in pair.metrics]
        rows = tuple(_metric_row(*item, pair.corrected_by) for item in deltas if item[1].exploratory is exploratory)
        title, note = f"{pair.b} against {pair.a}", "; ".join(_matched(pair)) + "."
        if any(one.paired and one.n < max(one.n_a, one.n_b) for one in pair.metrics.values()):
            note += " Means are of the n queries that both have a score for; a run's own page counts all of its rows."
        note += f" p is corrected for {comparison.family} tests, intervals are not." if corrected else ""
        if exploratory:
            title = f"Exploratory metrics: {title}"
            note = "Each metric by itself: nothing corrects for how many there are."
        if rows:
            yield Table(title, (*columns, "difference"), rows, note, ("n", level))


def _matched(pair: Pair) -> Iterator[str]:
    """How the rows of two systems were matched, and what was not."""
    matching = pair.matching
    yield f"{matching.paired} of {max(matching.rows_a, matching.rows_b)} queries matched"
    others = {
        f"only in {pair.a}": matching.only_a,
        f"only in {pair.b}": matching.only_b,
        "with another text": matching.different_text,
        "with another ground truth": matching.different_truth,
    }
    yield from (f"{count} {which}" for which, count in others.items() if count)
    if matching.method == "unpaired":
        yield "no query is shared: Welch's test of independent groups"


def _metric_row(name: str, one: Difference, corrected_by: str) -> tuple[Cell, ...]:
    """The row of a metric; delta, interval and p are by labels if they correct it."""
    p, write = one.p if one.exploratory else one.p_adjusted, changes_of(one.metric)
    name += f", by {one.corrected_by} {corrected_by}" if one.corrected_by is not None else ""
    return (
        name,
        _score(one.mean_a, one.metric),
        _score(one.mean_b, one.metric),
        "" if one.delta is None else write(one.delta),
        "none" if one.interval.low is None else interval(one.interval, write),
        "" if p is None else f"{p_value(p)}{one.stars}",
        _scored(one),
        f"{one.wins}/{one.losses}/{one.ties}" if one.paired else "",
        Figure(one.outcome.replace("no difference shown", "not shown"), tone=TONES.get(one.outcome, "none")),
    )


def _scored(one: Difference) -> str:
    """How many rows it is of: pairs, or those of each side."""
    return str(one.n) if one.paired else f"{one.n_a}+{one.n_b}"


def _more_tables(comparison: Comparison) -> Iterator[Table]:
    """For each pair exploratory metrics, and what answers took; then accuracy and cost of all systems, and why answers failed."""
    yield from metric_tables(comparison, exploratory=True)
    for pair in comparison.pairs:
        if pair.measured:
            yield _time_and_cost(comparison, pair)
    sides = comparison.sides
    columns = {
        "accuracy": [_score(side.accuracy) for side in sides.values()],
        "USD a query": [_reported(side.cost_usd) for side in sides.values()],
        "latency p50 in ms": [_reported(side.latency_p50_ms) for side in sides.values()],
        PER_ACCURATE: [
            NOT_REPORTED if side.cost_usd is None else estimate(side.cost_per_accurate_answer)
            for side in sides.values()
        ],
    }
    known = {name: cells for name, cells in columns.items() if set(cells) - {NOT_REPORTED, _NOT_SCORED}}
    if known:
        rows = tuple(zip(sides, *known.values(), strict=True))
        matchings = [pair.matching for pair in comparison.pairs]
        is_partial = any(one.paired < max(one.rows_a, one.rows_b) for one in matchings)
        note = "All rows of each system count here, matched or not. " if is_partial else ""
        note = f"{note}{frontier(comparison.pareto)}".rstrip()
        yield Table("Accuracy, cost and latency", ("system", *known), rows, note)
    counts = defaultdict[str, dict[Any, int]](dict)
    for name, side in sides.items():
        if fixes := side.fix_first:
            counts[name] = {fix.cause: fix.rows for fix in fixes.causes} | {"not_attributed": fixes.unattributed}
    if failed := what_went_wrong(counts, {name: side.queries for name, side in sides.items()}):
        yield failed


def _time_and_cost(comparison: Comparison, pair: Pair) -> Table:
    level, rows = percent(1 - comparison.alpha), []
    for name, one in pair.measured.items():
        unit = " ms" if name.endswith("_ms") else " USD" if name == "cost_usd" else ""
        cells = [
            *(f"{_reported(mean)}{unit}" for mean in (one.mean_a, one.mean_b)),
            "" if one.ratio is None else times(one.ratio),
            "" if one.delta is None else _change(one.delta),
            "none" if one.interval.low is None else interval(one.interval, _change),
        ]
        rows.append((name, *cells, _scored(one)))
    note = f"With {pair.b} instead of {pair.a}, {marginal_cost(pair.incremental_cost)}"
    columns = ("a query", pair.a, pair.b, "ratio", "delta", level, "n")
    return Table(f"Time and cost: {pair.b} against {pair.a}", columns, tuple(rows), note, ("n", level, "delta"))


def _worse(comparison: Comparison, pages: str) -> Table | None:
    """The rows that got worse most, of each pair as many, with both answers; an answer leads to its row. None if none did."""
    each = max(1, MAX_ROWS // len(comparison.pairs))
    rows: list[tuple[Cell, ...]] = []
    for pair in comparison.pairs:
        for row in pair.regressions[:each]:
            changes = {name: (number(a, 2), number(b, 2)) for name, (a, b) in row.scores.items()}
            scores = [f"{name} {a} \N{RIGHTWARDS ARROW} {b}" for name, (a, b) in changes.items() if a != b]
            if not scores:  # it is hardly worse
                continue
            answers = ((pair.a, row.query_id, row.answer_a), (pair.b, row.query_id_b, row.answer_b))
            links = (_row_link(comparison, pages, *answer) for answer in answers)
            ids = row.query_id if row.query_id_b == row.query_id else f"{row.query_id} ({row.query_id_b} of {pair.b})"
            why = "; ".join(filter(None, (listed(scores, MAX_SCORES), cut(row.why or "", _LONGEST))))
            rows.append((Figure(cut(row.query, _LONGEST), ids), *links, why))
    answer = comparison.pairs[0].b if len(comparison.pairs) == 1 else "worse answer"
    columns = ("question", comparison.baseline, answer, "why")
    return Table("Rows that got worse", columns, tuple(rows), "The worst by each metric.") if rows else None


def _row_link(comparison: Comparison, pages: str, name: str, query_id: str, answer: str | None) -> Cell:
    side = comparison.sides[name]
    of = f"{name}: " if len(comparison.pairs) > 1 and name != comparison.baseline else ""
    text = f"{of}{cut(answer or 'no answer', _LONGEST)}"
    address = f"{pages}/{side.run}/row?{urlencode({'system': side.system, 'id': query_id})}"
    return Link(text, address) if pages else text


def _details(comparison: Comparison, pages: str) -> Iterator[Block]:
    """The method, and where the numbers come from."""
    method = (
        "Rows of two systems are matched by their ids, else by the text of the query; a delta is that of the matched rows.",
        f"Better and worse are said where the difference is significant at {comparison.alpha:g}.",
        f"p is corrected for {comparison.family} tests ({comparison.correction}); intervals are not.",
        f"Every random draw has the seed {comparison.seed}.",
    )
    yield Sentences("How this was compared", method)
    facts: list[tuple[Cell, ...]] = [
        (name, Link(str(value), f"{pages}/{value}") if pages and name.endswith(": run") else short_text(value))
        for name, value in side_grid(comparison).rows
        if name not in ("verdict", "warning") and value is not None
    ]
    yield Table("Where these numbers come from", ("", ""), tuple(facts))


def _differences_chart(comparison: Comparison) -> Chart | None:
    """Each primary metric's difference from the baseline with its interval, a dot for each system."""
    rows: dict[str, dict[str, Drawn]] = {}
    for pair in comparison.pairs:
        for name in comparison.primary:
            one = pair.metrics.get(name)
            if one and one.delta is not None and abs(one.delta) <= 1:
                write = changes_of(name)
                text = f"{name}, {pair.b}: {write(one.delta)} ({interval(one.interval, write)}), {one.outcome}"
                rows.setdefault(name, {})[pair.b] = Drawn(name, one.delta, text, one.interval)
    title, unit = f"Differences from {comparison.baseline}", f"difference, {percent(1 - comparison.alpha)} interval"
    note = f"Right of 0, the figure is higher than that of {comparison.baseline}. Lines are intervals."
    return dots(title, unit, rows, write=signed, note=note)


def _accuracy_chart(comparison: Comparison, pages: str, intervals: Mapping[str, Interval]) -> Chart | None:
    """Accuracy against cost, if all systems report it and one is not free, else against latency; None if neither is known."""
    sides = comparison.sides
    costs = {name: 1000 * side.cost_usd for name, side in sides.items() if side.cost_usd is not None}
    latencies = {name: side.latency_p50_ms for name, side in sides.items() if side.latency_p50_ms is not None}
    priced = len(costs) == len(sides) and any(costs.values())
    across, unit = (costs, "USD per 1,000 queries") if priced else (latencies, "median latency, ms")
    points = {}
    for name, side in sides.items():
        if side.accuracy is None or name not in across:
            return None
        text = f"{name}: {number(side.accuracy)} accurate at {quantity(across[name])} {unit}"
        points[name] = Drawn(across[name], side.accuracy, text, intervals.get(name), pages and f"{pages}/{side.run}")
    note = "Up and to the left is better."
    note += " Lines are intervals of the accuracy over all rows of a system." if intervals else ""
    return scatter("Accuracy against what it takes", unit, "share of accurate answers", points, note=note)


def _score(value: float | None, metric: str = "accurate") -> str:
    return _NOT_SCORED if value is None else of_metric(metric, value)


def _reported(value: float | None) -> str:
    return NOT_REPORTED if value is None else quantity(value)


def _csv(comparison: Comparison, fields: Sequence[str] = ()) -> Iterator[bytes]:
    return csv.lines(delta_grid(comparison).of(fields))


def _xlsx(comparison: Comparison, fields: Sequence[str] = ()) -> Iterator[bytes]:
    return xlsx.workbook([delta_grid(comparison).of(fields), side_grid(comparison)])


EXPORTERS: Exporters[Comparison] = Exporters(
    "comparison exporter",
    {
        **of_document("comparison", of_comparison),
        "csv": _csv,
        "summary.csv": lambda comparison: csv.lines(side_grid(comparison)),
        "json": json_document,
        "xlsx": _xlsx,
    },
)
