"""A budget that is reached, and rows that a judge could not score, are told once each."""

import pytest

from job_workers import PayingJudge, deliver_all, finish, submit, submit_with_budget
from offline_runs import ScriptedJudge
from ragassay.core.eval_config import Budget
from ragassay.core.models import Rating


def told(jobs):
    jobs.notifier.deliver_due()
    page = jobs.notifier.page("default", kind="budget_reached", cursor=None, limit=10)
    return [(notice.job, notice.done, notice.rows, notice.headline) for notice in page.alerts]


def test_a_budget_that_is_reached_is_told_once_for_each_time(make_jobs, queue, caplog):
    jobs = make_jobs(PayingJudge())
    job = submit_with_budget(jobs, tokens=4000)
    deliver_all(jobs, queue)
    assert jobs.get(job).status == "paused"
    said = "budget reached: the job is paused, 56 of 150 rows are done"
    assert told(jobs) == [(job, 56, 150, said)]
    assert caplog.text.count(said) == 1
    jobs.tick()
    assert len(told(jobs)) == 1
    jobs.resume(job, Budget(tokens=7000))
    deliver_all(jobs, queue)
    assert jobs.get(job).status == "paused"
    assert len(told(jobs)) == 2


@pytest.mark.parametrize(("allowed", "kinds"), [(0.1, ["coverage_low"]), (0.2, [])])
def test_rows_that_a_judge_could_not_score_beyond_the_limit_are_told_without_its_reason(
    make_jobs, queue, allowed, kinds
):
    broken = Rating(reason="the planted text of a provider")
    jobs = make_jobs(ScriptedJudge(q1=broken, q2=broken))
    job = submit(jobs, 10, max_failed_share=allowed)
    finish(jobs, queue, job)
    assert jobs.get(job).progress.failed == 2
    jobs.notifier.deliver_due()
    told = jobs.notifier.page("default", kind=None, cursor=None, limit=10).alerts
    assert [notice.kind for notice in told] == kinds
    for notice in told:
        assert (notice.metric, notice.value, notice.threshold, notice.count) == ("faithfulness", 0.8, 0.9, 1)
        assert notice.headline == "rows failed: faithfulness has 80 % of the rows, wanted are 90 %"
        assert "planted" not in notice.model_dump_json()
