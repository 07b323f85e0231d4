"""A model behind LiteLLM, and when it is asked once more.

LiteLLM repeats paid calls by itself (three HTTP requests on a 5xx), so it is told not to, and this file decides:

* 408, 409, 429, 5xx, lost connections and timeouts are tried again with full jitter, not before ``Retry-After``. All
  calls of one ``LLM`` wait for that of a 5xx, and of the third 429 in a row; while others get through, a 429 is the call's
  own affair and uses up no attempt: that is no failure.
* Refusals that concern every call (no key, wrong key, no credit, no such model) are BadSettings; for half a minute the
  same error is raised without asking again. Refusals of one request (too long, filtered) are BadInput; so is a 403, unless
  three calls are denied and none was answered: some providers refuse a flagged prompt so.
* Five failures in a row of three calls or more, or a ``Retry-After`` of more than a minute, are an outage of the
  provider: ProviderDown, for all calls that were begun by then, and for some seconds without asking. Whoever runs the
  evaluation waits and asks again.
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
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import orjson

from ragassay.core import telemetry
from ragassay.core.addresses import is_extra
from ragassay.core.errors import BadInput, BadSettings, ProviderDown, Unavailable
from ragassay.core.models import Usage
from ragassay.core.options import ParameterOptions
from ragassay.core.protocols import Call, CallAccount, Journal, Reply, digest
from ragassay.llm.alternatives import alternatives
from ragassay.llm.calls import Request, Tries
from ragassay.llm.capabilities import BOUNDS, NO_OBJECT, Capabilities, Messages, Variant, form_of, is_usable
from ragassay.llm.errors import Failure, diagnose, without_keys
from ragassay.llm.observing import count_reply, requesting
from ragassay.llm.prices import Prices
from ragassay.llm.rate_limit import LONGEST_WAIT_S, Pace, RateLimit, backoff
from ragassay.llm.resolve import ResolvedModel, close_with_loop, litellm, load, provider_errors, resolve_model
from ragassay.llm.text import without_surrogates

logger = logging.getLogger("ragassay.llm")

# Nothing else: LiteLLM takes addresses, keys and much more as parameters too.
_PARAMETERS = frozenset(ParameterOptions.__annotations__) - {"max_tokens"} | {"seed"}
_REFUSED_FOR_S, _DOWN_FOR_S = 30.0, 4.0
_DOWN_AFTER, _DOWN_CALLS = 5, 3
_LIMITED_IN_A_ROW = 3
_MOST_RATIO = 4.0  # of billed to estimated tokens; a larger one is no bill


class LLM:
    """A model behind LiteLLM. One object per run: its calls share slots, the wait for ``Retry-After`` and refusals.

    ``model`` is LiteLLM's name, such as ``gpt-4o-mini`` or ``anthropic/claude-sonnet-4-5``; with ``api_base`` a name
    without a provider is taken for an OpenAI-compatible server's. Without ``api_key`` LiteLLM reads the provider's own
    environment variable; an own server that needs none gets a placeholder. ``parameters`` go to the provider on top of
    temperature 0 and the ``seed``: those of ``ParameterOptions``; those that LiteLLM knows it not to take are left out and
    listed in ``settings``. ``context_window``: tokens that the model reads, where LiteLLM's table does not know or errs.
    ``timeout_s`` is the time for one attempt, ``attempts`` how often a call is tried in all; ``limit`` spaces all attempts.

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
        capabilities: Capabilities | None = None,
        seed: int = 0,
        parameters: Mapping[str, Any] | None = None,
        context_window: int | None = None,
        prices: Prices | None = None,
    ) -> None:
        if not model.strip():
            raise BadSettings("the model has no name", hint="write, for example, gpt-4o-mini")
        if attempts < 1 or concurrency < 1 or not timeout_s > 0:
            raise BadSettings("attempts, concurrency and timeout must be above zero", where=model)
        if unknown := sorted((parameters or {}).keys() - _PARAMETERS):
            hint = f"known: {', '.join(sorted(_PARAMETERS))}; what only this provider knows goes into extra_body"
            raise BadSettings(f"parameters can't set {', '.join(unknown)}", where=model, hint=hint)
        try:
            is_extra((parameters or {}).get("extra_body", {}))
        except ValueError as error:
            raise BadSettings(f"parameters.extra_body: {error}", where=model) from None
        self._model = model.strip()
        self._api_base, self._api_key = api_base or None, api_key or None
        self._timeout_s, self._attempts = timeout_s, attempts
        self._wanted = {"temperature": 0, "seed": seed, **(parameters or {})}
        self._prices, self._context_window = prices or Prices(), context_window
        self._pace, self._limit = Pace(concurrency), limit or RateLimit()
        self._capabilities = capabilities or Capabilities(self._model)
        self._replies = 0
        self._billed_more = (1.0, 1.0)  # the largest ratio of billed to estimated tokens so far: input, output
        self._warned_of_usage = False
        self._refused: tuple[float, BadSettings | ProviderDown] | None = None
        self._limited = 0  # how many outcomes in a row were 429s
        self._denied_calls: set[str] = set()  # their ids
        self._failing: list[str] = []  # ids of the calls that failed since the last reply
        self._outages = 0

    @property
    def model(self) -> str:
        """The model's name, as the user gave it."""
        return self._model

    @property
    def settings(self) -> Mapping[str, Any]:
        """The model, the parameters that are sent, and those that the provider doesn't take."""
        resolved = self._resolved
        return {"model": resolved.name, "parameters": dict(resolved.sent), "left_out": list(resolved.left_out)}

    @property
    def endpoint(self) -> str:
        """The address that requests go to, without credentials; two that differ in spelling alone are the same."""
        return self._resolved.endpoint

    @property
    def context_window(self) -> int | None:
        """Tokens that the model reads, as given or by LiteLLM's table; None where that is not known."""
        return self._context_window or self._prices.context_window(self._resolved.name)

    def __repr__(self) -> str:
        return f"LLM({self._model!r})"

    def warm_up(self) -> None:
        """Import what the first call needs; raises BadSettings where the model is unknown or has no key."""
        load()
        self._resolved  # noqa: B018 - it takes a while, once

    async def complete(
        self,
        messages: Messages,
        *,
        schema: Mapping[str, Any] | None = None,
        schema_name: str = "reply",
        max_tokens: int,
        call: Call,
        journal: Journal,
        account: CallAccount | None = None,
        alternatives: int = 0,
        seed_shift: int = 0,
        read: Callable[[Reply], object] | None = None,
    ) -> Reply:
        """The reply; from the journal if the call is settled, else from the provider and then settled.

        Raises BudgetReached, BadSettings or BadInput if the call is refused, and RateLimited, TimedOut or Unavailable
        after the last attempt; ``account`` then receives what was spent.
        """
        tries = Tries(self._outages)
        request = Request(messages, schema, schema_name, max_tokens, alternatives, seed_shift, read)
        try:
            return await self._with_retries(request, call, journal, account, tries)
        except BaseException:
            if account and not tries.kept and tries.waste != Usage():
                account.wasted(tries.waste)
            raise

    async def _with_retries(
        self, request: Request, call: Call, journal: Journal, account: CallAccount | None, tries: Tries
    ) -> Reply:
        attempts, failures, before = 0, 0, self._replies
        while True:
            async with self._pace.slot():
                outcome = await self._attempt(request, call, journal, account, tries)
                while isinstance(outcome, Failure) and outcome.again:
                    outcome = await self._attempt(request, call, journal, account, tries)
            if isinstance(outcome, Reply):
                return outcome
            failed = not (outcome.limited and self._replies > before)  # others are answered: that is no failure
            attempts, failures, before = attempts + 1, failures + failed, self._replies
            if outcome.retryable and failed:
                self._raise_if_down(call, outcome)
            if not outcome.retryable or failures >= self._attempts:
                raise outcome.error
            if outcome.wait and (not outcome.limited or self._limited >= _LIMITED_IN_A_ROW):
                self._pace.hold(outcome.wait)
            await asyncio.sleep(max(backoff(attempts), min(outcome.wait or 0.0, LONGEST_WAIT_S)))

    async def _attempt(
        self, request: Request, call: Call, journal: Journal, account: CallAccount | None, tries: Tries
    ) -> Reply | Failure:
        """The settled reply, else one request within what the journal allows; its reply is settled."""
        self.warm_up()  # before others wait for what the first call finds out
        async with journal.attempt(call, self._most(request)) as attempt:
            if attempt.reply is not None:
                return attempt.reply.model_copy(update={"waste": attempt.reply.waste + tries.waste})
            if account:
                account.begins()
            most = sum(self._estimated(request))
            try:
                await self._may_send(most, tries, account)
            except BaseException:
                self._limit.correct(self._line, -most)
                attempt.free()
                raise
            tries.begun += 1
            if tries.begun > 1:
                telemetry.count("provider_retries", self._model)
            if tries.variant is None:
                first_form = None if request.schema is None else self._resolved.first_form
                tries.variant = self._capabilities.variant(first_form)
            tries.uncertain += 1  # until its outcome is known
            outcome = await self._observed(request, tries.variant, call)
            if isinstance(outcome, Failure):
                if not outcome.uncertain:
                    tries.uncertain -= 1
                    attempt.free(answered=isinstance(outcome.error, BadInput))
                    self._limit.correct(self._line, -most)
                return replace(outcome, again=self._capabilities.downgrade(tries.variant, outcome))
            tries.uncertain -= 1
            self._limit.correct(self._line, outcome.usage.input_tokens + outcome.usage.output_tokens - most)
            usable = request.schema is None or is_usable(outcome.text, outcome.finish_reason)
            if not usable and self._capabilities.downgrade(tries.variant, NO_OBJECT):
                attempt.waste(outcome.usage)
                tries.wasted += outcome.usage
                count_reply(self._model, "waste", outcome.usage)
                return replace(NO_OBJECT, again=True)
            self._capabilities.answered(tries.variant, usable=usable)
            count_reply(self._model, call.purpose, outcome.usage)
            unreadable = request.read is not None and request.read(outcome) is None
            about = {"waste": tries.waste, "left_out": tries.variant.left_out, "unreadable": unreadable}
            reply = outcome.model_copy(update=about)
            attempt.settle(reply)
            tries.kept = True
            return reply

    async def _may_send(self, most: int, tries: Tries, account: CallAccount | None) -> None:
        """Wait until a request of so many tokens at the most may be sent; raises if the provider is known to refuse it."""
        await self._limit.wait(self._line, most, account.waits if account else float)
        await self._pace.opened()
        self._raise_if_refused(tries.outages)
        await self._pace.apart()

    def _most(self, request: Request) -> Usage:
        """What a call reserves: its estimate, times how far bills were above theirs; at most ``_MOST_RATIO`` times as much."""
        estimated = self._estimated(request)
        tokens = [math.ceil(ratio * estimate) for ratio, estimate in zip(self._billed_more, estimated, strict=True)]
        price = self._prices.cost(self._resolved.name, *tokens)
        return Usage(calls=1, input_tokens=tokens[0], output_tokens=tokens[1], cost_usd=price)

    async def _observed(self, request: Request, variant: Variant, call: Call) -> Reply | Failure:
        """One HTTP request, which operators see: a reply, or what went wrong with it."""
        with requesting(self._model, self._resolved, call.purpose) as seen:
            outcome = await self._requested(request, variant, call)
            seen(outcome)
        limited = isinstance(outcome, Failure) and outcome.limited
        self._limited = self._limited + 1 if limited else 0
        return outcome

    async def _requested(self, request: Request, variant: Variant, call: Call) -> Reply | Failure:
        resolved = self._resolved
        await close_with_loop()
        sent = self._sent(request, variant)
        form = form_of(variant, request.messages, request.schema, request.schema_name)
        traced = telemetry.headers()
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_s):
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
            names = (*sent, *sent.get("extra_body", {}), *(BOUNDS if request.schema is not None else ()))
            hint, key = resolved.key_hint, self._api_key
            failure = diagnose(e, self._model, key=key, hint=hint, timeout_s=self._timeout_s, sent=names)
            if failure.denied:
                failure = self._denied(failure, call)
        else:
            outcome = self._read(response, request, (time.perf_counter() - began) * 1000)
            if isinstance(outcome, Reply):
                self._replies += 1
                self._failing.clear()
                return outcome
            failure = outcome
        if isinstance(failure.error, BadSettings):
            self._refused = (time.monotonic() + _REFUSED_FOR_S, failure.error)
        return failure

    def _denied(self, failure: Failure, call: Call) -> Failure:
        """A denied call is one row's affair, unless several are denied and none was ever answered."""
        self._denied_calls.add(call.id)
        if self._replies or len(self._denied_calls) < _DOWN_CALLS:
            return failure
        error = failure.error
        return replace(failure, error=BadSettings(error.message, where=error.where, hint=error.hint))

    def _sent(self, request: Request, variant: Variant) -> dict[str, Any]:
        """The parameters of a request, without those that the provider refused; a reply's limit has two names."""
        limit = "max_completion_tokens" if "max_tokens" in variant.without else "max_tokens"
        sent = {limit: request.max_tokens + self._resolved.thinking_tokens, **self._resolved.sent}
        if "seed" in sent:
            sent["seed"] = (sent["seed"] + request.seed_shift) % 2**32
        if request.alternatives:
            sent.update(logprobs=True, top_logprobs=request.alternatives)
        kept = {name: value for name, value in sent.items() if name not in variant.without}
        if extra := kept.get("extra_body"):
            kept["extra_body"] = {name: value for name, value in extra.items() if name not in variant.without}
        return kept

    def _raise_if_refused(self, outages: int) -> None:
        """``outages``: how many there had been when the call began."""
        if self._refused and (time.monotonic() < self._refused[0] or outages < self._outages):
            raise copy(self._refused[1])

    def _raise_if_down(self, call: Call, failure: Failure) -> None:
        self._failing.append(call.id)
        in_a_row = len(self._failing) >= _DOWN_AFTER and len(set(self._failing)) >= _DOWN_CALLS
        if in_a_row or (failure.wait or 0.0) > LONGEST_WAIT_S:
            error = failure.error
            down = ProviderDown(error.message, where=error.where, hint=error.hint, retry_after=failure.wait)
            self._refused = (time.monotonic() + _DOWN_FOR_S, down)
            self._outages += 1
            telemetry.count("provider_outages", self._model)
            self._pace.open()
            raise down

    def _read(self, response: Any, request: Request, took_ms: float) -> Reply | Failure:
        choices, usage = getattr(response, "choices", None), getattr(response, "usage", None)
        message = getattr(choices[0], "message", None) if choices else None
        if not choices or message is None:
            what, hint = (
                "the provider's reply has no message (choices)",
                "is the address that of a chat completions API?",
            )
            return Failure(Unavailable(what, where=self._model, hint=hint), retryable=True, uncertain=True)
        choice = choices[0]
        text = without_keys(_text(message), self._api_key)
        tokens, estimated = self._billed(usage), self._estimated(request)
        if tokens and all(t <= _MOST_RATIO * most for t, most in zip(tokens, estimated, strict=True)):
            details = getattr(usage, "prompt_tokens_details", None)
            cached, written = (_count(details, name) or 0 for name in ("cached_tokens", "cache_creation_tokens"))
            price = self._prices.cost(self._resolved.name, *tokens, cached_tokens=cached, written_tokens=written)
            ratios = zip(self._billed_more, tokens, estimated, strict=True)
            input_ratio, output_ratio = (max(ratio, billed / most) for ratio, billed, most in ratios)
            self._billed_more = input_ratio, output_ratio
        else:  # the server counts no tokens, or as no model can: ours are an estimate, so their price stays unknown
            if tokens:
                self._warn_of_usage(tokens, estimated)
            price, characters = None, sum(len(m["content"]) for m in request.messages)
            tokens = min(-(-characters // 4), estimated[0]), min(-(-len(text) // 4), estimated[1])
        return Reply(
            text=text,
            finish_reason=without_surrogates(str(choice.finish_reason or "stop")),
            model=without_surrogates(str(response.model or "")),
            system_fingerprint=without_surrogates(str(getattr(response, "system_fingerprint", None) or "")),
            usage=Usage(calls=1, input_tokens=tokens[0], output_tokens=tokens[1], cost_usd=price, latency_ms=took_ms),
            alternatives=alternatives(choice, text) if request.alternatives else None,
        )

    @staticmethod
    def _billed(usage: Any) -> tuple[int, int] | None:
        """Input and output tokens that the provider reports; None where it reports none, or no numbers of tokens."""
        sent, written = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
        return None if not sent or written is None else (sent, written)

    def _warn_of_usage(self, tokens: tuple[int, int], estimated: tuple[int, int]) -> None:
        if not self._warned_of_usage:
            self._warned_of_usage = True
            logger.warning(
                "%s: the provider reports %s input and %s output tokens for a call of at most %s and %s; "
                "such calls count with an estimate, and their cost is unknown",
                *(self._model, *(f"{count:,}" for count in (*tokens, *estimated))),
            )

    def _estimated(self, request: Request) -> tuple[int, int]:
        """What the call takes at the most, or nearly (input, output): three bytes of text make less than a token."""
        schema = len(orjson.dumps(request.schema)) if request.schema else 0
        text = sum(len(m["content"].encode()) for m in request.messages)
        return (text + schema) // 3 + 50, request.max_tokens + self._resolved.thinking_tokens

    @cached_property
    def _line(self) -> str:
        return digest([self.endpoint, self._resolved.name])[:16]

    @cached_property
    def _resolved(self) -> ResolvedModel:
        return resolve_model(self._model, self._api_base, self._api_key, self._wanted)


def _count(counts: Any, name: str) -> int | None:
    """A number of tokens that a provider reports, 0 where it reports none; None where that is no such number."""
    value = getattr(counts, name, 0) or 0
    return int(value) if isinstance(value, int | float) and 0 <= value < math.inf else None


def _text(message: Any) -> str:
    text = getattr(message, "content", "")
    return without_surrogates(text) if isinstance(text, str) else ""
