"""How well sentences support a claim: shared words, numbers, names and negation, and similarity of meaning.

A claim is a sentence of an answer or a key fact; a pool is the sentences that may support it. What is measured here is
overlap, not entailment: a claim that swaps two words of its source, or takes a number from the next line, passes.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

from ragassay.core.text import content, names, negated, numbers, stem, words
from ragassay.judges.quantities import Quantity, quantities

MOST_EVIDENCE = 3
LEAST_GAIN = 0.15  # of a claim's stems, that a further sentence must add to count as evidence
LONGEST_CACHED = 1000  # characters; the cache must stay small, whatever comes
CANDIDATES = 50  # sentences that share most with a claim; no other is looked at
NEAR = 2  # sentences, best by words, whose meaning is compared
DENIAL_SHARE = 0.8  # of a claim's stems in the sentence that denies it
DENIAL_SHARE_ALIKE = 0.6  # the same, where the sentence says little else
DENIAL_RETURN = 0.7  # of that sentence's stems in the claim
WEIGHTS = {"best": 0.4, "union": 0.4, "similarity": 0.2}
LEXICAL_WEIGHTS = {"best": 0.5, "union": 0.5}
AROUND = 5  # sentences, best by words, whose windows may be the evidence
WINDOW = 3  # neighbouring sentences that are evidence together
FURTHER_SENTENCE, LOST_NUMBER, LOST_NAME = 0.02, 0.05, 0.02  # off the share of a claim's stems that a window holds
START = 5  # letters; words that share them are taken for forms of one
NAME_WEIGHT = 3  # a name tells more of what a clause is about than another word
UNKNOWN_NUMBERS = 0.25  # off, where no number of the claim is in the pool
UNKNOWN_NAMES = 0.25  # off, where no name of the claim is in the pool
MOST_CLAUSES = 200
_CLAUSE = re.compile(
    r"[;:()\u2013\u2014]|,(?! ?\d)|\b(?:and|but|while|whereas|although|though|however|und|aber|sondern)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SentenceTerms:
    """One sentence and what is read from it once.

    ``sequence``: the stems of all its words in order; ``tokens``: every one of them, and its numbers.
    """

    text: str
    sequence: tuple[str, ...]
    stems: frozenset[str]
    numbers: frozenset[str]
    names: frozenset[str]
    tokens: frozenset[str]
    quantities: tuple[Quantity, ...]
    negated: bool

    @property
    def pairs(self) -> list[tuple[str, ...]]:
        """Every two words that follow each other, as stems."""
        return list(pairwise(self.sequence))

    @property
    def triples(self) -> list[tuple[str, ...]]:
        """Every three words that follow each other, as stems."""
        return list(zip(self.sequence, self.sequence[1:], self.sequence[2:], strict=False))


def terms_of(text: str) -> SentenceTerms:
    """What is read from a sentence; cached for usual lengths, since contexts come back from query to query."""
    return _cached(text) if len(text) <= LONGEST_CACHED else _read(text)


def _read(text: str) -> SentenceTerms:
    in_digits = numbers(text)
    sequence = tuple(map(stem, words(text)))
    return SentenceTerms(
        text=text,
        sequence=sequence,
        stems=_stems(text, in_digits),
        numbers=in_digits,
        names=names(text),
        tokens=frozenset(sequence) | in_digits,
        quantities=tuple(quantities(text)) if in_digits or " a " in text else (),
        negated=negated(text),
    )


def _stems(text: str, in_digits: frozenset[str]) -> frozenset[str]:
    """Stems of the words that carry meaning, with each number as one."""
    return (frozenset(one for one in content(text) if not one.isdecimal()) | in_digits) or content(text)


_cached = lru_cache(maxsize=16384)(_read)


@dataclass(frozen=True)
class Pool:
    """Sentences that may support a claim, in order. ``texts_of``: for each, the number of the text that it is from."""

    sentences: tuple[SentenceTerms, ...]
    texts_of: tuple[int, ...]

    @classmethod
    def of(cls, texts: Sequence[str], texts_of: Sequence[int] | None = None) -> Pool:
        """The pool of these sentences, by default all of one text."""
        return cls(tuple(map(terms_of, texts)), tuple(texts_of or [0] * len(texts)))

    @cached_property
    def tokens(self) -> frozenset[str]:
        """Every stem and number in the pool."""
        return self.tokens_of(range(len(self.sentences)))

    def tokens_of(self, places: Iterable[int]) -> frozenset[str]:
        """Every stem and number in the sentences at these places."""
        return frozenset[str]().union(*(self.sentences[i].tokens for i in places))

    @cached_property
    def quantities(self) -> dict[str, Quantity]:
        """The quantities of the pool by their value, as they are written there first."""
        return {one.value: one for s in reversed(self.sentences) for one in reversed(s.quantities)}

    def in_its_units(self, claim: SentenceTerms) -> SentenceTerms:
        """The claim with its quantities as the pool writes them, where it has them in other units."""
        for own in claim.quantities:
            theirs = self.quantities.get(own.value)
            if theirs is not None and not {own.number, own.unit} - {""} <= self.tokens:
                gone, instead = (
                    frozenset(one) - {""} for one in ((own.number, own.unit), (theirs.number, theirs.unit))
                )
                claim = replace(
                    claim,
                    stems=claim.stems - gone | instead,
                    numbers=claim.numbers - gone | (frozenset((theirs.number,)) - {""}),
                    tokens=claim.tokens - gone | instead,
                )
        return claim

    @cached_property
    def pairs(self) -> frozenset[tuple[str, ...]]:
        """The pairs of all sentences."""
        return frozenset(two for one in self.sentences for two in one.pairs)

    @cached_property
    def triples(self) -> frozenset[tuple[str, ...]]:
        """The triples of all sentences."""
        return frozenset(three for one in self.sentences for three in one.triples)

    def window(self, claim: SentenceTerms, around: Sequence[int]) -> range:
        """Of up to three neighbouring sentences of one text, at least one of ``around``, those that hold most of a claim.

        A number or name that they lack counts against them, and so does a further sentence, a little.
        """
        found, best = range(0), -1.0
        for start, end in dict.fromkeys(
            (i - before, i + 1 + after) for i in around for before in range(WINDOW) for after in range(WINDOW - before)
        ):
            if start < 0 or end > len(self.sentences) or self.texts_of[start] != self.texts_of[end - 1]:
                continue
            held = self.tokens_of(range(start, end))
            worth = len(claim.stems & held) / max(len(claim.stems), 1) - FURTHER_SENTENCE * (end - start - 1)
            worth -= LOST_NUMBER * (not claim.numbers <= held) + LOST_NAME * len(claim.names - held)
            if worth > best:
                found, best = range(start, end), worth
        return found

    def clauses(self, index: int) -> list[SentenceTerms]:
        """The clauses of a sentence, cut once."""
        if index not in self._clauses:
            self._clauses[index] = clauses(self.sentences[index])
        return self._clauses[index]

    @cached_property
    def _clauses(self) -> dict[int, list[SentenceTerms]]:
        return {}

    @cached_property
    def starts(self) -> frozenset[str]:
        """The first letters of every longer stem in the pool."""
        return frozenset(token[:START] for token in self.tokens if len(token) >= START)

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
    (indexes into the pool, best first); ``near``: the sentences whose meaning is worth comparing; ``around``: the few
    best, whose windows may be its evidence; ``lacking``: stems that no chosen sentence has; ``unknown_numbers``,
    ``unknown_names``: share of the claim's that are not in the pool; ``denied_by``: index of the sentence that has the same
    words with another number or the opposite sign.
    """

    best: float = 0.0
    union: float = 0.0
    chosen: tuple[int, ...] = ()
    near: tuple[int, ...] = ()
    around: tuple[int, ...] = ()
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
    claim = pool.in_its_units(claim)
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
        around=tuple(ranked[:AROUND]),
        lacking=frozenset(lacking),
        unknown_numbers=share_lacking(claim.numbers, pool.tokens),
        unknown_names=share_lacking(claim.names, pool.tokens),
        denied_by=_denier(claim, pool, ranked, ignored),
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


