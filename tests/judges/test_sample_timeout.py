"""How long judging one sample may take: from its first call on, repair and retries included, waits for a turn left out."""

import asyncio
import time

import pytest

import provider as play
from judge_replies import judge, model_at, sample, supports
from provider import Provider
from ragassay.core.models import Usage
from ragassay.judges.llm import LLMJudge
from ragassay.judges.structured import SampleCalls
from ragassay.judges.yes_no import YesNoJudge
from ragassay.llm import RateLimit, client
from ragassay.llm.journal import MemoryJournal


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(client, "backoff", lambda tries: 0.0)


def probes(llm, samples, journal, **options):
    return asyncio.run(YesNoJudge(llm, **options).judge(samples, journal))


@pytest.mark.parametrize("asked", [judge, probes])
def test_a_provider_that_hangs_costs_a_sample_no_more_than_its_time(asked):
    journal, began = MemoryJournal(), time.monotonic()
    with Provider(then=play.hang) as provider:
        (rating,) = asked(model_at(provider, timeout_s=30), [sample()], journal, timeout_s=0.5)
    assert time.monotonic() - began < 15
    assert rating.reason == "the judge failed: no verdict within 0.5 s of the first call"
    assert rating.waste.uncertain_calls == journal.account.spent.uncertain_calls == min(len(provider.log), 8)


def test_a_provider_that_asks_to_wait_is_waited_for_no_longer_than_that():
    began = time.monotonic()
    with Provider(then=play.status(429, {"Retry-After": "40"})) as provider:
        (rating,) = judge(model_at(provider), [sample()], timeout_s=0.5)
    assert time.monotonic() - began < 15
    assert rating.reason == "the judge failed: no verdict within 0.5 s of the first call"
    assert (len(provider.log), rating.waste) == (1, Usage())


def test_a_repair_that_is_late_leaves_the_first_reply_as_it_is():
    with Provider([play.missing("A2")], then=play.hang) as provider:
        (rating,) = judge(model_at(provider), [sample()], timeout_s=3)
    assert len(provider.log) == 2
    assert [label for label, support in supports(rating).items() if support is None] == ["A2"]
    assert rating.waste == Usage(uncertain_calls=1)


def test_a_samples_time_begins_with_its_own_first_call():
    with Provider(latency_s=0.5) as provider:
        found = judge(model_at(provider, concurrency=1), [sample(f"q{n}") for n in range(7)], timeout_s=3)
    assert [rating.reason for rating in found] == [None] * 7


def test_a_samples_time_stands_still_while_its_calls_wait_for_their_turn():
    with Provider() as provider:
        limited = model_at(provider, limit=RateLimit(requests=60))
        found = judge(limited, [sample(f"q{n}") for n in range(3)], timeout_s=0.9)
    assert [rating.reason for rating in found] == [None] * 3


def test_calls_of_a_sample_that_wait_at_once_give_it_the_longest_of_their_waits():
    async def wait():
        calls = SampleCalls(MemoryJournal(), 1.0)
        async with calls.in_time:
            calls.begins()
            began = calls.in_time.when()
            for seconds in (2.0, 5.0, 3.0):
                calls.waits(seconds)
            return calls.in_time.when() - began

    assert asyncio.run(wait()) == pytest.approx(5.0, abs=0.1)


def test_who_cancels_is_heard_though_a_sample_has_a_time():
    async def cancel():
        asked = asyncio.create_task(LLMJudge(model_at(provider), timeout_s=30).judge([sample()], MemoryJournal()))
        while not provider.log:
            await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    with Provider(then=play.hang) as provider:
        asyncio.run(cancel())
