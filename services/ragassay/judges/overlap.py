"""How far sentences support a claim, by words: shared stems and pairs of words, numbers, negation and roles.

A claim is a sentence of an answer or a key fact; a source is the sentences that may support it. Overlap is no entailment:
``docs/judge-accuracy.md`` says how well it agrees with people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from ragassay.core.text import content, negated, numbers, stem, words

FEATURES = ("pool", "window", "pairs", "unknown_numbers")
MAX_EVIDENCE = 3  # sentences
MIN_GAIN = 0.15  # share of a claim's stems that a further sentence must add to count as evidence
WINDOW = 3  # neighbouring sentences that are read together
CANDIDATES = 50  # sentences that share most with a claim; no other is looked at
UNKNOWN_NUMBERS = 0.25  # off the similarity, if the evidence has none of the claim's
DOUBTFUL = 0.45  # highest similarity of a claim with a number that its evidence lacks, or with reversed roles
TOPIC_SHARE = 0.8  # of a claim's stems in the sentence that contradicts it
TOPIC_SHARE_ALIKE = 0.6  # the same, if that sentence says little else
ALIKE = 0.7  # share of that sentence's stems in the claim from which it says little else
PREFIX = 5  # letters; words that share them are forms of one
MAX_CACHED = 1000  # characters
MAX_CLAUSES = 200
_CLAUSE = re.compile(
    r"[;:()\u2013\u2014]|,(?! ?\d)|\b(?:and|but|while|whereas|although|though|however|und|aber|sondern)\b",
    re.IGNORECASE,
)
_BE = re.compile(r"\b(?:is|are|was|were|been|being|be|wird|wurden?|werden|worden)\b", re.IGNORECASE)
_BY = re.compile(r"\b(?:by|von|durch)\b", re.IGNORECASE)


class Terms(NamedTuple):
    """A text as it is compared. ``sequence``: the stems of all its words; ``stems``: of those that carry meaning, with
    each number as one; ``tokens``: every stem and number.
    """

    sequence: tuple[str, ...]
    stems: frozenset[str]
    numbers: frozenset[str]
    tokens: frozenset[str]
    negated: bool
    passive: bool


def terms_of(text: str) -> Terms:
    """The terms of a text; cached for usual lengths, since contexts come back from query to query."""
    return _terms(text) if len(text) <= MAX_CACHED else _terms.__wrapped__(text)


@lru_cache(maxsize=16384)
def _terms(text: str) -> Terms:
    in_digits, carrying = numbers(text), content(text)
    sequence = tuple(map(stem, words(text)))
    stems = frozenset(one for one in carrying if not one.isdecimal()) | in_digits or carrying
    be = _BE.search(text)
    passive = be is not None and _BY.search(text, be.end()) is not None
    return Terms(sequence, stems, in_digits, frozenset(sequence) | in_digits, negated(text), passive)


def clauses(text: str) -> list[Terms]:
    """The parts of a sentence between commas, brackets and words such as "but"; a table of many parts is not cut."""
    parts = [part for part in _CLAUSE.split(text) if words(part)]
    return [*map(terms_of, parts)] if 2 <= len(parts) <= MAX_CLAUSES else [terms_of(text)]


class Source:
    """Sentences that may support a claim. ``texts``: the sentences of each text, such as a context."""

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        self.texts, self.windows = list[str](), list[range]()
        for text in filter(None, texts):
            start, end = len(self.texts), len(self.texts) + len(text)
            self.windows += [range(i, min(i + WINDOW, end)) for i in range(start, max(start, end - WINDOW) + 1)]
            self.texts += text
        self.sentences = [*map(terms_of, self.texts)]
        self.tokens = self.tokens_of(range(len(self.sentences)))

    def tokens_of(self, indexes: Iterable[int]) -> frozenset[str]:
        """Every stem and number in these sentences."""
        return frozenset[str]().union(*(self.sentences[i].tokens for i in indexes))

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """All pairs of words that follow each other."""
        return frozenset(pair for one in self.sentences for pair in pairwise(one.sequence))

    @cached_property
    def tokens_by_window(self) -> list[frozenset[str]]:
        """Every stem and number in each window."""
        return [*map(self.tokens_of, self.windows)]

    def best_windows(self, claim: Terms, number: int) -> list[range]:
        """At most ``number`` windows, those that hold most of a claim first, without those that say nothing further."""
        shared = [len(claim.stems & tokens) for tokens in self.tokens_by_window]
        best, covered = list[range](), set[int]()
        for i in sorted(range(len(shared)), key=lambda i: -shared[i]):
            if len(best) < number and not covered.issuperset(self.windows[i]):
                best.append(self.windows[i])
                covered.update(self.windows[i])
        return best


class Match(NamedTuple):
    """How a source supports a claim.

    ``similarity``: share of the claim's stems that the evidence holds, 0 to 1, less if it is doubtful. ``evidence``: indexes of
    the sentences that hold most of them, best first, at most three. ``missing``: the stems that the evidence lacks.
    ``contradicted_by``: a sentence with the same words and another number or the opposite sign; ``reversed_by``: one with the
    roles reversed; ``doubtful``: a number is missing, or the roles are reversed.
    """

    similarity: float = 0.0
    evidence: tuple[int, ...] = ()
    missing: frozenset[str] = frozenset()
    contradicted_by: int | None = None
    reversed_by: int | None = None
    doubtful: bool = False


def match(text: str, source: Source, ignored: frozenset[str] = frozenset()) -> Match:
    """How ``source`` supports a claim. Stems in ``ignored`` (the query's) are left out, unless there are no others."""
    claim = terms_of(text)
    wanted = (claim.stems - ignored) or claim.stems
    shared = {i: held for i, one in enumerate(source.sentences) if (held := len(wanted & one.tokens))}
    if not shared:
        return Match(missing=wanted)

    def rank(index: int) -> tuple[int, int, int]:
        other = source.sentences[index]
        disagreement = (not claim.numbers <= other.tokens) + (claim.negated != other.negated)
        return -shared[index], disagreement, index

    ranked = sorted(shared, key=rank)[:CANDIDATES]
    evidence, missing = [ranked[0]], wanted - source.sentences[ranked[0]].tokens
    while missing and len(evidence) < MAX_EVIDENCE:
        following = max(ranked, key=lambda i: len(missing & source.sentences[i].tokens))
        gain = missing & source.sentences[following].tokens
        if len(gain) < max(1, MIN_GAIN * len(wanted)) and gain.isdisjoint(claim.numbers):
            break
        evidence.append(following)
        missing -= source.sentences[following].tokens
    reversed_by = evidence[0] if _is_reversed(text, source.texts[evidence[0]]) else None
    lacking = len(missing & claim.numbers)
    doubtful = reversed_by is not None or lacking > 0
    unknown = UNKNOWN_NUMBERS * lacking / max(1, len(claim.numbers))
    similarity = round(max(0.0, 1 - len(missing) / len(wanted) - unknown), 6)
    return Match(
        similarity=min(similarity, DOUBTFUL) if doubtful else similarity,
        evidence=tuple(evidence),
        missing=missing,
        contradicted_by=_contradicting(text, source, ranked, ignored),
        reversed_by=reversed_by,
        doubtful=doubtful,
    )


def share_missing(wanted: frozenset[str], held: frozenset[str]) -> float:
    """Share of what is wanted that is not held; 0 if nothing is wanted."""
    return len(wanted - held) / len(wanted) if wanted else 0.0


def _contradicting(text: str, source: Source, ranked: Sequence[int], ignored: frozenset[str]) -> int | None:
    """The sentence nearest in topic, if it has nearly all words of the claim and another number or the opposite sign.

    Of a longer sentence, the clauses on the topic decide about the sign. A number of a sentence that is as near is no other
    number: it may be the next line of a table.
    """
    claim = terms_of(text)
    topic = claim.stems - claim.numbers - ignored
    if not topic:  # it says no more than the query and a sign, as "No, it is not" does
        signs = {c.negated for c in clauses(source.texts[ranked[0]]) if claim.stems & c.stems}
        return ranked[0] if not claim.numbers and signs == {not claim.negated} else None

    def share(index: int) -> float:
        return len(topic & source.sentences[index].stems) / len(topic)

    nearest = max(ranked, key=share)
    other = source.sentences[nearest]
    about = other.stems - other.numbers - ignored
    alike = bool(about) and len(topic & about) >= ALIKE * len(about)
    if share(nearest) < (TOPIC_SHARE_ALIKE if alike else TOPIC_SHARE):
        return None
    on_topic = [c for c in clauses(source.texts[nearest]) if len(topic & c.stems) >= TOPIC_SHARE * len(topic)]
    on_topic = on_topic if len(topic) > 1 else []
    denies = any(c.negated for c in clauses(text) if topic & about & c.stems)  # and not merely "I am not sure, but"
    if (on_topic or alike) and all(c.negated != denies for c in on_topic or [other]):
        return nearest
    as_near = source.tokens_of(i for i in ranked if share(i) >= share(nearest))
    has_another = other.numbers - claim.tokens and claim.numbers - as_near
    return nearest if alike and has_another else None


def _is_reversed(claim: str, other: str) -> bool:
    """Do two sentences name the same two things around the same word in opposite order: who pays whom?

    "By" in one of them alone turns the order round: "is paid by".
    """
    theirs = _around(other)
    return any((run, not passive) in theirs or (run[::-1], passive) in theirs for run, passive in _around(claim))


def _around(sentence: str) -> set[tuple[tuple[str, ...], bool]]:
    """Every three different words that carry meaning and follow each other; whether their clause is passive."""
    runs = set[tuple[tuple[str, ...], bool]]()
    for clause in clauses(sentence):
        carrying = [one[:PREFIX].rstrip("e") for one in clause.sequence if one in clause.stems]
        triples = zip(carrying, carrying[1:], carrying[2:], strict=False)
        runs.update((run, clause.passive) for run in triples if len(set(run)) == len(run))
    return runs


def features(claim: Terms, source: Source) -> tuple[float, ...]:
    """``FEATURES``: shares of a claim's stems in the whole source, of its stems in the best window, and of its pairs of
    words in the source; share of its numbers that the source lacks.
    """
    pairs = [*pairwise(claim.sequence)]
    in_window = max((len(claim.stems & tokens) for tokens in source.tokens_by_window), default=0)
    return (
        1 - share_missing(claim.stems, source.tokens),
        in_window / max(len(claim.stems), 1),
        sum(pair in source.pairs for pair in pairs) / len(pairs) if pairs else float(claim.stems <= source.tokens),
        share_missing(claim.numbers, source.tokens),
    )
