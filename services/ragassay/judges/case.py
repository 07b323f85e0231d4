"""One sample as the local judge sees it: its units compared by words, then decided, with likeness of meaning if known.

The thresholds were chosen on human-labelled development sets, named in ``docs/judges.md``; they are rough on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragassay.judges.matching import Match, Pool, match, passage
from ragassay.judges.refusal import refuses
from ragassay.judges.sentences import sentences
from ragassay.judges.verdict import Claims, Units
from ragassay.judges.words import LONGEST_WORD, content, stem, words
from ragassay.models import Covered, FactVerdict, RelevanceStep, Sample, SentenceVerdict, Support, Truth

SUPPORTED = 0.65
PARTLY = 0.45
COVERED = 0.65
COVERED_PARTLY = 0.3
AGREES = 0.5
RELEVANCE_STEPS: tuple[tuple[float, RelevanceStep], ...] = (
    (0.7, "full"),
    (0.55, "mostly"),
    (0.4, "partly"),
    (0.2, "barely"),
)
RELEVANCE_SIMILARITY = 0.7  # weight of likeness of meaning; the rest is the share of the query's words
SHORT_ANSWER = 3  # stems: too few to tell by words whether they address a query
MOST_WORDS_NAMED = 4

Vectors = Mapping[str, NDArray[np.float64]]

# "Do this:" claims nothing, so it is judged like the sentence after it.
_LEAD_IN = re.compile(r"(?::|\b(?:as follows|the following)[.:]?)[\"'”’*_)]*$", re.IGNORECASE)


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

    def texts(self, *, all_matches: bool = False) -> Iterable[str]:
        """All texts whose meaning is needed; of matches, only those whose class it can still change."""
        yield self.sample.query
        yield from self.units.answer.values()
        if self.is_short:
            yield from (self.contexts.passages[i].text for found in self.support.values() for i in found.chosen)
        for texts, matches, pool, bounds in (
            (self.units.answer, self.support, self.contexts, (PARTLY, SUPPORTED)),
            (self.units.answer, self.agreement, self.truth, (AGREES,)),
            (self.units.facts, self.coverage, self.answer, (COVERED_PARTLY, COVERED)),
            (self.units.facts, self.finding, self.contexts, (SUPPORTED,)),
        ):
            for label, found in matches.items():
                if all_matches or any(found.likeness(0.0) < bound <= found.likeness(1.0) for bound in bounds):
                    yield texts[label]
                    yield from (pool.passages[i].text for i in found.near)

    @cached_property
    def is_short(self) -> bool:
        """Has the answer too few words to tell by itself whether it addresses the query?"""
        return len(content(" ".join(self.units.answer.values()))) <= SHORT_ANSWER

    def claims(self, vectors: Vectors | None) -> Claims:
        """What this judge says of every unit."""
        facts = {i: self._fact(i, text, vectors) for i, text in self.units.facts.items()}
        self._allow_alternative(facts)
        said: dict[str, SentenceVerdict] = {}
        following: SentenceVerdict | None = None
        for label, text in reversed(list(self.units.answer.items())):
            own = self._sentence(label, text, facts, vectors)
            if following and own.support != "contradicted" and _LEAD_IN.search(text):
                own = following.model_copy(update={"id": label, "text": text})
            said[label] = following = own
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
            evidence, why = (), "no context says so" if self.units.has_contexts else ""
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
        position = int(label[1:]) - 1
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
        value = self._addressing(answer, vectors)
        evidence = [self.units.contexts[e] for sentence in said.values() for e in sentence.evidence]
        if self.is_short and evidence:
            value = max(value, self._addressing([*answer, *evidence], vectors))
        step: RelevanceStep = next((name for bound, name in RELEVANCE_STEPS if value >= bound), "none")
        if step in ("none", "barely", "partly") and "yes" in covered:
            return "mostly", ""
        if step in ("none", "barely") and self.is_short and not evidence:
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
    """Cosine to the nearest of the sentences worth comparing, to 6 digits; None where meanings are not known.

    0 where these texts were not embedded: then the class of the match does not depend on it.
    """
    if vectors is None:
        return None
    if text not in vectors:
        return 0.0
    near = (pool.passages[i].text for i in found.near)
    return max((round(float(vectors[text] @ vectors[other]), 6) for other in near if other in vectors), default=0.0)


def _named(text: str, lacking: frozenset[str]) -> str:
    """The first few words of ``text`` whose stems are lacking."""
    named = [word[:LONGEST_WORD] for word in dict.fromkeys(words(text)) if stem(word) in lacking]
    return ", ".join(named[:MOST_WORDS_NAMED]) or "its wording"
