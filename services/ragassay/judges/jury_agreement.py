"""Where the members of a jury are divided, and over many rows how far they agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from ragassay.core.jury import AgreedLabels, Jury, JuryMember, JuryPair
from ragassay.core.models import Judgement, Result, Usage
from ragassay.judges.jury import voted
from ragassay.judges.verdict import labels


def divided(members: Mapping[str, Judgement]) -> Iterator[str]:
    """A line for each unit and field of which the members gave different labels: how many gave each."""
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for judgement in members.values():
        for unit, label in labels(judgement.verdict).items() if judgement.verdict else ():
            said[unit][label] += 1
    for unit, counted in said.items():
        if len(counted) > 1:
            yield f"{unit}: {', '.join(f'{label} {count}' for label, count in counted.most_common())}"


class JuryCount:
    """Counts over the rows of one system that a jury judged, each added once."""

    def __init__(self) -> None:
        self._rows = self._divided = self._without = 0
        self._judged, self._reasons = Counter[str](), defaultdict[str, Counter[str]](Counter)
        self._spent: dict[str, tuple[Usage, Usage]] = {}
        self._with_jury = defaultdict[str, Counter[tuple[str, bool]]](Counter)
        self._tables = defaultdict[tuple[str, str], defaultdict[str, Counter[tuple[str, str]]]](
            lambda: defaultdict(Counter)
        )

    def add(self, row: Result) -> None:
        """The next row; one that no jury judged counts nothing."""
        if row.members:
            self._add(row.members)

    def _add(self, members: Mapping[str, Judgement]) -> None:
        self._rows += 1
        self._divided += any(True for _ in divided(members))
        said: dict[str, dict[str, str]] = {}
        for name, judgement in members.items():
            used, wasted = self._spent.get(name, (Usage(), Usage()))
            self._spent[name] = used + judgement.usage, wasted + judgement.waste
            if judgement.verdict:
                self._judged[name] += 1
                said[name] = labels(judgement.verdict)
            else:
                self._reasons[name][judgement.reason or "no verdict"] += 1
        if 2 * len(said) >= len(members):
            verdicts = [judgement.verdict for judgement in members.values() if judgement.verdict]
            of_jury = labels(voted(verdicts, len(members), ""))
            for name, given in said.items():
                self._with_jury[name].update(
                    (_kind(unit), label == of_jury[unit]) for unit, label in given.items() if unit in of_jury
                )
        else:
            self._without += 1
        for a, b in combinations(members, 2):
            for unit, label in said.get(a, {}).items():
                if other := said.get(b, {}).get(unit):
                    self._tables[a, b][_kind(unit)][label, other] += 1

    @property
    def jury(self) -> Jury | None:
        """What was counted; None where no jury judged."""
        if not self._rows:
            return None
        return Jury(
            rows=self._rows,
            divided=self._divided,
            without_verdict=self._without,
            members=tuple(self._member(name) for name in self._spent),
            pairs=tuple(_pair(a, b, tables) for (a, b), tables in self._tables.items()),
        )

    def _member(self, name: str) -> JuryMember:
        counted, (usage, waste) = self._with_jury[name], self._spent[name]
        kinds = dict.fromkeys(kind for kind, _ in counted)
        return JuryMember(
            judge=name,
            judged=self._judged[name],
            failed=self._reasons[name].total(),
            reasons=dict(sorted(self._reasons[name].items())),
            labels={
                kind: AgreedLabels(n=counted[kind, True] + counted[kind, False], agreed=counted[kind, True])
                for kind in kinds
            },
            usage=usage,
            waste=waste,
        )


def _kind(unit: str) -> str:
    """``support`` of ``A1 support``."""
    return unit.rpartition(" ")[2]


def _pair(a: str, b: str, tables: Mapping[str, Counter[tuple[str, str]]]) -> JuryPair:
    counted = [(one == other, count) for table in tables.values() for (one, other), count in table.items()]
    agreed = AgreedLabels(n=sum(count for _, count in counted), agreed=sum(count for same, count in counted if same))
    return JuryPair(a=a, b=b, labels=agreed, kappa=kappa(tables.values()))


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
