"""A job's budget holds over all workers, and a resume goes on under a new one."""

import asyncio

import orjson
import pytest

from job_workers import (
    CALL,
    PayingJudge,
    deliver_all,
    expire_leases,
    finish,
    in_a_thread,
    meta,
    money,
    submit_with_budget,
)
from ragassay.analysis.costs import CostQuery
from ragassay.core.errors import BudgetReached, Conflict
from ragassay.core.eval_config import Budget
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.service.job_reports import JobReports
from ragassay.service.job_run import JobRun
from ragassay.service.redis_journal import RedisJournal


@pytest.fixture
def judge():
    return PayingJudge()


def test_a_budget_holds_over_all_workers_and_a_higher_one_goes_on(make_jobs, queue, judge):
    first, second = make_jobs(judge), make_jobs(judge)
    job = submit_with_budget(first, tokens=6000)
    ends = [in_a_thread(lambda jobs=jobs: jobs.work(job)) for jobs in (first, second)]
    for end in ends:
        end()
    del queue.sent[:2]
    deliver_all(first, queue)
    paused = first.get(job)
    # 99 calls of 60 tokens are 5,940; after 98 (5,880) one of at most 100 fits, after 99 it does not
    assert (paused.status, judge.made) == ("paused", 99)
    assert "the budget of 6,000 tokens is reached: 5,940 are spent" in paused.error
    first.tick()
    assert queue.sent == []
    assert first.resume(job, Budget(tokens=100_000)).status == "running"
    finish(second, queue, job)
    assert (second.get(job).status, second.get(job).error, judge.made) == ("finished", None, 150)
    with pytest.raises(Conflict, match="is finished, not paused"):
        second.resume(job, Budget())


def test_a_worker_that_died_in_a_call_has_spent_what_it_reserved(jobs, queue, store):
    job = submit_with_budget(jobs, tokens=1_000_000)
    claim = store.claim(job)
    most = Usage(input_tokens=50, output_tokens=50)
    dead = RedisJournal(store, claim, cache=False)
    asyncio.run(dead.reserve(Call(id="default/q0", content="x", purpose="judge"), most))
    expire_leases(store, job)
    jobs.tick()
    deliver_all(jobs, queue)
    books = meta(store, job)
    assert float(books["spent_tokens"]) == 150 * 60 + 100
    assert (float(books["open_tokens"]), books["in_flight"], books["uncertain_calls"]) == (0, b"0", b"1")
    jobs.finalize(job)
    report = orjson.loads(JobRun(store, job).report_document())
    assert report["interrupted"]["uncertain_calls"] == jobs.get(job).uncertain_calls == 1
    costs = JobReports(store).costs(CostQuery())
    assert costs.interrupted.uncertain_calls == 1


def test_a_call_waits_for_those_in_flight_and_is_refused_when_they_leave_nothing(jobs, queue, store):
    most = Usage(input_tokens=50, output_tokens=50)
    calls = [Call(id=name, content=name, purpose="judge") for name in "ab"]

    async def in_turn(spent):
        job = submit_with_budget(jobs, tokens=150)
        mine, other = (RedisJournal(store, store.claim(job), cache=False) for _ in range(2))
        first = await mine.reserve(calls[0], most)
        waiting = asyncio.create_task(other.reserve(calls[1], most))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await mine.settle(first, Reply(text="{}", usage=Usage(calls=1, input_tokens=spent)))
        return await waiting

    assert asyncio.run(in_turn(50)).call == calls[1]
    with pytest.raises(BudgetReached):
        asyncio.run(in_turn(51))


def test_a_hit_of_the_cache_at_the_cap_leaves_the_books_alone(jobs, store):
    job = submit_with_budget(jobs, tokens=50)
    reply = Reply(text="{}", usage=Usage(calls=1, input_tokens=60))
    earlier = RedisJournal(store, store.claim(submit_with_budget(jobs)), cache=True)
    asyncio.run(earlier.settle(asyncio.run(earlier.reserve(CALL, Usage(input_tokens=100))), reply))
    journal = RedisJournal(store, store.claim(job), cache=True)
    hit = asyncio.run(journal.reserve(CALL, Usage(input_tokens=100)))
    assert (hit.text, hit.usage.cache_hits) == ("{}", 1)
    assert money(store, job) == (0, 0, 0)
