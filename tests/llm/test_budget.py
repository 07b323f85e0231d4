"""The cap on what calls spend: never passed, waited for where calls in flight may leave some, resumable; and odd bills."""

import asyncio

import orjson
import pytest

import provider as play
from llm_calls import ask, call, llm, reply_of
from offline_runs import GOOD, write_jsonl
from provider import Provider, says, status
from ragassay.core.errors import BadSettings, BudgetReached
from ragassay.core.eval_config import Budget
from ragassay.core.models import Usage
from ragassay.core.protocols import Reply
from ragassay.llm.budget import BudgetAccount
from ragassay.llm.journal import MemoryJournal

MOST = Usage(calls=1, input_tokens=60, output_tokens=40, cost_usd=0.01)


def reply(**usage):
    return Reply(
        text="{}", usage=Usage(**{"calls": 1, "input_tokens": 50, "output_tokens": 10, "cost_usd": 0.004, **usage})
    )


async def spend(journal, number, answer=None):
    async with journal.attempt(call(f"c{number}"), MOST) as attempt:
        attempt.settle(answer or reply())


def under(budget, **more):
    journal = MemoryJournal()
    journal.account = BudgetAccount(Budget(**budget), Usage(**more))
    return journal


@pytest.mark.parametrize(
    ("budget", "made"),
    [
        ({"usd": 0.02}, 3),  # 3 x 0.004 + 0.01 > 0.02
        ({"tokens": 250}, 3),  # 3 x 60 + 100 > 250
        ({"usd": 0.02, "tokens": 170}, 2),  # 2 x 60 + 100 > 170
        ({"usd": 0.009}, 0),  # not even one
    ],
)
def test_a_call_is_made_only_if_the_most_it_may_take_still_fits(budget, made):
    async def until_reached():
        journal = under(budget)
        for n in range(10):
            try:
                await spend(journal, n)
            except BudgetReached:
                return n
        return None

    assert asyncio.run(until_reached()) == made


def test_calls_in_flight_are_waited_for_because_they_may_leave_something():
    async def both():
        journal = under({"usd": 0.015})
        async with journal.attempt(call("c1"), MOST) as first:
            second = asyncio.create_task(spend(journal, 2))
            await asyncio.sleep(0.01)
            assert not second.done()
            first.settle(reply())
        await asyncio.wait_for(second, 20)

    asyncio.run(both())


def test_each_attempt_is_booked_once_and_one_with_an_unknown_outcome_at_its_estimate():
    async def spent():
        journal = under({"usd": 1})
        for _ in range(2):
            async with journal.attempt(call("c1"), MOST):
                pass  # it timed out, say
        async with journal.attempt(call("c1"), MOST) as refused:
            refused.free()
        await spend(journal, 1)
        await spend(journal, 2, reply(cost_usd=None))
        return journal.account.spent

    found = asyncio.run(spent())
    assert (found.cost_usd, found.uncertain_calls, found.calls) == (pytest.approx(3 * 0.01 + 0.004), 2, 2)


def test_a_cap_on_usd_needs_a_price():
    with pytest.raises(BadSettings, match="the model has no price"):
        asyncio.run(under({"usd": 1}).reserve(call("c1"), Usage(calls=1, cost_usd=None)))


METRIC = ("--metrics", "faithfulness")
PRICES = """
judge: openai/unheard-of
prices: {openai/unheard-of: {input_per_1m: 1, output_per_1m: 2}}
"""


