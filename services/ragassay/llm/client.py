"""A model behind LiteLLM, and when it is asked once more.

LiteLLM repeats paid calls by itself (three HTTP requests on a 5xx), so it is told not to, and ``LLM._until_answered`` decides:

* 408, 409, 429, 5xx, lost connections and timeouts are tried again with full jitter, not before ``Retry-After``. While
  others are answered, a 429 is no failure, and uses up no attempt.
* Refusals that concern every call (no key, wrong key, no credit, no such model) are BadSettings; refusals of one request
  (too long, filtered, denied) are BadInput. ``Provider`` keeps what they and outages mean for other calls.
* What a provider does not take of what it is asked is learnt from its refusals (``capabilities``), and asked for no more.
* Each request is one attempt of the journal: reserved before it is sent, ended once (``journal``). What attempts cost
  although they came to nothing is the reply's ``waste``: ``retries`` counts attempts made again, ``uncertain_calls``
  those with an unknown outcome, whose price is not in ``cost_usd``.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import orjson

from ragassay import observability
from ragassay.core.aio import Slots
from ragassay.core.errors import BadInput, BadSettings, RateLimited, Unavailable
from ragassay.core.eval_config import RunParameters, check_extra_body
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Journal, Purpose, Reply, digest
from ragassay.llm.capabilities import BOUNDS, NO_OBJECT, Capabilities, Messages, ReplyForm, Variant, form_of, is_usable
from ragassay.llm.errors import Failure, diagnose, without_keys
from ragassay.llm.rate_limit import LONGEST_WAIT_S, Provider, RateLimit, backoff
from ragassay.llm.replies import alternatives as hesitations
from ragassay.llm.replies import billed, text_of, tokens_of, without_surrogates
from ragassay.llm.resolve import (
    Prices,
    ResolvedModel,
    close_with_loop,
    litellm,
    provider_errors,
    resolve_model,
    unlogged,
)

logger = logging.getLogger("ragassay.llm")
T = TypeVar("T")

# Nothing else: LiteLLM takes addresses, keys and much more as parameters too.
_PARAMETERS = frozenset(RunParameters.model_fields) - {"max_tokens"} | {"seed"}
_SPENT_ON = {"judge": "judging", "repair": "judging", "answer": "serving", "synthesis": "synthesis"}
_MAX_RATIO = 4.0  # of billed to estimated tokens; a larger one is no bill


@dataclass(eq=False)
class _Call(Generic[T]):
    """A call while it is made: what is asked, and the requests for it so far.

    ``read``: what the caller finds in a reply; None where it can't be read. ``outages``: how many the provider had when the
    call began. ``variant``: how the next request is made. ``wasted``: bills of replies of no use.
    """

    messages: Messages
    schema: Mapping[str, Any] | None
    schema_name: str
    max_tokens: int
    alternatives: int
    seed_shift: int
    call: Call
    journal: Journal
    read: Callable[[Reply], T | None]
    outages: int
    variant: Variant | None = None
    requests: int = 0
    uncertain: int = 0
    wasted: Usage = field(default_factory=Usage)

    @property
    def waste(self) -> Usage:
        """What came to nothing."""
        return self.wasted + Usage(retries=max(self.requests - 1, 0), uncertain_calls=self.uncertain)


class LLM:
    """A model behind LiteLLM. One object per run: its calls share slots, the wait for ``Retry-After`` and refusals.

    ``model`` is LiteLLM's name, such as ``gpt-4o-mini`` or ``anthropic/claude-sonnet-4-5``; with ``api_base`` a name
    without a provider is taken for an OpenAI-compatible server's. Without ``api_key`` LiteLLM reads the provider's own
    environment variable; an own server that needs none gets a placeholder. ``parameters`` go to the provider on top of
    temperature 0 and the ``seed``: those of ``RunParameters``; those that LiteLLM knows it not to take are left out and
    listed in ``settings``. ``timeout_s`` is the time for one attempt, ``attempts`` how often a call is tried in all;
    ``limit`` spaces all attempts.

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
        limit: RateLimit | None = None,
        reply_form: ReplyForm | None = None,
        seed: int = 0,
        parameters: Mapping[str, Any] | None = None,
        prices: Prices | None = None,
    ) -> None:
        parameters = parameters or {}
        if unknown := sorted(parameters.keys() - _PARAMETERS):
            hint = f"known: {', '.join(sorted(_PARAMETERS))}; what only this provider knows goes into extra_body"
            raise BadSettings(f"parameters can't set {', '.join(unknown)}", where=model, hint=hint)
        try:
            check_extra_body(parameters.get("extra_body", {}))
        except ValueError as error:
            raise BadSettings(f"parameters.extra_body: {error}", where=model) from None
        self._model = model.strip()
        self._api_base, self._api_key = api_base or None, api_key or None
        self._timeout_s, self._attempts = timeout_s, attempts
        self._wanted = {"temperature": 0, "seed": seed, **parameters}
        self._prices, self._slots = prices or Prices(), Slots(concurrency)
        self._limit, self._provider = limit or RateLimit(), Provider(self._model)
        self._capabilities = Capabilities(self._model, reply_form)
        self._billed_more = (1.0, 1.0)  # the largest ratio of billed to estimated tokens so far: input, output
        self._is_odd_usage_logged = False

    @property
    def model(self) -> str:
        """The model's name, as the user gave it."""
        return self._model

    @property
    def settings(self) -> Mapping[str, Any]:
        """What determines a reply, apart from messages and endpoint: model, parameters sent, and those not taken."""
        resolved = self._resolved
        return {"model": resolved.name, "parameters": dict(resolved.sent), "left_out": list(resolved.left_out)}

    @property
    def endpoint(self) -> str:
        """The address that requests go to, without credentials; two that differ in spelling alone are the same."""
        return self._resolved.endpoint

    def __repr__(self) -> str:
        return f"LLM({self._model!r})"

    def warm_up(self) -> None:
        """Import what the first call needs; raises BadSettings where the model is unknown or has no key."""
        self._resolved  # noqa: B018 - it takes a while, once

    async def complete(
        self,
        messages: Messages,
        *,
        max_tokens: int,
        call: Call,
        journal: Journal,
        read: Callable[[Reply], T | None],
        wasted: Callable[[Usage], object] = lambda _: None,
        schema: Mapping[str, Any] | None = None,
        schema_name: str = "reply",
        alternatives: int = 0,
        seed_shift: int = 0,
    ) -> tuple[Reply, T | None]:
        """The reply, and what ``read`` finds in it; from the journal if the call is settled, else from the provider.

        A reply in which ``read`` finds None is ``unreadable``: no later run takes it from a cache. ``alternatives``: how many
        of the likeliest tokens are wanted with their probabilities, wherever the model hesitates. ``seed_shift`` is added to
        the seed, where the provider takes one; the call has to tell such replies apart.

        Raises BudgetReached, BadSettings or BadInput if the call is refused, and RateLimited, TimedOut or Unavailable
        after the last attempt; ``wasted`` is then called with what was spent.
        """
        state = _Call(
            *(messages, schema, schema_name, max_tokens, alternatives, seed_shift, call, journal, read),
            outages=self._provider.outages,
        )
        try:
            return await self._until_answered(state)
        except BaseException:
            if state.waste != Usage():
                wasted(state.waste)
            raise

    async def _until_answered(self, state: _Call[T]) -> tuple[Reply, T | None]:
        tries = failures = 0
        replies = self._provider.replies
        while True:
            async with self._slots.slot():
                await self._provider.opened()
                while (outcome := await self._attempt(state)) is None:
                    pass
            if not isinstance(outcome, Failure):
                return outcome
            others_are_answered = self._provider.replies > replies
            tries, replies = tries + 1, self._provider.replies
            if not outcome.error.retryable:
                raise outcome.error
            if not (isinstance(outcome.error, RateLimited) and others_are_answered):
                failures += 1
                self._provider.failed(state.call.id, outcome)
            if failures >= self._attempts:
                raise outcome.error
            self._provider.hold(outcome)
            await asyncio.sleep(max(backoff(tries), min(outcome.wait or 0.0, LONGEST_WAIT_S)))

    async def _attempt(self, state: _Call[T]) -> tuple[Reply, T | None] | Failure | None:
        """One request within what the journal allows; its reply is settled. None: make another at once, asking for less."""
        self.warm_up()
        estimated = self._estimated(state)
        async with state.journal.attempt(state.call, self._reserved(estimated)) as attempt:
            if attempt.reply is not None:
                reply = attempt.reply
                return reply.model_copy(update={"waste": reply.waste + state.waste}), state.read(reply)
            try:
                await self._may_send(state, sum(estimated))
            except BaseException:
                self._limit.correct(self._line, -sum(estimated))
                attempt.free()
                raise
            if state.variant is None:
                first_form = None if state.schema is None else self._resolved.first_form
                state.variant = self._capabilities.variant(first_form)
            state.requests += 1
            if state.requests > 1:
                observability.count("provider_retries", self._model)
            state.uncertain += 1  # until its outcome is known
            request = self._request(state, state.variant, estimated)
            outcome = await _observed(request, self._model, self._resolved, state.call.purpose)
            if isinstance(outcome, Failure):
                if outcome.uncertain:
                    return outcome
                state.uncertain -= 1
                attempt.free(answered=isinstance(outcome.error, BadInput))
                self._limit.correct(self._line, -sum(estimated))
                return None if self._capabilities.downgrade(state.variant, outcome) else outcome
            state.uncertain -= 1
            usage = outcome.usage
            self._limit.correct(self._line, usage.input_tokens + usage.output_tokens - sum(estimated))
            usable = state.schema is None or is_usable(outcome.text, outcome.finish_reason)
            if not usable and self._capabilities.downgrade(state.variant, NO_OBJECT):
                attempt.waste(usage)
                state.wasted += usage
                _count_reply(self._model, "waste", usage)
                return None
            self._capabilities.answered(state.variant, usable=usable)
            _count_reply(self._model, state.call.purpose, usage)
            value = state.read(outcome)
            about = {"waste": state.waste, "left_out": state.variant.left_out, "unreadable": value is None}
            reply = outcome.model_copy(update=about)
            attempt.settle(reply)
            return reply, value

    async def _may_send(self, state: _Call[T], tokens: int) -> None:
        await self._limit.wait(self._line, tokens)
        await self._provider.opened()
        self._provider.raise_if_refused(state.outages)

    async def _request(self, state: _Call[T], variant: Variant, estimated: tuple[int, int]) -> Reply | Failure:
        resolved = self._resolved
        await close_with_loop()
        sent = self._sent(state, variant)
        form = form_of(variant, state.messages, state.schema, state.schema_name)
        traced = observability.headers()
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_s):
                with unlogged():
                    response = await litellm().acompletion(
                        **form,
                        **sent,
                        model=resolved.name,
                        api_base=self._api_base,
                        api_key=resolved.key,
                        timeout=self._timeout_s,
                        max_retries=0,
                        **({"extra_headers": dict(traced)} if traced else {}),
                    )
        except provider_errors() as e:
            names = (*sent, *sent.get("extra_body", {}), *(BOUNDS if state.schema is not None else ()))
            hint, key = resolved.key_hint, self._api_key
            failure = diagnose(e, self._model, key=key, hint=hint, timeout_s=self._timeout_s, sent=names)
            return self._provider.refused(failure)
        took_ms = (time.perf_counter() - began) * 1000
        reply = self._reply(response, state, estimated, took_ms)
        if reply is None:
            what, hint = (
                "the provider's reply has no message (choices)",
                "is the address that of a chat completions API?",
            )
            return self._provider.refused(Failure(Unavailable(what, where=self._model, hint=hint), uncertain=True))
        self._provider.answered()
        return reply

    def _sent(self, state: _Call[T], variant: Variant) -> dict[str, Any]:
        """The parameters of a request, without those that the provider refused; a reply's limit has two names."""
        limit = "max_completion_tokens" if "max_tokens" in variant.without else "max_tokens"
        sent = {limit: state.max_tokens + self._resolved.thinking_tokens, **self._resolved.sent}
        if "seed" in sent:
            sent["seed"] = (sent["seed"] + state.seed_shift) % 2**32
        if state.alternatives:
            sent.update(logprobs=True, top_logprobs=state.alternatives)
        kept = {name: value for name, value in sent.items() if name not in variant.without}
        if extra := kept.get("extra_body"):
            kept["extra_body"] = {name: value for name, value in extra.items() if name not in variant.without}
        return kept

    def _reply(self, response: Any, state: _Call[T], estimated: tuple[int, int], took_ms: float) -> Reply | None:
        """A response as a reply with its bill; None where it has no message."""
        choices = getattr(response, "choices", None)
        message = getattr(choices[0], "message", None) if choices else None
        if not choices or message is None:
            return None
        choice, usage = choices[0], getattr(response, "usage", None)
        text = without_keys(text_of(message), self._api_key)
        tokens, price = billed(usage), None
        if tokens and all(t <= _MAX_RATIO * estimate for t, estimate in zip(tokens, estimated, strict=True)):
            details = getattr(usage, "prompt_tokens_details", None)
            cached, written = (tokens_of(details, name) or 0 for name in ("cached_tokens", "cache_creation_tokens"))
            price = self._prices.cost(self._resolved.name, *tokens, cached_tokens=cached, written_tokens=written)
            ratios = zip(self._billed_more, tokens, estimated, strict=True)
            input_ratio, output_ratio = (max(ratio, bill / estimate) for ratio, bill, estimate in ratios)
            self._billed_more = input_ratio, output_ratio
        else:  # the server counts no tokens, or as no model can: ours are an estimate, so their price stays unknown
            if tokens and not self._is_odd_usage_logged:
                self._is_odd_usage_logged = True
                odd = "%s: the provider reports %d and %d tokens for a call of at most %d and %d; cost: unknown, tokens: estimated"
                logger.warning(odd, self._model, *tokens, *estimated)
            characters = sum(len(m["content"]) for m in state.messages)
            tokens = min(-(-characters // 4), estimated[0]), min(-(-len(text) // 4), estimated[1])
        return Reply(
            text=text,
            finish_reason=without_surrogates(str(choice.finish_reason or "stop")),
            model=without_surrogates(str(response.model or "")),
            usage=Usage(calls=1, input_tokens=tokens[0], output_tokens=tokens[1], cost_usd=price, latency_ms=took_ms),
            alternatives=hesitations(choice, text) if state.alternatives else None,
        )

    def _estimated(self, state: _Call[T]) -> tuple[int, int]:
        """What the call takes at the most, or nearly (input, output): three bytes of text make less than a token."""
        schema = len(orjson.dumps(state.schema)) if state.schema else 0
        text = sum(len(m["content"].encode()) for m in state.messages)
        return (text + schema) // 3 + 50, state.max_tokens + self._resolved.thinking_tokens

    def _reserved(self, estimated: tuple[int, int]) -> Usage:
        """What a request reserves: its estimate, times how far bills were above theirs, ``_MAX_RATIO`` times at the most."""
        tokens = [math.ceil(ratio * estimate) for ratio, estimate in zip(self._billed_more, estimated, strict=True)]
        price = self._prices.cost(self._resolved.name, *tokens)
        return Usage(calls=1, input_tokens=tokens[0], output_tokens=tokens[1], cost_usd=price)

    @cached_property
    def _line(self) -> str:
        return digest([self.endpoint, self._resolved.name])[:16]

    @cached_property
    def _resolved(self) -> ResolvedModel:
        return resolve_model(self._model, self._api_base, self._api_key, self._wanted)


async def _observed(
    request: Awaitable[Reply | Failure], model: str, resolved: ResolvedModel, purpose: Purpose
) -> Reply | Failure:
    """The outcome of a request, in a span of its own and counted. No text of it is recorded."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": resolved.provider,
        "gen_ai.request.model": model,
        "server.address": resolved.endpoint,
        "ragassay.purpose": purpose,
    }
    outcome = "cancelled"
    with observability.span(f"chat {model}", "client", attributes) as span:
        try:
            reply = await request
            if isinstance(reply, Failure):
                outcome = reply.error.code
                observability.fail(span, outcome)
                return reply
            outcome = "answered"
            cost = {} if reply.usage.cost_usd is None else {"llm.cost.total": reply.usage.cost_usd}
            span.set_attributes(
                {
                    "gen_ai.response.model": reply.model,
                    "gen_ai.response.finish_reasons": (reply.finish_reason,),
                    "gen_ai.usage.input_tokens": reply.usage.input_tokens,
                    "gen_ai.usage.output_tokens": reply.usage.output_tokens,
                    **cost,
                }
            )
            return reply
        finally:
            observability.count("provider_requests", model, outcome)


def _count_reply(model: str, purpose: Purpose | Literal["waste"], usage: Usage) -> None:
    """Count what a reply took; ``waste``: it was of no use."""
    spent_on = _SPENT_ON.get(purpose, purpose)
    observability.count("tokens", model, spent_on, "input", amount=usage.input_tokens)
    observability.count("tokens", model, spent_on, "output", amount=usage.output_tokens)
    if usage.cost_usd is None:
        observability.count("unpriced_calls", model)
    else:
        observability.count("cost_usd", model, spent_on, amount=usage.cost_usd)
    observability.observe("provider_seconds", model, seconds=usage.latency_ms / 1000)
