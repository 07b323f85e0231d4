"""Which questions of a dataset are the same or nearly so, which share documents, and what of that crosses its parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from ragassay.data.describe import RepeatedQuery
from ragassay.data.similar import SIMILAR, Groups, join_similar, normalised
from ragassay.models import FrozenModel, Sample

PARTS = ("train", "validation", "test")
_EXAMPLES = 4


class QueryRow(NamedTuple):
    """What is kept of a row to compare it with all others; ``text`` is normalised, ``documents`` the relevant ones."""

    query_id: str
    text: str
    documents: tuple[str, ...]
    part: str | None = None


class Leak(FrozenModel):
    """Rows of the second part that have a counterpart in the first: the question, one that is similar, a document."""

    shared: Literal["question", "similar question", "relevant document"]
    parts: tuple[str, str]
    rows: int
    examples: tuple[str, ...]


class Overlaps(FrozenModel):
    """Groups of questions that are nearly the same, and what leaks from one part of the dataset into another."""

    similar_queries: tuple[RepeatedQuery, ...]
    leaks: tuple[Leak, ...]


def query_row(sample: Sample, *, separator: str | None = None, part: str | None = None) -> QueryRow:
    """``separator``: relevant ids are those of chunks, and what stands before the last one of it is the document."""
    relevant = [document for document, grade in (sample.judgments or {}).items() if grade > 0]
    if separator:
        relevant = [document.rpartition(separator)[0] or document for document in relevant]
    return QueryRow(sample.query_id, normalised(sample.query), tuple(dict.fromkeys(relevant)), part or sample.split)


def overlaps(rows: Sequence[QueryRow], *, least: float = SIMILAR, alike: Groups | None = None) -> Overlaps:
    """Similar questions (``least``: how similar, as ``similar.similarity`` has it) and leaks between the rows' parts.

    ``alike``: the groups of similar questions, where they are known.
    """
    if alike is None:
        alike = Groups(len(rows))
        join_similar(alike, [row.text for row in rows], least)
    repeated = [places for places in alike.members().values() if len(places) > 1]
    similar = [places for places in repeated if len({rows[place].text for place in places}) > 1]
    by_document: defaultdict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        for document in row.documents:
            by_document[document].append(place)
    leaks = [
        leak
        for parts in combinations(_in_order(dict.fromkeys(row.part for row in rows if row.part)), 2)
        for leak in (
            _leak("question", parts, rows, _same_text(repeated, rows)),
            _leak("similar question", parts, rows, similar),
            _leak("relevant document", parts, rows, by_document.values()),
        )
        if leak.rows
    ]
    return Overlaps(
        similar_queries=tuple(
            RepeatedQuery(query=rows[places[0]].text, query_ids=tuple(rows[n].query_id for n in places))
            for places in similar
        ),
        leaks=tuple(leaks),
    )


def _in_order(parts: Iterable[str]) -> list[str]:
    """Our own names in their order, others as they come."""
    return sorted(parts, key=lambda part: PARTS.index(part) if part in PARTS else len(PARTS))


def _same_text(repeated: Iterable[Sequence[int]], rows: Sequence[QueryRow]) -> list[list[int]]:
    same: defaultdict[str, list[int]] = defaultdict(list)
    for places in repeated:
        for place in places:
            same[rows[place].text].append(place)
    return list(same.values())


def _leak(
    shared: Literal["question", "similar question", "relevant document"],
    parts: tuple[str, str],
    rows: Sequence[QueryRow],
    groups: Iterable[Sequence[int]],
) -> Leak:
    first, second = parts
    leaked: dict[int, None] = {}
    for places in groups:
        if any(rows[place].part == first for place in places):
            leaked |= dict.fromkeys(place for place in places if rows[place].part == second)
    examples = tuple(rows[place].query_id for place in sorted(leaked)[:_EXAMPLES])
    return Leak(shared=shared, parts=parts, rows=len(leaked), examples=examples)