def share_lacking(wanted: frozenset[str], held: frozenset[str]) -> float:
    """Share of what is wanted that is not held; 0 where nothing is wanted."""
    return len(wanted - held) / len(wanted) if wanted else 0.0


def _disagreement(claim: SentenceTerms, other: SentenceTerms) -> int:
    return int(not claim.numbers <= other.tokens) + int(claim.negated != other.negated)


def _denier(claim: SentenceTerms, pool: Pool, ranked: Sequence[int], ignored: frozenset[str]) -> int | None:
    """The sentence nearest in topic, where it has nearly all words of the claim and another number or the opposite sign.

    It may be longer than the claim: then one of its clauses has to hold the claim's words. A number that stands in a
    sentence that is as near is none of its own: it may well be the next line of a table.
    """
    topic = claim.stems - claim.numbers - ignored
    if not topic:
        return None

    def share(index: int) -> float:
        return len(topic & pool.sentences[index].stems) / len(topic)

    best = max(ranked, key=share)
    other = pool.sentences[best]
    about = other.stems - other.numbers - ignored
    alike = bool(about) and len(topic & about) >= DENIAL_RETURN * len(about)
    if share(best) < (DENIAL_SHARE_ALIKE if alike else DENIAL_SHARE):
        return None
    parts = pool.clauses(best)
    on_topic = [c for c in parts if len(topic & c.stems) >= DENIAL_SHARE * len(topic)] if len(topic) > 1 else []
    denies = any(c.negated for c in clauses(claim) if topic & about & c.stems)  # and not merely "I am not sure, but"
    if (on_topic or alike) and all(c.negated != denies for c in on_topic or [other]):
        return best
    if rivals(claim, other, parts):
        return best
    if not alike or claim.numbers <= other.tokens or other.numbers <= claim.tokens:
        return None
    as_near = (i for i in ranked if share(i) >= share(best))
    return best if claim.numbers - pool.tokens_of(as_near) else None


