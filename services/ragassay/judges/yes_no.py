"""Probes: one short yes-or-no question about each unit, read by the probability of its first word.

For small models, which fill in a form badly and answer a question well. The text that is asked about comes first in each
call, so that servers which keep the prefix of a prompt read it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ragassay.core.aio import together
from ragassay.core.models import CriterionVerdict, FactVerdict, Sample, SentenceVerdict, Step, Verdict
from ragassay.core.prompts import load
from ragassay.core.protocols import Call, Reply, digest
from ragassay.core.text import refuses
from ragassay.judges.llm import ModelJudge
from ragassay.judges.overlap import Source, match
from ragassay.judges.prompt import disarm, enclosed
from ragassay.judges.reply import NoAnswer, SampleCalls
from ragassay.judges.verdict import STEPS, Units, sentence_labels, turn_sentences
from ragassay.llm import LLM

_MAX_TOKENS = 4
_WORD = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
ALTERNATIVES = 10  # to each token of an answer
YES = 0.5  # from this chance on a question is answered by yes


class _Question(NamedTuple):
    """A question about a unit of a text; ``about`` is its kind."""

    about: str
    label: str
    unit: str
    text: tuple[str, ...]
    before: str


class YesNoJudge(ModelJudge):
    """Asks ``llm`` one question about each unit; evidence is the context sentences that share most words with it.

    Where the provider gives no probabilities an answer counts 1 or 0. Criteria are asked about in the same way.
    """

    def __init__(self, llm: LLM, *, criteria: Mapping[str, str] = MappingProxyType({}), seed_shift: int = 0) -> None:
        super().__init__(llm, criteria)
        self._seed_shift = seed_shift
        self._prompt, self._continued = load("judge/yes-no"), load("judge/continued")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Model, parameters, prompt versions: all that determines a verdict."""
        criteria = {name: digest(text)[:12] for name, text in self._criteria.items()}
        prompts = {prompt.name: prompt.version for prompt in (self._prompt, self._continued)}
        asked = {"judge": "llm", **self._llm.settings, "mode": "probe", "prompts": prompts}
        return {**asked, **({"criteria": criteria} if criteria else {})}

    async def _ask(self, sample: Sample, units: Units, calls: SampleCalls) -> Verdict:
        """The verdict that the chances of all questions make, as if one reply had held it."""
        asked = list(_questions(units, self._criteria))
        found = await together([self._chance(sample, units, question, calls) for question in asked])
        chances = {(question.about, question.label): chance for question, chance in zip(asked, found, strict=True)}
        turns, of_contexts = turn_sentences(sample), [*units.contexts.values()]
        contexts, sources = Source([of_contexts]), Source([of_contexts, *turns.values()])
        labels = sentence_labels(units, turns)

        def chance(about: str, label: str = "") -> float:
            return chances.get((about, label), 0.0)

        def evidence(text: str, chance: float, source: Source) -> tuple[str, ...]:
            return tuple(dict.fromkeys(labels[i] for i in match(text, source).evidence)) if chance >= YES else ()

        sentences = (
            SentenceVerdict(
                id=label,
                text=text,
                support="supported" if chance("support", label) >= YES else "not_found",
                evidence=evidence(text, chance("support", label), sources),
                truth="agrees" if chance("truth", label) >= YES else "absent",
                support_score=chance("support", label),
                truth_score=chance("truth", label),
            )
            for label, text in units.answer.items()
        )
        facts = (
            FactVerdict(
                id=label,
                text=text,
                covered="yes" if chance("covered", label) >= YES else "no",
                evidence=evidence(text, chance("held", label), contexts),
                covered_score=chance("covered", label),
            )
            for label, text in units.facts.items()
        )
        criteria = (
            CriterionVerdict(id=label, name=name, step=step(chance("criterion", label)))
            for label, name in units.criteria.items()
        )
        return Verdict(
            judge="",
            sentences=tuple(sentences),
            facts=tuple(facts),
            relevance=step(chance("relevance")),
            refusal=refuses(list(units.answer.values())) if units.answer else False,
            criteria=tuple(criteria),
        )

    async def _chance(self, sample: Sample, units: Units, asked: _Question, calls: SampleCalls) -> float:
        """The chance of a yes; raises NoAnswer where the answer is neither yes nor no."""
        text = enclosed("text", asked.text, self._prompt.version)
        query = disarm(sample.query)
        if units.history:
            query = self._continued.render(query=query, turns=[disarm(text) for text in units.history.values()])
        values = {"about": asked.about, "query": query, "unit": asked.unit, "before": asked.before}
        system, _, question = self._prompt.render(**values).partition("\n\n")
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": f"{text}\n\n{question.strip()} Answer yes or no."},
        ]
        stamp = [self._llm.endpoint, dict(self._llm.settings), self._prompt.version]
        reply, chance = await self._llm.complete(
            messages,
            schema=None,
            schema_name="answer",
            max_tokens=_MAX_TOKENS,
            call=Call.about(sample.query_id, "judge", [stamp, messages, ALTERNATIVES]),
            journal=calls.journal,
            wasted=calls.wasted,
            seed_shift=self._seed_shift,
            alternatives=ALTERNATIVES,
            read=yes_chance,
        )
        calls.book(reply, chance)
        if chance is None:
            raise NoAnswer(f"the judge answered neither yes nor no about {asked.label}")
        return chance


def yes_chance(reply: Reply) -> float | None:
    """The chance that a reply says yes rather than no; None where it says neither."""
    written = _WORD.match(reply.text)
    for place, likely in reply.alternatives or ():
        if reply.text[:place].strip(" \n\t\"'*"):
            break
        words = dict.fromkeys(("yes", "no"), 0.0)
        for token, chance in likely.items():
            if (word := token.strip(" \n\t\"'*.,").lower()) in words:
                words[word] += chance
        if total := sum(words.values()):
            return words["yes"] / total
    return None if written is None else float(written[1].lower() == "yes")


def _questions(units: Units, criteria: Mapping[str, str]) -> Iterator[_Question]:
    """All that is asked about a sample; what is asked about the same text comes in a row."""
    answer, facts, contexts = (
        {label: disarm(text) for label, text in texts.items()} for texts in (units.answer, units.facts, units.contexts)
    )
    before = dict(zip(answer, ("none", *answer.values()), strict=False))
    turns = {label: disarm(text) for label, text in units.history.items()}
    named = {label: " ".join(criteria[name].split()) for label, name in units.criteria.items()}
    for about, asked, texts in (
        ("support", answer, {**turns, **contexts}),
        ("held", facts, contexts),
        ("truth", answer, facts),
        ("covered", facts, answer),
        ("relevance", {"": ""}, answer),
        ("criterion", named, answer),
    ):
        for label, unit in asked.items() if texts else ():
            yield _Question(about, label, unit, tuple(texts.values()), before.get(label, "none"))


def step(chance: float) -> Step:
    """The one of the five steps that is nearest."""
    return STEPS[round(chance * (len(STEPS) - 1))]
