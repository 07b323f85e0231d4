"""A model behind LiteLLM, and when it is asked once more.

LiteLLM repeats paid calls by itself (three HTTP requests on a 5xx), so it is told not to, and this file decides:

* 408, 409, 429, 5xx, lost connections and timeouts are tried again with full jitter. ``Retry-After`` wins, and all
  calls of one ``LLM`` wait for it. A 429 uses up no attempt while other calls get through: that is no failure.
* Refusals that concern every call (no key, wrong key, no credit, no such model) are BadSettings; for half a minute the
  same error is raised without asking again. Refusals of one request (too long, filtered) are BadInput.
* What attempts may have cost although they came to nothing is ``waste``: ``retries`` counts attempts made again,
  ``uncertain_calls`` those that timed out or broke off once sent. Their price is unknown and not in ``cost_usd``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import orjson

from ragassay.errors import BadSettings
from ragassay.llm.failures import Failure, diagnose
from ragassay.llm.library import close_with_loop, litellm, provider_errors
from ragassay.llm.pacing import Pace, backoff
from ragassay.llm.route import Route, cost, find_route
from ragassay.models import Usage
from ragassay.prices import Prices
from ragassay.seams import Call, Ledger, Reply

Messages = Sequence[Mapping[str, str]]
_FORMATS = ("json_schema", "json_object", "prompt")
_OURS = frozenset(
    """model messages api_base base_url api_key timeout max_tokens max_completion_tokens max_retries num_retries n
    stream response_format fallbacks tools tool_choice functions mock_response cache client drop_params""".split()
)
_REFUSED_FOR_S = 30.0


class Completes(Protocol):
    """What a judge needs of a model; ``LLM`` and ``FakeLLM`` have it."""

    @property
    def model(self) -> str:
        """The model's name, as the user gave it."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that determines a reply, apart from the messages. JSON-ready, without addresses and keys."""

    async def complete(
        self,
        messages: Messages,
        *,
        schema: Mapping[str, Any] | None,
        schema_name: str,
        max_tokens: int,
        call: Call,
        ledger: Ledger,
    ) -> Reply:
        """The reply; from the ledger where the call is settled, else from the provider and then settled."""


@dataclass(frozen=True)
class _Ask:
    messages: Messages
    schema: Mapping[str, Any] | None
    schema_name: str
    max_tokens: int


@dataclass
class _Bill:
    """What a call has spent so far for nothing, and whether the ledger waits to hear of it."""

    retries: int = 0
    uncertain: int = 0
    open: bool = False
    lost: bool = False

    @property
    def waste(self) -> Usage:
        return Usage(retries=self.retries, uncertain_calls=self.uncertain)


@dataclass
class _Tries:
    """Attempts so far; being told to slow down is no failure while others are answered."""

    all: int = 0
    failures: int = 0

    def count(self, outcome: Failure, *, replied: bool) -> None:
        self.all += 1
        self.failures += not (outcome.limited and replied)


