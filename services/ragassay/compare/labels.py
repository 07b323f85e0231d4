"""What labels on both sides make of the differences between two systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragassay.models import Result
from ragassay.recount import corrected_by_labels
from ragassay.reports import cost_and_accuracy
from ragassay.stats import CorrectedMean, IncrementalCost
from ragassay.stats.ppi import corrected_increment


def difference_by_labels(
    name: str, rows: Sequence[tuple[Result, Result]], differences: Iterable[float], *, level: float
) -> CorrectedMean | None:
    """The mean of ``differences``, b - a of each of the rows, as labels on both sides correct it; None without any label."""
    labels = [(a.reference_labels.get(name), b.reference_labels.get(name)) for a, b in rows]
    if not any(said is not None for both in labels for said in both):
        return None
    said = (None if a is None or b is None else b - a for a, b in labels)
    return corrected_by_labels(zip(said, differences, strict=True), level=level, differences=True)


def increment_by_labels(
    rows: Sequence[tuple[Result, Result]], names: tuple[str, str], *, level: float
) -> IncrementalCost | None:
    """What one more accurate answer costs with b instead of a, of rows of both; None where labels on both sides are too few."""
    known = [
        (a, b, (one.reference_labels.get("accurate"), other.reference_labels.get("accurate")))
        for one, other in rows
        if (a := cost_and_accuracy(one)) and (b := cost_and_accuracy(other))
    ]
    said = [None if x is None or y is None else y - x for *_, (x, y) in known]
    if said.count(None) == len(said):
        return None
    costs, gains = ([b[place] - a[place] for a, b, _ in known] for place in (0, 1))
    return corrected_increment(costs, said, gains, names=names, level=level)
