"""How far the judges of a jury agree, and what each of them did."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import combinations

from ragassay.core.jury import AgreedLabels, Jury, JuryMember, JuryPair
from ragassay.core.models import Rating, Result
from ragassay.judges.combine import by_judge, disagreements
from ragassay.judges.verdict import labels

_JURY = "(the jury)"


class JuryCount:
    """Counts over the rows of one system that several judges judged, each added once."""

    def __init__(self) -> None:
        self._rows = self._divided = self._without = 0
        self._members: dict[str, Rating] = {}  # whose usage and waste are sums
        self._judged, self._reasons = Counter[str](), defaultdict[str, Counter[str]](Counter)
        self._labels = defaultdict[tuple[str, str], Counter[tuple[str, str, str]]](Counter)

    def add(self, row: Result) -> None:
        """The next row; one that no jury judged counts nothing."""
        if len(members := by_judge(row.ratings)) > 1:
            self._add(row, members)

    def _add(self, row: Result, members: Mapping[str, Rating]) -> None:
        self._rows += 1
        self._divided += any(True for _ in disagreements(row.ratings))
        self._without += row.verdict is None
        for name, one in members.items():
            sums = self._members.setdefault(name, Rating())
            spent = {"usage": sums.usage + one.usage, "waste": sums.waste + one.waste}
            self._members[name] = sums.model_copy(update=spent)
            if one.verdict:
                self._judged[name] += 1
            else:
                self._reasons[name][one.reason or "no verdict"] += 1
        given = {name: labels(one.verdict) for name, one in members.items() if one.verdict}
        if row.verdict:
            given[_JURY] = labels(row.verdict)
        for a, b in combinations(given, 2):
            self._labels[a, b].update(
                (unit.rpartition(" ")[2], label, given[b][unit])  # its kind: support of "A1 support"
                for unit, label in given[a].items()
                if unit in given[b]
            )

    @property
    def jury(self) -> Jury | None:
        """What was counted; None where no jury judged."""
        if not self._rows:
            return None
        members = [
            JuryMember(
                judge=name,
                judged=self._judged[name],
                failed=self._reasons[name].total(),
                reasons=dict(sorted(self._reasons[name].items())),
                labels=agreement(self._labels[name, _JURY]),
                usage=sums.usage,
                waste=sums.waste,
            )
            for name, sums in self._members.items()
        ]
        pairs = [JuryPair(a=a, b=b, labels=agreement(self._labels[a, b])) for a, b in self._labels if b != _JURY]
        return Jury(
            rows=self._rows,
            divided=self._divided,
            without_verdict=self._without,
            members=tuple(members),
            pairs=tuple(pairs),
        )


def agreement(counts: Mapping[tuple[str, str, str], int]) -> AgreedLabels:
    """How far two agree, from counts of (kind of label, label of one, label of the other).

    Chance goes by how often each gave a label, kind by kind (Cohen 1960).
    """
    kinds, one, other = Counter[str](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (kind, a, b), count in counts.items():
        kinds[kind] += count
        one[kind, a] += count
        other[kind, b] += count
    n, agreed = kinds.total(), sum(count for (_, a, b), count in counts.items() if a == b)
    expected = sum(count * other[label] / kinds[label[0]] for label, count in one.items())
    kappa = (agreed - expected) / (n - expected) if n - expected > 1e-9 else None
    return AgreedLabels(n=n, agreed=agreed, kappa=kappa)
