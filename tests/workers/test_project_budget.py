"""Jobs of one project spend together no more than its budget, and what they don't spend goes back."""

import asyncio
import random

import pytest

from job_workers import PayingJudge, deliver_all, finish, in_a_thread, meta, submit_with_budget
from ragassay.models import Usage
from ragassay.protocols import Call, Reply
from ragassay.specification import Budget
from ragassay.store.project_budgets import ProjectBudgets
from ragassay.store.redis_ledger import RedisLedger

MOST = Usage(calls=1, input_tokens=50, output_tokens=50, cost_usd=0.002)


@pytest.fixture
def judge():
    return PayingJudge()


@pytest.fixture
def budgets(store):
    return ProjectBudgets(store)


def books(budgets, project="default"):
    now = budgets.standing(project)
    return round(now.spent_usd, 9), round(now.leased_usd, 9)


def test_two_jobs_side_by_side_spend_no_more_than_their_project_may(make_jobs, queue, store, budgets):
    budgets.cap("default", 0.14)
    looks = []

    class Watching(PayingJudge):
        async def judge(self, samples, ledger):
            for each in samples:
                await super().judge([each], ledger)
                looks.append(sum(books(budgets)))
            return await super().judge(samples, ledger)

    judge = Watching()
    both = make_jobs(judge), make_jobs(judge)
    jobs = [submit_with_budget(each) for each in both]
    while queue.sent:
        ends = [
            in_a_thread(lambda on=on, slot=slot: on.work(*slot)) for on, slot in zip(both, queue.sent[:2], strict=False)
        ]
        del queue.sent[:2]
        for end in ends:
            end()
    assert {both[0].get(job).status for job in jobs} == {"paused"}
    assert "the budget of project default is reached: of 0.14 USD" in both[0].get(jobs[0]).error
    assert max(looks) <= 0.14 + 1e-9
    spent = sum(store.spent_usd(job) for job in jobs)
    assert books(budgets) == (round(spent, 9), 0)
    # a call may take 0.002 and takes 0.001: of 140 that the money is enough for, few are left out
    assert 0.13 <= spent <= 0.14
    budgets.cap("default", 1)
    for job in jobs:
        both[0].resume(job, Budget())
    deliver_all(both[0], queue)
    for job in jobs:
        both[0].finalize(job)
    assert [both[0].get(job).status for job in jobs] == ["finished"] * 2
    assert books(budgets) == (0.3, 0)  # 2 jobs of 150 calls for 0.001


def test_a_job_that_is_cancelled_gives_back_and_one_that_died_before_that_does_so_in_the_sweep(
    jobs, queue, store, budgets
):
    budgets.cap("default", 5)
    cancelled, dead = submit_with_budget(jobs), submit_with_budget(jobs)
    for job in (cancelled, dead):
        ledger = RedisLedger(store, store.claim(job), cache=False)
        call = Call(id="a", content="x", purpose="judge")
        assert asyncio.run(ledger.reserve(call, MOST)) is None
        asyncio.run(ledger.settle(call, Reply(text="", usage=Usage(calls=1, cost_usd=0.001))))
    assert books(budgets) == (0, 0.1)  # a block of a hundredth for each
    jobs.cancel(cancelled)
    assert books(budgets) == (0.001, 0.05)
    store.transition_status(dead, "failed", "running")  # and whoever did that died here
    budgets.sweep()
    budgets.sweep()
    assert books(budgets) == (0.002, 0)
    store.redis.delete(store.key(dead, "meta"))
    budgets.sweep()
    assert books(budgets) == (0.002, 0)


def test_money_that_was_leased_for_a_worker_that_died_is_used_by_the_next(jobs, store, budgets):
    budgets.cap("default", 0.01)
    job = submit_with_budget(jobs)
    claim, run = store.claim(job), store.run
    call = Call(id="a", content="x", purpose="judge")

    def dies(script, keys, arguments):
        if script == "take_lease":
            raise ConnectionResetError
        return run(script, keys, arguments)

    store.run = dies
    with pytest.raises(ConnectionResetError):
        asyncio.run(RedisLedger(store, claim, cache=False).reserve(call, MOST))
    store.run = run
    assert books(budgets) == (0, 0.002)
    assert asyncio.run(RedisLedger(store, claim, cache=False).reserve(call, MOST)) is None
    assert books(budgets) == (0, 0.002)


def test_a_job_under_way_heeds_a_budget_that_is_new_and_one_that_is_gone(jobs, judge, queue, store, budgets):
    job = submit_with_budget(jobs)
    assert "lease_usd" not in meta(store, job)
    jobs.work(*queue.sent.pop(0))
    budgets.cap("default", 0.06)
    budgets.sweep()
    deliver_all(jobs, queue)
    # 50 calls of 0.001 came before; of the 0.01 that are left the 9th leaves 0.001, less than a call may take
    assert (jobs.get(job).status, judge.made) == ("paused", 59)
    assert books(budgets) == (0.059, 0)
    budgets.cap("default", None)
    jobs.resume(job, Budget())
    deliver_all(jobs, queue)
    assert judge.made == 150


def test_a_job_without_a_budget_asks_nothing_of_its_project(jobs, queue, store, budgets):
    budgets.cap("other", 1)
    job = submit_with_budget(jobs)
    scripts, run = [], store.run
    store.run = lambda script, *others: scripts.append(script) or run(script, *others)
    finish(jobs, queue, job)
    assert scripts.count("reserve") == 150
    assert not {"lease_budget", "take_lease", "end_lease"} & set(scripts)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_steps_fall_out_and_come_late_no_job_may_spend_more_than_is_down_for_it(store, budgets, seed):
    luck = random.Random(seed)
    budgets.cap("default", 1)
    names, late = ("a" * 32, "b" * 32), []
    for job in names:
        store.redis.hset(f"ra:{{{job}}}:meta", mapping={"status": "running", "lease_usd": 0, "project": "default"})
    run = store.run

    def unreliable(script, keys, arguments):
        """A worker may freeze before a step, die after it, or be overtaken."""
        if luck.random() < 0.2:
            late.append((script, keys, arguments))
            raise ConnectionResetError
        answer = run(script, keys, arguments)
        if luck.random() < 0.2:
            raise ConnectionResetError
        return answer

    store.run = unreliable
    for _ in range(200):
        job = luck.choice(names)
        meta_key = f"ra:{{{job}}}:meta"
        step = luck.choice(("lease", "spend", "spend", "give back", "late"))
        try:
            if step == "lease":
                budgets.lease(job, luck.choice((0.001, 0.05)))
            elif step == "give back":
                budgets.give_back(job)
            elif step == "late" and late:
                run(*late.pop(luck.randrange(len(late))))
            elif step == "spend":
                spent, upto = (float(each or 0) for each in store.redis.hmget(meta_key, ("spent_usd", "lease_usd")))
                store.redis.hset(meta_key, "spent_usd", spent + luck.random() * (upto - spent))
        except ConnectionResetError:
            pass
        now = budgets.standing("default")
        assert now.spent_usd + now.leased_usd <= 1 + 1e-9
        for each in names:
            down = float(store.redis.hget(f"ra:p:{{default}}:budget:lease:{each}", "upto") or 0)
            assert float(store.redis.hget(f"ra:{{{each}}}:meta", "lease_usd")) <= down + 1e-9
    store.run = run
    for job in names:
        store.redis.hset(f"ra:{{{job}}}:meta", "status", "finished")
    budgets.sweep()
    spent = sum(float(store.redis.hget(f"ra:{{{job}}}:meta", "spent_usd") or 0) for job in names)
    assert books(budgets) == (round(spent, 9), 0)
