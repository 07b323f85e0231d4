"""Parts of a dataset to develop on and to test with: drawn by a seed, even in every category, and without leaks.

Rows that share a relevant document, and rows whose questions are the same or nearly so, stay together unless that is
loosened. The order of the draw comes from SHA-256 over the seed and the row itself, so the same seed splits the same
rows alike on any machine, in whatever order they stand in the file.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragassay.data.overlaps import Leak, QueryRow, overlaps
from ragassay.data.similar import Groups, join_similar
from ragassay.errors import BadInput, BadSettings
from ragassay.models import FrozenModel
from ragassay.render import percent

GroupBy = Literal["document", "similar", "question"]
"""What parts don't share: documents and similar questions, similar questions, or no more than the same question."""
_INSTEAD: dict[GroupBy, str] = {
    "document": "--group-by similar lets parts share documents",
    "similar": "--group-by question lets parts share similar questions",
}
_OFF_BY = 0.05  # of a part's share; beyond it there is a warning


class SplitPart(FrozenModel):
    """One part: the share that was asked for, and the rows that it got, by label of what was balanced."""

    name: str
    share: float
    rows: int
    labels: dict[str, int]


class SplitReport(FrozenModel):
    """How the rows were divided. ``groups``: how many sets of rows had to stay together, single rows counted too."""

    parts: tuple[SplitPart, ...]
    groups: int
    largest_group: int
    leaks: tuple[Leak, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """The part of each row, in the order of the rows, and the report."""

    parts: tuple[str, ...]
    report: SplitReport


def split(
    rows: Sequence[QueryRow],
    labels: Sequence[str | None],
    shares: Mapping[str, float],
    *,
    seed: int = 0,
    group_by: GroupBy = "document",
) -> Split:
    """Divide rows into parts. ``labels``: what each part gets its share of, row by row, such as the categories.

    The largest groups are placed first, then the others in the order of the draw; each goes to the part that lacks most
    of its labels and of all rows together. Raises BadSettings for shares that don't add up to 1, BadInput where a part
    would be empty.
    """
    shares = _checked(shares)
    alike = Groups(len(rows))
    join_similar(alike, [row.text for row in rows])
    groups = _groups(rows, alike, group_by)
    labelled = [label or "" for label in labels]
    drawn = [hashlib.sha256(f"{seed}\0{row.query_id}\0{row.text}".encode()).digest() for row in rows]
    members = sorted(groups.members().values(), key=lambda places: (-len(places), min(drawn[n] for n in places)))
    placed = _placed(members, labelled, shares)
    parts = [""] * len(rows)
    for places, part in zip(members, placed, strict=True):
        for place in places:
            parts[place] = part
    divided = [row._replace(part=part) for row, part in zip(rows, parts, strict=True)]
    counts = {part: Counter(label for label, of in zip(labelled, parts, strict=True) if of == part) for part in shares}
    report = SplitReport(
        parts=tuple(
            SplitPart(name=part, share=share, rows=counts[part].total(), labels=dict(sorted(counts[part].items())))
            for part, share in shares.items()
        ),
        groups=len(members),
        largest_group=max(map(len, members)),
        leaks=overlaps(divided, alike=alike).leaks,
        warnings=(),
    )
    return Split(tuple(parts), _judged(report, len(rows), group_by))


def _checked(shares: Mapping[str, float]) -> dict[str, float]:
    for part, share in shares.items():
        if not 0 <= share <= 1:
            raise BadSettings(f"should be from 0 to 1, is {share:g}", where=f"--{part}")
    total = math.fsum(shares.values())
    if abs(total - 1) > 1e-9:
        given = ", ".join(f"{part} {share:g}" for part, share in shares.items())
        raise BadSettings(f"the shares add up to {total:g}, not 1: {given}")
    return {part: share for part, share in shares.items() if share}


def _groups(rows: Sequence[QueryRow], alike: Groups, group_by: GroupBy) -> Groups:
    """What stays together; ``alike`` are the groups of similar questions."""
    groups = alike.copy()
    if group_by == "question":
        groups = Groups(len(rows))
        join_similar(groups, [row.text for row in rows], 1.0)
    if group_by == "document":
        first: dict[str, int] = {}
        for place, row in enumerate(rows):
            for document in row.documents:
                groups.join(first.setdefault(document, place), place)
    return groups


def _placed(members: Sequence[Sequence[int]], labels: Sequence[str], shares: Mapping[str, float]) -> list[str]:
    """The part of each group, in the order of the groups."""
    total, whole = Counter(labels), len(labels)
    lacking = {
        part: defaultdict(float, {label: share * n for label, n in total.items()}) for part, share in shares.items()
    }
    room = {part: share * whole for part, share in shares.items()}
    placed = []
    for places in members:
        held = sorted(Counter(labels[place] for place in places).items())
        best = max(
            shares,
            key=lambda part: len(places) * room[part] + sum(n * lacking[part][label] for label, n in held),
        )
        room[best] -= len(places)
        for label, n in held:
            lacking[best][label] -= n
        placed.append(best)
    return placed


def _judged(report: SplitReport, rows: int, group_by: GroupBy) -> SplitReport:
    """The report with warnings; raises BadInput where a part is empty."""
    together = f"the largest group that stays together has {report.largest_group} of {rows} rows"
    hint = _INSTEAD.get(group_by)
    if empty := next((part.name for part in report.parts if not part.rows), None):
        raise BadInput(f"{empty} would be empty; {together}", hint=hint)
    warnings = [
        f"{part.name} has {percent(part.rows / rows)} of the rows instead of {percent(part.share)}; {together}"
        + (f"; {hint}" if hint else "")
        for part in report.parts
        if abs(part.rows / rows - part.share) > _OFF_BY
    ]
    return report.model_copy(update={"warnings": tuple(warnings)})
