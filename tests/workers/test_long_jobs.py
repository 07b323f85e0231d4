"""Jobs of many rows: their report is made of one chunk at a time, and is the one of rows that are held."""

import orjson
import pytest

from job_workers import deliver, deliver_all, submit
from ragassay.documents import Report
from ragassay.store.job_run import JobResults, JobRun


@pytest.fixture
def few_in_memory(monkeypatch):
    """Ten rows are many."""
    monkeypatch.setattr("ragassay.store.job_run.MOST_IN_MEMORY", 10)


def of_rows(document):
    """A report without the times at which it was made."""
    report = orjson.loads(document)
    for name in ("finished_at", "duration_s"):
        del report["run"][name]
    return report


def made_again(jobs, store, job):
    """The report of a finished job, made once more."""
    store.redis.delete(*(store.key(job, name) for name in ("report", "figures", "costs")))
    store.redis.hset(store.key(job, "meta"), "status", "finalizing")
    jobs.finalize(job)
    return of_rows(jobs.report(job))


def test_the_report_of_a_long_job_is_that_of_one_whose_rows_are_held(make_jobs, queue, store, request):
    jobs = make_jobs()
    job = submit(jobs, 120)
    deliver_all(jobs, queue)
    jobs.finalize(job)
    held = JobRun(store, job).evaluated(jobs.store.state(job).record.chunks())
    first = of_rows(jobs.report(job))
    request.getfixturevalue("few_in_memory")
    read = JobRun(store, job).evaluated(jobs.store.state(job).record.chunks())
    assert isinstance(held, list)
    assert isinstance(read, JobResults)
    assert (len(read), read[119], read[-1], list(read)) == (120, held[119], held[119], held)
    assert made_again(jobs, store, job) == first
    rows = first["systems"]["default"].pop("results")
    assert [row["query_id"] for row in rows] == [f"q{n}" for n in range(120)]
    figures = of_rows(store.figures(job))
    assert figures["systems"]["default"].pop("results") == []
    assert figures == first


def test_a_long_jobs_report_is_opened_without_its_rows_for_as_long_as_redis_has_them(
    make_jobs, queue, store, few_in_memory
):
    jobs = make_jobs()
    job = submit(jobs, 120)
    deliver_all(jobs, queue)
    jobs.finalize(job)
    opened, held = JobRun(store, job).report(), Report.model_validate_json(jobs.report(job))
    assert isinstance(opened.systems["default"].results, JobResults)
    assert opened == held
    store.redis.delete(store.key(job, "out:default:1"))
    again = JobRun(store, job).report()
    assert isinstance(again.systems["default"].results, tuple)
    assert again == held


def test_of_a_long_job_that_was_cancelled_the_chunks_that_are_done_make_its_report(
    make_jobs, queue, store, few_in_memory
):
    jobs = make_jobs()
    job = submit(jobs, 160)
    lost = store.claim(job)  # the first of four
    deliver(jobs, queue)
    deliver(jobs, queue)
    jobs.cancel(job)
    jobs.finalize(job)
    report = orjson.loads(jobs.report(job))
    assert lost.number == 0
    assert (report["run"]["status"], report["run"]["rows"], report["run"]["rows_done"]) == ("incomplete", 160, 100)
    assert [row["query_id"] for row in report["systems"]["default"]["results"]] == [f"q{n}" for n in range(50, 150)]


def test_rows_of_a_long_job_that_are_gone_fail_it_by_name(make_jobs, queue, store, few_in_memory):
    jobs = make_jobs()
    job = submit(jobs, 120)
    deliver_all(jobs, queue)
    store.redis.delete(store.key(job, "out:default:1"))
    jobs.finalize(job)
    failed = jobs.get(job)
    assert failed.status == "failed"
    assert f"the results of chunk default:1 of job {job} are gone from Redis" in failed.error
