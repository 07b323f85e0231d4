"""Jobs that stop when their rule is satisfied."""

import pytest

from job_workers import deliver, deliver_all, finish, submit
from offline_runs import ScriptedJudge, evaluated, new_run, sample, without_times
from ragassay.documents import Report
from ragassay.errors import Conflict
from ragassay.models import Judgement, SentenceVerdict, Verdict
from ragassay.runs.stopping import StopMonitor


def submit_with_stop_rule(jobs, rule="faithfulness width <= 0.5", **spec):
    return submit(jobs, 400, judge="a-model", stop_when=rule, **spec)


def judged(support):
    """The judgement that finds the first sentence of every answer so supported."""
    verdict = Verdict(judge="x", sentences=(SentenceVerdict(id="A1", text="", support=support),), has_contexts=True)
    return Judgement(verdict=verdict)


@pytest.mark.parametrize("spec", [{}, {"judge_share": 0.3}], ids=["alone", "sharing"])
def test_a_job_stops_when_its_rule_is_satisfied_and_its_report_is_that_of_the_command_line(
    jobs, judge, queue, tmp_path, spec
):
    job = submit_with_stop_rule(jobs, **spec)
    finish(jobs, queue, job)
    report = Report.model_validate_json(jobs.store.report(job))
    assert jobs.get(job).status == "finished"
    assert len(judge.asked) == report.stopped.rows < 400
    rows = [sample(n) for n in range(400)]
    run = new_run(tmp_path, rows, report.provenance.configuration)
    assert without_times(evaluated(run).model_dump()) == without_times(report.model_dump())


def test_results_of_a_stopped_job_are_paged_in_the_datasets_order(jobs, queue):
    job = submit_with_stop_rule(jobs)
    finish(jobs, queue, job)
    queries, cursor = [], None
    while True:
        page = jobs.results(job, cursor=cursor, limit=70)
        queries += [result.query_id for result in page.results]
        if (cursor := page.next) is None:
            break
    report = Report.model_validate_json(jobs.store.report(job))
    assert queries == [result.query_id for result in report.systems["default"].results]
    assert len(queries) == report.stopped.rows


def test_a_job_that_may_stop_is_worked_on_by_one_worker_at_a_time(jobs, queue, store):
    job = submit_with_stop_rule(jobs)
    first = store.claim(job)
    assert store.claim(job) is None
    store.give_back(first)
    assert store.claim(job).number == first.number


def test_a_worker_that_dies_between_its_results_and_the_stop_changes_no_number(make_jobs, queue, monkeypatch):
    calm = make_jobs()
    job = submit_with_stop_rule(calm)
    finish(calm, queue, job)
    dying = make_jobs()
    other = submit_with_stop_rule(dying)
    with monkeypatch.context() as patched:
        patched.setattr(StopMonitor, "follow", lambda *_: None)
        for _ in range(4):
            deliver(dying, queue)
    awake = make_jobs()
    finish(awake, queue, other)
    calm_report, late = (Report.model_validate_json(calm.store.report(each)) for each in (job, other))
    assert awake.get(other).progress.done > calm_report.stopped.rows
    assert without_times(late.model_dump()) == without_times(calm_report.model_dump())


def test_a_job_may_be_decided_against_a_finished_one(make_jobs, queue):
    half = {f"q{n}": judged("not_found") for n in range(400)}
    jobs = make_jobs(ScriptedJudge(**half))
    before = submit(jobs, 400)
    deliver_all(jobs, queue)
    with pytest.raises(Conflict):
        submit_with_stop_rule(jobs, rule="faithfulness decided against baseline", baseline=before)
    jobs.finalize(before)
    better = make_jobs()
    after = submit_with_stop_rule(better, rule="faithfulness decided against baseline", baseline=f"{before}#default")
    finish(better, queue, after)
    stopped = Report.model_validate_json(better.store.report(after)).stopped
    assert stopped.intervals["default"]["faithfulness"].low > 0
    assert stopped.rows < 400
