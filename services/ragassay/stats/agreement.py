"""How far two who gave labels to the same things agree beyond chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping


def kappa(tables: Iterable[Mapping[tuple[str, str], int]]) -> float | None:
    """Cohen's kappa over counts of (label of one, label of the other), a table for each kind of label.

    Of what chance left to agree on, the share that was agreed on; chance goes by how often each gave a label, kind by
    kind. 1: always, 0: as by chance; None where chance leaves nothing (Cohen 1960).
    """
    total = agreed = expected = 0.0
    for table in tables:
        one, other = Counter[str](), Counter[str]()
        for (a, b), count in table.items():
            one[a] += count
            other[b] += count
            agreed += count * (a == b)
        total += (n := one.total())
        expected += sum(count * other[label] for label, count in one.items()) / max(n, 1)
    return (agreed - expected) / (total - expected) if total - expected > 1e-9 else None
