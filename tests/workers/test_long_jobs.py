"""Jobs of many rows, whose report is made of one chunk at a time; and what is kept of jobs that have ended, how long."""

import os
import tracemalloc
from contextlib import nullcontext

import orjson
import pytest
from redis import exceptions
from redis.client import Pipeline

from handmade_reports import odd_rows
from job_workers import deliver, finish, source_of, submit
from offline_runs import sample
from polling import until
from ragassay.api import submission
from ragassay.core.errors import Conflict, NotFound
from ragassay.core.eval_config import RunConfig
from ragassay.core.jobs import Planned
from ragassay.core.models import Response, Sample
from ragassay.core.settings import Settings
from ragassay.datasets.versions import Lineage, Origin
from ragassay.evaluation.inputs import recorded
from ragassay.service.job_run import JobRun
from ragassay.service.job_state import DAY_S, Retention
from ragassay.service.redis import PARTIAL_FILE
from ragassay.storage.runs import GATES_FILE, REPORT_FILE, ChunkedResults


@pytest.fixture
def few_in_memory(monkeypatch):
    """Ten rows are many."""
    monkeypatch.setattr("ragassay.storage.runs.MAX_IN_MEMORY", 10)


def test_the_rows_of_a_long_job_are_read_from_redis_for_as_long_as_it_has_them(jobs, queue, store, few_in_memory):
    job = submit(jobs, 120)
    finish(jobs, queue, job)
    report = JobRun(store, job).report_with_results()
    rows = report.results_of("default")
    assert isinstance(rows, ChunkedResults)
    assert [row.query_id for row in rows] == [f"q{n}" for n in range(120)]
    assert (rows[119], rows[-1]) == (tuple(rows)[119],) * 2
    store.redis.hdel(store.key(job, "results"), "default/00001.jsonl")
    later = JobRun(store, job).report_with_results()
    assert later.without_rows == report.without_rows
    with pytest.raises(NotFound, match="70 of the 120 rows of default"):
        later.results_of("default")


def test_the_json_of_a_long_job_joins_the_rows_that_are_kept(jobs, store, few_in_memory):
    rows = odd_rows()
    job = submit(jobs, len(rows), metrics=("mrr",))
    store.commit(store.claim(job), store.state(job).record, rows)
    jobs.finalize(job)
    report = JobRun(store, job).report_with_results()
    assert isinstance(report.results["default"], ChunkedResults)
    in_memory = report.model_copy(update={"results": {"default": tuple(rows)}})
    assert b"".join(report.json_parts()) == b"".join(in_memory.json_parts())


def test_of_a_long_job_that_was_cancelled_the_chunks_that_are_done_make_its_report(
    jobs, queue, store, few_in_memory, monkeypatch
):
    job = submit(jobs, 160)
    lost = store.claim(job)  # the first of four
    deliver(jobs, queue)
    deliver(jobs, queue)
    jobs.cancel(job)
    read, results = [], JobRun.results
    monkeypatch.setattr(JobRun, "results", lambda run, chunk: read.append(chunk.number) or results(run, chunk))
    jobs.finalize(job)
    assert read == [1, 2]
    report = orjson.loads(JobRun(jobs.store, job).report_document())
    assert lost.number == 0
    assert (report["run"]["status"], report["run"]["rows"], report["run"]["rows_done"]) == ("incomplete", 160, 100)
    assert [row.query_id for row in JobRun(store, job).rows("default")] == [f"q{n}" for n in range(50, 150)]


def stored(store, rows):
    """The body of a job of a stored dataset: rows of two kilobytes that pack to little."""

    def row(n):
        response = Response(answer=f"{n}", contexts=(f"{n} " * 400,))
        return Sample(query_id=f"q{n}", query=f"{n}?", ground_truth_answer=(f"{n}",), response=response)

    store.datasets.add("long", map(row, range(rows)), lambda: Origin(lineage=Lineage(action="import")))
    return orjson.dumps({"dataset": "long", "metrics": ["token_f1"]})


