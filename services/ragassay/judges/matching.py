"""How well sentences carry a claim: shared words, numbers, names and negation, and likeness of meaning.

A claim is a sentence of an answer or a key fact; a pool is the sentences that may carry it. What is measured here is
overlap, not entailment: a claim that swaps two words of its source, or takes a number from the next line, passes.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ragassay.judges.words import content, names, negated, numbers, stem, words

MOST_EVIDENCE = 3
LEAST_GAIN = 0.15  # of a claim's stems, that a further sentence must add to count as evidence
LONGEST_REMEMBERED = 1000  # characters; what is remembered must stay small, whatever comes
CANDIDATES = 50  # sentences that share most with a claim; no other is looked at
NEAR = 2  # sentences, best by words, whose meaning is compared
DENIAL_SHARE = 0.8  # of a claim's stems in the sentence that denies it
DENIAL_RETURN = 0.7  # of that sentence's stems in the claim
WEIGHTS = {"best": 0.4, "union": 0.4, "similarity": 0.2}
LEXICAL_WEIGHTS = {"best": 0.5, "union": 0.5}
STRANGE_NUMBERS = 0.25  # off, where no number of the claim is said anywhere
STRANGE_NAMES = 0.25  # off, where no name of the claim is said anywhere


@dataclass(frozen=True, slots=True)
class Passage:
    """One sentence and what is read from it once. ``said``: every stem and number in it, stop words included."""

    text: str
    stems: frozenset[str]
    numbers: frozenset[str]
    names: frozenset[str]
    said: frozenset[str]
    negated: bool


def passage(text: str) -> Passage:
    """``text`` as a passage; sentences of usual length are remembered, since contexts come back from query to query."""
    return _remembered(text) if len(text) <= LONGEST_REMEMBERED else _read(text)


def _read(text: str) -> Passage:
    found = numbers(text)
    said = frozenset(map(stem, words(text))) | found
    return Passage(text, content(text), found, names(text), said, negated(text))


_remembered = lru_cache(maxsize=16384)(_read)


@dataclass(frozen=True)
class Pool:
    """Sentences that may carry a claim, in order."""

    passages: tuple[Passage, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Pool:
        """The pool of these sentences."""
        return cls(tuple(map(passage, texts)))

    @cached_property
    def said(self) -> frozenset[str]:
        """Every stem and number that is said anywhere in the pool."""
        return frozenset[str]().union(*(one.said for one in self.passages))

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """For each stem, the sentences that hold it."""
        found: dict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(self.passages):
            for held in one.stems:
                found[held].append(place)
        return found


@dataclass(frozen=True, slots=True)
class Match:
    """How a pool carries a claim, by words.

    ``best``: share of the claim's stems in the one best sentence; ``union``: in the ``chosen`` sentences together
    (indexes into the pool, best first); ``near``: the sentences whose meaning is worth comparing; ``lacking``: stems
    that no chosen sentence has; ``strange_numbers``, ``strange_names``: share of the claim's that are said nowhere in
    the pool; ``denied_by``: index of the sentence that says the same with another number or the opposite sign.
    """

    best: float = 0.0
    union: float = 0.0
    chosen: tuple[int, ...] = ()
    near: tuple[int, ...] = ()
    lacking: frozenset[str] = frozenset()
    strange_numbers: float = 0.0
    strange_names: float = 0.0
    denied_by: int | None = None

    def likeness(self, similarity: float | None = None) -> float:
        """How far the pool carries the claim, 0 to 1; ``similarity``: cosine to the nearest sentence, if known."""
        if similarity is None:
            value = LEXICAL_WEIGHTS["best"] * self.best + LEXICAL_WEIGHTS["union"] * self.union
        else:
            value = WEIGHTS["best"] * self.best + WEIGHTS["union"] * self.union
            value += WEIGHTS["similarity"] * max(0.0, similarity)
        value -= STRANGE_NUMBERS * self.strange_numbers + STRANGE_NAMES * self.strange_names
        return round(max(0.0, value), 6)


def match(claim: Passage, pool: Pool, given: frozenset[str] = frozenset()) -> Match:
    """How ``pool`` carries ``claim``. Stems in ``given`` (the query's) are no achievement and are left out."""
    wanted = (claim.stems - given) or claim.stems
    shared = Counter(place for one in wanted for place in pool.places.get(one, ()))
    if not shared:
        return Match(lacking=wanted)
    best = heapq.nsmallest(CANDIDATES, shared, key=lambda i: (-shared[i], i))
    ranked = sorted(best, key=lambda i: (-shared[i], _disagreement(claim, pool.passages[i]), i))
    chosen, lacking = _cover(wanted, pool, ranked)
    return Match(
        best=shared[ranked[0]] / len(wanted),
        union=1 - len(lacking) / len(wanted),
        chosen=chosen,
        near=tuple(dict.fromkeys((*chosen, *ranked[:NEAR]))),
        lacking=frozenset(lacking),
        strange_numbers=_strange(claim.numbers, pool),
        strange_names=_strange(claim.names, pool),
        denied_by=_denier(claim, pool, ranked[0]),
    )


def _cover(wanted: frozenset[str], pool: Pool, ranked: Sequence[int]) -> tuple[tuple[int, ...], set[str]]:
    """The best sentence, then those that add a fair part of what is still lacking; and what is lacking in the end."""
    lacking = set(wanted)
    chosen: list[int] = []
    while lacking and len(chosen) < MOST_EVIDENCE:
        following = max(ranked, key=lambda i: len(lacking & pool.passages[i].stems))
        gain = len(lacking & pool.passages[following].stems)
        if gain == 0 or (chosen and gain < LEAST_GAIN * len(wanted)):
            break
        chosen.append(following)
        lacking -= pool.passages[following].stems
    return tuple(chosen), lacking


def _strange(marks: frozenset[str], pool: Pool) -> float:
    return len(marks - pool.said) / len(marks) if marks else 0.0


def _disagreement(claim: Passage, other: Passage) -> int:
    return int(not claim.numbers <= other.said) + int(claim.negated != other.negated)


def _denier(claim: Passage, pool: Pool, best: int) -> int | None:
    """``best``, where claim and sentence share nearly all words but differ in negation or in a number.

    The number must be one that no sentence on the topic says: it may well stand in the next line of a table.
    """
    other = pool.passages[best]
    topic, back = claim.stems - claim.numbers, other.stems - other.numbers
    same = len(topic & back)
    if not same or same < DENIAL_SHARE * len(topic) or same < DENIAL_RETURN * len(back):
        return None
    if claim.negated != other.negated:
        return best
    if claim.numbers <= other.said or other.numbers <= claim.said:
        return None
    on_topic = (one.said for one in pool.passages if 2 * len(topic & one.stems) >= len(topic))
    return best if claim.numbers - frozenset[str]().union(*on_topic) else None
