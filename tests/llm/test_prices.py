"""What tokens cost: as LiteLLM has it, with the configuration's prices on top."""

import subprocess
import sys

import pytest

import provider as play
from llm_calls import llm, reply_of
from provider import Provider
from ragassay.llm import Prices
from ragassay.llm.resolve import litellm


def test_the_cost_of_a_very_long_input_has_the_listed_price_above_the_limit():
    # 2.5 USD a million for all tokens of an input above 200,000; 15 USD for the output
    assert Prices().cost("gemini/gemini-2.5-pro", 300_000, 1_000) == pytest.approx(0.75 + 0.015)
    assert Prices().cost("gemini/gemini-2.5-pro", 200_000, 0) == pytest.approx(0.25)


def test_tokens_written_to_the_prompt_cache_have_their_own_price():
    # 1,500 x 3 + 1,000 x 3.75 + 500 x 0.30 + 1 x 15, in USD a million
    cost = Prices().cost("claude-sonnet-4-5", 3_000, 1, cached_tokens=500, written_tokens=1_000)
    assert cost == pytest.approx((1_500 * 3 + 1_000 * 3.75 + 500 * 0.3 + 15) / 1e6)


@pytest.mark.parametrize("model", ["gpt-4o-mini", "openai/gpt-4.1", "claude-haiku-4-5", "gemini/gemini-2.5-pro"])
@pytest.mark.parametrize("tokens", [(1_000, 50), (250_000, 10), (0, 0)])
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


def test_a_plain_price_does_not_import_litellm():
    code = (
        "import sys, ragassay.judges.llm; from ragassay.llm import Prices; assert Prices().cost('gpt-4o-mini', 1000, 10)"
        "; sys.exit('litellm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
