"""A language model as the judge: one call per sample about all its units, and one more for what it left out.

What goes wrong with one sample is a reason in its judgement. Errors that every sample would meet are raised: no or a
wrong key, an unknown model, a budget that is reached, a provider that is down. Replies until then are settled, and not
paid again when the run is resumed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

from ragassay.core.errors import BadInput, BadSettings, ProviderDown, Unavailable, reason_from
from ragassay.core.models import FactVerdict, Judgement, Sample, Usage, Verdict
from ragassay.core.prompts import load
from ragassay.core.protocols import Call, Journal, Purpose, Reply, digest
from ragassay.core.specification import JudgePrompt
from ragassay.judges.instructions import instructions
from ragassay.judges.prompt import render_prompt, suspicious
from ragassay.judges.reply import (
    CriteriaForm,
    VerdictForm,
    find_object,
    merge,
    parse_reply,
    schema_of,
    unanswered,
    with_counts,
)
from ragassay.judges.verdict import Units, check_verdict, number_units
from ragassay.llm import ChatModel, together

_TOKENS_AT_LEAST, _TOKENS_PER_UNIT = 600, 90
_MOST_WARNINGS = 5
_LISTS = {"answer": "A", "facts": "G", "criteria": "K"}
_UNREADABLE = "the judge's reply could not be read as a verdict, twice"
_WHY_NOT = {
    "length": "the judge's reply was cut off at {limit} tokens",
    "content_filter": "the provider's content filter withheld the judge's reply",
}

logger = logging.getLogger("ragassay.llm")
T = TypeVar("T")


class LLMJudge:
    """Judges with the model behind ``llm``.

    ``max_tokens`` limits a reply; by default it grows with the number of units. ``criteria``, by their names, are in the
    user's words; answers are judged by them in the same call. ``prompt`` takes the place of our instructions.
    ``timeout_s``: how long judging a sample may take from its first call on; what was answered by then counts.
    """

    def __init__(
        self,
        llm: ChatModel,
        *,
        max_tokens: int | None = None,
        criteria: Mapping[str, str] = MappingProxyType({}),
        prompt: JudgePrompt | None = None,
        timeout_s: float | None = None,
    ) -> None:
        if max_tokens is not None and max_tokens < 1:
            raise BadSettings(f"max_tokens must be above zero, not {max_tokens}")
        self._llm, self._max_tokens, self._timeout_s = llm, max_tokens, timeout_s
        self._long: set[tuple[str, int]] = set()
        names = ("repair", "again", *(["criteria"] if criteria else []))
        self._prompts = {"verdict": instructions(prompt), **{name: load(f"judge/{name}") for name in names}}
        self._criteria, self._schema = dict(criteria), schema_of(CriteriaForm if criteria else VerdictForm)
        self._instructions = self._prompts["verdict"].text
        if criteria:  # configuration, not data: it belongs to the instructions, which are the same for every sample
            listed = (f"[K{n}] {' '.join(text.split())}" for n, text in enumerate(criteria.values(), 1))
            self._instructions += "\n" + self._prompts["criteria"].render(criteria="\n".join(listed))

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
            "prompts": {prompt.name: prompt.version for prompt in self._prompts.values()},
            "schema": digest(self._schema)[:12],
            "max_tokens": self._max_tokens,
            **(
                {"criteria": {name: digest(text)[:12] for name, text in self._criteria.items()}}
                if self._criteria
                else {}
            ),
        }

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Judgement]:
        """One judgement for each sample, in order.

        Raises BudgetReached, BadSettings (key, model) and ProviderDown. Calls that are in flight by then are waited
        for, since they are paid.
        """
        return await together([self._one(sample, journal) for sample in samples])

    async def _one(self, sample: Sample, journal: Journal) -> Judgement:
        units, calls = number_units(sample, self._criteria), SampleCalls(journal, self._timeout_s)
        if sample.response is None:
            return Judgement(reason="the system gave no response")
        if (not units.answer or (units.echo and not units.criteria)) and not (units.facts and units.contexts):
            return Judgement(verdict=check_verdict(_empty_answer(units), units, self.name))
        try:
            async with calls.in_time:
                verdict = await self._verdict(sample, units, calls)
        except (BadSettings, ProviderDown):
            raise
        except TimeoutError:
            if not calls.in_time.expired():
                raise
            return calls.told(reason=f"the judge failed: no verdict within {self._timeout_s:g} s of the first call")
        except (BadInput, Unavailable) as error:
            return calls.told(reason=reason_from(f"the judge failed: {error}"))
        except NoVerdict as error:
            return calls.told(reason=str(error))
        return calls.told(verdict)

    async def _verdict(self, sample: Sample, units: Units, calls: SampleCalls) -> Verdict:
        raw = await self._ask(sample, units, calls)
        verdict = check_verdict(raw, units, self.name)
        return verdict.model_copy(update={"suspicious": suspicious(verdict, sample, units)})

    async def _ask(self, sample: Sample, units: Units, calls: SampleCalls) -> Verdict:
        """The model's verdict on the units: the first reply, and one more call for what that one left out."""
        prompt = render_prompt(sample, units, self._prompts["verdict"].version)
        limit = self._max_tokens or _TOKENS_AT_LEAST + _TOKENS_PER_UNIT * len(units.ids)
        self._warn_if_long(sample, prompt, limit)
        first = await self._first(sample, units, prompt, limit, calls)
        missing = unanswered(first, units)
        is_complete = not units.answer or None not in (first.relevance, first.refusal)
        if not missing and is_complete:
            return first
        wanted = self._prompts["repair"].render(labels=", ".join(missing) or "none")
        try:
            text = f"{prompt}\n{wanted}"
            reply = await self._call(sample, text, missing, limit, "repair", calls)
        except (BadSettings, ProviderDown):
            raise
        except (BadInput, Unavailable):
            return first
        except asyncio.CancelledError:
            if not calls.in_time.expired():
                raise
            return first
        value = calls.book(reply, find_object(reply.text, prompt))
        return first if value is None else merge(first, parse_reply(value, units), units)

    def _warn_if_long(self, sample: Sample, prompt: str, limit: int) -> None:
        """Say so once where row and reply may be more than the model reads; it is asked all the same, an estimate may err."""
        tokens, window = len(f"{self._instructions}{prompt}".encode()) // 4, self._llm.context_window
        if window is None or tokens + limit <= window or (sample.query_id, tokens) in self._long:
            return
        self._long.add((sample.query_id, tokens))
        if len(self._long) <= _MOST_WARNINGS:
            logger.warning(
                "row %s has about %s tokens, its verdict up to %s; %s reads %s (option: context_window)",
                *(sample.query_id, f"{tokens:,}", f"{limit:,}", self._llm.model, f"{window:,}"),
            )
        elif len(self._long) == _MOST_WARNINGS + 1:
            logger.warning("more rows are as long; where one is refused, its scores say so")

    async def _first(self, sample: Sample, units: Units, prompt: str, limit: int, calls: SampleCalls) -> Verdict:
        """What the first reply holds; after one more try where it was cut off or could not be read."""
        value = await read_reply(
            lambda text, limit: self._call(sample, text, units.ids, limit, "judge", calls),
            lambda text: find_object(text, prompt),
            prompt,
            limit,
            calls,
        )
        return parse_reply(value, units)

    async def _call(
        self, sample: Sample, text: str, ids: Sequence[str], limit: int, purpose: Purpose, calls: SampleCalls
    ) -> Reply:
        """The reply, with an entry for each of ``ids`` where the provider takes such a schema."""
        messages = [{"role": "system", "content": self._instructions}, {"role": "user", "content": text}]
        return await self._llm.complete(
            messages,
            schema=with_counts(self._schema, {name: sum(i[0] == a for i in ids) for name, a in _LISTS.items()}),
            schema_name="verdict",
            max_tokens=limit,
            call=Call.about(sample.query_id, purpose, [self._stamp, messages, limit]),
            journal=calls.journal,
            account=calls,
            read=lambda reply: find_object(reply.text, text),
        )

    @cached_property
    def _stamp(self) -> list[object]:
        """What determines a reply beside its messages. The prompt's version stands for text and front matter."""
        asked = [self._prompts["verdict"].version, digest(self._schema), "counted"]
        return [self._llm.endpoint, dict(self._llm.settings), *asked]


