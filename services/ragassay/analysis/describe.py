"""Differences in English, made by rules that claim no more than the corrected tests carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ragassay.analysis.difference import Better, Difference, Outcome
from ragassay.analysis.models import Pair, Pareto
from ragassay.core.eval_config import Correction
from ragassay.core.formatting import interval, listed, number, p_value, percent, quantity, signed

MOST_PAIRS = 3  # pairs that a verdict over many systems speaks of
CORRECTIONS = {"holm": "Holm", "bonferroni": "Bonferroni", "benjamini_hochberg": "Benjamini-Hochberg", "none": "no"}


class Sentences(NamedTuple):
    """The sentences on a pair, in the order of its verdict; one that has nothing to say is empty."""

    in_short: str
    finding: str
    limits: str
    alone: str
    price: str
    care: str

    @property
    def verdict(self) -> tuple[str, ...]:
        """Those that say something."""
        return tuple(filter(None, self))


def sentences(
    pair: Pair, primary: Sequence[str], alpha: float, correction: Correction, differs: Sequence[str] = ()
) -> Sentences:
    """Which answers accurately more often, what is shown, what the rows can't show, what it costs, and what to take care of."""
    deltas = {name: pair.metrics[name] for name in primary}
    return Sentences(
        in_short=in_short(pair),
        finding=_finding(pair, deltas, alpha, correction),
        limits=_limits(deltas, alpha),
        alone=_alone(pair, deltas, alpha),
        price=_price(pair, alpha),
        care=f"Read this with care: {'; '.join(differs)}." if differs else "",
    )


def describe(difference: Difference) -> str:
    """``mrr went from 0.800 to 0.700 (n=20, 4 better, 9 worse): worse by 0.100, p 0.012``, and the outcome unless that is shown."""
    a, b = difference.mean_a, difference.mean_b
    if a is None or b is None or difference.delta is None:
        return difference.reason or f"{difference.metric} is not scored"
    counted = f"n={difference.n_a}+{difference.n_b}"
    if difference.paired:
        counted = f"n={difference.n}, {difference.wins:,} better, {difference.losses:,} worse"
    ends = difference.interval
    text = f"{difference.metric} went {change(a, b, counted)}: {better_or_worse(difference.delta, difference.better)}"
    text += "" if ends.low is None else f", {percent(ends.level)} {interval(ends, signed)}"
    p = difference.p if difference.exploratory else difference.p_adjusted
    text += "" if p is None else f", p {p_value(p)}"
    return text if difference.outcome in ("better", "worse") else f"{text}; {difference.outcome}"


def change(before: float, now: float, about: str) -> str:
    """``from 0.800 to 0.700 (n=200)``."""
    return f"from {number(before, beside=now)} to {number(now, beside=before)} ({about})"


def better_or_worse(delta: float, better: Better, *, beside: float | None = None) -> str:
    """``worse by 0.100``: what a change of ``delta`` means."""
    if delta == 0:
        return "unchanged"
    word = "better" if (delta > 0) is (better == "higher") else "worse"
    return f"{word} by {number(abs(delta), beside=beside)}"


def in_short(pair: Pair) -> str:
    """Which of the two answers accurately more often, in one plain sentence; empty if that was not compared."""
    if not pair.matching.paired:
        return f"{pair.b} and {pair.a} share no question, so neither is called better."
    accurate = pair.metrics.get("accurate")
    return accuracy_sentence(accurate) if accurate else ""


def accuracy_sentence(accurate: Difference) -> str:
    """Which of two systems answers accurately more often, and whether that is shown; empty if it is not scored."""
    a, b, before, now = accurate.a, accurate.b, accurate.mean_a, accurate.mean_b
    if before is None or now is None or accurate.wins is None:
        return ""
    changed = f"{accurate.losses:,} got worse, {accurate.wins:,} better"
    shares = f"{percent(now)} against {percent(before)} ({changed})"
    if accurate.outcome in ("better", "worse"):
        return f"{b} answers accurately {'more' if accurate.outcome == 'better' else 'less'} often than {a}: {shares}."
    if before == now:
        return f"{b} answers accurately as often as {a}: {percent(before)} ({changed})."
    more = "more" if now > before else "less"
    few = (
        "one query is too few to be sure"
        if accurate.questions == 1
        else f"{accurate.questions:,} queries are too few to be sure"
    )
    return f"{b} may answer accurately {more} often than {a}, but {few}: {shares}."


def overall(pairs: Sequence[Pair], said: Sequence[Sentences], front: Pareto) -> tuple[str, ...]:
    """The verdict of the only pair, or who is accurate and what is shown of each; and which systems are Pareto-optimal.

    ``said``: the sentences on each pair.
    """
    if len(pairs) == 1:
        return said[0].verdict
    one_dataset = len({pair.a for pair in pairs}) == 1
    shown = said[:MOST_PAIRS] if one_dataset else said
    lines = [" ".join(filter(None, (one.in_short, one.finding))) for one in shown]
    if len(pairs) > len(shown):
        lines[-1] += f" {len(pairs) - len(shown)} more systems have a verdict of their own."
    return tuple(line for line in (*lines, frontier(front)) if line)


