"""Which of two answers is better: a model is asked in both orders, since models favour a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from ragassay.core.aio import together
from ragassay.core.eval_config import HISTORY_TOKENS
from ragassay.core.models import FrozenModel, Message, Usage
from ragassay.core.prompts import load
from ragassay.core.protocols import Journal
from ragassay.core.text import sentences
from ragassay.judges.prompt import enclosed, sections
from ragassay.judges.reply import Reason, SampleCalls, StructuredCall, Unanswered, word_of
from ragassay.judges.verdict import recent_turns, turn_units
from ragassay.llm import LLM

Choice = Literal["first", "second", "same"]
_MAX_TOKENS = 400


class PreferenceForm(BaseModel):
    """The form of a reply."""

    why: Reason = ""
    better: Annotated[Choice | Unanswered, word_of(Choice)] = None


class Preference(FrozenModel):
    """Which of two answers is ``better``: one that is named in both orders, else None.

    ``choices`` and ``why``: of the model with a as the first answer, then with b; none if it was not asked. ``reason``: why
    there is no preference to count.
    """

    better: Literal["a", "b"] | None = None
    choices: tuple[Choice, ...] = ()
    why: tuple[str, ...] = ()
    reason: str | None = None
    usage: Usage = Usage()
    waste: Usage = Usage()

    @property
    def flipped(self) -> bool:
        """Did the model name the same place twice?"""
        return self.choices in (("first", "first"), ("second", "second"))


class PreferenceJudge:
    """Asks the model behind ``llm``. ``history_tokens``: how much of the last turns before a query it is shown."""

    def __init__(self, llm: LLM, *, history_tokens: int = HISTORY_TOKENS) -> None:
        prompt, self._history_tokens = load("judge/preference"), history_tokens
        self.name, self._version = f"llm:{llm.model}", prompt.version
        self._call = StructuredCall(
            llm, prompt.text, prompt.version, PreferenceForm, "preference", keys=frozenset(["better"])
        )

    async def prefer(
        self,
        query_id: str,
        query: str,
        truths: Sequence[str],
        answers: tuple[str, str],
        journal: Journal,
        *,
        history: Sequence[Message] = (),
    ) -> Preference:
        """The preference between two answers; the same text twice, and an empty answer, need no call.

        ``history``: the turns before the query, of which the last are shown.

        Raises BudgetReached, BadSettings (key, model) and ProviderDown, which every pair would meet.
        """
        a, b = (sentences(answer) for answer in answers)
        if a == b:
            return Preference()
        if not (a and b):
            return Preference(better="a" if a else "b")
        calls = SampleCalls(journal)
        turns = turn_units(recent_turns(history, self._history_tokens))
        shared = (
            ("Earlier turns of the conversation", turns.items()),
            ("Question", [("Q", query)]),
            ("Known to be correct", [(f"G{n}", truth) for n, truth in enumerate(truths, 1)]),
        )
        prompts = []
        for first, second in ((a, b), (b, a)):
            answers_of = [
                ("First answer", [("A1", sentence) for sentence in first]),
                ("Second answer", [("A2", sentence) for sentence in second]),
            ]
            prompts.append(enclosed("sample", sections(*shared, *answers_of), self._version))
        orders = together([self._call.answer(query_id, text, _MAX_TOKENS, calls, _parse) for text in prompts])
        replies, reason = await calls.outcome(orders)
        if replies is None:
            return Preference(reason=reason, usage=calls.usage, waste=calls.waste)
        (a_first, why), (b_first, why_turned) = replies
        better = {("first", "second"): "a", ("second", "first"): "b"}.get((a_first, b_first))
        return Preference.model_validate(
            {"better": better, "choices": (a_first, b_first), "why": (why, why_turned)}
            | {"usage": calls.usage, "waste": calls.waste}
        )


def _parse(reply: Mapping[str, Any]) -> tuple[Choice, str] | None:
    form = PreferenceForm.model_validate(reply)
    return form.better and (form.better, form.why)
