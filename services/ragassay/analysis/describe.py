"""Differences in English, made by rules that claim no more than the corrected tests carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from ragassay.analysis.difference import NOT_TESTED, Difference, Outcome
from ragassay.analysis.models import Pair
from ragassay.core.eval_config import Correction
from ragassay.core.formatting import changes_of, interval, listed, percent, quantity, signed
from ragassay.core.statistics import ParetoFront

MAX_PAIRS = 3  # that a verdict over many systems speaks of
MAX_DOMINATED = 3  # systems that are named, and as many that can't be placed
CORRECTIONS = {"holm": "Holm", "bonferroni": "Bonferroni", "benjamini_hochberg": "Benjamini-Hochberg", "none": "no"}


class Sentences(NamedTuple):
    """The sentences on a pair, in the order of its verdict; one that has nothing to say is empty."""

    in_short: str
    finding: str
    limits: str
    price: str
    care: str = ""


def sentences(
    pair: Pair, primary: Sequence[str], alpha: float, correction: Correction, cautions: Sequence[str] = ()
) -> Sentences:
    """Which answers accurately more often, what is shown, what the rows can't show, what it costs, and what to take care of."""
    differences = [pair.metrics[name] for name in primary]
    return Sentences(
        in_short=in_short(pair),
        finding=_finding(pair, differences, alpha, correction),
        limits=_limits(differences),
        price=_price(pair),
        care=f"Read this with care: {'; '.join(cautions)}." if cautions else "",
    )


def in_short(pair: Pair) -> str:
    """Which of the two answers accurately more often, in one plain sentence; empty if that was not compared."""
    if not pair.matching.paired:
        return f"{pair.b} and {pair.a} share no question, so neither is called better."
    accurate = pair.metrics.get("accurate")
    return accuracy_sentence(accurate) if accurate else ""


def accuracy_sentence(accurate: Difference) -> str:
    """Which of two systems answers accurately more often, and whether that is shown; empty if it is not scored."""
    a, b, before, now, n = accurate.a, accurate.b, accurate.mean_a, accurate.mean_b, accurate.questions
    if before is None or now is None or accurate.wins is None:
        return ""
    more = "more" if now > before else "less"
    claim, against = f"{b} may answer accurately {more} often than {a}", f" against {percent(before)}"
    if accurate.outcome in ("better", "worse"):
        claim = f"{b} answers accurately {'more' if accurate.outcome == 'better' else 'less'} often than {a}"
    elif before == now:
        claim, against = f"{b} answers accurately as often as {a}", ""
    elif accurate.reason == NOT_TESTED:
        claim = f"{b} answers accurately {more} often than {a} on these queries, which is not tested"
    else:
        claim += f", but {'one query is' if n == 1 else f'{n:,} queries are'} too few to be sure"
    shares = f"{percent(now)}{against} ({accurate.losses:,} got worse, {accurate.wins:,} better)."
    return _with_interval(f"{claim}: {shares}", accurate)


def _with_interval(sentence: str, difference: Difference) -> str:
    """The sentence and ``Difference +0.27, 95 % interval +0.03 to +0.47.``, which says if the correction contradicts it.

    Alone if the sentence has the judge's shares and labels correct the difference, or there is no interval.
    """
    if difference.corrected_by is not None or difference.interval.low is None:
        return sentence
    level, p, p_adjusted = difference.interval.level, difference.p, difference.p_adjusted
    by = f"{signed(difference.delta or 0.0)}, {percent(level)} interval {interval(difference.interval, signed, '{} to {}')}"
    is_corrected = p is not None and p_adjusted is not None and p_adjusted > p
    is_open = difference.outcome not in ("better", "worse")
    contradicts = is_corrected and is_open and not difference.interval.contains(0.0)
    return f"{sentence} Difference {by}{' before the correction' if contradicts else ''}."


def pairs_to_show(pairs: Sequence[Pair]) -> list[int]:
    """The places of the ``MAX_PAIRS`` pairs that a verdict over many systems speaks of: better ones, worse ones, the surest."""

    def order(n: int) -> tuple[bool, bool, float]:
        primary = [one for one in pairs[n].metrics.values() if not one.exploratory]
        outcomes = {one.outcome for one in primary}
        p = min((one.p for one in primary if one.p is not None), default=1.0)
        return "better" not in outcomes, "worse" not in outcomes, p

    return sorted(range(len(pairs)), key=order)[:MAX_PAIRS] if len(pairs) > MAX_PAIRS else list(range(len(pairs)))


def overall(pairs: Sequence[Pair], of_pairs: Sequence[Sentences], front: ParetoFront) -> tuple[str, ...]:
    """The verdict of the only pair, or who is accurate and what is shown of each; and which systems are Pareto-optimal."""
    if len(pairs) == 1:
        return tuple(filter(None, of_pairs[0]))
    shown = [of_pairs[n] for n in pairs_to_show(pairs)] if len({pair.a for pair in pairs}) == 1 else of_pairs
    lines = [" ".join(filter(None, (one.in_short, one.finding))) for one in shown]
    if len(pairs) > len(shown):
        lines[-1] += f" {len(pairs) - len(shown)} more systems have a verdict of their own."
    return tuple(filter(None, (*lines, frontier(front))))


