"""The local judge: no key, no network, deterministic. It fills the same form as a language model, by overlap of words.

It is a triage: good at telling grounded answers from invented ones, nearly blind to subtle changes. ``docs/judge-accuracy.md``
says how well it agrees with people, and on which labelled sets it was fitted.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragassay.core.models import Covered, FactVerdict, Rating, Sample, SentenceVerdict, Step, Support, Truth, Verdict
from ragassay.core.protocols import Journal
from ragassay.core.text import LONGEST_WORD, content, is_lead_in, refuses, says_yes, sentences, stem, words
from ragassay.judges import local_weights
from ragassay.judges.overlap import DOUBTFUL, FEATURES, Match, Source, features, match, share_missing, terms_of
from ragassay.judges.verdict import Units, check_verdict, number_units, sentence_labels, turn_sentences

NAME = "local"
VERSION = 10  # raise it with every change that can change a verdict
SUPPORTED, PARTLY, CONTRADICTED = 0.5, 0.35, 0.2  # chance that people would call a sentence supported
COVERED, COVERED_PARTLY, AGREES = 0.75, 0.3, 0.6  # similarity
RELEVANCE: tuple[tuple[float, Step], ...] = ((0.7, "full"), (0.55, "mostly"), (0.4, "partly"), (0.2, "barely"))
SHORT_ANSWER = 3  # stems: too few to tell by words whether they address a query
MAX_WORDS_NAMED = 4
MAX_CHARACTERS, MAX_PAIRS = 1_000_000, 500_000  # of a row's texts; of sentences that are compared: seconds at most


class LocalJudge:
    """Judges by overlap of words."""

    name = NAME
    settings: Mapping[str, Any] = {"judge": NAME, "version": VERSION, "support": local_weights.SUPPORT}

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
    texts = (
        sample.query,
        sample.answer or "",
        *sample.key_facts,
        *sample.ground_truth_answer,
        *(sample.contexts or ()),
    )
    if sum(map(len, (*texts, *(turn.content for turn in sample.history)))) > MAX_CHARACTERS:
        return Rating(reason=f"the row has more than {MAX_CHARACTERS:,} characters: too long for the local judge")
    units, turns = number_units(sample), turn_sentences(sample)
    labels = sentence_labels(units, turns)
    truths = len(units.facts) + sum(len(sentences(truth)) for truth in sample.ground_truth_answer)
    if (len(units.answer) + len(units.facts)) * len(labels) + len(units.answer) * truths > MAX_PAIRS:
        return Rating(reason=f"the row has more than {MAX_PAIRS:,} pairs of sentences: too long for the local judge")
    return Rating(verdict=check_verdict(_Row(sample, units, turns, labels).verdict(), units, NAME))


class _Row:
    """One sample with its units, and the sources that they are compared with."""

    def __init__(self, sample: Sample, units: Units, turns: Mapping[str, Sequence[str]], labels: Sequence[str]) -> None:
        self.sample, self.units, self.labels = sample, units, labels
        contexts = [*map(sentences, sample.contexts or ())]
        self.contexts, self.with_history = Source(contexts), Source([*contexts, *turns.values()]) if turns else None
        self.answer = Source([[*units.answer.values()]])
        truths = (text for truth in sample.ground_truth_answer for text in sentences(truth))
        self.truth = Source([[*dict.fromkeys((*units.facts.values(), *truths))]])
        self.query_stems = content(sample.query)
        said = ((index, says_yes(text)) for index, text in enumerate(units.answer.values()))
        index, yes = next((one for one in said if one[1] is not None), (0, None))
        true = says_yes(next(iter(units.facts.values()), ""))
        self.opposite = index if None not in (yes, true) and yes is not true else None  # a yes where the truth is a no

    def verdict(self) -> Verdict:
        """The verdict on every unit."""
        facts, agreeing = self._facts()
        judged: dict[str, SentenceVerdict] = {}
        chances: dict[str, float] = {}
        following: SentenceVerdict | None = None
        for index, (label, text) in reversed([*enumerate(self.units.answer.items())]):
            sentence, chances[label] = self._sentence(label, text, self._truth(text, index, index in agreeing))
            if _leads_to_next(text) and following and sentence.support != "contradicted":
                sentence = following.model_copy(update={"id": label, "text": text})
                del chances[label]
            judged[label] = following = sentence
        refusal = refuses([*self.units.answer.values()])
        step, why = self._relevance(judged, refusal)
        return Verdict(
            judge=NAME,
            sentences=tuple(reversed(judged.values())),
            facts=tuple(facts),
            relevance=step,
            refusal=refusal,
            why=why,
            probability={"faithfulness": min(chances.values())} if self.units.has_contexts and chances else {},
        )

    def _support(self, text: str, source: Source) -> tuple[float, Match]:
        """The chance that people call a claim supported by a source, at most that of what speaks against it."""
        matched = match(text, source)
        limit = CONTRADICTED if matched.contradicted_by is not None else DOUBTFUL if matched.doubtful else 1.0
        return min(limit, chance(local_weights.SUPPORT, features(terms_of(text), source))), matched

    def _sentence(self, label: str, text: str, truth: Truth) -> tuple[SentenceVerdict, float]:
        likely, matched = self._support(text, self.contexts)
        if self.with_history and likely < SUPPORTED:
            likely, matched = max((likely, matched), self._support(text, self.with_history), key=lambda one: one[0])
        support: Support = "supported" if likely >= SUPPORTED else "partly" if likely >= PARTLY else "not_found"
        indexes, why = matched.evidence, ""
        if matched.contradicted_by is not None:
            support, indexes = "contradicted", (matched.contradicted_by,)
            why = f"contradicted by {self.labels[matched.contradicted_by]}"
        elif support == "not_found" or not indexes:
            support, indexes, why = "not_found", (), "no context supports it"
        elif matched.reversed_by is not None:
            support, why = "partly", f"{self.labels[matched.reversed_by]} has the roles reversed"
        elif support == "partly":
            why = f"not in the contexts: {_named(text, matched.missing)}"
        evidence, why = tuple(dict.fromkeys(self.labels[i] for i in indexes)), why if self.units.has_contexts else ""
        return SentenceVerdict(id=label, text=text, support=support, evidence=evidence, truth=truth, why=why), likely

    def _truth(self, text: str, index: int, covers: bool) -> Truth:
        """A sentence that covers a fact agrees, so that no answer is complete and wrong at once."""
        if covers:
            return "agrees"
        matched = match(text, self.truth, self.query_stems)
        if matched.contradicted_by is not None or index == self.opposite:
            return "conflicts"
        return "agrees" if matched.similarity >= AGREES else "absent"

    def _facts(self) -> tuple[list[FactVerdict], set[int]]:
        """The verdicts on all facts, and the indexes of sentences that cover one.

        An accepted answer beyond the first that is covered better than the facts stands for them.
        """
        covers = self._covers(self.units.facts.values())
        if self.opposite is not None:
            covers[0] = Match(contradicted_by=self.opposite)
        share, agreeing = _covered(covers)
        least: Covered = "no"
        for truth in () if self.sample.key_facts else self.sample.ground_truth_answer[1:] if covers else ():
            of_truth, covering = _covered(self._covers(sentences(truth)))
            if of_truth > max(share, PARTLY):
                share, agreeing, least = of_truth, agreeing | covering, "yes" if of_truth == 1 else "partly"
        facts = [self._fact(*unit, cover, least) for unit, cover in zip(self.units.facts.items(), covers, strict=True)]
        return facts, agreeing

    def _covers(self, texts: Iterable[str]) -> list[Match]:
        """The answer as the source of each text; a sentence that the text contradicts covers none."""
        covers = []
        for text in texts:
            cover = match(text, self.answer, self.query_stems)
            for index in cover.evidence[:1] if cover.contradicted_by is None else ():
                if match(self.answer.texts[index], Source([[text]]), self.query_stems).contradicted_by is not None:
                    cover = cover._replace(contradicted_by=index)
            covers.append(cover)
        return covers

    def _fact(self, label: str, text: str, cover: Match, least: Covered) -> FactVerdict:
        missing = f"the answer lacks: {_named(text, cover.missing)}" if self.units.answer else "the answer is empty"
        covered: Covered = (
            "yes" if cover.similarity >= COVERED else "partly" if cover.similarity >= COVERED_PARTLY else "no"
        )
        if cover.contradicted_by is not None:
            covered, missing = "no", "the answer contradicts it"
        if least == "yes" or covered == "no":
            covered, missing = least, missing if least == "no" else ""
        likely, held = self._support(text, self.contexts)
        evidence = tuple(self.labels[i] for i in held.evidence) if likely >= SUPPORTED else ()
        return FactVerdict(
            id=label, text=text, covered=covered, evidence=evidence, why="" if covered == "yes" else missing
        )

    def _relevance(self, judged: Mapping[str, SentenceVerdict], refusal: bool) -> tuple[Step, str]:
        """How many of the query's words come back in the answer, or, if it is short, in its evidence."""
        if not judged or refusal:
            return "none", "the answer refuses" if refusal else "the answer is empty"
        stems = content(" ".join(self.units.answer.values()))
        is_short = len(stems) <= SHORT_ANSWER
        if is_short:
            texts = {**self.units.history, **self.units.contexts}
            stems |= content(" ".join(texts[label] for one in judged.values() for label in one.evidence))
        share = 1 - share_missing(self.query_stems, stems)
        step: Step = next((name for bound, name in RELEVANCE if share >= bound), "none")
        if is_short and step in ("none", "barely"):
            return "partly", "too short to tell"
        return step, "" if step in ("mostly", "full") else "it shares little with the query"


def _leads_to_next(text: str) -> bool:
    return is_lead_in(text) or words(text) in (["yes"], ["no"])


def _covered(covers: Sequence[Match]) -> tuple[float, set[int]]:
    """The share of matches that cover what was looked for, and the sentences that do."""
    covering = [one.evidence[0] for one in covers if one.contradicted_by is None and one.similarity >= COVERED]
    return (len(covering) / len(covers) if covers else 0.0), set(covering)


def chance(weights: Mapping[str, float], values: Sequence[float]) -> float:
    """The logistic of weighted ``FEATURES``, to 6 digits."""
    logit = weights["intercept"] + sum(weights[name] * value for name, value in zip(FEATURES, values, strict=True))
    return round(1 / (1 + math.exp(-logit)), 6)


def _named(text: str, missing: frozenset[str]) -> str:
    named = [word for word in dict.fromkeys(words(text)) if stem(word) in missing]
    return ", ".join(word[:LONGEST_WORD] for word in named[:MAX_WORDS_NAMED]) or "its wording"