def test_a_run_ends_at_its_budget_and_goes_on_with_a_higher_one(cli, tmp_path):
    data = write_jsonl(
        tmp_path / "data.jsonl", [{**GOOD, "query_id": f"q{n}", "query": f"Which one, {n}?"} for n in range(30)]
    )
    (tmp_path / "c.yaml").write_text(PRICES)
    with Provider() as provider:
        asked = ("evaluate", data, "--config", "c.yaml", "--set", f"api_base={provider.url}", "-j", 4, *METRIC)
        code, out, err = cli(*asked, "--set", f"budget.tokens={9_000}")
        paid = len(provider.log)
        assert (code, out) == (4, "")
        assert "the budget of 9,000 tokens is reached" in err
        assert "30 judge calls, at most" in err  # the estimate stands before the run
        assert 0 < paid < 30
        code, _, err = cli("evaluate", "--resume", "last", "--set", f"budget.tokens={1}")
        assert (code, len(provider.log)) == (4, paid)
        code, out, _ = cli("evaluate", "--resume", "last", "--budget-usd", 5, "--json")
        assert (code, len(provider.log)) == (0, 30)
    system = orjson.loads(out)["systems"]["default"]
    assert system["metrics"]["faithfulness"]["n"] == 30
    assert system["evaluation"]["usage"]["calls"] == 30


def test_nobody_who_waits_for_the_budget_keeps_a_call_from_trying_again():
    async def race(provider):
        model, journal = llm(provider, concurrency=2), under({"tokens": 400})
        asked = [ask(model, f"{n}?", f"c{n}", journal, max_tokens=200) for n in range(2)]
        return await asyncio.wait_for(asyncio.gather(*asked), 20)

    with Provider(script=[status(503)], then=says("x")) as provider:
        assert [reply.text for reply in asyncio.run(race(provider))] == ["x", "x"]


def test_a_price_that_is_unknown_is_found_before_a_run_is_begun(cli, tmp_path):
    data = write_jsonl(tmp_path / "data.jsonl", [GOOD])
    asked = ("--judge", "openai/unheard-of", "--set", "api_base=http://127.0.0.1:9", "--budget-usd", "1")
    code, out, err = cli("evaluate", data, *asked)
    assert (code, out) == (2, "")
    assert "the model has no price" in err
    assert not (tmp_path / "home" / "runs").exists()


# --- bills above the estimate, and those that can't be true ------------------------------------------------------------

ABOVE = play.raw(usage=play.usage(150, 150))  # a call is estimated at 53 + 50 tokens


def spend_at(provider, budget, *, concurrency, calls=40, **options):
    """Make calls until the budget is reached; the calls that arrived and the tokens that were billed."""
    journal = under({"tokens": budget})
    model = llm(provider, concurrency=concurrency, **options)

    async def all_of_them():
        done = [ask(model, name=f"c{n}", journal=journal) for n in range(calls)]
        return await asyncio.gather(*done, return_exceptions=True)

    outcomes = asyncio.run(all_of_them())
    assert all(isinstance(o, BudgetReached) for o in outcomes if isinstance(o, BaseException))
    spent = journal.account.spent
    return len(provider.log), spent.input_tokens + spent.output_tokens


@pytest.mark.parametrize(("budget", "made"), [(899, 2), (900, 3)])  # after 600 a third call may take 300
def test_a_budget_stops_when_a_call_at_the_learnt_ratio_no_longer_fits(budget, made):
    with Provider(then=ABOVE) as provider:
        assert spend_at(provider, budget, concurrency=1) == (made, made * 300)


def test_only_the_calls_in_flight_at_the_first_reply_can_pass_a_budget():
    with Provider(then=ABOVE, latency_s=0.05) as provider:
        assert spend_at(provider, 1_000, concurrency=8) == (8, 2_400)


@pytest.mark.parametrize("usage", [(15_000_000, 10), (10, 15_000_000)])
def test_a_usage_that_cannot_be_true_counts_as_estimated_has_no_cost_and_teaches_nothing(usage, caplog):
    odd = play.raw(usage=play.usage(*usage))
    with Provider([odd], then=play.raw(usage=play.usage(20, 5))) as provider:
        assert spend_at(provider, 2_000, concurrency=1, calls=10)[0] == 10
        provider.then = odd
        usage = reply_of(llm(provider)).usage
    assert (usage.cost_usd, usage.input_tokens, usage.output_tokens) == (None, 3, 1)
    assert "the provider reports" in caplog.text