class LLM:
    """A model behind LiteLLM. One object per run: its calls share slots, the wait for ``Retry-After`` and refusals.

    ``model`` is LiteLLM's name, such as ``gpt-4o-mini`` or ``anthropic/claude-sonnet-4-5``; with ``api_base`` a name
    without a provider is taken for an OpenAI-compatible server's. Without ``api_key`` LiteLLM reads the provider's own
    environment variable; an own server that needs none gets a placeholder. ``parameters`` go to the provider as they
    are, on top of temperature 0 and the ``seed``; those that it doesn't take are left out and listed in ``settings``.
    ``timeout_s`` is the time for one attempt, ``attempts`` how often a call is tried in all.

    Connections are closed when the event loop shuts down in the way of ``asyncio.run``.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        attempts: int = 5,
        concurrency: int = 8,
        seed: int = 0,
        parameters: Mapping[str, Any] | None = None,
        prices: Prices | None = None,
    ) -> None:
        if not model.strip():
            raise BadSettings("the model has no name", hint="write, for example, gpt-4o-mini")
        if attempts < 1 or concurrency < 1 or not timeout_s > 0:
            raise BadSettings("attempts, concurrency and timeout must be above zero", where=model)
        if reserved := _OURS & set(parameters or {}):
            raise BadSettings(f"parameters can't set {', '.join(sorted(reserved))}", where=model)
        self._model = model.strip()
        self._api_base, self._api_key = api_base or None, api_key or None
        self._timeout_s, self._attempts = timeout_s, attempts
        self._wanted = {"temperature": 0, "seed": seed, **(parameters or {})}
        self._prices = prices or Prices()
        self._pace = Pace(concurrency)
        self._format, self._format_proven = 0, False
        self._replies = 0
        self._refused: tuple[float, BadSettings] | None = None

    @property
    def model(self) -> str:
        """The model's name, as the user gave it."""
        return self._model

    @property
    def settings(self) -> Mapping[str, Any]:
        """The model, the parameters that are sent, and those that the provider doesn't take."""
        route = self._route
        return {"model": route.name, "parameters": dict(route.sent), "left_out": list(route.left_out)}

    @property
    def response_format(self) -> str:
        """How the reply's form is asked for: ``json_schema``, or what the provider took instead."""
        return _FORMATS[self._format]

    def __repr__(self) -> str:
        return f"LLM({self._model!r})"

    async def complete(
        self,
        messages: Messages,
        *,
        schema: Mapping[str, Any] | None = None,
        schema_name: str = "reply",
        max_tokens: int,
        call: Call,
        ledger: Ledger,
    ) -> Reply:
        """The reply; from the ledger where the call is settled, else from the provider and then settled.

        Raises BudgetReached, BadSettings or BadInput where the call is refused, and RateLimited, TimedOut or
        Unavailable after the last attempt; the ledger then hears what was spent.
        """
        bill = _Bill()
        try:
            return await self._persist(_Ask(messages, schema, schema_name, max_tokens), call, ledger, bill)
        except BaseException:
            if bill.open:
                await ledger.release(call, bill.waste)
            raise

    async def _persist(self, ask: _Ask, call: Call, ledger: Ledger, bill: _Bill) -> Reply:
        tries, before = _Tries(), self._replies
        while True:
            async with self._pace.slot():
                while isinstance(outcome := await self._reserved(ask, call, ledger, bill), Failure):
                    if outcome.of_format:
                        continue
                    tries.count(outcome, replied=self._replies > before)
                    before = self._replies
                    if not outcome.again or tries.failures >= self._attempts:
                        raise outcome.error
                    bill.retries += 1
                    if outcome.wait:
                        self._pace.hold(outcome.wait)
                    if not outcome.uncertain:
                        break
                    # It keeps what it has reserved, and so its slot: who waits for the budget must not keep it from it.
                    bill.lost = True
                    await asyncio.sleep(backoff(tries.all))
                    await self._pace.opened()
                else:
                    return outcome
            bill.open = False
            await ledger.release(call, Usage())  # nothing was paid: reservation and slot are others' while it waits
            await asyncio.sleep(backoff(tries.all))

    async def _reserved(self, ask: _Ask, call: Call, ledger: Ledger, bill: _Bill) -> Reply | Failure:
        """The settled reply, else one attempt within what the ledger allows; a reply is settled."""
        self._raise_if_refused()
        if not bill.open or bill.lost:  # what a lost attempt had reserved may be spent
            if settled := await ledger.reserve(call, self._estimate(ask)):
                return settled
            bill.open, bill.lost = True, False
        outcome = await self._attempt(ask, bill)
        if isinstance(outcome, Failure):
            return outcome
        bill.open = False
        reply = outcome.model_copy(update={"waste": bill.waste})
        # A paid reply is kept even if the task that asked for it is cancelled at this very moment.
        await asyncio.shield(ledger.settle(call, reply))
        return reply

    async def _attempt(self, ask: _Ask, bill: _Bill) -> Reply | Failure:
        """One HTTP request: a reply, or what went wrong with it."""
        route, used = self._route, self._format
        await close_with_loop()
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await litellm().acompletion(
                    **self._form(ask),
                    **route.sent,
                    model=route.name,
                    api_base=self._api_base,
                    api_key=route.key,
                    timeout=self._timeout_s,
                    max_retries=0,
                    max_tokens=ask.max_tokens + route.thinking_tokens,
                )
            reply = self._read(response, ask, (time.perf_counter() - began) * 1000)
        except asyncio.CancelledError:
            bill.uncertain += 1
            raise
        except provider_errors() as e:
            failure = diagnose(e, self._model, key=self._api_key, hint=route.key_hint, timeout_s=self._timeout_s)
            bill.uncertain += failure.uncertain
            if isinstance(failure.error, BadSettings):
                self._refused = (time.monotonic() + _REFUSED_FOR_S, failure.error)
            if failure.of_format and not self._format_proven and used + 1 < len(_FORMATS):
                self._format = max(self._format, used + 1)
                return failure
            return replace(failure, of_format=False)
        self._replies += 1
        self._format_proven |= ask.schema is not None
        return reply

    def _raise_if_refused(self) -> None:
        if self._refused and time.monotonic() < self._refused[0]:
            raise copy(self._refused[1])

    def _form(self, ask: _Ask) -> dict[str, Any]:
        """The messages, and the form of the reply in the way that this provider takes."""
        if ask.schema is None:
            return {"messages": list(ask.messages)}
        if self.response_format == "json_schema":
            described = {"name": ask.schema_name, "strict": True, "schema": ask.schema}
            return {
                "messages": list(ask.messages),
                "response_format": {"type": "json_schema", "json_schema": described},
            }
        told = f"Reply with one JSON object of this JSON schema and nothing else:\n{orjson.dumps(ask.schema).decode()}"
        first, *others = ask.messages
        messages = [{**first, "content": f"{first['content']}\n\n{told}"}, *others]
        if self.response_format == "prompt":
            return {"messages": messages}
        return {"messages": messages, "response_format": {"type": "json_object"}}

    def _read(self, response: Any, ask: _Ask, took_ms: float) -> Reply:
        choice, usage = response.choices[0], getattr(response, "usage", None)
        text = choice.message.content or ""
        spent, made = getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0
        cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", 0) or 0
        price = cost(self._prices, self._route.name, spent, made, cached) if spent else None
        if not spent:  # the server counts no tokens: ours are an estimate, so their price stays unknown
            spent, made = _about_tokens(_characters(ask)), _about_tokens(len(text))
        return Reply(
            text=text,
            finish_reason=choice.finish_reason or "stop",
            model=response.model or "",
            usage=Usage(calls=1, input_tokens=spent, output_tokens=made, cost_usd=price, latency_ms=took_ms),
        )

    def _estimate(self, ask: _Ask) -> Usage:
        """What the call costs at the most, or nearly: three bytes of text make less than a token."""
        schema = len(orjson.dumps(ask.schema)) if ask.schema else 0
        spent = (sum(len(m["content"].encode()) for m in ask.messages) + schema) // 3 + 50
        made = ask.max_tokens + self._route.thinking_tokens
        price = self._prices.cost(self._route.name, spent, made)
        return Usage(calls=1, input_tokens=spent, output_tokens=made, cost_usd=price)

    @cached_property
    def _route(self) -> Route:
        return find_route(self._model, self._api_base, self._api_key, self._wanted)


def _characters(ask: _Ask) -> int:
    return sum(len(m["content"]) for m in ask.messages)


def _about_tokens(characters: int) -> int:
    return -(-characters // 4)
