"""The local judge: no key, no network, deterministic. It fills the same form as a language model, by overlap.

Words, numbers, names and negation are compared sentence by sentence, and, where an embedding model is given, similarity
of meaning with ground truth and query. It is a triage: good at telling grounded answers from invented ones, blind to
subtle contradictions; ``docs/judges.md`` says how well it agrees with people, and on which labelled sets it was fitted.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragassay.core.errors import Unavailable, reason_from
from ragassay.core.models import (
    Covered,
    FactVerdict,
    Rating,
    Sample,
    SentenceVerdict,
    Step,
    Support,
    Truth,
    Verdict,
)
from ragassay.core.protocols import Embedder, Journal
from ragassay.core.text import (
    LONGEST_WORD,
    content,
    is_english,
    is_lead_in,
    refuses,
    says_yes,
    sentences,
    stem,
    words,
)
from ragassay.embeddings import DIGITS, vectors_of
from ragassay.judges.matching import LEXICAL_WEIGHTS, WEIGHTS, Match, Pool, match, terms_of
from ragassay.judges.support import (
    answer_probability,
    correctness_features,
    correctness_logit,
    probability,
    support_features,
    support_logit,
    weights,
)
from ragassay.judges.verdict import Units, check_verdict, context_number, number_units

NAMES = ("local", "local (lexical)")  # with an embedding model, and without
VERSION = 5  # raise it with every change that can change a verdict
SUPPORTED = 0.5  # chance that people would call a sentence supported
PARTLY = 0.35
COVERED = 0.65
COVERED_PARTLY = 0.3
AGREES = 0.5
RELEVANCE_STEPS: tuple[tuple[float, Step], ...] = (
    (0.7, "full"),
    (0.55, "mostly"),
    (0.4, "partly"),
    (0.2, "barely"),
)
RELEVANCE_SIMILARITY = 0.7  # weight of similarity of meaning; the rest is the share of the query's words
MOST_ADDED = 0.5  # of a sentence's stems, that no source holds
SHORT_ANSWER = 3  # stems: too few to tell by words whether they address a query
MOST_WORDS_NAMED = 4
MOST_CHARACTERS, MOST_CHARACTERS_OF_CONTEXTS = 100_000, 1_000_000  # so that a row takes seconds at most
MOST_EMBEDDED = 1_000  # texts at once: about a second
MOST_PAIRS = 500_000  # of sentences that are compared

VectorsByText = Mapping[str, NDArray[np.float64]]


class LocalJudge:
    """Judges by overlap; with ``embedder`` also by similarity of meaning, without it by words alone."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        """``local``, or ``local (lexical)`` where there is no embedding model."""
        return NAMES[0] if self._embedder else NAMES[1]

    @property
    def settings(self) -> Mapping[str, Any]:
        """Version, embedding model and thresholds: all that determines a verdict."""
        return {
            "judge": "local",
            "version": VERSION,
            "embeddings": self._embedder.name if self._embedder else None,
            "thresholds": {
                "supported": SUPPORTED,
                "partly": PARTLY,
                "covered": COVERED,
                "covered_partly": COVERED_PARTLY,
                "agrees": AGREES,
                "relevance": {step: bound for bound, step in RELEVANCE_STEPS},
            },
            "weights": WEIGHTS if self._embedder else LEXICAL_WEIGHTS,
            "fitted": {part: weights()[part] for part in ("support", "correctness")},
        }

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Rating]:  # noqa: ARG002
        """One rating for each sample, in order; costs nothing. Where embedding fails, the reason says so."""
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(self._judge, samples, cancelled)
        finally:  # a thread can't be cancelled: it looks between rows
            cancelled.set()

    def _judge(self, samples: Sequence[Sample], cancelled: threading.Event) -> list[Rating]:
        judged: list[Rating | SampleMatches] = []
        texts: list[str] = []
        for sample in samples:
            if cancelled.is_set():
                return []
            judged.append(_matches(sample))
            if isinstance(judged[-1], SampleMatches):
                texts += judged[-1].texts()
        try:
            vectors = self._vectors(list(dict.fromkeys(texts)), cancelled)
        except Unavailable as error:
            return [Rating(reason=reason_from(error)) for _ in samples]
        for n, one in enumerate(judged):
            if cancelled.is_set():
                return []
            if isinstance(one, SampleMatches):
                judged[n] = Rating(verdict=check_verdict(one.judge(vectors), one.units, self.name))
        return [one for one in judged if isinstance(one, Rating)]

    def _vectors(self, texts: Sequence[str], cancelled: threading.Event) -> VectorsByText | None:
        if self._embedder is None:
            return None
        vectors: dict[str, NDArray[np.float64]] = {}
        for start in range(0, len(texts), MOST_EMBEDDED):
            if not cancelled.is_set():
                found = vectors_of(self._embedder, texts[start : start + MOST_EMBEDDED])
                vectors |= {text: np.asarray(vector, dtype=np.float64) for text, vector in found.items()}
        return vectors


def _matches(sample: Sample) -> Rating | SampleMatches:
    """The sample's units, matched; a rating without a verdict if it has no response or too much text."""
    if sample.response is None:
        return Rating(reason="the system gave no response")
    truth = "".join((*sample.key_facts, *sample.ground_truth_answer))
    for name, text in (("answer", sample.answer or ""), ("ground truth", truth), ("query", sample.query)):
        if len(text) > MOST_CHARACTERS:
            return _too_long(f"{name} has more than {MOST_CHARACTERS:,} characters")
    if sum(map(len, sample.contexts or ())) > MOST_CHARACTERS_OF_CONTEXTS:
        return _too_long(f"contexts have more than {MOST_CHARACTERS_OF_CONTEXTS:,} characters")
    found = SampleMatches(sample, number_units(sample))
    claims, sources = len(found.answer.sentences) + len(found.truth.sentences), len(found.units.contexts)
    pairs = claims * sources + len(found.answer.sentences) * len(found.truth.sentences)
    return found if pairs <= MOST_PAIRS else _too_long(f"row has more than {MOST_PAIRS:,} pairs of sentences")