def test_memory_does_not_grow_with_the_rows_of_a_dataset_whose_job_is_taken(jobs, queue, store):
    """4,000 rows that are held are 18 MB, their packed chunks alone 5."""
    body = stored(store, 4_000)
    tracemalloc.start()
    try:
        asked = submission.read(body, Settings(), jobs.registered, store.datasets)
        job, _ = jobs.submit(*asked)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert job.progress.rows == 4_000
    assert peak < 7_000_000
    first = [(row.query, row.response.answer) for row in JobRun(store, job.id).samples(store.claim(job.id))][:2]
    assert first == [("0?", "0"), ("1?", "1")]


def test_what_a_submission_had_written_goes_with_it_where_it_is_refused(jobs, store, monkeypatch):
    """Else a job that is too large would have Redis full for the others."""
    monkeypatch.setattr("ragassay.service.redis.CHUNKS_AT_ONCE", 2)
    used = store.redis.info("memory")["used_memory"]
    samples = [sample(n).model_copy(update={"metadata": {"noise": os.urandom(10_000).hex()}}) for n in range(500)]
    store.redis.config_set("maxmemory", 2 * used + 1_000_000)  # room for new jobs, and not for 5 MB
    try:
        with pytest.raises(exceptions.OutOfMemoryError):
            jobs.submit(RunConfig(metrics=("mrr",)), recorded(source_of(samples), samples))
        until(lambda: store.redis.info("memory")["used_memory"] < used + 500_000, 60, "memory that is free again")
    finally:
        store.redis.config_set("maxmemory", 0)
    assert (list(store.redis.scan_iter("*:new:*")), store.active()) == ([], [])


@pytest.mark.parametrize("executed", [False, True])
@pytest.mark.parametrize("planned", [None, ("ab" * 16, Planned(schedule="nightly", slot=None))])
def test_a_job_is_made_once_though_the_connection_is_lost_while_it_is_made(jobs, store, monkeypatch, planned, executed):
    samples, lost, execute = [sample(n) for n in range(3)], [], Pipeline.execute

    def flaky(pipe, *arguments, **options):
        """redis-py says of a lost connection what it says of a key that was changed."""
        if pipe.watching and not lost:
            lost.append(execute(pipe, *arguments, **options) if executed else pipe.reset())
            raise exceptions.WatchError
        return execute(pipe, *arguments, **options)

    monkeypatch.setattr(Pipeline, "execute", flaky)
    with pytest.raises(Conflict, match="exists") if planned and executed else nullcontext():
        jobs.submit(RunConfig(metrics=("mrr",)), recorded(source_of(samples), samples), planned=planned)
    (job,) = store.active()
    assert store.state(job).rows == 3
    assert store.redis.ttl(store.key(job, "inputs")) == -1


def lives(store, job):
    """Seconds that each key of a job has left; -1 without an end."""
    keys = sorted(store.redis.scan_iter(f"ra:{{{job}}}:*"))
    return {key.decode().split("}:")[1]: store.redis.ttl(key) for key in keys}


@pytest.mark.parametrize("how", ["finished", "cancelled", "failed"])
def test_every_key_of_a_job_that_has_ended_has_an_end(store, queue, jobs, how):
    store.retention = Retention.of_days(results=3, reports=9)
    job = submit(jobs)
    if how == "cancelled":
        jobs.work(queue.sent.pop(0))
        jobs.cancel(job)
        jobs.finalize(job)
    elif how == "failed":
        store.transition(job, "failed", fields={"error": "it can't go on"})
        jobs.tick()
    else:
        finish(jobs, queue, job)
    assert jobs.get(job).status == how
    left = lives(store, job)
    assert all(0 < seconds <= 9 * DAY_S for seconds in left.values()), left
    assert left["meta"] > 3 * DAY_S >= left["inputs"]
    reports = {"meta", REPORT_FILE, PARTIAL_FILE, GATES_FILE}
    assert {name for name, seconds in left.items() if seconds > 3 * DAY_S} <= reports


def test_a_round_of_the_sweeper_takes_out_ids_whose_record_is_long_gone_and_no_others(store, jobs):
    kept = [submit(jobs) for _ in range(3)]
    store.redis.zadd("ra:jobs", {"gone": 1, "later": store.now_ms() - 450 * DAY_S * 1000})
    jobs.tick()
    assert [job for job, _ in store.jobs(before=None, limit=10)] == [*reversed(kept), "later"]
