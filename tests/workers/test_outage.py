"""What becomes of a job while its provider fails: it waits, asks with one chunk now and then, and gives up in the end."""

import pytest

from job_workers import PayingJudge, deaths, deliver, deliver_all, finish, meta, submit
from ragassay.core.errors import ProviderDown, Unavailable

DOWN = "the provider failed (503): overloaded"


def down(**more):
    return ProviderDown(DOWN, **more)


@pytest.fixture
def judge():
    return PayingJudge(outage=down())


@pytest.fixture
def probe_due(store):
    """Makes the time of a job's next probe come at once."""
    return lambda job: store.redis.hset(store.key(job, "meta"), "next_ms", 1)


@pytest.fixture
def give_up_due(store):
    """Makes a job's provider have failed for longer than ``outage_timeout_s``, and the next probe come at once."""
    return lambda job: store.redis.hset(store.key(job, "meta"), mapping={"waiting_since_ms": 1, "next_ms": 1})


@pytest.mark.parametrize("error", [down(), Unavailable(DOWN)], ids=["the judge's", "any other"])
def test_a_provider_that_is_down_makes_the_job_wait_and_is_no_death(make_jobs, queue, store, error, caplog):
    jobs = make_jobs(PayingJudge(outage=error))
    job = submit(jobs, 10)
    caplog.set_level("INFO", "ragassay")
    deliver(jobs, queue)
    assert f"job {job} waits for its provider: {DOWN}" in caplog.messages
    assert jobs.get(job).status == "running"
    assert jobs.get(job).waiting.startswith(f"{DOWN}; since ")
    assert (deaths(store, job), jobs.get(job).progress.done) == ({}, 0)
    assert store.redis.lrange(store.key(job, "todo"), 0, -1) == [b"default:0"]
    assert queue.sent == []


def test_until_a_call_is_answered_one_chunk_is_worked_on_at_a_time(jobs, queue, store, judge, probe_due):
    job = submit(jobs, 150)
    deliver_all(jobs, queue)
    probe_due(job)
    probe = store.claim(job)
    assert store.claim(job) is None
    store.release(probe)
    judge.outage = None
    jobs.tick()
    deliver(jobs, queue)
    assert jobs.get(job).waiting is None
    assert None not in (store.claim(job), store.claim(job))


def test_a_probe_is_one_call_and_the_next_one_is_later(jobs, queue, store, judge, probe_due, caplog):
    job, waits = submit(jobs, 10), []
    caplog.set_level("INFO", "ragassay")
    for _ in range(3):
        jobs.tick()
        deliver(jobs, queue)
        now_ms = store.now_ms()
        waits.append(int(meta(store, job)["next_ms"]) - now_ms)
        probe_due(job)
    assert judge.refused == ["q0"] * 3
    assert waits == pytest.approx([5000, 10_000, 20_000], abs=3000)
    assert [caplog.text.count(line) for line in ("evaluation of 10 queries starts", "waits for its provider")] == [1, 1]


def test_a_provider_that_failed_for_too_long_costs_the_judged_scores_alone(jobs, queue, give_up_due):
    job = submit(jobs, 120, performance={"provider_outage_timeout_s": 600})
    deliver_all(jobs, queue)
    give_up_due(job)
    jobs.tick()
    finish(jobs, queue, job)
    ended = jobs.get(job)
    assert (ended.status, ended.waiting) == ("finished", None)
    assert DOWN in ended.error
    rows = jobs.results(job, cursor=None, limit=200).results
    assert [row.scores["mrr"].value for row in rows] == [1.0] * 120
    judged = [row.scores["faithfulness"] for row in rows]
    assert {(score.value, score.missing) for score in judged} == {(None, "failed")}
    assert all(score.reason.startswith("the judge failed: ") and DOWN in score.reason for score in judged)


def test_a_worker_that_meets_the_outage_after_the_job_gave_up_gives_up_too(jobs, store, give_up_due):
    job = submit(jobs, 100, performance={"provider_outage_timeout_s": 600})
    first, second = store.claim(job), store.claim(job)
    store.wait_for_provider(first, DOWN, wait_s=5, outage_timeout_s=600)
    give_up_due(job)
    assert store.wait_for_provider(second, DOWN, wait_s=5, outage_timeout_s=600) is False
    third = store.claim(job)
    assert store.wait_for_provider(third, DOWN, wait_s=5, outage_timeout_s=600) is False
    assert jobs.get(job).waiting is None


def test_a_provider_that_asks_for_a_longer_wait_gets_it(jobs, queue, store, judge):
    judge.outage = down(retry_after=300)
    job = submit(jobs, 10)
    deliver(jobs, queue)
    assert int(meta(store, job)["next_ms"]) > store.now_ms() + 200_000