def frontier(front: ParetoFront) -> str:
    """Which systems are Pareto-optimal, and which one dominates each of the others; of many the first few, and a count."""
    if not front.axes:
        return ""
    axes, best = listed([axis.replace("_", " ") for axis in front.axes]), front.front
    parts = [f"Pareto-optimal by the point estimates of {axes}: {listed(best)}"] if best else []
    for verb, others in (
        ("dominated", [f"{name} is dominated by {winner}" for name, winner in front.dominated.items()]),
        ("not placed", [f"{name} can't be placed ({why})" for name, why in front.unplaced.items()]),
    ):
        more = len(others) - MAX_DOMINATED
        parts += [*others[:MAX_DOMINATED], *([f"and {more} more are {verb}"] if more > 0 else [])]
    return f"{'; '.join(parts)}."


def times(ratio: float) -> str:
    """``4.7x``."""
    return f"{quantity(ratio, 2)}x"


def _finding(pair: Pair, differences: Sequence[Difference], alpha: float, correction: Correction) -> str:
    """On which metrics b is better or worse than a, after the correction."""
    if differences and all(one.reason == NOT_TESTED for one in differences):
        return f"No difference between {pair.b} and {pair.a} is tested: statistics.tests is false."
    parts: list[str] = []
    outcomes: tuple[Outcome, ...] = ("better", "worse")
    for outcome in outcomes:
        if found := _of(differences, outcome):
            subject = "it is" if parts else f"{pair.b} is"
            rival = "" if parts else f" than {pair.a}"
            parts.append(f"{subject} {outcome}{rival} on {listed(_figure(pair, one) for one in found)}")
    if not parts and _of(differences, "no difference shown"):
        parts.append(f"No difference between {pair.b} and {pair.a} is shown")
    if not parts:
        parts.append(f"The data can't tell {pair.b} and {pair.a} apart")
    if pair.matching.method == "unpaired":
        parts.append("they share no query, so the rows count as two independent groups")
    return f"{'; '.join(parts)} ({CORRECTIONS[correction]} correction, alpha {alpha:g})."


def _figure(pair: Pair, one: Difference) -> str:
    """The metric with its delta and interval, and with its coverage if some pair has no score."""
    write = changes_of(one.metric)
    parts = [write(one.delta or 0.0)]
    parts += [] if one.interval.low is None else [f"{percent(one.interval.level)} {interval(one.interval, write)}"]
    parts += [f"{one.n} of {pair.matching.paired} pairs"] if one.n < pair.matching.paired else []
    parts += [f"by {one.corrected_by} {pair.corrected_by}"] if one.corrected_by else []
    return f"{one.metric} ({', '.join(parts)})"


def _limits(differences: Sequence[Difference]) -> str:
    """What the rows leave open, and how large a difference would have had to be to be shown."""
    parts: list[str] = []
    if left := _of(differences, "no difference shown"):
        parts.append(f"No difference is shown on {listed(map(_resolution, left))}")
    by_reason: dict[str, list[str]] = {}
    for one in _of(differences, "can't tell"):
        if one.reason != NOT_TESTED:
            by_reason.setdefault(one.reason or "p is unknown", []).append(one.metric)
    parts += [f"The rows can't tell on {listed(metrics)} ({reason})" for reason, metrics in by_reason.items()]
    return f"{'. '.join(parts)}." if parts else ""


def _resolution(difference: Difference) -> str:
    if difference.mde is None:
        return difference.metric
    return f"{difference.metric} ({difference.questions} pairs show about {quantity(difference.mde, 2)} or more)"


def _price(pair: Pair) -> str:
    """How many times as much b costs and takes, and what one more accurate answer costs; empty if nothing differs."""
    forms = {"cost_usd": "costs {} per query", "latency_ms": "takes {} as long"}
    ratios = {name: one.ratio for name in forms if (one := pair.measured.get(name)) and one.ratio is not None}
    parts = [forms[name].format(times(ratio)) for name, ratio in ratios.items() if not 0.95 < ratio < 1.05]
    if not parts:
        return ""
    text = f"{pair.b} {' and '.join(parts)}"
    more, accurate = pair.incremental_cost, pair.metrics.get("accurate")
    if more.n and more.extra_accurate > 0 and (accurate is None or accurate.outcome in ("better", "worse")):
        if more.value is None:
            return f"{text}; it answers more accurately for less."
        bounds = f"{percent(more.interval.level)}: {interval(more.interval, partial(quantity, digits=2))}"
        text += f"; one more accurate answer costs {quantity(more.value, 2)} USD ({bounds})"
    return f"{text}."


def _of(differences: Iterable[Difference], outcome: Outcome) -> list[Difference]:
    return [one for one in differences if one.outcome == outcome]
