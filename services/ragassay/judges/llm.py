"""A language model as the judge: one call per sample about all its units, and one more for what it left out.

What goes wrong with one sample is a reason in its judgement. Errors that every sample would meet are raised: no or a
wrong key, an unknown model, a budget that is reached; and the last error when so many calls in a row failed that
nobody seems to be there. What was answered until then is settled, and not paid again when the run is resumed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import orjson

from ragassay.errors import BadInput, BadSettings, Unavailable
from ragassay.judges.replies import SCHEMA, Reading, find_object, merge, read
from ragassay.judges.sheet import Sheet, draw_up
from ragassay.judges.suspicion import suspicious
from ragassay.judges.verdict import Claims, Units, settle, units
from ragassay.llm import Completes
from ragassay.models import FactVerdict, Judgement, Sample, Usage, Verdict
from ragassay.prompts import load
from ragassay.seams import Call, Ledger, Reply

FAILED_IN_A_ROW = 20
_TOKENS_AT_LEAST, _TOKENS_PER_UNIT = 600, 90
_SCHEMA_NAME = "verdict"
_UNREADABLE = "the judge's reply could not be read as a verdict, twice"
_WHY_NOT = {
    "length": "the judge's reply was cut off at {limit} tokens",
    "content_filter": "the provider's content filter withheld the judge's reply",
}

T = TypeVar("T")
Purpose = Literal["judge", "repair"]


class LLMJudge:
    """Judges with the model behind ``llm``.

    ``passes`` 2 asks twice about a sample with ground truth, the first time without it, so that it can't leak into
    support, relevance and refusal. ``max_tokens`` limits a reply; by default it grows with the number of units.
    """

    def __init__(self, llm: Completes, *, passes: Literal[1, 2] = 1, max_tokens: int | None = None) -> None:
        if passes not in (1, 2):
            raise BadSettings(f"passes must be 1 or 2, not {passes}")
        if max_tokens is not None and max_tokens < 1:
            raise BadSettings(f"max_tokens must be above zero, not {max_tokens}")
        self._llm, self._passes, self._max_tokens = llm, passes, max_tokens
        self._prompt, self._repair, self._again = (load(f"judge/{name}") for name in ("verdict", "repair", "again"))
        self._failed_in_a_row = 0

    @property
    def name(self) -> str:
        """``llm:<model>``."""
        return f"llm:{self._llm.model}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """Model, parameters, prompt versions, schema: all that determines a verdict. No addresses, no keys."""
        return {
            "judge": "llm",
            **self._llm.settings,
            "prompts": {prompt.name: prompt.version for prompt in (self._prompt, self._repair, self._again)},
            "schema": _digest(SCHEMA)[:12],
            "passes": self._passes,
            "max_tokens": self._max_tokens,
        }

    async def judge(self, samples: Sequence[Sample], ledger: Ledger) -> list[Judgement]:
        """One judgement for each sample, in order.

        Raises BudgetReached, BadSettings (key, model) and, after 20 failed calls in a row, what the last one met.
        Calls that are in flight by then are waited for, since they are paid.
        """
        return await _all(*(self._one(sample, ledger) for sample in samples))

    async def _one(self, sample: Sample, ledger: Ledger) -> Judgement:
        asked, tab = units(sample), _Tab(ledger)
        if sample.response is None:
            return Judgement(reason="the system gave no response")
        if not asked.answer and not (asked.facts and asked.contexts):
            return Judgement(verdict=settle(_of_an_empty_answer(asked), asked, self.name))
        try:
            verdict = await self._verdict(sample, asked, tab)
        except BadSettings:
            raise
        except (BadInput, Unavailable) as error:
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= FAILED_IN_A_ROW:
                raise
            return Judgement(reason=f"the judge failed: {error}", usage=tab.usage, waste=tab.waste)
        except _NoVerdict as nothing:
            return Judgement(reason=str(nothing), usage=tab.usage, waste=tab.waste)
        self._failed_in_a_row = 0
        return Judgement(verdict=verdict, usage=tab.usage, waste=tab.waste)

    async def _verdict(self, sample: Sample, asked: Units, tab: _Tab) -> Verdict:
        sheet = draw_up(sample, asked, self._prompt.version)
        if self._passes == 2 and asked.answer and asked.has_truth:
            blind = replace(asked, facts={}, has_truth=False)
            without, informed = await _all(
                self._reading(sample, blind, draw_up(sample, blind, self._prompt.version), tab),
                self._reading(sample, asked, sheet, tab),
            )
            claims = _joined(without.claims, informed.claims)
        else:
            claims = (await self._reading(sample, asked, sheet, tab)).claims
        verdict = settle(claims, asked, self.name)
        return verdict.model_copy(update={"suspicious": suspicious(verdict, asked, sheet.deceiving)})

    async def _reading(self, sample: Sample, asked: Units, sheet: Sheet, tab: _Tab) -> Reading:
        """What the model says of the units: the first reply, and one more call for what that one left out."""
        limit = self._max_tokens or _TOKENS_AT_LEAST + _TOKENS_PER_UNIT * len(asked.asked)
        reading = read(await self._object(sample, sheet, limit, tab), asked)
        silent = asked.answer and None in (reading.claims.relevance, reading.claims.refusal)
        if not reading.missing and not silent:
            return reading
        wanted = self._repair.render(labels=", ".join(reading.missing) or "none")
        try:
            reply = await self._call(sample, f"{sheet.text}\n{wanted}", limit, "repair", tab)
        except BadSettings:
            raise
        except (BadInput, Unavailable):
            return reading  # what was said in the first place still holds
        found = tab.book(reply, find_object(reply.text, sheet.text))
        return reading if found is None else merge(reading, read(found, asked))

    async def _object(self, sample: Sample, sheet: Sheet, limit: int, tab: _Tab) -> Mapping[str, Any]:
        """The reply's JSON object; after one more try where the first was cut off or could not be read."""
        reply = await self._call(sample, sheet.text, limit, "judge", tab)
        found = tab.book(reply, find_object(reply.text, sheet.text))
        if found is None and reply.finish_reason != "content_filter":
            cut = reply.finish_reason == "length"
            text, limit = (sheet.text, 2 * limit) if cut else (f"{sheet.text}\n{self._again.text}", limit)
            reply = await self._call(sample, text, limit, "judge", tab)
            found = tab.book(reply, find_object(reply.text, sheet.text))
        if found is None:
            raise _NoVerdict(_WHY_NOT.get(reply.finish_reason, _UNREADABLE).format(limit=limit))
        return found

    async def _call(self, sample: Sample, text: str, limit: int, purpose: Purpose, tab: _Tab) -> Reply:
        messages = [{"role": "system", "content": self._prompt.text}, {"role": "user", "content": text}]
        content = _digest([self._stamp, messages, limit])
        return await self._llm.complete(
            messages,
            schema=SCHEMA,
            schema_name=_SCHEMA_NAME,
            max_tokens=limit,
            call=Call(id=_digest([sample.query_id, purpose, content]), content=content, purpose=purpose),
            ledger=tab,
        )

    @cached_property
    def _stamp(self) -> list[object]:
        """What determines a reply beside its messages. The prompt's version stands for text and front matter."""
        return [dict(self._llm.settings), self._prompt.version, _digest(SCHEMA)]


