"""What a pairwise comparison by a model says, as a document."""

from __future__ import annotations

from collections.abc import Iterator

from ragassay.analysis.pairwise import PreferenceReport
from ragassay.core.formatting import interval, listed, number, percent
from ragassay.core.models import Usage
from ragassay.reporting.document import Card, Cards, Document, Sentences
from ragassay.reporting.summary import spent


def of_preferences(found: PreferenceReport) -> Document:
    """Wins, ties and losses with the interval of the win rate; what they rest on; and the queries that ``b`` loses."""
    ends = f"{interval(found.interval, form='[{}, {}]')} at {found.interval.level:.0%}"
    rate = f"win rate {number(found.win_rate)} {ends} (wins and half of the ties)"
    lost = [row for row in found.rows if row.outcome == "loss"]
    cards = tuple(
        Card(row.query, row.query_id, (("why", next(filter(None, row.preference.why), str(row.preference.basis))),))
        for row in lost
    )
    return Document(
        f"{found.b} against {found.a}",
        answer=(
            f"{found.b} against {found.a}: {found.judged} of {found.pairs} pairs judged by {found.judge['name']}",
            f"{found.b} wins {found.wins}, ties {found.ties}, loses {found.losses}; {rate}",
            f"p {number(found.p)} over {found.wins + found.losses} decided pairs (exact sign test)",
        ),
        blocks=(
            Sentences("How the pairs were judged", tuple(_how(found))),
            *([Cards(f"{found.b} loses", cards)] if cards else []),
        ),
    )


def _how(found: PreferenceReport) -> Iterator[str]:
    place = found.position
    share = f" ({percent(place.share)})" if place.share else ""
    yield (
        f"position: {place.first + place.second} of {place.pairs} pairs{share} turned with the order, so they tie: "
        f"{place.first} for the first answer, {place.second} for the second; p {number(place.p)}"
    )
    yield f"basis: {listed(f'{basis} {count}' for basis, count in sorted(found.basis.items()))}"
    for reason, count in found.unjudged.items():
        yield f"not judged: {count} of {found.pairs} pairs: {reason}"
    if found.only_a or found.only_b or found.unanswered:
        only = f"{found.only_a} only in {found.a}, {found.only_b} only in {found.b}"
        yield f"no pair: {only}, {found.unanswered} unanswered"
    if found.suspicious:
        marked = listed(row.query_id for row in found.rows if row.preference.suspicious)
        yield f"suspicious: {found.suspicious} pairs hold text that addresses the judge or forges its form: {marked}"
    wasted = f"; wasted {spent(found.waste)}" if found.waste != Usage() else ""
    yield f"judge: {spent(found.usage)}{wasted}"
