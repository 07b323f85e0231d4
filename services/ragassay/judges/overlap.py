"""How far sentences support a claim, by words: shared stems and runs of words, numbers, names and negation.

A claim is a sentence of an answer or a key fact; a source is the sentences that may support it. Overlap is no entailment:
``docs/judge-accuracy.md`` says how well it agrees with people.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ragassay.core.text import content, names, negated, numbers, stem, words

MAX_EVIDENCE = 3  # sentences
MIN_GAIN = 0.15  # share of a claim's stems that a further sentence must add to count as evidence
WINDOW = 3  # neighbouring sentences that are evidence together
PREFIX = 5  # letters; words that share them are taken for forms of one
COPIED = (0.4, 0.8)  # share of triples of words from which a claim counts as copied, and as copied fully
CANDIDATES = 50  # sentences that share most with a claim; no other is looked at
UNKNOWN_NUMBERS = UNKNOWN_NAMES = 0.25  # off the similarity, if none of the claim's is in the source
REVERSED = 0.45  # highest similarity of a claim whose roles are reversed
TOPIC_SHARE = 0.8  # of a claim's stems in the sentence that contradicts it
TOPIC_SHARE_ALIKE = 0.6  # the same, if that sentence says little else
ALIKE = 0.7  # share of that sentence's stems in the claim from which it says little else
MAX_CACHED = 1000  # characters
MAX_CLAUSES = 200
FEATURES = tuple("pool window pool_prefix pairs unknown_numbers unknown_names copied_changes copied_sign".split())
_CLAUSE = re.compile(
    r"[;:()\u2013\u2014]|,(?! ?\d)|\b(?:and|but|while|whereas|although|though|however|und|aber|sondern)\b",
    re.IGNORECASE,
)
_PASSIVE = re.compile(r"\b(?:by|von|durch)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Terms:
    """A text as it is compared. ``sequence``: the stems of all its words; ``stems``: of those that carry meaning, with
    each number as one; ``tokens``: every stem and number.
    """

    sequence: tuple[str, ...]
    stems: frozenset[str]
    numbers: frozenset[str]
    names: frozenset[str]
    tokens: frozenset[str]
    negated: bool
    passive: bool

    def runs(self, n: int) -> list[tuple[str, ...]]:
        """Every ``n`` words that follow each other, as stems."""
        return _runs(self.sequence, n)


def _runs(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(n)), strict=False))


def terms_of(text: str) -> Terms:
    """The terms of a text; cached for usual lengths, since contexts come back from query to query."""
    return _terms(text) if len(text) <= MAX_CACHED else _terms.__wrapped__(text)


@lru_cache(maxsize=16384)
def _terms(text: str) -> Terms:
    in_digits, carrying = numbers(text), content(text)
    sequence = tuple(map(stem, words(text)))
    return Terms(
        sequence=sequence,
        stems=frozenset(one for one in carrying if not one.isdecimal()) | in_digits or carrying,
        numbers=in_digits,
        names=names(text),
        tokens=frozenset(sequence) | in_digits,
        negated=negated(text),
        passive=_PASSIVE.search(text) is not None,
    )


@lru_cache(maxsize=4096)
def clauses(text: str) -> tuple[Terms, ...]:
    """The parts of a sentence between commas, brackets and words such as "but"; a table of many parts is not cut."""
    parts = [part for part in _CLAUSE.split(text) if words(part)]
    return tuple(map(terms_of, parts)) if 2 <= len(parts) <= MAX_CLAUSES else (terms_of(text),)


class Source:
    """Sentences that may support a claim. ``texts``: the sentences of each text, such as a context."""

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        self.texts: list[str] = []
        self._ends: list[int] = []  # for each sentence, where its text ends
        for text in texts:
            self.texts += text
            self._ends += [len(self.texts)] * len(text)
        self.sentences = [*map(terms_of, self.texts)]
        self.tokens = self.tokens_of(range(len(self.sentences)))

    def tokens_of(self, indexes: Iterable[int]) -> frozenset[str]:
        """Every stem and number in these sentences."""
        return frozenset[str]().union(*(self.sentences[i].tokens for i in indexes))

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """The first letters of every token."""
        return frozenset(token[:PREFIX] for token in self.tokens)

    @cached_property
    def runs(self) -> Mapping[int, frozenset[tuple[str, ...]]]:
        """All runs of two words, and of three."""
        return {n: frozenset(run for one in self.sentences for run in one.runs(n)) for n in (2, 3)}

    @cached_property
    def postings(self) -> Mapping[str, list[int]]:
        """For each token, the sentences that hold it."""
        postings: dict[str, list[int]] = defaultdict(list)
        for index, one in enumerate(self.sentences):
            for token in one.tokens:
                postings[token].append(index)
        return postings

    def counts(self, wanted: Iterable[str]) -> tuple[Counter[int], Counter[int]]:
        """How many of ``wanted`` each sentence holds, and each window of neighbours in one text, by where it starts."""
        in_sentence, in_window = Counter[int](), Counter[int]()
        for one in wanted:
            places = self.postings.get(one, ())
            in_sentence.update(places)
            near = ((start, i) for i in places for start in range(max(0, i - WINDOW + 1), i + 1))
            in_window.update({start for start, i in near if self._ends[start] == self._ends[i]})
        return in_sentence, in_window

    def windows(self, claim: Terms, number: int) -> list[range]:
        """Windows of neighbouring sentences of one text, those that hold most of a claim first. At most ``number``."""
        _, in_window = self.counts(claim.stems)
        windows, covered = list[range](), set[int]()
        for start in sorted(range(len(self.sentences)), key=lambda i: (-in_window[i], i)):
            window = range(start, min(start + WINDOW, self._ends[start]))
            if len(windows) < number and not covered.issuperset(window):
                windows.append(window)
                covered.update(window)
        return windows


@dataclass(frozen=True, slots=True)
class Match:
    """How a source supports a claim.

    ``evidence``: indexes of the sentences that hold most of the claim's stems, best first, at most three; ``similarity``:
    how far the source says the same, 0 to 1; ``missing``: the stems that the evidence lacks. ``contradicted_by``: a sentence
    with the same words and another number or the opposite sign; ``reversed_by``: one with the roles reversed.
    """

    similarity: float = 0.0
    evidence: tuple[int, ...] = ()
    missing: frozenset[str] = frozenset()
    contradicted_by: int | None = None
    reversed_by: int | None = None


def match(text: str, source: Source, ignored: frozenset[str] = frozenset()) -> Match:
    """How ``source`` supports a claim. Stems in ``ignored`` (the query's) are left out, unless there are no others."""
    claim = terms_of(text)
    wanted = (claim.stems - ignored) or claim.stems
    shared, _ = source.counts(wanted)
    if not shared:
        return Match(missing=wanted)

    def rank(index: int) -> tuple[int, int, int]:
        other = source.sentences[index]
        disagreement = (not claim.numbers <= other.tokens) + (claim.negated != other.negated)
        return -shared[index], disagreement, index

    ranked = sorted(sorted(shared, key=lambda i: (-shared[i], i))[:CANDIDATES], key=rank)
    evidence, missing = _evidence(wanted, source, ranked)
    best, union = shared[ranked[0]] / len(wanted), 1 - len(missing) / len(wanted)
    unknown = UNKNOWN_NUMBERS * share_missing(claim.numbers, source.tokens)
    unknown += UNKNOWN_NAMES * share_missing(claim.names, source.tokens)
    reversed_by = evidence[0] if is_reversed(text, source.texts[evidence[0]]) else None
    similarity = max(0.0, (best + union) / 2 - unknown)
    return Match(
        similarity=round(similarity if reversed_by is None else min(similarity, REVERSED), 6),
        evidence=evidence,
        missing=missing,
        contradicted_by=_contradicting(text, source, ranked, ignored),
        reversed_by=reversed_by,
    )


def _evidence(wanted: frozenset[str], source: Source, ranked: Sequence[int]) -> tuple[tuple[int, ...], frozenset[str]]:
    """The best sentence and those that add a fair part of the rest; and the stems that are missing in the end."""
    missing, evidence = wanted - source.sentences[ranked[0]].tokens, [ranked[0]]
    while missing and len(evidence) < MAX_EVIDENCE:
        following = max(ranked, key=lambda i: len(missing & source.sentences[i].tokens))
        if len(missing & source.sentences[following].tokens) < max(1, MIN_GAIN * len(wanted)):
            break
        evidence.append(following)
        missing -= source.sentences[following].tokens
    return tuple(evidence), missing


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
    if not topic:
        return None

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


def is_reversed(claim: str, other: str) -> bool:
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
        runs.update((run, clause.passive) for run in _runs(carrying, 3) if len(set(run)) == 3)
    return runs


def features(claim: Terms, source: Source) -> tuple[float, ...]:
    """``FEATURES`` of a claim and the source that may support it.

    Shares of the claim's stems in the whole source, and in its best window of three; the first by first letters; the share
    of its pairs of words; shares of its numbers and names that the source lacks. As far as it is copied word by word: how
    many of its triples of words are not, log(1 + n), and 1 if it and the best sentence differ in negation.
    """
    in_sentence, in_window = source.counts(claim.stems)
    pairs, triples = claim.runs(2), claim.runs(3)
    is_held = float(claim.stems <= source.tokens)
    changes = sum(run not in source.runs[3] for run in triples)
    unchanged = 1 - changes / len(triples) if triples else is_held
    copied = min(1.0, max(0.0, (unchanged - COPIED[0]) / (COPIED[1] - COPIED[0])))
    best = min(in_sentence, key=lambda i: (-in_sentence[i], i), default=None)
    prefixes = {one[:PREFIX] for one in claim.stems}
    return (
        1 - share_missing(claim.stems, source.tokens),
        max(in_window.values(), default=0) / max(len(claim.stems), 1),
        len(prefixes & source.prefixes) / max(len(prefixes), 1),
        sum(run in source.runs[2] for run in pairs) / len(pairs) if pairs else is_held,
        share_missing(claim.numbers, source.tokens),
        share_missing(claim.names, source.tokens),
        copied * math.log1p(changes),
        copied * float(best is not None and claim.negated != source.sentences[best].negated),
    )
