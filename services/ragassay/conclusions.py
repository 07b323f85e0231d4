"""A comparison in one to four plain sentences, made by rules; it never claims more than the corrected tests carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragassay.comparisons import Delta, Measured, Outcome, Pair, Pareto
from ragassay.stats import Correction, Interval

MOST_NAMED = 4  # metrics named in one list
MOST_PAIRS = 3  # pairs that a verdict over many systems speaks of
CORRECTIONS = {"holm": "Holm", "bonferroni": "Bonferroni", "benjamini_hochberg": "Benjamini-Hochberg", "none": "no"}


def verdict(
    pair: Pair, primary: Sequence[str], alpha: float, correction: Correction, differs: Sequence[str]
) -> tuple[str, ...]:
    """What was found, what the rows can't show, what it costs, and what keeps the numbers from being comparable."""
    found = {name: pair.metrics[name] for name in primary}
    sentences = [_finding(pair, found, alpha, correction), _limits(found), _price(pair, alpha)]
    if differs:
        sentences.append(f"Read this with care: {'; '.join(differs)}.")
    return tuple(sentence for sentence in sentences if sentence)


def overall(pairs: Sequence[Pair], front: Pareto) -> tuple[str, ...]:
    """The verdict of the only pair, or the first sentence of each, and who is beaten on every axis."""
    if len(pairs) == 1:
        return pairs[0].verdict
    lines = [pair.verdict[0] for pair in pairs[:MOST_PAIRS]]
    if len(pairs) > MOST_PAIRS:
        lines[-1] += f" {len(pairs) - MOST_PAIRS} more systems have a verdict of their own."
    return tuple(line for line in (*lines, frontier(front)) if line)


def frontier(front: Pareto) -> str:
    """Who is beaten by nobody on all axes at once, and who is, by whom."""
    if not front.axes:
        return ""
    axes, best = listed([axis.replace("_", " ") for axis in front.axes]), front.systems.front
    parts = [f"By {axes} together, nobody beats {listed(best)}"] if best else []
    parts += [f"{name} is beaten by {winner}" for name, winner in front.systems.dominated.items()]
    parts += [f"{name} can't be placed ({why})" for name, why in front.systems.unplaced.items()]
    return f"{'; '.join(parts)}."


def listed(names: Iterable[str]) -> str:
    """``a, b and c``; a long list is cut and the rest counted."""
    every = list(names)
    if len(every) > MOST_NAMED + 1:
        every = [*every[:MOST_NAMED], f"{len(every) - MOST_NAMED} more"]
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every)


def signed(value: float) -> str:
    """``+0.238``, with as many digits as a small number needs."""
    return f"{value:+.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:+.2g}"


def span(found: Interval) -> str:
    """``+0.11..+0.36``, ``unbounded`` above where it is, or why there is none."""
    if found.low is None:
        return f"no interval: {found.reason}"
    return f"{signed(found.low)}..{'unbounded' if found.high is None else signed(found.high)}"


def _finding(pair: Pair, found: dict[str, Delta], alpha: float, correction: Correction) -> str:
    better, worse = _of(found, "better"), _of(found, "worse")
    level = f"{100 * (1 - alpha):.3g} %"
    parts = []
    if better:
        parts.append(f"{pair.b} is better than {pair.a} on {listed(_figures(pair, better, level))}")
    if worse:
        parts.append(
            f"{'it' if better else pair.b} is worse{'' if better else f' than {pair.a}'} on {listed(_figures(pair, worse, level))}"
        )
    if not parts and _of(found, "no difference shown"):
        parts.append(f"No difference between {pair.b} and {pair.a} is shown")
    if not parts:
        parts.append(f"The data can't tell {pair.b} and {pair.a} apart")
    if pair.matching.method == "unpaired":
        parts.append("they share no query, so the rows count as two independent groups")
    return f"{'; '.join(parts)} ({CORRECTIONS[correction]} correction, alpha {alpha:g})."


def _limits(found: dict[str, Delta]) -> str:
    """What the rows leave open, and how large a difference would have had to be to be shown."""
    parts = []
    safe = [name for name in _of(found, "no difference shown") if (m := found[name].not_worse) and m.non_inferior]
    if safe:
        margins = sorted({m.margin for name in safe if (m := found[name].not_worse)})
        parts.append(f"It is no worse on {listed(safe)} (not by more than {margins[-1]:g})")
    if left := [name for name in _of(found, "no difference shown") if name not in safe]:
        parts.append(f"{'no' if parts else 'No'} difference is shown on {listed(_resolution(found, left))}")
    if blind := _of(found, "can't tell"):
        reasons = dict.fromkeys(found[name].reason or "p is unknown" for name in blind)
        parts.append(f"{'the' if parts else 'The'} rows can't tell on {listed(blind)} ({'; '.join(reasons)})")
    return f"{'; '.join(parts)}." if parts else ""


def _resolution(found: dict[str, Delta], names: Sequence[str]) -> list[str]:
    return [
        name
        if (least := found[name].detectable) is None
        else f"{name} ({found[name].n} pairs show about {least:.2g} or more)"
        for name in names
    ]


def _price(pair: Pair, alpha: float) -> str:
    cost, latency = pair.measured.get("cost_usd"), pair.measured.get("latency_ms")
    parts = [f"costs {_times(cost)} per query"] if cost and cost.ratio is not None else []
    parts += [f"takes {_times(latency)} as long"] if latency and latency.ratio is not None else []
    if not parts:
        return ""
    text = f"{pair.b} {' and '.join(parts)}"
    more = pair.incremental_cost
    if more.value is not None:
        extra = (
            f"one more accurate answer costs {more.value:.2g} USD ({100 * (1 - alpha):.3g} %: {_money(more.interval)})"
        )
        text += f"; {extra}" if more.value >= 0 else "; it answers more accurately for less"
    return f"{text}."


def _times(found: Measured) -> str:
    return f"{found.ratio:.2g}x" if found.ratio is not None and found.ratio < 100 else f"{found.ratio:.0f}x"


def _money(found: Interval) -> str:
    if found.low is None:
        return f"no interval, {found.reason}"
    return f"{found.low:.2g}..{'unbounded' if found.high is None else f'{found.high:.2g}'}"


def _of(found: dict[str, Delta], outcome: Outcome) -> list[str]:
    return [name for name, delta in found.items() if delta.outcome == outcome]


def _figures(pair: Pair, names: Sequence[str], level: str) -> list[str]:
    """Each metric with its delta and interval, and with its coverage where some pair has no score."""
    figures = []
    for name in names:
        found, rows = pair.metrics[name], pair.matching.paired
        few = f", {found.n} of {rows} pairs" if found.n < rows else ""
        figures.append(f"{name} ({signed(found.delta or 0.0)}, {level} {span(found.interval)}{few})")
    return figures
