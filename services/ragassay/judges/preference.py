"""Which of two answers is better: a model is asked in both orders, so that where an answer stands does not decide.

What was not preferred in both orders is no preference. Answers that are the same, and an empty one beside another, are
settled without a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from ragassay.core.aio import together
from ragassay.core.models import FrozenModel, Response, Sample, Usage, Verdict
from ragassay.core.prompts import load
from ragassay.core.protocols import Journal, digest
from ragassay.judges.prompt import disarm, enclosed, suspicious
from ragassay.judges.reply import Reason, Unanswered, word_of
from ragassay.judges.structured import SampleCalls, StructuredCall
from ragassay.judges.verdict import number_units
from ragassay.llm import LLM

Choice = Literal["first", "second", "same"]
Basis = Literal["both orders", "one order", "flipped", "same", "identical", "empty"]
_MOST_TOKENS = 400


class PreferenceForm(BaseModel):
    """The form of a reply."""

    why: Reason = ""
    better: Annotated[Choice | Unanswered, word_of(Choice)] = None


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Two answers to one query; ``truths`` are answers that are known to be right, any of which will do."""

    query_id: str
    query: str
    truths: tuple[str, ...]
    a: str
    b: str


class Preference(FrozenModel):
    """Which of two answers is ``better``, None for neither, and on what ``basis``; not judged: None, with the ``reason``.

    ``choices`` and ``why``: what the model said with a as the first, then with b. ``flipped``: it named the same place
    twice; ``one order``: an answer in one order and neither in the other. ``suspicious``: texts that address the judge,
    hide characters or imitate our labels (``question``, ``a``, ``b``).
    """

    better: Literal["a", "b"] | None = None
    basis: Basis | None = None
    choices: tuple[Choice, ...] = ()
    why: tuple[str, ...] = ()
    reason: str | None = None
    suspicious: tuple[str, ...] = ()
    usage: Usage = Usage()
    waste: Usage = Usage()


class PreferenceJudge:
    """Asks the model behind ``llm``."""

    def __init__(self, llm: LLM) -> None:
        self._llm, self._prompt = llm, load("judge/preference")
        self._call = StructuredCall(
            llm,
            self._prompt.text,
            self._prompt.version,
            PreferenceForm,
            "preference",
            keys=frozenset(["better"]),
        )

    @property
    def name(self) -> str:
        """``llm:<model>``."""
        return f"llm:{self._llm.model}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """Model, parameters, prompt versions and schema. No addresses, no keys."""
        prompts = {prompt.name: prompt.version for prompt in (self._prompt, load("judge/again"))}
        return {
            "judge": "preference",
            **self._llm.settings,
            "prompts": prompts,
            "schema": digest(self._call.schema)[:12],
        }

    async def prefer(self, pair: AnswerPair, journal: Journal) -> Preference:
        """The preference between two answers. What goes wrong with one pair is its reason.

        Raises BudgetReached, BadSettings (key, model) and ProviderDown, which every pair would meet.
        """
        samples = [_sample(pair, answer) for answer in (pair.a, pair.b)]
        units = [number_units(sample) for sample in samples]
        a, b = ([*one.answer.values()] for one in units)
        marked = [suspicious(_NOTHING, sample, one) for sample, one in zip(samples, units, strict=True)]
        of_answers = [name for name, labels in zip("ab", marked, strict=True) if any(one[0] == "A" for one in labels)]
        of_both = ["question"] if any(one[0] != "A" for one in marked[0]) else []
        marks = (*of_both, *of_answers)
        if " ".join(pair.a.split()) == " ".join(pair.b.split()):
            return Preference(basis="identical", suspicious=marks)
        if not (a and b):
            return Preference(better="a" if a else "b" if b else None, basis="empty", suspicious=marks)
        calls = SampleCalls(journal)
        orders = together([self._choice(pair, a, b, calls), self._choice(pair, b, a, calls)])
        said, reason = await calls.outcome(orders)
        told = Preference(suspicious=marks, usage=calls.usage, waste=calls.waste, reason=reason)
        if said is None:
            return told
        choices, why = tuple(choice for choice, _ in said), tuple(why for _, why in said)
        better, basis = _settled(choices[0], choices[1])
        return told.model_copy(update={"better": better, "basis": basis, "choices": choices, "why": why})

    async def _choice(
        self, pair: AnswerPair, first: Sequence[str], second: Sequence[str], calls: SampleCalls
    ) -> tuple[Choice, str]:
        """What the model says of the answers in this order, each cut into sentences."""
        lines = [
            "Question:",
            f"[Q] {disarm(pair.query)}",
            *(["Known to be right:"] if pair.truths else []),
            *(f"[G{n}] {disarm(truth)}" for n, truth in enumerate(pair.truths, 1)),
            "First answer:",
            *(f"[A1] {disarm(sentence)}" for sentence in first),
            "Second answer:",
            *(f"[A2] {disarm(sentence)}" for sentence in second),
        ]
        prompt = enclosed("sample", lines, self._prompt.version)

        return await self._call.answer(pair.query_id, prompt, _MOST_TOKENS, calls, _parse)


def _parse(reply: Mapping[str, Any]) -> tuple[Choice, str] | None:
    form = PreferenceForm.model_validate(reply)
    return form.better and (form.better, form.why)


_NOTHING = Verdict(judge="preference")


def _sample(pair: AnswerPair, answer: str) -> Sample:
    return Sample(
        query_id=pair.query_id, query=pair.query, ground_truth_answer=pair.truths, response=Response(answer=answer)
    )


def _settled(a_first: Choice, b_first: Choice) -> tuple[Literal["a", "b"] | None, Basis]:
    """The preference that the choices in both orders make."""
    if a_first == b_first:
        return None, "same" if a_first == "same" else "flipped"
    if "same" in (a_first, b_first):
        return None, "one order"
    return ("a" if a_first == "first" else "b"), "both orders"
