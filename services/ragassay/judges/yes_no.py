"""Probes: one short yes-or-no question about each unit, read by the probability of its first word.

For small models, which fill in a form badly and answer a question well. The text that is asked about comes first in each
call, so that servers which keep the prefix of a prompt read it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ragassay.core.aio import together
from ragassay.core.models import Covered, CriterionVerdict, FactVerdict, Sample, SentenceVerdict, Step, Verdict
from ragassay.core.prompts import load
from ragassay.core.protocols import Call, Reply, digest
from ragassay.core.text import refuses
from ragassay.judges.llm import LLMJudge
from ragassay.judges.overlap import Source, match
from ragassay.judges.prompt import disarm, enclosed, suspicious
from ragassay.judges.reply import STEPS
from ragassay.judges.structured import NoAnswer, SampleCalls
from ragassay.judges.verdict import Units, check_verdict, turn_sentences
from ragassay.llm import LLM

_MOST_TOKENS, _MOST_EVIDENCE = 4, 3
_WORD = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
ALTERNATIVES = 10  # to each token of an answer
YES = 0.5  # from this chance on a question is answered by yes


@dataclass(frozen=True)
class _Question:
    """A question about a unit of a text; ``about`` is its kind."""

    about: str
    label: str
    unit: str
    text: tuple[str, ...]
    before: str = "none"


class YesNoJudge(LLMJudge):
    """Asks ``llm`` one question about each unit; evidence is the context sentences that share most words with it.

    Where the provider gives no probabilities an answer counts 1 or 0. Criteria are asked about in the same way.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        criteria: Mapping[str, str] = MappingProxyType({}),
        timeout_s: float | None = None,
        seed_shift: int = 0,
    ) -> None:
        super().__init__(llm, timeout_s=timeout_s, seed_shift=seed_shift)
        self._criteria, self._prompt = dict(criteria), load("judge/yes-no")
        self._continued = load("judge/continued")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Model, parameters, prompt versions: all that determines a verdict."""
        criteria = {name: digest(text)[:12] for name, text in self._criteria.items()}
        prompts = {prompt.name: prompt.version for prompt in (self._prompt, self._continued)}
        asked = {"judge": "llm", **self._llm.settings, "mode": "probe", "prompts": prompts}
        return {**asked, **({"criteria": criteria} if criteria else {})}

    async def _verdict(self, sample: Sample, units: Units, calls: SampleCalls) -> Verdict:
        asked = list(_questions(units, self._criteria))
        chances = await together([self._chance(sample, units, question, calls) for question in asked])
        by_unit = {(question.about, question.label): chance for question, chance in zip(asked, chances, strict=True)}
        raw = _raw(sample, units, by_unit)
        verdict = check_verdict(raw, units, self.name)
        return verdict.model_copy(update={"suspicious": suspicious(verdict, sample, units)})

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
            max_tokens=_MOST_TOKENS,
            call=Call.about(sample.query_id, "judge", [stamp, messages, ALTERNATIVES]),
            journal=calls.journal,
            account=calls,
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

    def each(about: str, asked: Mapping[str, str], texts: Mapping[str, str]) -> Iterator[_Question]:
        for label, unit in asked.items() if texts else ():
            yield _Question(about, label, unit, tuple(texts.values()), before.get(label, "none"))

    turns = {label: disarm(text) for label, text in units.history.items()}
    yield from each("support", answer, {**turns, **contexts})
    yield from each("held", facts, contexts)
    yield from each("truth", answer, facts)
    yield from each("covered", facts, answer)
    yield from each("relevance", {"": ""}, answer)
    named = {label: " ".join(criteria[name].split()) for label, name in units.criteria.items()}
    yield from each("criterion", named, answer)


def _raw(sample: Sample, units: Units, chances: Mapping[tuple[str, str], float]) -> Verdict:
    """The verdict that the chances make, as if one reply had held it."""
    turns = turn_sentences(sample)
    contexts, sources = Source([[*units.contexts.values()]]), Source([[*units.contexts.values()], *turns.values()])
    labels = [*units.contexts, *(label for label, texts in turns.items() for _ in texts)]

    def evidence(text: str, chance: float, source: Source) -> tuple[str, ...]:
        chosen = match(text, source).evidence[:_MOST_EVIDENCE] if chance >= YES else ()
        return tuple(dict.fromkeys(labels[place] for place in chosen))

    def sentence(label: str, text: str) -> SentenceVerdict:
        support, truth = (chances.get((about, label), 0.0) for about in ("support", "truth"))
        return SentenceVerdict(
            id=label,
            text=text,
            support="supported" if support >= YES else "not_found",
            evidence=evidence(text, support, sources),
            truth="agrees" if truth >= YES else "absent",
            support_score=support,
            truth_score=truth,
        )

    def fact(label: str, text: str) -> FactVerdict:
        covered, held = (chances.get((about, label), 0.0) for about in ("covered", "held"))
        said: Covered = "yes" if covered >= YES else "no"
        return FactVerdict(
            id=label, text=text, covered=said, evidence=evidence(text, held, contexts), covered_score=covered
        )

    return Verdict(
        judge="",
        sentences=tuple(sentence(*unit) for unit in units.answer.items()),
        facts=tuple(fact(*unit) for unit in units.facts.items()),
        relevance=step(chances.get(("relevance", ""), 0.0)),
        refusal=refuses(list(units.answer.values())) if units.answer else False,
        criteria=tuple(
            CriterionVerdict(id=label, name=name, step=step(chances["criterion", label]))
            for label, name in units.criteria.items()
        ),
    )


def step(chance: float) -> Step:
    """The one of the five steps that is nearest."""
    return STEPS[round(chance * (len(STEPS) - 1))]
