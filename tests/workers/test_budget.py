"""Budgets of a job and of its project's month hold over all workers, and a resume goes on under a new one."""

import asyncio

import pytest

from job_workers import CALL, PayingJudge, deliver_all, finish, in_a_thread, submit, submit_with_budget
from offline_runs import ScriptedJudge
from ragassay.core.errors import BudgetReached, Conflict
from ragassay.core.eval_config import Budget
from ragassay.core.models import Rating, Usage
from ragassay.core.protocols import Call, Reply
from ragassay.service.project_budgets import ProjectBudgets
from ragassay.service.redis_journal import RedisJournal

MOST = Usage(calls=1, input_tokens=50, output_tokens=50, cost_usd=0.002)


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


def notified(jobs, kind=None):
    jobs.notifier.deliver_due()
    return jobs.notifier.page("default", kind=kind, cursor=None, limit=10).alerts


def test_a_budget_that_is_reached_is_told_once_for_each_time(jobs, queue, caplog):
    job = submit_with_budget(jobs, tokens=4000)
    deliver_all(jobs, queue)
    said = "budget reached: the job is paused, 56 of 150 rows are done"
    jobs.tick()
    (notice,) = notified(jobs, "budget_reached")
    assert (notice.job, notice.done, notice.rows, notice.headline) == (job, 56, 150, said)
    assert caplog.text.count(said) == 1
    jobs.resume(job, Budget(tokens=7000))
    deliver_all(jobs, queue)
    assert (jobs.get(job).status, len(notified(jobs))) == ("paused", 2)


@pytest.mark.parametrize(("allowed", "kinds"), [(0.1, ["coverage_low"]), (0.2, [])])
def test_rows_that_a_judge_could_not_score_beyond_the_limit_are_told_without_its_reason(
    make_jobs, queue, allowed, kinds
):
    broken = Rating(reason="the planted text of a provider")
    jobs = make_jobs(ScriptedJudge(q1=broken, q2=broken))
    finish(jobs, queue, submit(jobs, 10, max_failed_share=allowed))
    notices = notified(jobs)
    assert [notice.kind for notice in notices] == kinds
    for notice in notices:
        assert (notice.metric, notice.value, notice.threshold, notice.count) == ("faithfulness", 0.8, 0.9, 1)
        assert "planted" not in notice.model_dump_json()


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
    assert "the budget of project default is reached" in both[0].get(jobs[0]).error
    assert max(looks) <= 0.14 + 1e-9
    spent = sum(store.spent(job) for job in jobs)
    assert books(budgets) == (round(spent, 9), 0)
    # a call may take 0.002 and takes 0.001: after 139 of them no further one fits
    assert spent == pytest.approx(0.139)
    budgets.cap("default", 1)
    for job in jobs:
        both[0].resume(job, Budget())
    deliver_all(both[0], queue)
    assert [both[0].get(job).status for job in jobs] == ["finalizing"] * 2
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
