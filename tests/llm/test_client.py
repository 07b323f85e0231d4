import asyncio
import gc

import pytest

import provider as play
from llm_calls import HELLO, OBJECT, SCHEMA, Account, ask, llm, reply_of
from provider import Provider
from ragassay.core.errors import BadSettings, BudgetReached
from ragassay.core.models import Usage
from ragassay.llm import LLM, client
from ragassay.llm.journal import MemoryJournal


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Retries come at once, unless a test says otherwise."""
    monkeypatch.setattr(client, "backoff", lambda tries: 0.0)


def test_a_call_is_one_request_at_temperature_0_with_a_seed_and_a_strict_schema():
    with Provider(then=OBJECT) as provider:
        reply = reply_of(llm(provider, seed=7), schema=SCHEMA)

    (seen,) = provider.log
    assert (reply.text, reply.finish_reason, reply.model) == ("{}", "stop", "gpt-4o-mini")
    assert reply.left_out == ()
    assert (seen.body["temperature"], seen.body["seed"], seen.body["max_tokens"]) == (0, 7, 50)
    described = {"name": "reply", "strict": True, "schema": SCHEMA}
    assert seen.body["response_format"] == {"type": "json_schema", "json_schema": described}
    assert seen.auth == "Bearer no-key-needed"


def test_the_price_of_a_known_model_is_tokens_times_its_listed_price():
    with Provider(then=HELLO) as provider:
        reply = reply_of(llm(provider), "x" * 392)

    # "be brief" (8) + 392 characters = 100 tokens at 0.15 USD a million; "hello" = 2 tokens at 0.60 USD a million
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 2)
    assert reply.usage.cost_usd == pytest.approx(100 * 0.15e-6 + 2 * 0.60e-6, rel=1e-12)
    assert reply.usage.calls == 1
    assert reply.usage.latency_ms > 0
    assert reply.waste == Usage()


def test_a_server_that_counts_no_tokens_gets_an_estimate_and_no_price():
    with Provider(then=play.raw(usage=None)) as provider:
        reply = reply_of(llm(provider), "x" * 392)

    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 1)  # characters / 4, rounded up
    assert reply.usage.cost_usd is None


def test_a_reached_budget_passes_through_and_nothing_is_sent():
    class Broke(MemoryJournal):
        async def reserve(self, call, most):
            raise BudgetReached(f"{most.cost_usd:.6f} USD")

        async def end(self, reservation, spent):
            raise AssertionError("nothing was reserved")

    # (8 + 2 bytes of text) // 3 + 50 = 53 tokens at 0.15 and 1,000 at 0.60 USD a million
    with Provider() as provider, pytest.raises(BudgetReached, match=f"{53 * 0.15e-6 + 1000 * 0.60e-6:.6f} USD"):
        reply_of(llm(provider), max_tokens=1000, journal=Broke())
    assert provider.log == []


def test_a_cancelled_call_may_have_been_paid_and_its_estimate_counts_as_spent():
    journal, account = MemoryJournal(), Account()

    async def cancel():
        task = asyncio.create_task(ask(llm(provider), journal=journal, account=account))
        while not provider.log:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Provider(then=play.hang) as provider:
        asyncio.run(cancel())
    assert account.lost == Usage(uncertain_calls=1)
    assert (journal.account.spent.uncertain_calls, journal.account.spent.output_tokens) == (1, 50)


def test_parameters_that_a_provider_does_not_take_are_left_out_and_listed():
    with Provider(then=HELLO) as provider:
        judge = llm(provider, "openai/o3-mini", parameters={"reasoning_effort": "low"}, seed=3)
        reply_of(judge)

    assert judge.settings == {
        "model": "openai/o3-mini",
        "parameters": {"seed": 3, "reasoning_effort": "low"},
        "left_out": ["temperature"],
    }
    body = provider.log[0].body
    assert "temperature" not in body
    assert (body["seed"], body["reasoning_effort"]) == (3, "low")
    assert body["max_completion_tokens"] == 50 + 4096  # room to think, on top of the reply's own tokens


def test_a_name_that_is_no_providers_belongs_to_the_own_server():
    with Provider(then=HELLO) as provider:
        judge = llm(provider, "meta-llama/Llama-3-8B")
        reply_of(judge)

    assert provider.log[0].body["model"] == "meta-llama/Llama-3-8B"
    assert judge.settings["model"] == "openai/meta-llama/Llama-3-8B"
    assert judge.model == "meta-llama/Llama-3-8B"


def test_an_unknown_model_is_an_error_before_anything_is_sent():
    with pytest.raises(BadSettings, match=r"unknown model 'gpt-of-nobody'; write provider/model"):
        reply_of(LLM("gpt-of-nobody"))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"model": "m", "parameters": {"max_retries": 3, "api_key": "x"}}, "can't set api_key, max_retries; known: "),
        (
            {"model": "m", "parameters": {"aws_bedrock_runtime_endpoint": "x"}},
            "what only this provider knows goes into",
        ),
        ({"model": "m", "parameters": {"extra_body": {"messages": []}}}, "extra_body: it can't set messages"),
    ],
)
def test_bad_options_are_bad_settings(options, text):
    with pytest.raises(BadSettings, match=text):
        LLM(**options)


def test_one_object_serves_several_event_loops_and_leaves_no_connection_open():
    with Provider(then=HELLO) as provider:
        judge = llm(provider)
        for n in range(3):
            assert reply_of(judge, name=f"c{n}").text == "hello"
        gc.collect()  # an open connection would warn here, and warnings are errors
