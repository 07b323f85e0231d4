"""Bills above the estimate: what they teach about the next calls, and those that can't be true."""

import asyncio

import pytest

import provider as play
from llm_calls import ask, llm, reply_of
from provider import Provider
from ragassay.core.errors import BudgetReached
from ragassay.core.eval_config import Budget
from ragassay.llm.budget import BudgetAccount
from ragassay.llm.journal import MemoryJournal

ABOVE = play.raw(usage=play.usage(150, 150))  # a call is estimated at 53 + 50 tokens


def spend(provider, budget, *, concurrency, calls=40, **options):
    """Make calls until the budget is reached; the calls that arrived and the tokens that were billed."""
    journal = MemoryJournal(BudgetAccount(Budget(tokens=budget)))
    model = llm(provider, concurrency=concurrency, **options)

    async def all_of_them():
        done = [ask(model, name=f"c{n}", journal=journal) for n in range(calls)]
        return await asyncio.gather(*done, return_exceptions=True)

    outcomes = asyncio.run(all_of_them())
    assert all(isinstance(o, BudgetReached) for o in outcomes if isinstance(o, BaseException))
    spent = journal.account.spent
    return len(provider.log), spent.input_tokens + spent.output_tokens


@pytest.mark.parametrize(
    ("budget", "made"),
    [
        (899, 2),  # 600 are spent; a third call may take 300
        (900, 3),
        (103, 1),
    ],
)
def test_a_budget_stops_when_a_call_at_the_learnt_ratio_no_longer_fits(budget, made):
    with Provider(then=ABOVE) as provider:
        assert spend(provider, budget, concurrency=1) == (made, made * 300)


def test_only_the_calls_in_flight_at_the_first_reply_can_pass_a_budget():
    with Provider(then=ABOVE, latency_s=0.05) as provider:
        assert spend(provider, 1_000, concurrency=8) == (8, 2_400)


@pytest.mark.parametrize("usage", [(15_000_000, 10), (10, 15_000_000), (10**12, 10**12)])
def test_a_usage_that_cannot_be_true_counts_as_estimated_and_teaches_nothing(usage, caplog):
    with Provider([play.raw(usage=play.usage(*usage))], then=play.raw(usage=play.usage(20, 5))) as provider:
        assert spend(provider, 2_000, concurrency=1, calls=10)[0] == 10
        reply = reply_of(llm(provider, "gpt-4o-mini"))
    assert reply.usage.cost_usd is not None
    assert "the provider reports" in caplog.text


def test_the_cost_of_a_usage_that_cannot_be_true_is_unknown():
    with Provider(then=play.raw(usage=play.usage(15_000_000, 10))) as provider:
        usage = reply_of(llm(provider, "gpt-4o-mini")).usage
    assert (usage.cost_usd, usage.input_tokens, usage.output_tokens) == (None, 3, 1)