def frontier(front: Pareto) -> str:
    """Which systems are Pareto-optimal, and which one dominates each of the others."""
    if not front.axes:
        return ""
    axes, best = listed([axis.replace("_", " ") for axis in front.axes]), front.systems.front
    parts = [f"Pareto-optimal by the point estimates of {axes}: {listed(best)}"] if best else []
    parts += [f"{name} is dominated by {winner}" for name, winner in front.systems.dominated.items()]
    parts += [f"{name} can't be placed ({why})" for name, why in front.systems.unplaced.items()]
    return f"{'; '.join(parts)}."


def times(ratio: float) -> str:
    """``4.7x``."""
    return f"{quantity(ratio, 2)}x"


def _finding(pair: Pair, deltas: Mapping[str, Difference], alpha: float, correction: Correction) -> str:
    """On which metrics b is better or worse than a, after the correction."""
    better, worse = _of(deltas, "better"), _of(deltas, "worse")
    level = percent(1 - alpha)
    parts = []
    if better:
        parts.append(f"{pair.b} is better than {pair.a} on {listed(_figures(pair, better, level))}")
    if worse:
        subject = "it is worse" if better else f"{pair.b} is worse than {pair.a}"
        parts.append(f"{subject} on {listed(_figures(pair, worse, level))}")
    if not parts and _of(deltas, "no difference shown"):
        parts.append(f"No difference between {pair.b} and {pair.a} is shown")
    if not parts:
        parts.append(f"The data can't tell {pair.b} and {pair.a} apart")
    if pair.matching.method == "unpaired":
        parts.append("they share no query, so the rows count as two independent groups")
    return f"{'; '.join(parts)} ({CORRECTIONS[correction]} correction, alpha {alpha:g})."


def _limits(deltas: dict[str, Difference], alpha: float) -> str:
    """What the rows leave open, and how large a difference would have had to be to be shown."""
    parts = []
    chance = _by_chance(deltas, alpha)
    if left := _of(deltas, "no difference shown"):
        parts.append(f"No difference is shown on {listed([_resolution(deltas[name]) for name in left])}")
    if blind := [name for name in _of(deltas, "can't tell") if name not in chance]:
        reasons = dict.fromkeys(deltas[name].reason or "p is unknown" for name in blind)
        parts.append(f"{'the' if parts else 'The'} rows can't tell on {listed(blind)} ({'; '.join(reasons)})")
    return f"{'; '.join(parts)}." if parts else ""


def _alone(pair: Pair, deltas: dict[str, Difference], alpha: float) -> str:
    """What would be a difference if nothing else had been tested."""
    if not (names := _by_chance(deltas, alpha)):
        return ""
    figures = listed(_figures(pair, names, percent(1 - alpha)))
    return f"Taken alone, {figures} would be shown; among so many tests that may be chance."


def _by_chance(deltas: dict[str, Difference], alpha: float) -> list[str]:
    """Metrics that show a difference by their own p, but not after the correction."""
    return [
        name
        for name, delta in deltas.items()
        if delta.outcome in ("no difference shown", "can't tell") and delta.p is not None and delta.p <= alpha
    ]


def _resolution(difference: Difference) -> str:
    """The metric, and how large a difference would have had to be to be shown."""
    if difference.detectable is None:
        return difference.metric
    return f"{difference.metric} ({difference.questions} pairs show about {quantity(difference.detectable, 2)} or more)"


def _price(pair: Pair, alpha: float) -> str:
    """How many times as much b costs and takes, and what one more accurate answer costs; empty if nothing differs."""
    cost, latency = pair.measured.get("cost_usd"), pair.measured.get("latency_ms")
    parts = [f"costs {times(ratio)} per query"] if (ratio := _ratio(cost)) else []
    parts += [f"takes {times(ratio)} as long"] if (ratio := _ratio(latency)) else []
    if not parts:
        return ""
    text = f"{pair.b} {' and '.join(parts)}"
    more, accurate = pair.incremental_cost, pair.metrics.get("accurate")
    if more.n and more.extra_accurate > 0 and (accurate is None or accurate.outcome in ("better", "worse")):
        if more.value is None:
            text += "; it answers more accurately for less"
        else:
            bounds = interval(more.interval, partial(quantity, digits=2))
            text += f"; one more accurate answer costs {quantity(more.value, 2)} USD ({percent(1 - alpha)}: {bounds})"
    return f"{text}."


def _ratio(taken: Difference | None) -> float | None:
    """b over a; None for a ratio that is 1 but for noise."""
    ratio = taken.ratio if taken else None
    return None if ratio is None or 0.95 < ratio < 1.05 else ratio


def _of(deltas: Mapping[str, Difference], outcome: Outcome) -> list[str]:
    return [name for name, delta in deltas.items() if delta.outcome == outcome]


def _figures(pair: Pair, names: Sequence[str], level: str) -> list[str]:
    """Each metric with its delta and interval, and with its coverage where some pair has no score."""
    figures = []
    for name in names:
        delta, rows = pair.metrics[name], pair.matching.paired
        few = f", {delta.n} of {rows} pairs" if delta.n < rows else ""
        bounds = "" if delta.interval.low is None else f", {level} {interval(delta.interval, signed)}"
        labels = f", by {delta.corrected_by} {pair.corrected_by}" if delta.corrected_by else ""
        figures.append(f"{name} ({signed(delta.delta or 0.0)}{bounds}{few}{labels})")
    return figures
