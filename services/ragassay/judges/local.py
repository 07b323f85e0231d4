"""The local judge: no key, no network, deterministic. It fills the same form as a language model, by overlap of words.

It is a triage: good at telling grounded answers from invented ones, nearly blind to subtle changes. ``docs/judge-accuracy.md``
says how well it agrees with people, and on which labelled sets it was fitted.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from ragassay.core.models import Covered, FactVerdict, Rating, Sample, SentenceVerdict, Step, Support, Truth, Verdict
from ragassay.core.protocols import Journal
from ragassay.core.text import LONGEST_WORD, content, is_lead_in, numbers, refuses, says_yes, sentences, stem, words
from ragassay.judges import local_weights
from ragassay.judges.overlap import FEATURES, Match, Source, features, match, share_missing, terms_of
from ragassay.judges.verdict import check_verdict, context_number, number_units, sentence_labels, turn_sentences

NAME = "local"
VERSION = 8  # raise it with every change that can change a verdict
SUPPORTED, PARTLY = 0.5, 0.35  # chance that people would call a sentence supported
DOUBTFUL, CONTRADICTED = 0.45, 0.2  # highest chance of a sentence with a missing number or reversed roles; contradicted
COVERED, COVERED_PARTLY, AGREES = 0.65, 0.3, 0.5  # similarity
RELEVANCE: tuple[tuple[float, Step], ...] = ((0.7, "full"), (0.55, "mostly"), (0.4, "partly"), (0.2, "barely"))
MAX_ADDED = 0.5  # share of a sentence's stems that no source holds, from which it does not agree
SHORT_ANSWER = 3  # stems: too few to tell by words whether they address a query
CORRECTNESS_FEATURES = ("quoted", "words", "unknown_numbers", "refusal")
MAX_WORDS_NAMED = 4
MAX_CHARACTERS, MAX_PAIRS = 1_000_000, 500_000  # of a row's texts; of sentences that are compared: seconds at most


class LocalJudge:
    """Judges by overlap of words."""

    name = NAME
    settings: Mapping[str, Any] = {
        "judge": NAME,
        "version": VERSION,
        "support": local_weights.SUPPORT,
        "correctness": local_weights.CORRECTNESS,
    }

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Rating]:  # noqa: ARG002
        """One rating for each sample, in order; costs nothing."""
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(lambda: [_rating(one) for one in samples if not cancelled.is_set()])
        finally:  # a thread can't be cancelled: it looks between rows
            cancelled.set()


def _rating(sample: Sample) -> Rating:
    if sample.response is None:
        return Rating(reason="the system gave no response")
    texts = (*sample.key_facts, *sample.ground_truth_answer, *(sample.contexts or ()))
    texts = (sample.query, sample.answer or "", *texts, *(turn.content for turn in sample.history))
    if sum(map(len, texts)) > MAX_CHARACTERS:
        return Rating(reason=f"the row has more than {MAX_CHARACTERS:,} characters: too long for the local judge")
    row = _Row(sample)
    claims, facts = len(row.units.answer), len(row.truth.sentences)
    if (claims + facts) * len(row.labels) + claims * facts > MAX_PAIRS:
        return Rating(reason=f"the row has more than {MAX_PAIRS:,} pairs of sentences: too long for the local judge")
    return Rating(verdict=check_verdict(row.verdict(), row.units, NAME))


class _Row:
    """One sample, with its units and the sources that they are compared with."""

    def __init__(self, sample: Sample) -> None:
        self.sample, self.units = sample, number_units(sample)
        numbered = groupby(self.units.contexts.items(), key=lambda one: context_number(one[0]))
        contexts = [[text for _, text in of_context] for _, of_context in numbered]
        truths = (s for text in sample.ground_truth_answer for s in sentences(text))
        turns = turn_sentences(sample)
        self.with_history = Source([*contexts, *turns.values()]) if turns else None
        self.contexts, self.answer = Source(contexts), Source([[*self.units.answer.values()]])
        self.truth = Source([[*dict.fromkeys((*self.units.facts.values(), *truths))]])
        self.query_stems = content(sample.query)
        self.labels = sentence_labels(self.units, turns)
        said, true = (says_yes(next(iter(texts.values()), "")) for texts in (self.units.answer, self.units.facts))
        self.says_the_opposite = None not in (said, true) and said is not true

    def verdict(self) -> Verdict:
        """The verdict on every unit."""
        covering = {i: match(text, self.answer, self.query_stems) for i, text in self.units.facts.items()}
        facts = {i: self._fact(i, text, covering[i]) for i, text in self.units.facts.items()}
        agreeing = self._allow_alternative(facts)
        agreeing |= {i for f, m in covering.items() if facts[f].covered == "yes" for i in m.evidence[:1]}
        judged: dict[str, SentenceVerdict] = {}
        chances: dict[str, float] = {}
        following: SentenceVerdict | None = None
        for index, (label, text) in reversed([*enumerate(self.units.answer.items())]):
            sentence, chances[label] = self._sentence(label, text, index, covered=index in agreeing)
            if is_lead_in(text) and following and sentence.support != "contradicted":
                sentence = following.model_copy(update={"id": label, "text": text})
                del chances[label]
            judged[label] = following = sentence
        judged = dict(reversed(judged.items()))
        if not any(one.truth == "agrees" for one in judged.values()):  # no answer is complete and wrong at once
            facts = {i: self._without_agreement(one, covering[i], judged) for i, one in facts.items()}
        refusal = refuses([*self.units.answer.values()])
        step, why = self._relevance(judged, refusal)
        probability = {"faithfulness": min(chances.values())} if self.units.has_contexts and chances else {}
        if self.units.has_truth and not self.sample.key_facts and judged:
            answer, truths = self.sample.answer or "", self.sample.ground_truth_answer
            values = correctness_features(self.sample.query, answer, truths, refusal=refusal)
            probability["correctness"] = chance(local_weights.CORRECTNESS, CORRECTNESS_FEATURES, values)
        return Verdict(
            judge=NAME,
            sentences=tuple(judged.values()),
            facts=tuple(facts.values()),
            relevance=step,
            refusal=refusal,
            why=why,
            probability=probability,
        )

    def _support(self, text: str, source: Source) -> tuple[Match, tuple[str, ...], float, frozenset[str]]:
        """A claim against a source: the match, labels of its evidence with neighbours that hold its numbers, the chance
        that people call it supported, and the numbers that the evidence lacks.
        """
        claim, matched = terms_of(text), match(text, source)
        evidence = matched.evidence
        missing = claim.numbers - source.tokens_of(evidence)
        neighbours = next(iter(source.windows(claim, 1)), range(0)) if missing else range(0)
        if missing & source.tokens_of(neighbours):
            evidence = (*evidence, *neighbours)
            missing -= source.tokens_of(neighbours)
        likely = chance(local_weights.SUPPORT, FEATURES, features(claim, source))
        if matched.contradicted_by is not None:
            evidence, likely = (matched.contradicted_by,), min(likely, CONTRADICTED)
        elif missing or matched.reversed_by is not None:
            likely = min(likely, DOUBTFUL)
        return matched, tuple(dict.fromkeys(self.labels[i] for i in evidence)), likely, missing

    def _sentence(self, label: str, text: str, index: int, *, covered: bool) -> tuple[SentenceVerdict, float]:
        matched, evidence, likely, missing = self._support(text, self.contexts)
        if self.with_history and likely < SUPPORTED and matched.contradicted_by is None:
            more = self._support(text, self.with_history)
            if more[2] > likely and more[0].contradicted_by is None:
                matched, evidence, likely, missing = more
        support: Support = "supported" if likely >= SUPPORTED else "partly" if likely >= PARTLY else "not_found"
        why = f"not in the contexts: {_named(text, matched.missing | missing)}" if support != "supported" else ""
        if matched.contradicted_by is not None:
            support, why = "contradicted", f"contradicted by {evidence[0]}"
        elif support == "not_found" or not evidence or (missing and missing == terms_of(text).numbers):
            support, evidence, why = "not_found", (), why if missing else "no context supports it"
        elif matched.reversed_by is not None:
            support, why = "partly", f"{evidence[0]} has the roles reversed"
        truth = self._truth(text, index, support, covered=covered)
        why = why if self.units.has_contexts else ""
        return SentenceVerdict(id=label, text=text, support=support, evidence=evidence, truth=truth, why=why), likely

    def _truth(self, text: str, index: int, support: Support, *, covered: bool) -> Truth:
        """A sentence that covers a fact agrees, unless the contexts deny it or it mostly says what no source holds."""
        matched = match(text, self.truth, self.query_stems)
        if matched.contradicted_by is not None or (index == 0 and self.says_the_opposite):
            return "conflicts"
        if covered and self.units.contexts:
            added = terms_of(text).stems - self.contexts.tokens - self.truth.tokens - self.query_stems
            adds = support == "not_found" and len(added) > MAX_ADDED * len(content(text))
            covered = support != "contradicted" and not adds
        return "agrees" if covered or matched.similarity >= AGREES else "absent"

    def _fact(self, label: str, text: str, cover: Match) -> FactVerdict:
        similarity = cover.similarity
        covered: Covered = "yes" if similarity >= COVERED else "partly" if similarity >= COVERED_PARTLY else "no"
        missing = f"the answer lacks: {_named(text, cover.missing)}" if self.units.answer else "the answer is empty"
        if cover.contradicted_by is not None or (label == "G1" and self.says_the_opposite):
            covered, missing = "no", "the answer contradicts it"
        _, evidence, likely, _ = self._support(text, self.contexts)
        return FactVerdict(
            id=label,
            text=text,
            covered=covered,
            evidence=evidence if likely >= SUPPORTED else (),
            why="" if covered == "yes" else missing,
        )

    def _allow_alternative(self, facts: dict[str, FactVerdict]) -> set[int]:
        """Count a further ground truth that the answer covers better than the facts; give the indexes that cover it."""
        best, indexes = 0.0, set[int]()
        for truth in self.sample.ground_truth_answer if self.units.facts and not self.sample.key_facts else ():
            parts = [match(text, self.answer, self.query_stems) for text in sentences(truth)]
            covering = [m.evidence[0] for m in parts if m.contradicted_by is None and m.similarity >= COVERED]
            if parts and len(covering) / len(parts) > best:
                best, indexes = len(covering) / len(parts), set(covering)
        better: Covered = "yes" if best == 1 else "partly"
        for label, fact in facts.items():
            if best >= 0.5 and (fact.covered == "no" or (fact.covered == "partly" and better == "yes")):
                facts[label] = fact.model_copy(update={"covered": better, "why": ""})
        return indexes

    def _without_agreement(self, fact: FactVerdict, cover: Match, judged: Mapping[str, SentenceVerdict]) -> FactVerdict:
        """A fact of an answer in which no sentence agrees with the truth: it is covered partly at most."""
        if fact.covered != "yes" or not cover.evidence:
            return fact
        sentence = judged[f"A{cover.evidence[0] + 1}"]
        denied = sentence.truth == "conflicts"
        why = "the answer contradicts it" if denied else f"{sentence.id} says more than that"
        return fact.model_copy(update={"covered": "no" if denied else "partly", "why": why})

    def _relevance(self, judged: Mapping[str, SentenceVerdict], refusal: bool) -> tuple[Step, str]:
        """How many of the query's words come back in the answer, or, if it is short, in its evidence."""
        if not judged or refusal:
            return "none", "the answer refuses" if refusal else "the answer is empty"
        stems = content(" ".join(self.units.answer.values()))
        is_short = len(stems) <= SHORT_ANSWER
        if is_short:
            texts = {**self.units.history, **self.units.contexts}
            stems |= content(" ".join(texts[e] for one in judged.values() for e in one.evidence))
        share = 1 - share_missing(self.query_stems, stems)
        step: Step = next((name for bound, name in RELEVANCE if share >= bound), "none")
        if is_short and step in ("none", "barely"):
            return "partly", "too short to tell"
        return step, "" if step in ("mostly", "full") else "it shares little with the query"