def _too_long(what: str) -> Rating:
    return Rating(reason=f"the {what}: too long for the local judge")


@dataclass(frozen=True)
class SampleMatches:
    """One sample, its units matched by words; ``judge`` adds similarity of meaning and decides."""

    sample: Sample
    units: Units

    @cached_property
    def answer(self) -> Pool:
        """The answer's sentences."""
        return Pool.of(tuple(self.units.answer.values()))

    @cached_property
    def contexts(self) -> Pool:
        """The sentences of all contexts."""
        labels = self.units.contexts
        return Pool.of(tuple(labels.values()), tuple(map(context_number, labels)))

    @cached_property
    def truth(self) -> Pool:
        """The facts and every sentence of every ground truth."""
        truths = (s for text in self.sample.ground_truth_answer for s in sentences(text))
        return Pool.of(tuple(dict.fromkeys((*self.units.facts.values(), *truths))))

    @cached_property
    def query_stems(self) -> frozenset[str]:
        """The query's stems: to repeat them is no achievement."""
        return content(self.sample.query)

    @cached_property
    def support(self) -> dict[str, Match]:
        """Each answer sentence against the contexts."""
        return {i: match(terms_of(text), self.contexts) for i, text in self.units.answer.items()}

    @cached_property
    def support_logits(self) -> dict[str, float]:
        """Log odds that people would call each answer sentence supported."""
        return {i: self._support_logit(self.units.answer[i], matched) for i, matched in self.support.items()}

    def _support_logit(self, text: str, matched: Match) -> float:
        return support_logit(support_features(terms_of(text), self.contexts, matched))

    @cached_property
    def agreement(self) -> dict[str, Match]:
        """Each answer sentence against the ground truth."""
        return {i: match(terms_of(text), self.truth, self.query_stems) for i, text in self.units.answer.items()}

    @cached_property
    def coverage(self) -> dict[str, Match]:
        """Each fact against the answer."""
        return {i: match(terms_of(text), self.answer, self.query_stems) for i, text in self.units.facts.items()}

    @cached_property
    def opposite(self) -> bool:
        """Does the answer begin with a yes and the ground truth with a no, or the other way round?"""
        said, true = (says_yes(next(iter(texts.values()), "")) for texts in (self.units.answer, self.units.facts))
        return None not in (said, true) and said is not true

    @cached_property
    def fact_support(self) -> dict[str, Match]:
        """Each fact against the contexts."""
        return {i: match(terms_of(text), self.contexts) for i, text in self.units.facts.items()}

    @cached_property
    def alternative(self) -> tuple[float, frozenset[int]]:
        """Of the further ground truths, the one best covered: share of its sentences, and places of what covers them.

        By words alone: there may be dozens of spellings, and each would have to be embedded.
        """
        best: tuple[float, frozenset[int]] = 0.0, frozenset()
        if not self.sample.key_facts and self.units.answer:
            for other in self.sample.ground_truth_answer:
                pieces = [match(terms_of(s), self.answer, self.query_stems) for s in sentences(other)]
                covering = [m.chosen[0] for m in pieces if m.denied_by is None and m.similarity() >= COVERED]
                if pieces and len(covering) / len(pieces) > best[0]:
                    best = len(covering) / len(pieces), frozenset(covering)
        return best

    def texts(self) -> Iterable[str]:
        """All texts whose meaning is needed; of matches, only those whose class it can still change."""
        yield self.sample.query
        yield from self.units.answer.values()
        if self.is_short:
            yield from (self.contexts.sentences[i].text for one in self.support.values() for i in one.chosen)
        for texts, matches, pool, bounds in (
            (self.units.answer, self.agreement, self.truth, (AGREES,)),
            (self.units.facts, self.coverage, self.answer, (COVERED_PARTLY, COVERED)),
        ):
            for label, one in matches.items():
                if any(one.similarity(0.0) < bound <= one.similarity(1.0) for bound in bounds):
                    yield texts[label]
                    yield from (pool.sentences[i].text for i in one.near)

    @cached_property
    def is_short(self) -> bool:
        """Has the answer too few words to tell by itself whether it addresses the query?"""
        return len(content(" ".join(self.units.answer.values()))) <= SHORT_ANSWER

    def judge(self, vectors: VectorsByText | None) -> Verdict:
        """The verdict on every unit."""
        facts = {i: self._fact(i, text, vectors) for i, text in self.units.facts.items()}
        self._allow_alternative(facts)
        judged: dict[str, SentenceVerdict] = {}
        following: SentenceVerdict | None = None
        for label, text in reversed(list(self.units.answer.items())):
            own = self._sentence(label, text, facts, vectors)
            if following and own.support != "contradicted" and is_lead_in(text):
                own = following.model_copy(update={"id": label, "text": text})
            judged[label] = following = own
        self._align(judged, facts)
        refusal = refuses(list(self.units.answer.values()))
        step, why = self._relevance(judged, refusal, vectors)
        return Verdict(
            judge="",
            sentences=tuple(judged.values()),
            facts=tuple(facts.values()),
            relevance=step,
            refusal=refusal,
            why=why,
            probability=self._probability(refusal),
        )

    def _align(self, judged: Mapping[str, SentenceVerdict], facts: dict[str, FactVerdict]) -> None:
        """A fact counts as covered if a sentence agrees, so that an answer is not complete and wrong at once."""
        if any(sentence.truth == "agrees" for sentence in judged.values()):
            return
        labels = list(self.units.answer)
        for fact in facts.values():
            chosen = self.coverage[fact.id].chosen[:1]
            if fact.covered != "yes" or not chosen:
                continue
            own = judged[labels[chosen[0]]]
            if own.truth == "conflicts":
                facts[fact.id] = fact.model_copy(update={"covered": "no", "why": "the answer contradicts it"})
            else:
                facts[fact.id] = fact.model_copy(update={"covered": "partly", "why": f"{own.id} says more than that"})

    def _probability(self, refusal: bool) -> dict[str, float]:
        """The chance that people would call the answer supported, and correct; only where there is something to go by."""
        chances = {}
        claims = [i for i, text in self.units.answer.items() if not is_lead_in(text)] or list(self.units.answer)
        if self.units.has_contexts and claims:
            chances["faithfulness"] = answer_probability([self.support_logits[i] for i in claims])
        truths = () if self.sample.key_facts else self.sample.ground_truth_answer
        if self.units.has_truth and truths and claims:
            features = correctness_features(self.sample.query, self.sample.answer or "", truths, refusal=refusal)
            chances["correctness"] = probability(correctness_logit(features))
        return chances

    def _sentence(
        self, label: str, text: str, facts: Mapping[str, FactVerdict], vectors: VectorsByText | None
    ) -> SentenceVerdict:
        matched, chance = self.support[label], probability(self.support_logits[label])
        support: Support = "supported" if chance >= SUPPORTED else "partly" if chance >= PARTLY else "not_found"
        places, lost, whole = self._evidence(text, matched)
        evidence, why = self._labels(places), ""
        if matched.denied_by is not None:
            support, evidence = "contradicted", self._labels([matched.denied_by])
            why = f"contradicted by {evidence[0]}"
        elif lost:
            support = "not_found" if whole else "partly" if support != "not_found" else support
            why = f"not in the contexts: {_first(sorted(lost))}"
        elif support == "partly":
            why = f"not in the contexts: {_named(text, matched.lacking)}"
        truth = self._truth(label, text, support, facts, vectors)
        if support == "not_found" or not evidence:  # a chance without a sentence: all its words are stop words
            why = why if lost else "no context supports it"
            support, evidence, why = "not_found", (), why if self.units.has_contexts else ""
        return SentenceVerdict(id=label, text=text, support=support, evidence=evidence, truth=truth, why=why)

    def _evidence(self, text: str, matched: Match) -> tuple[tuple[int, ...], frozenset[str], bool]:
        """Places of a sentence's evidence, the numbers of the sentence that it lacks, and whether it lacks them all.

        Neighbours of the best sentences count as evidence if they hold a number that these lack.
        """
        claim, places = self.contexts.in_its_units(terms_of(text)), matched.chosen
        lost = claim.numbers - self.contexts.tokens_of(places)
        if lost:
            further = tuple(i for i in self.contexts.window(claim, matched.around) if i not in places)
            if lost & self.contexts.tokens_of(further):
                places = (*places, *further)
                lost -= self.contexts.tokens_of(further)
        return places, lost, lost == claim.numbers

    def _truth(
        self, label: str, text: str, support: Support, facts: Mapping[str, FactVerdict], vectors: VectorsByText | None
    ) -> Truth:
        """A sentence that covers a fact agrees, unless the contexts deny it or it adds more than all sources hold."""
        matched = self.agreement[label]
        position = int(label[1:]) - 1
        if matched.denied_by is not None or (position == 0 and self.opposite):
            return "conflicts"
        covers = position in self.alternative[1] or any(
            facts[f].covered == "yes" and position in m.chosen[:1] for f, m in self.coverage.items()
        )
        if self.units.contexts and is_english(text) and (support == "contradicted" or self._adds(text, support)):
            covers = False
        similarity = matched.similarity(_cosine(text, matched, self.truth, vectors))
        return "agrees" if covers or similarity >= AGREES else "absent"

    def _adds(self, text: str, support: Support) -> bool:
        """Does a sentence that nothing supports say mostly what contexts, ground truth and query lack?"""
        claim = terms_of(text)
        lacking = self.contexts.in_its_units(claim).stems - self.contexts.tokens
        lacking &= self.truth.in_its_units(claim).stems - self.truth.tokens - self.query_stems
        return support == "not_found" and len(lacking) > MOST_ADDED * len(claim.stems)

    def _fact(self, label: str, text: str, vectors: VectorsByText | None) -> FactVerdict:
        cover, support = self.coverage[label], self.fact_support[label]
        similarity = cover.similarity(_cosine(text, cover, self.answer, vectors))
        covered: Covered = "yes" if similarity >= COVERED else "partly" if similarity >= COVERED_PARTLY else "no"
        denied = cover.denied_by is not None or (label == "G1" and self.opposite)
        if denied:
            covered = "no"
        lacking = f"the answer lacks: {_named(text, cover.lacking)}" if self.units.answer else "the answer is empty"
        in_contexts = probability(self._support_logit(text, support)) >= SUPPORTED
        return FactVerdict(
            id=label,
            text=text,
            covered=covered,
            evidence=self._labels(support.chosen) if in_contexts and support.denied_by is None else (),
            why="" if covered == "yes" else "the answer contradicts it" if denied else lacking,
        )

    def _allow_alternative(self, facts: dict[str, FactVerdict]) -> None:
        """Where another ground truth is covered better than the first, whose sentences are the facts, it counts."""
        best, _ = self.alternative
        better: Covered = "yes" if best == 1 else "partly"
        for label, fact in facts.items():
            if best >= 0.5 and (fact.covered == "no" or (fact.covered == "partly" and better == "yes")):
                facts[label] = fact.model_copy(update={"covered": better, "why": ""})

    def _relevance(
        self,
        sentences: Mapping[str, SentenceVerdict],
        refusal: bool,
        vectors: VectorsByText | None,
    ) -> tuple[Step, str]:
        if not sentences:
            return "none", "the answer is empty"
        if refusal:
            return "none", "the answer refuses"
        answer = list(self.units.answer.values())
        value = self._addressing(answer, vectors)
        evidence = [self.units.contexts[e] for sentence in sentences.values() for e in sentence.evidence]
        if self.is_short and evidence:
            value = max(value, self._addressing([*answer, *evidence], vectors))
        step: Step = next((name for bound, name in RELEVANCE_STEPS if value >= bound), "none")
        if step in ("none", "barely") and self.is_short:
            return "partly", "too short to tell"
        return step, "" if step in ("mostly", "full") else "it shares little with the query"

    def _addressing(self, texts: Sequence[str], vectors: VectorsByText | None) -> float:
        """How far the texts together are about the query, 0 to 1."""
        share = len(self.query_stems & content(" ".join(texts))) / len(self.query_stems) if self.query_stems else 0.0
        if vectors is None:
            return share
        mean = np.mean([vectors[text] for text in texts], axis=0)
        length = float(np.linalg.norm(mean))
        cosine = round(float(vectors[self.sample.query] @ mean) / length, DIGITS) if length else 0.0
        return RELEVANCE_SIMILARITY * max(0.0, cosine) + (1 - RELEVANCE_SIMILARITY) * share

    def _labels(self, indexes: Iterable[int]) -> tuple[str, ...]:
        labels = list(self.units.contexts)
        return tuple(labels[i] for i in indexes)


def _cosine(text: str, matched: Match, pool: Pool, vectors: VectorsByText | None) -> float | None:
    """Cosine to the nearest of the sentences worth comparing; None where meanings are not known.

    0 where these texts were not embedded: then the class of the match does not depend on it.
    """
    if vectors is None:
        return None
    if text not in vectors:
        return 0.0
    near = (pool.sentences[i].text for i in matched.near)
    return max(
        (round(float(vectors[text] @ vectors[other]), DIGITS) for other in near if other in vectors), default=0.0
    )


def _named(text: str, lacking: frozenset[str]) -> str:
    """The first few words of ``text`` whose stems are lacking."""
    return _first([word for word in dict.fromkeys(words(text)) if stem(word) in lacking]) or "its wording"


def _first(named: Sequence[str]) -> str:
    return ", ".join(word[:LONGEST_WORD] for word in named[:MOST_WORDS_NAMED])
