"""Jobs of one project spend together no more than its budget for the month."""

import asyncio

import pytest

from job_workers import PayingJudge, deliver_all, in_a_thread, submit_with_budget
from ragassay.core.errors import BudgetReached
from ragassay.core.eval_config import Budget
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.service.project_budgets import ProjectBudgets
from ragassay.service.redis_journal import RedisJournal

CALL = Call(id="a", content="x", purpose="judge")
MOST = Usage(calls=1, input_tokens=50, output_tokens=50, cost_usd=0.002)


@pytest.fixture
def judge():
    return PayingJudge()


@pytest.fixture
def budgets(store):
    return ProjectBudgets(store)


def books(budgets, project="default"):
    now = budgets.standing(project)
    return round(now.spent_usd, 9), round(now.reserved_usd, 9)


def test_two_jobs_at_once_spend_no_more_than_their_project_may(make_jobs, queue, store, budgets):
    budgets.cap("default", 0.14)
    looks = []

    class Watching(PayingJudge):
        async def judge(self, samples, journal):
            for each in samples:
                await super().judge([each], journal)
                looks.append(sum(books(budgets)))
            return await super().judge(samples, journal)

    judge = Watching()
    both = make_jobs(judge), make_jobs(judge)
    jobs = [submit_with_budget(each) for each in both]
    while queue.sent:
        ends = [in_a_thread(lambda on=on, job=job: on.work(job)) for on, job in zip(both, queue.sent[:2], strict=False)]
        del queue.sent[:2]
        for end in ends:
            end()
    assert {both[0].get(job).status for job in jobs} == {"paused"}
    assert "the budget of project default is reached: of 0.14 USD" in both[0].get(jobs[0]).error
    assert max(looks) <= 0.14 + 1e-9
    spent = sum(store.spent_usd(job) for job in jobs)
    assert books(budgets) == (round(spent, 9), 0)
    # A call may take 0.002 and takes 0.001: after 139 of them no further one fits.
    assert spent == pytest.approx(0.139)
    budgets.cap("default", 1)
    for job in jobs:
        both[0].resume(job, Budget())
    deliver_all(both[0], queue)
    for job in jobs:
        both[0].finalize(job)
    assert [both[0].get(job).status for job in jobs] == ["finished"] * 2
    assert books(budgets) == (0.3, 0)  # 2 jobs of 150 calls for 0.001


def test_a_cap_that_is_new_counts_what_the_month_has_spent_and_one_that_is_gone_stops_nothing(jobs, queue, budgets):
    job = submit_with_budget(jobs)
    jobs.work(queue.sent.pop(0))
    spent = budgets.standing("default").spent_usd
    budgets.cap("default", spent + 0.01)
    deliver_all(jobs, queue)
    # Nine calls of 0.001 fit: after them 0.001 is left, less than a call may take.
    assert jobs.get(job).status == "paused"
    assert books(budgets) == (round(spent + 0.009, 9), 0)
    budgets.cap("default", None)
    jobs.resume(job, Budget())
    deliver_all(jobs, queue)
    assert jobs.get(job).status == "finalizing"


def test_a_call_is_settled_on_the_account_of_the_month_in_which_it_was_reserved(jobs, store, budgets, monkeypatch):
    job = submit_with_budget(jobs)
    journal = RedisJournal(store, store.claim(job), cache=False)
    monkeypatch.setattr("ragassay.service.project_budgets.this_month", lambda: "2026-10")
    reservation = asyncio.run(journal.reserve(CALL, MOST))
    monkeypatch.undo()
    asyncio.run(journal.settle(reservation, Reply(text="", usage=Usage(calls=1, cost_usd=0.001))))
    assert books(budgets) == (0, 0)
    monkeypatch.setattr("ragassay.service.project_budgets.this_month", lambda: "2026-10")
    assert books(budgets) == (0.001, 0)


def test_a_project_with_a_budget_needs_prices_and_says_how_much_has_no_bill(jobs, store, budgets):
    budgets.cap("default", 0.003)
    job = submit_with_budget(jobs)
    journal = RedisJournal(store, store.claim(job), cache=False)
    with pytest.raises(BudgetReached, match="the model has no price"):
        asyncio.run(journal.reserve(CALL, Usage(calls=1, cost_usd=None)))
    reservation = asyncio.run(journal.reserve(CALL, MOST))
    asyncio.run(journal.end(reservation, reservation.unknown))
    with pytest.raises(BudgetReached, match=r"0\.0020 are spent \(0\.0020 of them estimates of calls with an unknown"):
        asyncio.run(journal.reserve(CALL, MOST))
