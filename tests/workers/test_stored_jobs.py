"""What earlier builds left in Redis is read, and finished, by this one."""

import orjson
import pytest

from job_workers import PayingJudge, deliver_all
from ragassay.specification import Budget
from ragassay.store.selection import Selection
from workers.stored_jobs import FOLDER, ROWS, restored

SCORED = {"faithfulness": 1.0, "mrr": 1.0}


@pytest.fixture(params=sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def stored(request, store):
    """The jobs' ids by state, of each build that left some."""
    return restored(request.param, store.redis)


@pytest.fixture
def judge():
    return PayingJudge()


def scores(jobs, job, **asked):
    results = jobs.results(job, cursor=None, limit=100, selection=Selection(**asked)).results
    return {row.query_id: {name: score.value for name, score in row.scores.items()} for row in results}


def assert_finished_and_paid_once(jobs, job):
    jobs.finalize(job)
    assert scores(jobs, job) == {f"q{n}": SCORED for n in range(ROWS)}
    usage = orjson.loads(jobs.store.report(job))["systems"]["default"]["evaluation"]["usage"]
    assert (usage["calls"], usage["cost_usd"]) == (ROWS, pytest.approx(0.001 * ROWS))


def test_a_finished_job_of_an_earlier_build_has_its_report_its_rows_and_its_place_in_the_list(stored, jobs):
    assert {job.id: job.status for job in jobs.page(cursor=None, limit=10).jobs} == {
        stored["finished"]: "finished",
        stored["paused"]: "paused",
        stored["begun"]: "running",
    }
    job = stored["finished"]
    assert scores(jobs, job) == {f"q{n}": SCORED for n in range(ROWS)}
    assert list(scores(jobs, job, category="factual", where=("latency_ms<=700",), sort="-latency_ms")) == [
        "q7", "q5", "q3", "q1",
    ]  # fmt: skip
    report = orjson.loads(jobs.store.report(job))
    assert [row["query_id"] for row in report["systems"]["default"]["results"]] == [f"q{n}" for n in range(ROWS)]


def test_a_job_that_an_earlier_build_began_is_finished_and_paid_once(stored, jobs, judge, queue):
    job = stored["begun"]
    assert jobs.get(job).progress.done == 4
    jobs.wake(job)
    deliver_all(jobs, queue)
    assert judge.made == ROWS - 4
    assert_finished_and_paid_once(jobs, job)


def test_what_an_earlier_build_spent_of_a_budget_is_spent(stored, jobs, judge, queue):
    job = stored["paused"]
    jobs.resume(job, Budget(tokens=500))  # 240 are spent: 60 for each call, which may take 100
    deliver_all(jobs, queue)
    assert (judge.made, jobs.get(job).status) == (3, "paused")
    jobs.resume(job, Budget(tokens=1000))
    deliver_all(jobs, queue)
    assert judge.made == ROWS - 4
    assert_finished_and_paid_once(jobs, job)