def correctness_features(query: str, answer: str, truths: Iterable[str], *, refusal: bool) -> tuple[float, ...]:
    """``CORRECTNESS_FEATURES`` of an answer and the ground truth that it is nearest to.

    1 if the truth stands in the answer word by word; share of the truth's stems in the answer, without those of the
    query; share of its numbers that the answer lacks; 1 if the answer refuses.
    """
    said = words(answer)
    text, stems, in_digits, known = f" {' '.join(said)} ", frozenset(map(stem, said)), numbers(answer), content(query)
    best: tuple[float, ...] = (0.0, 0.0, 1.0)
    for truth in truths:
        if wanted := (content(truth) - known) or content(truth):
            quoted = float(f" {' '.join(w for w in words(truth) if w not in ('the', 'a', 'an'))} " in text)
            share = 1 - share_missing(wanted, stems | in_digits)
            found = (quoted, share, share_missing(numbers(truth), in_digits))
            best = max(best, found, key=lambda f: f[0] + f[1] - f[2])
    return (*best, float(refusal))


def chance(weights: Mapping[str, float], names: Sequence[str], values: Sequence[float]) -> float:
    """The logistic of weighted features, to 6 digits."""
    logit = weights["intercept"] + sum(weights[name] * value for name, value in zip(names, values, strict=True))
    return round(1 / (1 + math.exp(-logit)), 6)


def _named(text: str, missing: frozenset[str]) -> str:
    named = [word for word in dict.fromkeys(words(text)) if stem(word) in missing]
    return ", ".join(word[:LONGEST_WORD] for word in named[:MAX_WORDS_NAMED]) or "its wording"
