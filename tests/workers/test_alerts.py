"""A budget that is reached, and rows that a judge could not score, are told once each."""

import logging

import pytest

from job_workers import PayingJudge, deliver_all, finish, submit, submit_with_budget
from offline_runs import ScriptedJudge, sample, source_of
from ragassay.core import telemetry
from ragassay.core.jobs import Planned
from ragassay.core.models import Judgement
from ragassay.core.specification import Budget, JobSpec
from ragassay.evaluation import plan


def told(jobs):
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


def test_a_worker_that_dies_when_a_budget_is_reached_leaves_the_notice_to_the_sweeper(make_jobs, queue, monkeypatch):
    jobs = make_jobs(PayingJudge())
    job = submit_with_budget(jobs, tokens=4000)
    monkeypatch.setattr(jobs, "_notify", lambda state: None)
    deliver_all(jobs, queue)
    assert (jobs.get(job).status, told(jobs)) == ("paused", [])
    monkeypatch.undo()
    jobs.tick()
    assert [one[0] for one in told(jobs)] == [job]


@pytest.mark.parametrize(("allowed", "kinds"), [(0.1, ["coverage_low"]), (0.2, [])])
def test_rows_that_a_judge_could_not_score_beyond_the_limit_are_told_without_its_reason(
    make_jobs, queue, allowed, kinds
):
    broken = Judgement(reason="the planted text of a provider")
    jobs = make_jobs(ScriptedJudge(q1=broken, q2=broken))
    job = submit(jobs, 10, max_missing=allowed)
    finish(jobs, queue, job)
    assert jobs.get(job).progress.failed == 2
    told = jobs.notifier.page("default", kind=None, cursor=None, limit=10).alerts
    assert [notice.kind for notice in told] == kinds
    for notice in told:
        assert (notice.metric, notice.value, notice.threshold, notice.count) == ("faithfulness", 0.8, 0.9, 1)
        assert notice.headline == "rows failed: faithfulness has 80 % of the rows, wanted are 90 %"
        assert "planted" not in notice.model_dump_json()


def test_notices_and_log_lines_of_a_scheduled_job_name_its_project_schedule_and_time(make_jobs, queue):
    class Fields(logging.Handler):
        def emit(self, record):
            said[getattr(record, "event", "")] = telemetry.fields()

    said, handler = {}, Fields()
    jobs = make_jobs(ScriptedJudge(q1=Judgement(reason="it broke")))
    rows, slot = [sample(n) for n in range(4)], "2026-11-22T02:00:00.000+00:00"
    planned = "7" * 32, Planned(schedule="nightly", slot=slot)
    job, _ = jobs.of("a").submit(
        JobSpec(metrics=("faithfulness",)), plan.recorded(source_of(rows), rows), planned=planned
    )
    log = logging.getLogger("ragassay")
    log.addHandler(handler)
    log.setLevel("INFO")
    try:
        finish(jobs, queue, job.id)
    finally:
        log.setLevel("NOTSET")
        log.removeHandler(handler)
    (notice,) = jobs.notifier.page("a", kind="coverage_low", cursor=None, limit=10).alerts
    assert (notice.job, notice.schedule, notice.slot) == (job.id, "nightly", slot)
    for event in ("evaluation_started", "job_finished", ""):
        assert {"project": "a", "schedule": "nightly", "slot": slot}.items() <= said[event].items()
