"""A call to a model for an object of a form: asked again where the reply can't be used, and all of it accounted for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel

from ragassay.core.errors import BadInput, BadSettings, ProviderDown, Unavailable, reason_from
from ragassay.core.models import Usage
from ragassay.core.prompts import load
from ragassay.core.protocols import Call, Journal, Purpose, Reply, digest
from ragassay.judges.reply import find_object, schema_of
from ragassay.llm import LLM

T = TypeVar("T")
_UNREADABLE = "{who}'s reply could not be read as a {name}, twice"
_WHY_NOT = {
    "length": "{who}'s reply was cut off at {limit} tokens",
    "content_filter": "the provider's content filter withheld {who}'s reply",
}


class NoAnswer(Exception):
    """The model answered, but not with what it was asked for."""


class SampleCalls:
    """What the calls about one row spent, on replies that were used and on others; ``left_out``: what they were made without."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self._used, self._wasted = journal, list[Usage](), list[Usage]()
        self.left_out: tuple[str, ...] = ()

    @property
    def usage(self) -> Usage:
        """What was spent on replies that were used."""
        return Usage.total(self._used)

    @property
    def waste(self) -> Usage:
        """What was spent for nothing."""
        return Usage.total(self._wasted)

    @property
    def spent(self) -> dict[str, Any]:
        """All of it, by the names that a rating has for it."""
        return {"usage": self.usage, "waste": self.waste, "left_out": self.left_out}

    async def outcome(self, waiting: Awaitable[T], who: str = "the judge") -> tuple[T | None, str | None]:
        """What is awaited, or the reason why there is nothing.

        Raises BudgetReached, BadSettings (key, model) and ProviderDown, which every row would meet.
        """
        try:
            return await waiting, None
        except (BadSettings, ProviderDown):
            raise
        except (BadInput, Unavailable) as error:
            return None, reason_from(f"{who} failed: {error}")
        except NoAnswer as error:
            return None, str(error)

    def book(self, reply: Reply, value: T) -> T:
        """Count a reply as used, or as wasted where ``value``, read from it, is None. Gives ``value`` back."""
        (self._wasted if value is None else self._used).append(reply.usage)
        self._wasted.append(reply.waste)
        self.left_out = tuple(dict.fromkeys((*self.left_out, *reply.left_out)))
        return value

    def wasted(self, usage: Usage) -> None:
        """So much was, or may have been, spent for nothing."""
        self._wasted.append(usage)


class StructuredCall:
    """Asks ``llm``, under ``instructions`` of a ``version``, for an object of the ``form``.

    ``keys``: of these an object needs one to be taken for the answer; default: any of the form's. ``seed_shift``: added to
    the model's seed. ``who`` is meant where a reply can't be used.
    """

    def __init__(
        self,
        llm: LLM,
        instructions: str,
        version: str,
        form: type[BaseModel],
        name: str,
        *,
        purpose: Purpose = "judge",
        keys: frozenset[str] | None = None,
        seed_shift: int = 0,
        who: str = "the judge",
    ) -> None:
        self._llm, self._instructions, self._version, self._name = llm, instructions, version, name
        self._purpose, self._seed_shift, self._who = purpose, seed_shift, who
        self.schema = schema_of(form)
        self._keys = keys or frozenset(form.model_fields)

    async def answer(
        self,
        about: str,
        prompt: str,
        limit: int,
        calls: SampleCalls,
        parse: Callable[[dict[str, Any]], T | None],
        schema: Mapping[str, Any] | None = None,
    ) -> T:
        """What ``parse`` makes of the object in a reply of ``limit`` tokens at the most; after one more try where it was cut
        off or holds none. ``about``: the query's id. ``schema``: in place of the form's. Raises NoAnswer.
        """
        value, finished = await self.once(about, prompt, limit, calls, parse, schema)
        if value is None and finished != "content_filter":
            limit, more = (2 * limit, "") if finished == "length" else (limit, load("judge/again").text)
            value, finished = await self.once(about, prompt, limit, calls, parse, schema, more=more)
        if value is None:
            raise NoAnswer(_WHY_NOT.get(finished, _UNREADABLE).format(who=self._who, name=self._name, limit=limit))
        return value

    async def once(
        self,
        about: str,
        prompt: str,
        limit: int,
        calls: SampleCalls,
        parse: Callable[[dict[str, Any]], T | None],
        schema: Mapping[str, Any] | None = None,
        *,
        more: str = "",
        purpose: Purpose | None = None,
    ) -> tuple[T | None, str]:
        """What one reply holds, and how it ended. ``more`` stands behind the prompt, which the object is not copied from."""
        text = f"{prompt}\n{more}" if more else prompt
        messages = [{"role": "system", "content": self._instructions}, {"role": "user", "content": text}]

        def read(reply: Reply) -> T | None:
            found = find_object(reply.text, prompt, self._keys)
            return None if found is None else parse(found)

        reply, value = await self._llm.complete(
            messages,
            schema=schema or self.schema,
            schema_name=self._name,
            max_tokens=limit,
            call=Call.about(about, purpose or self._purpose, [self._stamp, messages, limit]),
            journal=calls.journal,
            wasted=calls.wasted,
            seed_shift=self._seed_shift,
            read=read,
        )
        return calls.book(reply, value), reply.finish_reason

    @cached_property
    def _stamp(self) -> list[object]:
        """What determines a reply apart from its messages. The prompt's version stands for text and front matter."""
        return [self._llm.endpoint, dict(self._llm.settings), self._version, digest(self.schema)]
