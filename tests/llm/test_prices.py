"""What tokens cost: as LiteLLM has it, with the configuration's prices on top."""

import pytest

import provider as play
from llm_calls import llm, reply_of
from provider import Provider
from ragassay.llm import Prices
from ragassay.llm.resolve import litellm


@pytest.mark.parametrize("model", ["gpt-4o-mini", "claude-haiku-4-5", "gemini/gemini-2.5-pro"])
@pytest.mark.parametrize("tokens", [(1_000, 50), (250_000, 10)])  # above 200,000 gemini's costs more
def test_a_cost_is_that_of_litellm(model, tokens):
    expected = sum(litellm().cost_per_token(model=model, prompt_tokens=tokens[0], completion_tokens=tokens[1]))
    assert Prices().cost(model, *tokens) == pytest.approx(expected)


def test_a_cost_that_litellm_cannot_tell_is_unknown(monkeypatch):
    def fails(**asked):
        raise ValueError

    monkeypatch.setattr(litellm(), "cost_per_token", fails)
    assert Prices().cost("gemini/gemini-2.5-pro", 300_000, 1_000) is None
    assert Prices().cost("no-such-model", 1, 1) is None


def test_a_reply_that_wrote_to_the_prompt_cache_is_billed_for_it():
    details = {"cached_tokens": 40, "cache_creation_tokens": 10}
    with Provider(then=play.raw(usage=play.usage(100, 2, prompt_tokens_details=details))) as provider:
        reply = reply_of(llm(provider, "openai/claude-sonnet-4-5"))
    assert reply.usage.cost_usd == pytest.approx((50 * 3 + 40 * 0.3 + 10 * 3.75 + 2 * 15) / 1e6)
