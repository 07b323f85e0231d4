"""A language model as the judge: one call per sample about all its units, and one more for what it left out.

What goes wrong with one sample is a reason in its rating. Errors that every sample would meet are raised: no or a
wrong key, an unknown model, a budget that is reached, a provider that is down. Replies until then are settled, and not
paid again when the run is resumed.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ragassay.core.aio import Slots, together
from ragassay.core.errors import BadInput, BadSettings, ProviderDown, Unavailable
from ragassay.core.eval_config import JudgePrompt
from ragassay.core.models import FactVerdict, Rating, Sample, Verdict
from ragassay.core.prompts import load
from ragassay.core.protocols import Journal, digest
from ragassay.judges.prompt import instructions, render_prompt, suspicious
from ragassay.judges.reply import (
    CriteriaForm,
    SampleCalls,
    StructuredCall,
    VerdictForm,
    merge,
    parse_reply,
    unanswered,
    with_counts,
)
from ragassay.judges.verdict import Units, check_verdict, number_units
from ragassay.llm import LLM

_TOKENS_AT_LEAST, _TOKENS_PER_UNIT = 600, 90
_LISTS = {"answer": "A", "facts": "G", "criteria": "K"}


class ModelJudge(ABC):
    """Judges with the model behind ``llm``, in what way ``_ask`` says. ``criteria``, by their names, are in the user's words."""

    def __init__(self, llm: LLM, criteria: Mapping[str, str]) -> None:
        self._llm, self._criteria, self._turns = llm, dict(criteria), Slots(1)

    @property
    def name(self) -> str:
        """``llm:<model>``."""
        return f"llm:{self._llm.model}"

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """All that determines a verdict. No addresses, no keys."""

    @abstractmethod
    async def _ask(self, sample: Sample, units: Units, calls: SampleCalls) -> Verdict:
        """The model's verdict on the units, not yet checked. Raises NoAnswer."""

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Rating]:
        """One rating for each sample, in order.

        Raises BudgetReached, BadSettings (key, model) and ProviderDown. Calls that are in flight by then are waited
        for, since they are paid.
        """
        return await together([self._rating(sample, SampleCalls(journal)) for sample in samples])

    async def _rating(self, sample: Sample, calls: SampleCalls) -> Rating:
        async with self._turns.slot():
            await asyncio.sleep(0)  # the first requests leave before the last prompts are made
        units = number_units(sample, self._criteria)
        if sample.response is None:
            return Rating(reason="the system gave no response")
        if (not units.answer or (units.echo and not units.criteria)) and not (units.facts and units.contexts):
            return Rating(verdict=check_verdict(_empty_answer(units), units, self.name))
        raw, reason = await calls.outcome(self._ask(sample, units, calls))
        if raw is None:
            return Rating(reason=reason, **calls.spent)
        verdict = check_verdict(raw, units, self.name)
        marks = suspicious(verdict, sample, units)
        return Rating(verdict=verdict.model_copy(update={"suspicious": marks}), **calls.spent)


class LLMJudge(ModelJudge):
    """Judges with the model behind ``llm``.

    ``max_tokens`` limits a reply; by default it grows with the number of units. ``criteria``, by their names, are in the
    user's words; answers are judged by them in the same call. ``prompt`` is put around our instructions.
    ``seed_shift``: added to the model's seed, for a further draw of a verdict.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        max_tokens: int | None = None,
        criteria: Mapping[str, str] = MappingProxyType({}),
        prompt: JudgePrompt | None = None,
        seed_shift: int = 0,
    ) -> None:
        super().__init__(llm, criteria)
        self._max_tokens = max_tokens
        names = ("repair", "again", "history", *(["criteria"] if criteria else []))
        self._prompts = {"verdict": instructions(prompt), **{name: load(f"judge/{name}") for name in names}}
        text, version = self._prompts["verdict"].text, self._prompts["verdict"].version
        if criteria:  # configuration, not data: it belongs to the instructions, which are the same for every sample
            listed = (f"[K{n}] {' '.join(words.split())}" for n, words in enumerate(criteria.values(), 1))
            text += "\n" + self._prompts["criteria"].render(criteria="\n".join(listed))
        form, keys = CriteriaForm if criteria else VerdictForm, frozenset(("answer", "facts"))
        self._call = StructuredCall(llm, text, version, form, "verdict", keys=keys, seed_shift=seed_shift)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Model, parameters, prompt versions, schema: all that determines a verdict. No addresses, no keys."""
        criteria = {name: digest(text)[:12] for name, text in self._criteria.items()}
        return {
            "judge": "llm",
            **self._llm.settings,
            "prompts": {prompt.name: prompt.version for prompt in self._prompts.values()},
            "schema": digest(self._call.schema)[:12],
            "max_tokens": self._max_tokens,
            **({"criteria": criteria} if criteria else {}),
        }

    async def _ask(self, sample: Sample, units: Units, calls: SampleCalls) -> Verdict:
        """The model's verdict on the units: the first reply, and one more call for what that one left out."""
        prompt = render_prompt(sample, units, self._prompts["verdict"].version)
        limit = self._max_tokens or _TOKENS_AT_LEAST + _TOKENS_PER_UNIT * len(units.ids)
        value = await self._call.answer(sample.query_id, prompt, limit, calls, dict, self._schema(units.ids))
        first = parse_reply(value, units)
        missing = unanswered(first, units)
        is_complete = not units.answer or None not in (first.relevance, first.refusal)
        if not missing and is_complete:
            return first
        wanted, schema = self._prompts["repair"].render(labels=", ".join(missing) or "none"), self._schema(missing)
        try:
            rest, _ = await self._call.once(
                sample.query_id, prompt, limit, calls, dict, schema, more=wanted, purpose="repair"
            )
        except (BadSettings, ProviderDown):
            raise
        except (BadInput, Unavailable):
            return first
        return first if rest is None else merge(first, parse_reply(rest, units), units)

    def _schema(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """The form with an entry for each of ``ids``, where the provider takes such a schema."""
        counts = {name: sum(one[0] == label for one in ids) for name, label in _LISTS.items()}
        return with_counts(self._call.schema, counts)


def _empty_answer(units: Units) -> Verdict:
    """Nothing has to be asked about an answer without a sentence where there is no context to search either."""
    why = "the answer is empty"
    facts = tuple(FactVerdict(id=label, text=text, covered="no", why=why) for label, text in units.facts.items())
    return Verdict(judge="", facts=facts, relevance="none", refusal=False, why=why)