def clauses(sentence: SentenceTerms) -> list[SentenceTerms]:
    """The parts of a sentence between commas, brackets and words such as "but"; a table of many parts is not cut."""
    parts = [part for part in _CLAUSE.split(sentence.text) if words(part)]
    return list(map(terms_of, parts)) if 2 <= len(parts) <= MOST_CLAUSES else [sentence]


def rivals(claim: SentenceTerms, sentence: SentenceTerms, of_sentence: Sequence[SentenceTerms]) -> bool:
    """Does a sentence give a number of the claim to something else, and another one of its kind to what the claim is about?

    ``of_sentence``: its clauses. Of one kind are numbers that the same word follows: 30 days and 7 days.
    """
    shared = claim.numbers & sentence.numbers
    if not shared or not sentence.numbers - claim.numbers:
        return False
    parts = [part for part in of_sentence if part.numbers]
    topic, kinds = claim.stems - claim.numbers, _after(claim, shared)

    def about(part: SentenceTerms) -> int:
        return sum(NAME_WEIGHT if one in claim.names or one in part.names else 1 for one in topic & part.stems)

    ours = max((about(part) for part in parts if part.numbers & shared), default=0)
    others = [part for part in parts if not part.numbers & claim.numbers and kinds & _after(part, part.numbers)]
    return max(map(about, others), default=0) > ours


def _after(sentence: SentenceTerms, marks: frozenset[str]) -> frozenset[str]:
    """The stems that follow numbers in a sentence."""
    return frozenset(b for a, b in sentence.pairs if a in marks)
