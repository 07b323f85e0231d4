"""What one more accurate answer costs between two systems that answered the same queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragassay.analysis.costs.groups import LEVEL, strata_of
from ragassay.analysis.costs.models import CostQuery, Increment, MeanDifference, Quadrant
from ragassay.core.cost_sums import Between
from ragassay.core.formatting import interval as written
from ragassay.core.formatting import number
from ragassay.stats import Interval, RatioSums, difference_sums_interval, mean_intervals
from ragassay.storage.cost_records import CostRecord


def increments(records: Iterable[CostRecord], query: CostQuery) -> tuple[Increment, ...]:
    """For each dataset every two systems that reports hold side by side, over all these reports together."""
    pairs: dict[tuple[str, str, str], list[tuple[CostRecord, Between]]] = {}
    for record in records:
        for pair in record.between:
            chosen = {pair.a, pair.b} & set(query.systems)
            if pair.sums.n and (not query.systems or len(chosen) == min(len(query.systems), 2)):
                found = pair
                if (record.dataset, pair.b, pair.a) in pairs:  # the order of systems differs from run to run
                    found = _turned(pair)
                pairs.setdefault((record.dataset, found.a, found.b), []).append((record, found))
    return tuple(_increment(*names, found) for names, found in sorted(pairs.items(), key=lambda pair: pair[0]))


def _turned(pair: Between) -> Between:
    negative = pair.sums.model_copy(update={"cost_usd": -pair.sums.cost_usd, "accurate": -pair.sums.accurate})
    return Between(a=pair.b, b=pair.a, sums=negative)


def _increment(dataset: str, a: str, b: str, found: Sequence[tuple[CostRecord, Between]]) -> Increment:
    whole = RatioSums.total(pair.sums for _, pair in found)
    strata = strata_of((record, pair.sums) for record, pair in found)
    of_cost, of_accuracy = mean_intervals(strata, level=LEVEL)
    quadrant = _quadrant(whole)
    shown = all(ends.low is not None and not ends.contains(0.0) for ends in (of_cost, of_accuracy))
    if quadrant in ("dearer and better", "cheaper and worse"):
        value, ends = whole.cost_usd / whole.accurate, difference_sums_interval(strata, level=LEVEL)
    else:
        value, ends = None, Interval.absent("neither buys accurate answers with money", LEVEL, "none")
    return Increment(
        dataset=dataset,
        a=a,
        b=b,
        reports=len({record.run for record, _ in found}),
        n=whole.n,
        questions=sum(one.questions for one in strata),
        cost_usd=MeanDifference(value=whole.cost_usd / whole.n, interval=of_cost),
        accuracy=MeanDifference(value=whole.accurate / whole.n, interval=of_accuracy),
        quadrant=quadrant,
        shown=shown,
        usd_per_accurate_answer=value,
        interval=ends,
        sentence=_sentence(a, b, quadrant, value, ends, _not_shown(of_cost, of_accuracy)),
    )


def _quadrant(sums: RatioSums) -> Quadrant:
    if sums.accurate == 0 or sums.cost_usd == 0:
        if sums.accurate > 0 or (sums.accurate == 0 and sums.cost_usd < 0):
            return "cheaper and better"
        return "equal" if sums.accurate == sums.cost_usd else "dearer and worse"
    if sums.cost_usd > 0:
        return "dearer and better" if sums.accurate > 0 else "dearer and worse"
    return "cheaper and better" if sums.accurate > 0 else "cheaper and worse"


def _not_shown(of_cost: Interval, of_accuracy: Interval) -> str:
    """Which of the differences may as well be none."""
    unclear = [
        what for what, ends in (("cost", of_cost), ("accuracy", of_accuracy)) if ends.low is None or ends.contains(0.0)
    ]
    return f"; the difference in {' and in '.join(unclear)} is not shown" if unclear else ""


def _sentence(a: str, b: str, quadrant: Quadrant, value: float | None, ends: Interval, unclear: str) -> str:
    if quadrant == "equal":
        return f"{b} costs as much as {a} and has as many accurate answers"
    if quadrant == "cheaper and better":
        return f"{b} dominates {a}: cheaper and better, or the same in one of both{unclear}"
    if quadrant == "dearer and worse":
        return f"{b} is dominated by {a}: dearer and worse, or the same in one of both{unclear}"
    price = f"{number(value)} USD ({written(ends)})"
    if quadrant == "dearer and better":
        return f"{b} is dearer and better than {a}: one more accurate answer costs {price}{unclear}"
    return f"{b} is cheaper and worse than {a}: each accurate answer given up saves {price}{unclear}"
