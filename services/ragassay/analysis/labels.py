"""What labels on both sides make of the differences between two systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragassay.core.models import Result
from ragassay.evaluation.recount import corrected_by_labels
from ragassay.stats import CorrectedMean


def difference_by_labels(
    name: str,
    rows: Sequence[tuple[Result, Result]],
    differences: Iterable[float],
    *,
    level: float,
    failed: str | None = None,
) -> CorrectedMean | None:
    """The mean of ``differences``, b - a of each of the rows, as labels on both sides correct it; None without any label.

    ``failed``: why the labels may be no random part of the rows, so that they correct nothing.
    """
    labels = [(a.reference_labels.get(name), b.reference_labels.get(name)) for a, b in rows]
    if not any(said is not None for both in labels for said in both):
        return None
    said = (None if a is None or b is None else b - a for a, b in labels)
    return corrected_by_labels(zip(said, differences, strict=True), level=level, differences=True, failed=failed)
