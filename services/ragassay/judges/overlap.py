"""How far sentences support a claim, by words: shared stems and runs of words, numbers, names, negation and roles.

A claim is a sentence of an answer or a key fact; a source is the sentences that may support it. Overlap is no entailment:
``docs/judge-accuracy.md`` says how well it agrees with people.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache

from ragassay.core.text import NUMBER_WORDS, content, names, negated, numbers, stem, words

MAX_EVIDENCE = 3  # sentences
MIN_GAIN = 0.15  # share of a claim's stems that a further sentence must add to count as evidence
WINDOW = 3  # neighbouring sentences that are evidence together
PREFIX = 5  # letters; words that share them are taken for forms of one
COPIED_FROM, COPIED_OVER = (
    0.4,
    0.4,
)  # share of a claim's triples of words from which it counts as copied, and over which fully
CANDIDATES = 50  # sentences that share most with a claim; no other is looked at
UNKNOWN_NUMBERS = UNKNOWN_NAMES = 0.25  # off the similarity, if none of the claim's is in the source
REVERSED = 0.45  # highest similarity of a claim whose roles are reversed
TOPIC_SHARE = 0.8  # of a claim's stems in the sentence that contradicts it
TOPIC_SHARE_ALIKE = 0.6  # the same, if that sentence says little else
ALIKE = 0.7  # share of that sentence's stems in the claim from which it says little else
NAME_WEIGHT = 3  # a name tells more of what a clause is about than another word
MAX_CACHED = 1000  # characters
MAX_CLAUSES = 200

_UNITS = {
    unit: (Decimal(factor), base)
    for factor, base, units in (
        ("0.01", "m", "cm centimetre centimeter zentimeter"),
        ("1", "m", "m metre meter"),
        ("1000", "m", "km kilometre kilometer"),
        ("1", "g", "g gram gramm"),
        ("1000", "g", "kg kilogram kilo kilogramm"),
        ("0.001", "l", "ml millilitre milliliter"),
        ("1", "l", "l litre liter"),
        ("1", "min", "min minute minuten"),
        ("60", "min", "h hour stunde stunden"),
        ("1440", "min", "day tag tage tagen"),
        ("10080", "min", "week woche wochen"),
        ("20160", "min", "fortnight"),
        ("1", "month", "month monat monate monaten"),
        ("12", "month", "year jahr jahre jahren"),
        ("1000", "", "thousand tausend"),
        ("1000000", "", "million millionen"),
        ("1000000000", "", "billion milliarde milliarden"),
    )
    for unit in units.split()
}
_QUANTITY = re.compile(
    rf"(?<![\w.,])(?:(?P<number>\d+(?:[.,]\d+)*|{'|'.join(NUMBER_WORDS)}|an?)[\s-]?"
    rf"(?P<unit>{'|'.join(sorted(_UNITS, key=len, reverse=True))})s?|(?P<plain>\d{{1,3}}(?:,\d{{3}})+|\d{{3,}}))\b(?![.,]\d)",
    re.IGNORECASE,
)
_MAX_DIGITS = 20
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

    text: str
    sequence: tuple[str, ...]
    stems: frozenset[str]
    numbers: frozenset[str]
    names: frozenset[str]
    tokens: frozenset[str]
    negated: bool

    def runs(self, n: int) -> list[tuple[str, ...]]:
        """Every ``n`` words that follow each other, as stems."""
        return list(zip(*(self.sequence[start:] for start in range(n)), strict=False))


def terms_of(text: str) -> Terms:
    """The terms of a text; cached for usual lengths, since contexts come back from query to query."""
    return _cached_terms(text) if len(text) <= MAX_CACHED else _terms(text)


def _terms(text: str) -> Terms:
    in_digits, carrying = numbers(text), content(text)
    sequence = tuple(map(stem, words(text)))
    return Terms(
        text=text,
        sequence=sequence,
        stems=frozenset(one for one in carrying if not one.isdecimal()) | in_digits or carrying,
        numbers=in_digits,
        names=names(text),
        tokens=frozenset(sequence) | in_digits,
        negated=negated(text),
    )


_cached_terms = lru_cache(maxsize=16384)(_terms)


@lru_cache(maxsize=4096)
def clauses(text: str) -> tuple[Terms, ...]:
    """The parts of a sentence between commas, brackets and words such as "but"; a table of many parts is not cut."""
    parts = [part for part in _CLAUSE.split(text) if words(part)]
    return tuple(map(terms_of, parts)) if 2 <= len(parts) <= MAX_CLAUSES else (terms_of(text),)


def quantity(found: re.Match[str]) -> str | None:
    """A number and its unit in the base unit; None if it can't be read. ``5 km`` and ``5,000 m`` are ``5000 m``."""
    written, unit = (found["number"] or found["plain"]).lower(), (found["unit"] or "").lower()
    number = "1" if written in ("a", "an") else NUMBER_WORDS.get(written) or next(iter(numbers(written)), "")
    if not number or number.count(".") > 1 or "," in number or len(number) > _MAX_DIGITS:
        return None
    factor, base = _UNITS.get(unit, (Decimal(1), ""))
    return f"{(Decimal(number) * factor).normalize():f} {base}"


