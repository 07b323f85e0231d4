"""The local judge: no key, no network, deterministic. It fills the same form as a language model, by overlap.

Words, numbers, names and negation are compared sentence by sentence, and, where an embedding model is given, likeness
of meaning. It is a triage: good at telling grounded answers from invented ones, blind to subtle contradictions. The
thresholds below were chosen on human-labelled development sets; ``docs/judges.md`` says which and what was measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragassay.errors import Unavailable
from ragassay.judges import matching
from ragassay.judges.matching import Match, Pool, match, passage
from ragassay.judges.refusal import refuses
from ragassay.judges.sentences import sentences
from ragassay.judges.verdict import Claims, Units, settle, units
from ragassay.judges.words import content, stem, words
from ragassay.models import (
    Covered,
    Embedder,
    FactVerdict,
    Judgement,
    Ledger,
    RelevanceStep,
    Sample,
    SentenceVerdict,
    Support,
    Truth,
)

VERSION = 1  # raise it with every change that can change a verdict
SUPPORTED = 0.65
PARTLY = 0.45
COVERED = 0.6
COVERED_PARTLY = 0.4
AGREES = 0.5
RELEVANCE_STEPS: tuple[tuple[float, RelevanceStep], ...] = (
    (0.65, "full"),
    (0.5, "mostly"),
    (0.35, "partly"),
    (0.2, "barely"),
)
RELEVANCE_SIMILARITY = 0.7  # weight of likeness of meaning; the rest is the share of the query's words
SHORT_ANSWER = 3  # stems: too few to tell by words whether they address a query
MOST_WORDS_NAMED = 4

Vectors = Mapping[str, NDArray[np.float64]]


class LocalJudge:
    """Judges by overlap; with ``embedder`` also by likeness of meaning, without it by words alone."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        """``local``, or ``local (lexical)`` where there is no embedding model."""
        return "local" if self._embedder else "local (lexical)"

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
            "weights": matching.WEIGHTS if self._embedder else matching.LEXICAL_WEIGHTS,
        }

    async def judge(self, samples: Sequence[Sample], ledger: Ledger) -> list[Judgement]:  # noqa: ARG002
        """One judgement for each sample, in order; costs nothing. Where the embedding model is away, it says so."""
        return await asyncio.to_thread(self._judge, samples)

    def likeness(self, samples: Sequence[Sample]) -> list[list[float]]:
        """For each sample, how far its contexts carry each sentence of its answer, 0 to 1; to measure and to fit on."""
        cases = [Case(sample, units(sample)) for sample in samples]
        vectors = self._vectors(text for case in cases for text in case.texts)
        return [[case.carried(label, vectors) for label in case.units.answer] for case in cases]

    def _judge(self, samples: Sequence[Sample]) -> list[Judgement]:
        cases = [Case(sample, units(sample)) if sample.response else None for sample in samples]
        try:
            vectors = self._vectors(text for case in cases if case for text in case.texts)
        except Unavailable as error:
            return [Judgement(reason=str(error)) for _ in samples]
        return [
            Judgement(verdict=settle(case.claims(vectors), case.units, self.name))
            if case
            else Judgement(reason="the system gave no response")
            for case in cases
        ]

    def _vectors(self, texts: Iterable[str]) -> Vectors | None:
        """Vectors of the distinct texts, in one call and a fixed order."""
        if self._embedder is None:
            return None
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        found = self._embedder.embed(distinct) if distinct else ()
        return {text: np.asarray(v, dtype=np.float64) for text, v in zip(distinct, found, strict=True)}


@dataclass(frozen=True)
class Case:
    """One sample, compared by words; ``claims`` adds likeness of meaning and decides."""

    sample: Sample
    units: Units

    @cached_property
    def answer(self) -> Pool:
        """The answer's sentences."""
        return Pool.of(tuple(self.units.answer.values()))

    @cached_property
    def contexts(self) -> Pool:
        """The sentences of all contexts."""
        return Pool.of(tuple(self.units.contexts.values()))

    @cached_property
    def truth(self) -> Pool:
        """The facts and every sentence of every ground truth."""
        truths = (s for text in self.sample.ground_truth_answer for s in sentences(text))
        return Pool.of(tuple(dict.fromkeys((*self.units.facts.values(), *truths))))

    @cached_property
    def asked(self) -> frozenset[str]:
        """The query's stems: to repeat them is no achievement."""
        return content(self.sample.query)

    @cached_property
    def support(self) -> dict[str, Match]:
        """Each answer sentence against the contexts."""
        return {i: match(passage(text), self.contexts) for i, text in self.units.answer.items()}

    @cached_property
    def agreement(self) -> dict[str, Match]:
        """Each answer sentence against the ground truth."""
        return {i: match(passage(text), self.truth, self.asked) for i, text in self.units.answer.items()}

    @cached_property
    def coverage(self) -> dict[str, Match]:
        """Each fact against the answer."""
        return {i: match(passage(text), self.answer, self.asked) for i, text in self.units.facts.items()}

    @cached_property
    def finding(self) -> dict[str, Match]:
        """Each fact against the contexts."""
        return {i: match(passage(text), self.contexts) for i, text in self.units.facts.items()}

    @cached_property
    def alternative(self) -> tuple[float, frozenset[int]]:
        """Of the further ground truths, the one best covered: share of its sentences, and places of what covers them.

        By words alone: there may be dozens of spellings, and each would have to be embedded.
        """
        best: tuple[float, frozenset[int]] = 0.0, frozenset()
        if not self.sample.key_facts and self.units.answer:
            for other in self.sample.ground_truth_answer:
                pieces = [match(passage(s), self.answer, self.asked) for s in sentences(other)]
                carried = [m.chosen[0] for m in pieces if m.denied_by is None and m.likeness() >= COVERED]
                if pieces and len(carried) / len(pieces) > best[0]:
                    best = len(carried) / len(pieces), frozenset(carried)
        return best

    @property
    def texts(self) -> Iterable[str]:
        """All texts whose meaning will be compared."""
        yield self.sample.query
        yield from self.units.answer.values()
        yield from self.units.facts.values()
        compared = ((self.support, self.contexts), (self.finding, self.contexts), (self.agreement, self.truth))
        for matches, pool in compared:
            for found in matches.values():
                yield from (pool.passages[i].text for i in found.near)

    def claims(self, vectors: Vectors | None) -> Claims:
        """What this judge says of every unit."""
        facts = {i: self._fact(i, text, vectors) for i, text in self.units.facts.items()}
        self._allow_alternative(facts)
        said = {i: self._sentence(i, text, facts, vectors) for i, text in self.units.answer.items()}
        refusal = refuses(list(self.units.answer.values()))
        step, why = self._relevance(said, facts, refusal, vectors)
        return Claims(sentences=said, facts=facts, relevance=step, refusal=refusal, why=why)

    def carried(self, label: str, vectors: Vectors | None) -> float:
        """How far the contexts carry a sentence of the answer, 0 to 1."""
        found = self.support[label]
        return found.likeness(_nearest(self.units.answer[label], found, self.contexts, vectors))

    def _sentence(
        self, label: str, text: str, facts: Mapping[str, FactVerdict], vectors: Vectors | None
    ) -> SentenceVerdict:
        found, likeness = self.support[label], self.carried(label, vectors)
        support: Support = "supported" if likeness >= SUPPORTED else "partly" if likeness >= PARTLY else "not_found"
        evidence, why = self._labels(found.chosen), ""
        if found.denied_by is not None:
            support, evidence = "contradicted", self._labels([found.denied_by])
            why = f"{evidence[0]} says otherwise"
        elif support == "partly":
            why = f"not in the contexts: {_named(text, found.lacking)}"
        elif support == "not_found":
            evidence, why = (), "no context says so"
        return SentenceVerdict(
            id=label,
            text=text,
            support=support,
            evidence=evidence,
            truth=self._truth(label, text, facts, vectors),
            why=why,
        )

    def _truth(self, label: str, text: str, facts: Mapping[str, FactVerdict], vectors: Vectors | None) -> Truth:
        found = self.agreement[label]
        if found.denied_by is not None:
            return "conflicts"
        position = list(self.units.answer).index(label)
        carries = position in self.alternative[1] or any(
            facts[f].covered == "yes" and position in m.chosen[:1] for f, m in self.coverage.items()
        )
        return "agrees" if carries or found.likeness(_nearest(text, found, self.truth, vectors)) >= AGREES else "absent"

    def _fact(self, label: str, text: str, vectors: Vectors | None) -> FactVerdict:
        cover, found = self.coverage[label], self.finding[label]
        likeness = cover.likeness(_nearest(text, cover, self.answer, vectors))
        covered: Covered = "yes" if likeness >= COVERED else "partly" if likeness >= COVERED_PARTLY else "no"
        if cover.denied_by is not None:
            covered = "no"
        lacking = f"the answer lacks: {_named(text, cover.lacking)}" if self.units.answer else "the answer is empty"
        in_contexts = found.likeness(_nearest(text, found, self.contexts, vectors)) >= SUPPORTED
        return FactVerdict(
            id=label,
            text=text,
            covered=covered,
            evidence=self._labels(found.chosen) if in_contexts and found.denied_by is None else (),
            why="" if covered == "yes" else "the answer says otherwise" if cover.denied_by is not None else lacking,
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
        said: Mapping[str, SentenceVerdict],
        facts: Mapping[str, FactVerdict],
        refusal: bool,
        vectors: Vectors | None,
    ) -> tuple[RelevanceStep, str]:
        if not said:
            return "none", "the answer is empty"
        if refusal:
            return "none", "the answer refuses"
        covered = [fact.covered for fact in facts.values()]
        if covered and all(c == "yes" for c in covered):
            return "full", ""
        answer = list(self.units.answer.values())
        evidence = [
            self.units.contexts[e] for s in said.values() if s.support in ("supported", "partly") for e in s.evidence
        ]
        value = max(
            self._addressing(answer, vectors), self._addressing([*answer, *evidence], vectors) if evidence else 0.0
        )
        step: RelevanceStep = next((name for bound, name in RELEVANCE_STEPS if value >= bound), "none")
        if step in ("none", "barely", "partly") and "yes" in covered:
            return "mostly", ""
        if step in ("none", "barely") and not evidence and len(content(" ".join(answer))) <= SHORT_ANSWER:
            return "partly", "too short to tell"
        return step, "" if step in ("mostly", "full") else "it shares little with the query"

    def _addressing(self, texts: Sequence[str], vectors: Vectors | None) -> float:
        """How far the texts together are about the query, 0 to 1."""
        share = len(self.asked & content(" ".join(texts))) / len(self.asked) if self.asked else 0.0
        if vectors is None:
            return share
        mean = np.mean([vectors[text] for text in texts], axis=0)
        length = float(np.linalg.norm(mean))
        cosine = round(float(vectors[self.sample.query] @ mean) / length, 6) if length else 0.0
        return RELEVANCE_SIMILARITY * max(0.0, cosine) + (1 - RELEVANCE_SIMILARITY) * share

    def _labels(self, places: Iterable[int]) -> tuple[str, ...]:
        labels = list(self.units.contexts)
        return tuple(labels[i] for i in places)


def _nearest(text: str, found: Match, pool: Pool, vectors: Vectors | None) -> float | None:
    """Cosine to the nearest of the sentences worth comparing, to 6 digits; None where meanings are not known."""
    if vectors is None:
        return None
    return max((round(float(vectors[text] @ vectors[pool.passages[i].text]), 6) for i in found.near), default=0.0)


def _named(text: str, lacking: frozenset[str]) -> str:
    """The first few words of ``text`` whose stems are lacking."""
    named = [word for word in dict.fromkeys(words(text)) if stem(word) in lacking]
    return ", ".join(named[:MOST_WORDS_NAMED]) or "its wording"
