"""What operators see of a request to a model: a span in the terms of OpenTelemetry's GenAI conventions, and counters."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

from ragassay import observability
from ragassay.core.models import Usage
from ragassay.core.protocols import Purpose, Reply
from ragassay.llm.errors import Failure
from ragassay.llm.resolve import ResolvedModel

_SPENT_ON = {"judge": "judging", "repair": "judging", "answer": "serving", "synthesis": "synthesis"}


async def observed(
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


def count_reply(model: str, purpose: Purpose | Literal["waste"], usage: Usage) -> None:
    """Count what a reply took; ``waste``: it was of no use."""
    spent_on = _SPENT_ON.get(purpose, purpose)
    observability.count("tokens", model, spent_on, "input", amount=usage.input_tokens)
    observability.count("tokens", model, spent_on, "output", amount=usage.output_tokens)
    if usage.cost_usd is None:
        observability.count("unpriced_calls", model)
    else:
        observability.count("cost_usd", model, spent_on, amount=usage.cost_usd)
    observability.observe("provider_seconds", model, seconds=usage.latency_ms / 1000)
