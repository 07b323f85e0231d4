"""How well sentences support a claim: shared words, numbers, names and negation, and similarity of meaning.

A claim is a sentence of an answer or a key fact; a pool is the sentences that may support it. What is measured here is
overlap, not entailment: a claim that swaps two words of its source, or takes a number from the next line, passes.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ragassay.judges.text import content, names, negated, numbers, stem, words

MOST_EVIDENCE = 3
LEAST_GAIN = 0.15  # of a claim's stems, that a further sentence must add to count as evidence
LONGEST_CACHED = 1000  # characters; the cache must stay small, whatever comes
CANDIDATES = 50  # sentences that share most with a claim; no other is looked at
NEAR = 2  # sentences, best by words, whose meaning is compared
DENIAL_SHARE = 0.8  # of a claim's stems in the sentence that denies it
DENIAL_RETURN = 0.7  # of that sentence's stems in the claim
WEIGHTS = {"best": 0.4, "union": 0.4, "similarity": 0.2}
LEXICAL_WEIGHTS = {"best": 0.5, "union": 0.5}
UNKNOWN_NUMBERS = 0.25  # off, where no number of the claim is in the pool
UNKNOWN_NAMES = 0.25  # off, where no name of the claim is in the pool


@dataclass(frozen=True, slots=True)
class SentenceTerms:
    """One sentence and what is read from it once. ``tokens``: every stem and number in it, stop words included."""

    text: str
    stems: frozenset[str]
    numbers: frozenset[str]
    names: frozenset[str]
    tokens: frozenset[str]
    negated: bool


def terms_of(text: str) -> SentenceTerms:
    """What is read from a sentence; cached for usual lengths, since contexts come back from query to query."""
    return _cached(text) if len(text) <= LONGEST_CACHED else _read(text)


def _read(text: str) -> SentenceTerms:
    in_digits = numbers(text)
    tokens = frozenset(map(stem, words(text))) | in_digits
    return SentenceTerms(text, content(text), in_digits, names(text), tokens, negated(text))


_cached = lru_cache(maxsize=16384)(_read)


@dataclass(frozen=True)
class Pool:
    """Sentences that may support a claim, in order."""

    sentences: tuple[SentenceTerms, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Pool:
        """The pool of these sentences."""
        return cls(tuple(map(terms_of, texts)))

    @cached_property
    def tokens(self) -> frozenset[str]:
        """Every stem and number in the pool."""
        return frozenset[str]().union(*(one.tokens for one in self.sentences))

    @cached_property
    def postings(self) -> dict[str, list[int]]:
        """For each stem, the indexes of the sentences that hold it."""
        postings: dict[str, list[int]] = defaultdict(list)
        for index, one in enumerate(self.sentences):
            for held in one.stems:
                postings[held].append(index)
        return postings


@dataclass(frozen=True, slots=True)
class Match:
    """How a pool supports a claim, by words.

    ``best``: share of the claim's stems in the one best sentence; ``union``: in the ``chosen`` sentences together
    (indexes into the pool, best first); ``near``: the sentences whose meaning is worth comparing; ``lacking``: stems
    that no chosen sentence has; ``unknown_numbers``, ``unknown_names``: share of the claim's that are not in the pool;
    ``denied_by``: index of the sentence that has the same words with another number or the opposite sign.
    """

    best: float = 0.0
    union: float = 0.0
    chosen: tuple[int, ...] = ()
    near: tuple[int, ...] = ()
    lacking: frozenset[str] = frozenset()
    unknown_numbers: float = 0.0
    unknown_names: float = 0.0
    denied_by: int | None = None

    def similarity(self, cosine: float | None = None) -> float:
        """How far the pool supports the claim, 0 to 1; ``cosine``: to the nearest sentence, if known."""
        if cosine is None:
            value = LEXICAL_WEIGHTS["best"] * self.best + LEXICAL_WEIGHTS["union"] * self.union
        else:
            value = WEIGHTS["best"] * self.best + WEIGHTS["union"] * self.union
            value += WEIGHTS["similarity"] * max(0.0, cosine)
        value -= UNKNOWN_NUMBERS * self.unknown_numbers + UNKNOWN_NAMES * self.unknown_names
        return round(max(0.0, value), 6)


def match(claim: SentenceTerms, pool: Pool, ignored: frozenset[str] = frozenset()) -> Match:
    """How ``pool`` supports ``claim``. Stems in ``ignored`` (the query's) are no achievement and are left out."""
    wanted = (claim.stems - ignored) or claim.stems
    shared = Counter(index for one in wanted for index in pool.postings.get(one, ()))
    if not shared:
        return Match(lacking=wanted)
    best = heapq.nsmallest(CANDIDATES, shared, key=lambda i: (-shared[i], i))
    ranked = sorted(best, key=lambda i: (-shared[i], _disagreement(claim, pool.sentences[i]), i))
    chosen, lacking = _cover(wanted, pool, ranked)
    return Match(
        best=shared[ranked[0]] / len(wanted),
        union=1 - len(lacking) / len(wanted),
        chosen=chosen,
        near=tuple(dict.fromkeys((*chosen, *ranked[:NEAR]))),
        lacking=frozenset(lacking),
        unknown_numbers=_unknown(claim.numbers, pool),
        unknown_names=_unknown(claim.names, pool),
        denied_by=_denier(claim, pool, ranked[0]),
    )


def _cover(wanted: frozenset[str], pool: Pool, ranked: Sequence[int]) -> tuple[tuple[int, ...], set[str]]:
    """The best sentence, then those that add a fair part of what is still lacking; and what is lacking in the end."""
    lacking = set(wanted)
    chosen: list[int] = []
    while lacking and len(chosen) < MOST_EVIDENCE:
        following = max(ranked, key=lambda i: len(lacking & pool.sentences[i].stems))
        gain = len(lacking & pool.sentences[following].stems)
        if gain == 0 or (chosen and gain < LEAST_GAIN * len(wanted)):
            break
        chosen.append(following)
        lacking -= pool.sentences[following].stems
    return tuple(chosen), lacking


def _unknown(marks: frozenset[str], pool: Pool) -> float:
    return len(marks - pool.tokens) / len(marks) if marks else 0.0


def _disagreement(claim: SentenceTerms, other: SentenceTerms) -> int:
    return int(not claim.numbers <= other.tokens) + int(claim.negated != other.negated)


def _denier(claim: SentenceTerms, pool: Pool, best: int) -> int | None:
    """``best``, where claim and sentence share nearly all words but differ in negation or in a number.

    The number must be in no sentence on the topic: it may well stand in the next line of a table.
    """
    other = pool.sentences[best]
    topic, back = claim.stems - claim.numbers, other.stems - other.numbers
    same = len(topic & back)
    if not same or same < DENIAL_SHARE * len(topic) or same < DENIAL_RETURN * len(back):
        return None
    if claim.negated != other.negated:
        return best
    if claim.numbers <= other.tokens or other.numbers <= claim.tokens:
        return None
    on_topic = (one.tokens for one in pool.sentences if 2 * len(topic & one.stems) >= len(topic))
    return best if claim.numbers - frozenset[str]().union(*on_topic) else None