class _NoVerdict(Exception):
    """The model answered, but not with a verdict."""


class _Tab:
    """The ledger, and beside it what one sample's calls spent: on what was used, and for nothing."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._used: list[Usage] = []
        self._wasted: list[Usage] = []

    @property
    def usage(self) -> Usage:
        return Usage.total(self._used)

    @property
    def waste(self) -> Usage:
        return Usage.total(self._wasted)

    def book(self, reply: Reply, found: T) -> T:
        """Book a reply as used, or as wasted where nothing was found in it."""
        (self._wasted if found is None else self._used).append(reply.usage)
        self._wasted.append(reply.waste)
        return found

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        return await self._ledger.reserve(call, estimate)

    async def settle(self, call: Call, reply: Reply) -> None:
        await self._ledger.settle(call, reply)

    async def release(self, call: Call, spent: Usage) -> None:
        self._wasted.append(spent)
        await self._ledger.release(call, spent)


def _of_an_empty_answer(asked: Units) -> Claims:
    """Nothing has to be asked about an answer without a sentence where there is no context to search either."""
    why = "the answer is empty"
    facts = {label: FactVerdict(id=label, text=text, covered="no", why=why) for label, text in asked.facts.items()}
    return Claims(facts=facts, relevance="none", refusal=False, why=why)


def _joined(blind: Claims, informed: Claims) -> Claims:
    """Support, relevance and refusal as said without the ground truth, the rest as said with it."""
    sentences = dict(blind.sentences)
    for label, said in informed.sentences.items():
        mine = sentences.get(label)
        if mine is None:
            sentences[label] = said.model_copy(update={"support": None, "evidence": ()})
        else:
            sentences[label] = mine.model_copy(update={"truth": said.truth, "why": mine.why or said.why})
    return replace(blind, sentences=sentences, facts=informed.facts)


async def _all(*work: Coroutine[Any, Any, T]) -> list[T]:
    """All results, in order; where some failed, the first error, once the others have ended."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def _digest(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
