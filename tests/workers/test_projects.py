"""Jobs of several projects in one Redis, worked on by the same workers."""

from job_workers import PayingJudge, deliver_all, submit
from ragassay.core.errors import NotFound


def finished(jobs, queue, project, **spec):
    job = submit(jobs.of(project), 10, metrics=("faithfulness",), judges=("a-model",), **spec)
    deliver_all(jobs, queue)
    for done in queue.finalized:
        jobs.finalize(done)
    queue.finalized.clear()
    return job


def found(jobs, project, job):
    try:
        return jobs.of(project).get(job).status
    except NotFound as error:
        return str(error)


def test_workers_work_for_all_projects_and_each_sees_its_own(make_jobs, queue, store):
    jobs = make_jobs(PayingJudge())
    mine, theirs = (finished(jobs, queue, project) for project in ("a", "b"))
    assert [found(jobs, "a", job) for job in (mine, theirs)] == [
        "finished",
        f"there is no job {theirs!r}; list them: GET /v1/jobs",
    ]
    assert [job for job, _ in store.of("b").jobs(before=None, limit=9)] == [theirs]
    assert store.projects() == ["a", "b", "default"]
    assert jobs.get(mine).status == jobs.get(theirs).status == "finished"  # a worker sees all


def test_a_paid_call_is_a_hit_for_later_jobs_of_its_project_only(make_jobs, queue):
    judge = PayingJudge()
    jobs = make_jobs(judge)
    made = []
    for project in ("a", "b", "a", "default", "default"):
        before = judge.made
        finished(jobs, queue, project)
        made.append(judge.made - before)
    assert made == [10, 10, 0, 10, 0]