class Source:
    """Sentences that may support a claim. ``texts``: the sentences of each text, such as a context."""

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        self.sentences: list[Terms] = []
        self._ends: list[int] = []  # for each sentence, where its text ends
        for text in texts:
            self.sentences += map(terms_of, text)
            self._ends += [len(self.sentences)] * len(text)
        self.tokens = self.tokens_of(range(len(self.sentences)))

    def tokens_of(self, indexes: Iterable[int]) -> frozenset[str]:
        """Every stem and number in these sentences."""
        return frozenset[str]().union(*(self.sentences[i].tokens for i in indexes))

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """The first letters of every token."""
        return frozenset(token[:PREFIX] for token in self.tokens)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, ...]]:
        """All runs of two words."""
        return frozenset(run for one in self.sentences for run in one.runs(2))

    @cached_property
    def triples(self) -> frozenset[tuple[str, ...]]:
        """All runs of three words."""
        return frozenset(run for one in self.sentences for run in one.runs(3))

    @cached_property
    def postings(self) -> Mapping[str, list[int]]:
        """For each token, the sentences that hold it."""
        postings: dict[str, list[int]] = defaultdict(list)
        for index, one in enumerate(self.sentences):
            for token in one.tokens:
                postings[token].append(index)
        return postings

    @cached_property
    def quantities(self) -> dict[str, str]:
        """Quantities in their base unit, each as it is written first."""
        found = (match for one in reversed(self.sentences) for match in reversed([*_QUANTITY.finditer(one.text)]))
        return {value: match[0] for match in found if (value := quantity(match)) is not None}

    def claim(self, text: str) -> Terms:
        """A claim's terms, its quantities written as the source writes them: "three weeks" as "21 days"."""

        def as_here(match: re.Match[str]) -> str:
            if terms_of(match[0]).stems <= self.tokens or (value := quantity(match)) is None:
                return match[0]
            return self.quantities.get(value, match[0])

        return terms_of(_QUANTITY.sub(as_here, text) if self.quantities else text)

    def counts(self, wanted: Iterable[str]) -> tuple[Counter[int], Counter[int]]:
        """How many of ``wanted`` each sentence holds, and each window of neighbours in one text, by where it starts."""
        in_sentence, in_window = Counter[int](), Counter[int]()
        for one in wanted:
            places = self.postings.get(one, ())
            in_sentence.update(places)
            in_window.update(
                {
                    start
                    for i in places
                    for start in range(max(0, i - WINDOW + 1), i + 1)
                    if self._ends[start] == self._ends[i]
                }
            )
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

    ``evidence``: indexes of the sentences that hold most of the claim's stems, best first, at most three; ``best`` and
    ``union``: the share of the stems in the first, and in all of them; ``missing``: the stems that they lack.
    ``contradicted_by``: a sentence with the same words and another number or the opposite sign; ``reversed_by``: one with
    the roles reversed.
    """

    best: float = 0.0
    union: float = 0.0
    evidence: tuple[int, ...] = ()
    missing: frozenset[str] = frozenset()
    unknown: float = 0.0
    contradicted_by: int | None = None
    reversed_by: int | None = None

    @property
    def similarity(self) -> float:
        """How far the source says the same, 0 to 1."""
        value = max(0.0, (self.best + self.union) / 2 - self.unknown)
        return round(value if self.reversed_by is None else min(value, REVERSED), 6)


def match(text: str, source: Source, ignored: frozenset[str] = frozenset()) -> Match:
    """How ``source`` supports a claim. Stems in ``ignored`` (the query's) are left out, unless there are no others."""
    claim = source.claim(text)
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
    unknown = UNKNOWN_NUMBERS * share_missing(claim.numbers, source.tokens)
    unknown += UNKNOWN_NAMES * share_missing(claim.names, source.tokens)
    return Match(
        best=shared[ranked[0]] / len(wanted),
        union=1 - len(missing) / len(wanted),
        evidence=evidence,
        missing=missing,
        unknown=unknown,
        contradicted_by=_contradicting(claim, source, ranked, ignored),
        reversed_by=next((i for i in evidence[:1] if is_reversed(claim.text, source.sentences[i].text)), None),
    )


def _evidence(wanted: frozenset[str], source: Source, ranked: Sequence[int]) -> tuple[tuple[int, ...], frozenset[str]]:
    """The best sentence and those that add a fair part of the rest; and the stems that are missing in the end."""
    missing, evidence = wanted, [ranked[0]]
    missing -= source.sentences[ranked[0]].tokens
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


def _contradicting(claim: Terms, source: Source, ranked: Sequence[int], ignored: frozenset[str]) -> int | None:
    """The sentence nearest in topic, if it has nearly all words of the claim and another number or the opposite sign.

    If it is longer than the claim, one of its clauses has to hold the claim's words. A number of a sentence that is as
    near is no other number: it may be the next line of a table.
    """
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
    parts = clauses(other.text)
    on_topic = [c for c in parts if len(topic & c.stems) >= TOPIC_SHARE * len(topic)] if len(topic) > 1 else []
    denies = any(
        c.negated for c in clauses(claim.text) if topic & about & c.stems
    )  # and not merely "I am not sure, but"
    if (on_topic or alike) and all(c.negated != denies for c in on_topic or [other]):
        return nearest

    def near(part: Terms) -> int:  # a name tells more of what a clause is about than another word
        return sum(NAME_WEIGHT if one in claim.names or one in part.names else 1 for one in topic & part.stems)

    def kinds(terms: Terms) -> set[str]:  # 30 days and 7 days are of one kind
        return {following for number, following in terms.runs(2) if number in terms.numbers}

    shared = claim.numbers & other.numbers
    if not claim.numbers or not other.numbers - claim.tokens or (not shared and not alike):
        return None
    rivals = [p for p in parts if p.numbers - claim.tokens and not p.numbers & claim.numbers]
    rivals = [p for p in rivals if not shared or kinds(p) & kinds(claim)]
    if max(map(near, rivals), default=0) > max((near(p) for p in parts if p.numbers & shared), default=0):
        return nearest
    as_near = source.tokens_of(i for i in ranked if share(i) >= share(nearest))
    return nearest if alike and claim.numbers - as_near else None


def is_reversed(claim: str, other: str) -> bool:
    """Do two sentences name the same two things around the same word in opposite order: who pays whom?

    "By" in one of them alone turns the order round: "is paid by".
    """
    (active, passive), (others_active, others_passive) = _around(claim), _around(other)
    reversed_order = {run[::-1] for run in others_active}, {run[::-1] for run in others_passive}
    alike = active & others_passive or passive & others_active
    return bool(alike or active & reversed_order[0] or passive & reversed_order[1])


def _around(sentence: str) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    """Every three different words that carry meaning and follow each other in a clause; of active and of passive clauses."""
    runs = set[tuple[str, ...]](), set[tuple[str, ...]]()
    for clause in clauses(sentence):
        carrying = [one[:PREFIX].rstrip("e") for one in clause.sequence if one in clause.stems]
        of_clause = runs[_PASSIVE.search(clause.text) is not None]
        of_clause.update(r for r in zip(carrying, carrying[1:], carrying[2:], strict=False) if len(set(r)) == 3)
    return runs


FEATURES = (
    *("pool", "window", "pool_prefix", "pairs", "unknown_numbers", "unknown_names"),
    *("copied_changes", "copied_sign"),
)


def features(claim: Terms, source: Source) -> tuple[float, ...]:
    """``FEATURES`` of a claim and the source that may support it.

    Shares of the claim's stems in the whole source, and in its best window of three; the first by first letters; the share
    of its pairs of words; shares of its numbers and names that the source lacks. As far as it is copied word by word: how
    many of its triples of words are not, log(1 + n), and 1 if it and the best sentence differ in negation.
    """
    in_sentence, in_window = source.counts(claim.stems)
    pairs, triples = claim.runs(2), claim.runs(3)
    is_held = float(claim.stems <= source.tokens)
    changes = sum(run not in source.triples for run in triples)
    unchanged = 1 - changes / len(triples) if triples else is_held
    copied = min(1.0, max(0.0, (unchanged - COPIED_FROM) / COPIED_OVER))
    best = min(in_sentence, key=lambda i: (-in_sentence[i], i), default=None)
    prefixes = {one[:PREFIX] for one in claim.stems}
    return (
        1 - share_missing(claim.stems, source.tokens),
        max(in_window.values(), default=0) / max(len(claim.stems), 1),
        len(prefixes & source.prefixes) / max(len(prefixes), 1),
        sum(run in source.pairs for run in pairs) / len(pairs) if pairs else is_held,
        share_missing(claim.numbers, source.tokens),
        share_missing(claim.names, source.tokens),
        copied * math.log1p(changes),
        copied * float(best is not None and claim.negated != source.sentences[best].negated),
    )