class NoVerdict(Exception):
    """The model answered, but not with a verdict."""


class SampleCalls:
    """What one sample's calls spent, on replies that were used and on others, and how long they may still take.

    ``in_time`` ends, with TimeoutError, what is awaited in it ``timeout_s`` seconds after the first request began, and as
    much later as requests wait for a rate limit: else a slow limit would let rows fail, and none of them sent.
    """

    def __init__(self, journal: Journal, timeout_s: float | None = None) -> None:
        self.journal, self._timeout_s = journal, timeout_s
        self.in_time, self._stands_until = asyncio.Timeout(None), 0.0
        self._used: list[Usage] = []
        self._wasted: list[Usage] = []
        self._left_out: dict[str, None] = {}

    @property
    def usage(self) -> Usage:
        """What was spent on replies that were used."""
        return Usage.total(self._used)

    @property
    def waste(self) -> Usage:
        """What was spent for nothing."""
        return Usage.total(self._wasted)

    def told(self, verdict: Verdict | None = None, reason: str | None = None) -> Judgement:
        """The judgement with all that was spent on it, and all that its calls were made without."""
        left_out = tuple(self._left_out)
        return Judgement(verdict=verdict, reason=reason, usage=self.usage, waste=self.waste, left_out=left_out)

    def book(self, reply: Reply, value: T) -> T:
        """Count a reply as used, or as wasted where ``value``, read from it, is None. Gives ``value`` back."""
        (self._wasted if value is None else self._used).append(reply.usage)
        self._wasted.append(reply.waste)
        self._left_out |= dict.fromkeys(reply.left_out)
        return value

    def begins(self) -> None:
        """A request is allowed: with the first, the sample's time begins."""
        if self._timeout_s is not None and self.in_time.when() is None:
            self.in_time.reschedule(asyncio.get_running_loop().time() + self._timeout_s)

    def waits(self, seconds: float) -> None:
        """The sample's time stands still so long; where several calls wait at once, until the last may be sent."""
        now = asyncio.get_running_loop().time()
        stands, self._stands_until = max(now, self._stands_until), max(now + seconds, self._stands_until)
        if (ends := self.in_time.when()) is not None and not self.in_time.expired():
            self.in_time.reschedule(ends + self._stands_until - stands)

    def wasted(self, usage: Usage) -> None:
        """A call ended without a reply, and may have cost so much."""
        self._wasted.append(usage)


async def read_reply(
    ask: Callable[[str, int], Awaitable[Reply]],
    read: Callable[[str], T | None],
    prompt: str,
    limit: int,
    calls: SampleCalls,
) -> T:
    """What ``read`` finds in the reply to a prompt of so many tokens at the most; after one more try where it was cut off
    or holds nothing. Raises NoVerdict.
    """
    reply = await ask(prompt, limit)
    value = calls.book(reply, read(reply.text))
    if value is None and reply.finish_reason != "content_filter":
        cut = reply.finish_reason == "length"
        text, limit = (prompt, 2 * limit) if cut else (f"{prompt}\n{load('judge/again').text}", limit)
        reply = await ask(text, limit)
        value = calls.book(reply, read(reply.text))
    if value is None:
        raise NoVerdict(_WHY_NOT.get(reply.finish_reason, _UNREADABLE).format(limit=limit))
    return value


def _empty_answer(units: Units) -> Verdict:
    """Nothing has to be asked about an answer without a sentence where there is no context to search either."""
    why = "the answer is empty"
    facts = tuple(FactVerdict(id=label, text=text, covered="no", why=why) for label, text in units.facts.items())
    return Verdict(judge="", facts=facts, relevance="none", refusal=False, why=why)
