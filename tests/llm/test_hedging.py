"""A call that hangs while others are answered is made a second time, within the budget, and booked as waste."""

import asyncio
import time

import pytest

from llm_calls import ask, llm
from provider import Answer, Provider
from ragassay.errors import BudgetReached
from ragassay.ledger import BudgetLedger, MemoryLedger
from ragassay.llm import hedging
from ragassay.llm.failures import Failure
from ragassay.llm.hedging import Hedging
from ragassay.models import Usage
from ragassay.protocols import Reply
from ragassay.specification import Budget

REPLY = Reply(text="first", usage=Usage(calls=1, latency_ms=10))


def hangs(times):
    """Call c30 hangs so many times; all others are answered."""
    hung = []

    def behave(seen):
        if "text of c30" in seen.user and len(hung) < times:
            hung.append(seen.n)
            return Answer(hang=True)
        return Answer("hello")

    return behave


def asked(provider, ledger=None, calls=40, **options):
    """The replies to so many calls, and the seconds that they took."""
    judge = llm(provider, **{"timeout_s": 6, "concurrency": 4, **options})
    judge.warm_up()
    ledger = ledger or MemoryLedger()

    async def all_of_them():
        names = [f"c{n}" for n in range(calls)]
        return await asyncio.gather(*(ask(judge, f"text of {name}", name=name, ledger=ledger) for name in names))

    began = time.monotonic()
    return asyncio.run(all_of_them()), time.monotonic() - began


def test_a_call_that_hangs_is_answered_by_a_second_attempt_and_booked():
    with Provider(then=hangs(1), latency_s=0.02) as provider:
        replies, took_s = asked(provider)
    assert {reply.text for reply in replies} == {"hello"}
    assert took_s < 4
    assert len(provider.log) == 41
    assert replies[30].waste == Usage(retries=1, uncertain_calls=1)
    assert Usage.total(reply.waste for reply in replies) == replies[30].waste


def test_calls_that_wait_together_are_not_made_again():
    def behave(seen):
        if "text of c30" in seen.user:
            time.sleep(1.5)  # the server answers nobody meanwhile
        return Answer("hello")

    with Provider(then=behave, latency_s=0.02) as provider:
        replies, took_s = asked(provider, concurrency=16)
    assert took_s > 1.5
    assert len(provider.log) == 40
    assert Usage.total(reply.waste for reply in replies) == Usage()


def tokens(usage):
    return usage.input_tokens + usage.output_tokens


def test_both_attempts_count_against_the_budget():
    with Provider(then=hangs(1), latency_s=0.02) as provider:
        ledger = BudgetLedger(MemoryLedger(), Budget(tokens=100_000), Usage())
        replies, _ = asked(provider, ledger)
    billed = Usage.total(reply.usage for reply in replies)
    most = 50 + 60  # tokens of one call, at most: what it may write, and what its text may be
    assert 0 < tokens(ledger.spent) - tokens(billed) <= most


def test_where_the_budget_has_no_room_for_a_second_attempt_the_first_is_waited_for():
    class Full(MemoryLedger):
        def __init__(self):
            super().__init__()
            self.open = set()

        async def reserve(self, call, estimate):
            if call.id in self.open:
                raise BudgetReached("full")
            self.open.add(call.id)
            return await super().reserve(call, estimate)

    def late(seen):
        if "text of c30" in seen.user:
            time.sleep(2)
        return Answer("hello")

    with Provider(then=late, latency_s=0.02) as provider:
        replies, took_s = asked(provider, Full())
    assert (len(provider.log), len(replies)) == (40, 40)
    assert took_s >= 2


async def _sleeps(seconds, outcome):
    await asyncio.sleep(seconds)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def known(monkeypatch):
    """One that knows how long replies take: a call is late after 30 ms."""
    monkeypatch.setattr(hedging, "SHORTEST_S", 0.03)
    monkeypatch.setattr(hedging, "_LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(hedging, "FEWEST_REPLIES", 1)
    hedges = Hedging()
    asyncio.run(hedges.answered(lambda: _sleeps(0, REPLY), lambda: _sleeps(0, REPLY), lambda: None))
    return hedges


SECOND = REPLY.model_copy(update={"text": "second"})
FAILED, FAILED_TOO = Failure(BudgetReached("one")), Failure(BudgetReached("two"))


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ((0.0, REPLY), (0.0, SECOND), REPLY),
        ((5.0, REPLY), (0.0, SECOND), SECOND),
        ((0.2, REPLY), (5.0, SECOND), REPLY),
        ((0.2, REPLY), (0.0, FAILED), REPLY),
        ((0.2, REPLY), (0.0, BudgetReached("full")), REPLY),
        ((0.1, FAILED), (0.2, SECOND), SECOND),
        ((0.1, FAILED), (0.2, FAILED_TOO), FAILED),
    ],
)
def test_the_first_answer_counts_and_a_failure_only_where_there_is_none(first, second, wanted, monkeypatch):
    hedges, began = known(monkeypatch), time.monotonic()
    found = asyncio.run(hedges.answered(lambda: _sleeps(*first), lambda: _sleeps(*second), lambda: None))
    assert found is wanted
    assert time.monotonic() - began < 3


def test_a_reply_that_comes_as_the_call_is_cancelled_is_told_of(monkeypatch):
    hedges, lost = known(monkeypatch), []

    async def cancelled():
        done = asyncio.Event()

        async def attempt():
            await done.wait()
            return REPLY

        task = asyncio.create_task(hedges.answered(attempt, lambda: _sleeps(9, REPLY), lambda: lost.append(1)))
        await asyncio.sleep(0.1)
        done.set()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(cancelled())
    assert lost == [1]


def test_one_call_in_twenty_at_the_most_is_made_twice(monkeypatch):
    hedges, again = known(monkeypatch), []

    def another():
        again.append(1)
        return _sleeps(9, REPLY)

    async def slow(wanted):
        answers = asyncio.Event()  # to all forty at once, well after the last second attempt that may be made

        async def attempt():
            await answers.wait()
            return REPLY

        async def until_made():
            while len(again) < wanted:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            answers.set()

        late = (hedges.answered(attempt, another, lambda: None) for _ in range(40))
        await asyncio.gather(until_made(), *late)

    asyncio.run(slow(1))
    assert len(again) == 1
    asyncio.run(slow(1 + 41 // 20))
    assert len(again) == 1 + 41 // 20
