"""A job's calls are paid once, whoever works on it and however often."""

import asyncio
import threading

import pytest

from job_workers import CALL, money, submit, submit_with_budget
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.llm.journal import Reservation
from ragassay.service.redis_journal import RedisJournal

MOST = Usage(calls=1, input_tokens=100)


async def attempted(journal, call=CALL, reply=None):
    """The reply of a call, by a request that is answered; without a ``reply`` its outcome is unknown."""
    async with journal.attempt(call, MOST) as attempt:
        if attempt.reply is None and reply is not None:
            attempt.settle(reply)
    return attempt.reply


def attempt(*args):
    return asyncio.run(attempted(*args))


def books(store, job):
    """Tokens spent and reserved, calls in flight, calls that may have been paid."""
    return (*money(store, job), store.state(job).uncertain_calls)


@pytest.fixture
def job(make_jobs):
    return submit(make_jobs(), 10)


def test_each_attempt_is_booked_once_and_one_with_an_unknown_outcome_at_its_estimate(job, store):
    journal = RedisJournal(store, store.claim(job), cache=False)
    assert [attempt(journal) for _ in range(2)] == [None, None]
    assert books(store, job) == (200, 0, 0, 2)
    attempt(journal, CALL, Reply(text="said", usage=Usage(input_tokens=40), waste=Usage(uncertain_calls=2)))
    assert books(store, job) == (240, 0, 0, 2)
    assert attempt(journal).text == "said"


@pytest.mark.parametrize(
    ("slow", "booked"), [("reserve", (0, 0, 0, 0)), ("the cache", (0, 0, 0, 0)), ("settle", (40, 0, 0, 0))]
)
def test_a_call_that_is_cancelled_while_redis_is_asked_leaves_nothing_open(job, store, monkeypatch, slow, booked):
    """The event loop goes on meanwhile. No request is made of what was just reserved, and a reply that was paid is kept."""
    journal = RedisJournal(store, store.claim(job), cache=True)
    asked, go = threading.Event(), threading.Event()

    def slowly(ask, name):
        def asks(*arguments):
            answer = ask(*arguments)
            if slow in (name, arguments[0]):
                asked.set()
                assert go.wait(60)
            return answer

        return asks

    async def cancelled():
        reply = Reply(text="said", usage=Usage(input_tokens=40))
        task = asyncio.create_task(attempted(journal, CALL, reply))
        await asyncio.to_thread(asked.wait, 60)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(store, "run", slowly(store.run, "a script"))
    monkeypatch.setattr(store.redis, "get", slowly(store.redis.get, "the cache"))
    asyncio.run(cancelled())
    assert books(store, job) == booked
    assert (slow == "settle") == (store.redis.hexists(store.key(job, "calls:default:0"), CALL.id))


def test_a_job_that_is_cancelled_makes_no_further_request(job, make_jobs, store):
    journal = RedisJournal(store, store.claim(job), cache=False)
    attempt(journal)
    make_jobs().cancel(job)
    with pytest.raises(asyncio.CancelledError):
        attempt(journal)
    assert books(store, job) == (100, 0, 0, 1)


def test_an_answer_from_the_cache_keeps_its_bill_and_takes_nothing_of_the_budget(make_jobs, store):
    call = Call(id="a", content="what was asked", purpose="answer")
    reply = Reply(text="Paris.", usage=Usage(calls=1, input_tokens=40, output_tokens=2, cost_usd=0.001))
    earlier = RedisJournal(store, store.claim(submit(make_jobs())), cache=True)
    attempt(earlier, call, reply)
    job = submit_with_budget(make_jobs(), tokens=50)  # at its cap a call of 100 would be refused
    hit = attempt(RedisJournal(store, store.claim(job), cache=True), call)
    # the answer is what the system takes, whoever paid for it; this job pays nothing
    assert hit.usage == Usage(cache_hits=1, input_tokens=40, output_tokens=2, cost_usd=0.001)
    assert money(store, job) == (0, 0, 0)


def test_while_redis_is_full_no_further_call_is_let_through_and_no_reply_is_lost(job, store):
    journal = RedisJournal(store, store.claim(job), cache=True)
    other = CALL.model_copy(update={"id": "d", "content": "y"})

    async def worked():
        reservation = await journal.reserve(CALL, MOST)
        store.redis.config_set("maxmemory", 1)
        settling = asyncio.create_task(
            journal.settle(reservation, Reply(text="paid", usage=Usage(calls=1, input_tokens=60)))
        )
        await asyncio.sleep(0.05)
        next_call = asyncio.create_task(journal.reserve(other, MOST))
        await asyncio.sleep(0.3)
        assert [settling.done(), next_call.done()] == [False, False]
        store.redis.config_set("maxmemory", 0)
        await settling
        return await next_call

    try:
        assert isinstance(asyncio.run(worked()), Reservation)
    finally:
        store.redis.config_set("maxmemory", 0)
    assert books(store, job) == (60, 100, 1, 0)
    assert attempt(journal).text == "paid"


def test_a_reply_that_could_not_be_read_is_no_hit_for_later_jobs(make_jobs, store):
    for unreadable in (True, False):
        earlier = RedisJournal(store, store.claim(submit(make_jobs())), cache=True)
        attempt(earlier, CALL, Reply(text="x", usage=Usage(calls=1), unreadable=unreadable))
    hit = attempt(RedisJournal(store, store.claim(submit(make_jobs())), cache=True))
    assert (hit.text, hit.usage) == ("x", Usage(cache_hits=1))
