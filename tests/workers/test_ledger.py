"""A job's calls are paid once, whoever works on it and however often."""

import asyncio

import pytest
import zstandard

from job_workers import CALL, expire_leases, money, submit
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.service.redis_ledger import RedisLedger, calls_about
from ragassay.storage.protocol import ChunkId

MOST = Usage(calls=1, input_tokens=100)


def reserve(store, claim):
    return asyncio.run(RedisLedger(store, claim, cache=False).reserve(CALL, Usage()))


def die(store, job):
    """What becomes of the chunk of a worker that died."""
    expire_leases(store, job)
    store.sweep(job)


def test_a_settled_call_is_found_by_the_query_that_it_is_about(make_jobs, store):
    job = submit(make_jobs(), 10)
    claim = store.claim(job)
    ledger = RedisLedger(store, claim, cache=True)
    asked = [Call.about(f"q{n}", purpose, n) for n in (1, 2) for purpose in ("judge", "answer")]
    for call in asked:
        assert asyncio.run(ledger.reserve(call, Usage())) is None
    for call in asked[:3]:
        asyncio.run(ledger.settle(call, Reply(text=f"{call.purpose} of {call.query_id}", model="m")))
    chunk = ChunkId(claim.system, claim.number)
    assert sorted(calls_about(store, job, chunk, "q1"), key=lambda told: told[0]) == [
        ("answer", Reply(text="answer of q1", model="m")),
        ("judge", Reply(text="judge of q1", model="m")),
    ]
    assert calls_about(store, job, chunk, "q2") == [("judge", Reply(text="judge of q2", model="m"))]
    blob = zstandard.compress(b'{"text":"of before"}')  # as a version wrote it that did not tell
    store.redis.hset(store.key(job, f"calls:{claim}"), asked[3].id, blob)
    assert asyncio.run(ledger.reserve(asked[3], Usage())) == Reply(text="of before")
    assert len(calls_about(store, job, chunk, "q2")) == 1
    other = store.claim(submit(make_jobs(), 10))
    hit = asyncio.run(RedisLedger(store, other, cache=True).reserve(asked[0], Usage()))
    assert (hit.text, hit.usage.cache_hits) == ("judge of q1", 1)
    assert calls_about(store, other.job, ChunkId(other.system, other.number), "q1") == [("judge", hit)]


def books(store, job):
    """Tokens spent and reserved, calls in flight, calls that may have been paid."""
    return (*money(store, job), store.state(job).uncertain_calls)


def asked(store, job, times):
    """A worker's ledger with a call that is open, after attempts that are lost."""
    ledger = RedisLedger(store, store.claim(job), cache=False)
    for _ in range(times):
        assert asyncio.run(ledger.reserve(CALL, MOST)) is None
    return ledger


@pytest.fixture
def job(make_jobs):
    return submit(make_jobs(), 10)


def test_a_lost_attempt_is_spent_and_counted_once_where_the_next_one_is_answered(job, store):
    ledger = asked(store, job, 2)
    asyncio.run(ledger.release(CALL, Usage()))
    assert asyncio.run(ledger.reserve(CALL, MOST)) is None
    asyncio.run(ledger.settle(CALL, Reply(text="said", usage=Usage(input_tokens=40), waste=Usage(uncertain_calls=1))))
    assert books(store, job) == (140, 0, 0, 1)


def test_a_hung_attempt_is_spent_where_the_next_one_is_not_wanted(job, make_jobs, store):
    ledger = asked(store, job, 1)
    make_jobs().cancel(job)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(ledger.reserve(CALL, MOST))
    asyncio.run(ledger.release(CALL, Usage(uncertain_calls=1)))
    assert books(store, job) == (100, 0, 0, 1)


def test_nothing_stays_reserved_where_a_call_could_not_be_closed_at_first(job, store, monkeypatch):
    ledger = asked(store, job, 2)
    with monkeypatch.context() as away:
        away.setattr(store, "run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            asyncio.run(ledger.release(CALL, Usage()))
    asyncio.run(ledger.release(CALL, Usage(uncertain_calls=1)))
    assert books(store, job) == (100, 0, 0, 1)


def test_an_answer_from_the_cache_keeps_its_bill_and_takes_nothing_of_the_budget(make_jobs, store):
    call = Call(id="a", content="what was asked", purpose="answer")
    reply = Reply(text="Paris.", usage=Usage(calls=1, input_tokens=40, output_tokens=2, cost_usd=0.001))
    earlier = RedisLedger(store, store.claim(submit(make_jobs())), cache=True)
    assert asyncio.run(earlier.reserve(call, Usage(calls=1))) is None
    asyncio.run(earlier.settle(call, reply))
    job = submit(make_jobs())
    hit = asyncio.run(RedisLedger(store, store.claim(job), cache=True).reserve(call, Usage(calls=1)))
    # the answer is what the system takes, whoever paid for it; this job pays nothing
    assert hit.usage == Usage(cache_hits=1, input_tokens=40, output_tokens=2, cost_usd=0.001)
    assert money(store, job)[0] == 0


def test_while_redis_is_full_no_further_call_is_let_through_and_no_reply_is_lost(job, store):
    ledger, other = (
        RedisLedger(store, store.claim(job), cache=True),
        CALL.model_copy(update={"id": "d", "content": "y"}),
    )

    async def worked():
        assert await ledger.reserve(CALL, MOST) is None
        store.redis.config_set("maxmemory", 1)
        settling = asyncio.create_task(ledger.settle(CALL, Reply(text="paid", usage=Usage(calls=1, input_tokens=60))))
        await asyncio.sleep(0.05)
        next_call = asyncio.create_task(ledger.reserve(other, MOST))
        await asyncio.sleep(0.3)
        assert [settling.done(), next_call.done()] == [False, False]
        store.redis.config_set("maxmemory", 0)
        await settling
        return await next_call

    try:
        assert asyncio.run(worked()) is None
    finally:
        store.redis.config_set("maxmemory", 0)
    assert books(store, job) == (60, 100, 1, 0)
    assert asyncio.run(ledger.reserve(CALL, MOST)).text == "paid"


def test_a_reply_that_could_not_be_read_is_no_hit_for_later_jobs(make_jobs, store):
    for unreadable in (True, False):
        earlier = RedisLedger(store, store.claim(submit(make_jobs())), cache=True)
        assert asyncio.run(earlier.reserve(CALL, MOST)) is None
        asyncio.run(earlier.settle(CALL, Reply(text="x", usage=Usage(calls=1), unreadable=unreadable)))
    hit = asyncio.run(RedisLedger(store, store.claim(submit(make_jobs())), cache=True).reserve(CALL, MOST))
    assert (hit.text, hit.usage) == ("x", Usage(cache_hits=1))
