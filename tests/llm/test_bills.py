"""Bills above the estimate: what they teach about the next calls, so that a budget stops in time."""

import asyncio

import pytest

import provider as play
from llm_calls import ask, llm
from provider import Provider
from ragassay.errors import BudgetReached
from ragassay.ledger import BudgetLedger, MemoryLedger
from ragassay.llm.estimator import Estimator
from ragassay.models import Usage
from ragassay.specification import Budget

DEAR = play.raw(usage=play.usage(4_000, 6_000))  # a call is estimated at 53 + 50 tokens and billed 10,000


def spend(provider, budget, *, concurrency, calls=40, **options):
    """Make calls until the budget is reached; the calls that arrived and the tokens that were billed."""
    ledger = BudgetLedger(MemoryLedger(), Budget(tokens=budget), Usage())
    model = llm(provider, concurrency=concurrency, **options)

    async def all_of_them():
        done = [ask(model, name=f"c{n}", ledger=ledger) for n in range(calls)]
        return await asyncio.gather(*done, return_exceptions=True)

    outcomes = asyncio.run(all_of_them())
    assert all(isinstance(o, BudgetReached) for o in outcomes if isinstance(o, BaseException))
    return len(provider.log), ledger.spent.input_tokens + ledger.spent.output_tokens


@pytest.mark.parametrize(
    ("budget", "made"),
    [
        (25_000, 2),  # 20,000 spent; a third may take 10,000
        (30_000, 3),
        (5_000, 1),
    ],
)
def test_a_budget_stops_as_soon_as_the_learnt_bound_no_longer_fits(budget, made):
    with Provider(then=DEAR) as provider:
        assert spend(provider, budget, concurrency=1) == (made, made * 10_000)


@pytest.mark.parametrize("budget", [15_000, 60_000, 79_999])
def test_only_the_calls_in_flight_at_the_first_reply_can_pass_a_budget(budget):
    with Provider(then=DEAR, latency_s=0.05) as provider:
        made, spent = spend(provider, budget, concurrency=8)
    assert (made, spent) == (8, 80_000)


def test_a_budget_is_still_used_up_where_only_one_bill_was_dear():
    with Provider([DEAR], then=play.raw(usage=play.usage(50, 50)), latency_s=0.01) as provider:
        made, spent = spend(provider, 50_000, concurrency=8, calls=200)
    assert made == 200
    assert spent == 10_000 + 199 * 100


def test_bounds_grow_with_the_largest_ratio_and_never_shrink():
    estimator = Estimator()
    assert estimator.to_reserve((100, 50)) == (100, 50)
    estimator.learn((100, 50), (150, 10))  # input 1.5 times, output within the estimate
    assert estimator.to_reserve((100, 50)) == (150, 50)
    estimator.learn((100, 50), (60, 100))
    assert estimator.to_reserve((11, 50)) == (17, 100)  # 16.5 rounded up; 50 x 2


def test_a_call_also_reserves_what_calls_in_flight_lack():
    estimator = Estimator()
    estimator.start("a", (100, 50), (100, 50))
    estimator.learn((100, 50), (300, 50))
    assert estimator.to_reserve((100, 50)) == (300 + 200, 50)
    estimator.start("b", (100, 50), (500, 50))
    assert estimator.to_reserve((100, 50)) == (300, 50)  # b holds what a lacks
    estimator.end("a")
    estimator.end("b")
    assert estimator.to_reserve((100, 50)) == (300, 50)
