"""What happens to a chunk when its worker dies, stops, hangs or loses it; with real Redis and no Celery."""

import random
import threading
import time
from contextlib import suppress

import orjson
import pytest
from redis.exceptions import ConnectionError as RedisAway

from job_workers import SlowJudge, deaths, deliver, deliver_all, expire_leases, finish, in_a_thread, meta, submit
from polling import until
from ragassay.core.errors import Conflict, Unavailable
from ragassay.evaluation import aggregate
from ragassay.judges import local
from ragassay.service.job_run import JobRun
from ragassay.service.jobs import MAX_FINALIZES
from ragassay.service.redis import MAX_DEATHS


@pytest.fixture
def begun(make_jobs, queue):
    """A judge that waits in the one chunk of a job, the worker's use cases, the job, and what waits for the end of the work."""
    judge = SlowJudge()
    jobs = make_jobs(judge)
    job = submit(jobs, 10)
    end = in_a_thread(lambda: deliver(jobs, queue))
    assert judge.began.wait(60)
    return judge, jobs, job, end


def test_a_job_is_done_chunk_by_chunk_and_finished_once(jobs, queue, store):
    job = submit(jobs)
    assert len(queue.sent) == 1
    deliver(jobs, queue)
    assert jobs.get(job).progress.done == 50
    deliver(jobs, queue)
    assert queue.finalized == [job]
    store.redis.hset(store.key(job, "meta"), "uncertain_calls", 3)
    jobs.finalize(job)
    report, ended = JobRun(jobs.store, job).report_document(), jobs.get(job).ended_at
    assert orjson.loads(report)["interrupted"]["uncertain_calls"] == jobs.get(job).uncertain_calls == 3
    jobs.finalize(job)
    assert (JobRun(jobs.store, job).report_document(), jobs.get(job).ended_at) == (report, ended)
    assert store.active() == []


def test_nothing_is_noted_of_a_job_whose_record_is_gone(jobs, store):
    job = submit(jobs)
    claim = store.claim(job)
    assert [store.starts(claim), store.starts(claim)] == [True, False]
    store.redis.delete(store.key(job, "meta"))
    assert not store.starts(claim)
    store.keep_built(job, claim.system, ["a model"])
    store.note_undelivered(job, "a webhook", "it answered 500")
    assert not store.redis.exists(store.key(job, "meta"))


@pytest.mark.parametrize("error", [None, ZeroDivisionError("a bug")], ids=["killed", "a bug"])
def test_a_chunk_that_fails_again_and_again_becomes_failed_rows(make_jobs, queue, store, error):
    buggy, jobs = make_jobs(error=error), make_jobs()
    job = submit(jobs, 60)
    for _ in range(MAX_DEATHS):
        if error:
            with pytest.raises(ZeroDivisionError):
                deliver(buggy, queue)
        else:
            assert str(store.claim(job)) == "default:0"
            expire_leases(store, job)
        jobs.tick()
    assert jobs.get(job).progress.failed == 50
    finish(jobs, queue, job)
    page = jobs.results(job, cursor=None, limit=200)
    reasons = [result.scores["faithfulness"].reason for result in page.results]
    why = ": ZeroDivisionError: a bug" if error else ""
    assert reasons[:50] == [f"worker crashed repeatedly on this chunk{why}"] * 50
    assert (page.results[50].scores["faithfulness"].value, jobs.get(job).status) == (1.0, "finished")


def test_a_worker_that_stops_gives_its_chunk_back_and_nothing_is_held_against_it(make_jobs, begun, queue, store):
    _, jobs, job, end = begun
    jobs.break_off(stopping=True)
    end()
    assert deaths(store, job) == {}
    assert store.redis.lrange(store.key(job, "todo"), 0, -1) == [b"default:0"]
    jobs.work(job)
    assert jobs.get(job).progress.done == 0, "a worker that stops takes nothing more"
    other = make_jobs()
    deliver(other, queue)
    assert queue.finalized == [job]


def test_a_chunk_that_takes_too_long_is_given_back_and_counts_as_a_death(begun, queue, store):
    judge, jobs, job, end = begun
    jobs.break_off(stopping=False)
    end()
    assert deaths(store, job) == {"default:0": 1}
    judge.go.set()
    deliver(jobs, queue)  # the worker itself goes on, and rang
    assert queue.finalized == [job]


def test_a_lost_lease_ends_the_work_and_what_it_made_is_not_kept(begun, store):
    _, jobs, job, end = begun
    store.redis.hset(store.key(job, "owner"), "default:0", "somebody else")
    end()
    assert jobs.get(job).progress.done == 0
    assert store.redis.hget(store.key(job, "owner"), "default:0") == b"somebody else"


def test_a_lease_is_kept_for_as_long_as_the_chunk_takes(begun, store):
    judge, jobs, job, end = begun
    lease = store.key(job, "lease")
    taken_until = store.redis.zscore(lease, "default:0")
    until(lambda: store.redis.zscore(lease, "default:0") > taken_until)
    jobs.tick()
    judge.go.set()
    end()
    assert jobs.get(job).progress.done == 10
    assert deaths(store, job) == {}


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), SystemExit()], ids=["a bug", "killed"])
def test_a_report_that_can_not_be_made_is_tried_a_few_times_and_then_fails_the_job(make_jobs, queue, store, error):
    """No handler of errors sees a SystemExit, as none sees a SIGKILL."""
    jobs, buggy = make_jobs(), make_jobs(error=error)
    job = submit(jobs, 10)
    deliver(jobs, queue)
    for _ in range(MAX_FINALIZES):
        assert jobs.get(job).status == "finalizing"
        with pytest.raises(type(error)):
            buggy.finalize(job)
    jobs.finalize(job)
    assert (jobs.get(job).status, store.active()) == ("failed", [])
    why = "worker crashed repeatedly on it" if isinstance(error, SystemExit) else "ZeroDivisionError: a bug"
    assert jobs.get(job).error == f"the report can't be made: {why}"


@pytest.mark.parametrize("error", [Unavailable("the embedding server is away"), RedisAway("connection refused")])
def test_an_outage_while_the_report_is_made_is_held_against_nobody(make_jobs, queue, error):
    jobs, outside = make_jobs(), make_jobs(error=error)
    job = submit(jobs, 10)
    deliver(jobs, queue)
    for _ in range(MAX_FINALIZES + 1):
        with pytest.raises(type(error)):
            outside.finalize(job)
    with pytest.raises(ZeroDivisionError):
        make_jobs(error=ZeroDivisionError("a bug")).finalize(job)
    assert jobs.get(job).status == "finalizing"


def test_the_sweeper_passes_over_a_job_whose_keys_are_gone_and_closes_one_that_ended(jobs, queue, store):
    gone, ended, alive = (submit(jobs, 10) for _ in range(3))
    store.redis.delete(f"ra:{{{gone}}}:meta")
    store.transition(ended, "cancelled")
    queue.sent.clear()
    jobs.tick()
    assert store.active() == [alive]
    assert queue.sent == [alive]
    assert store.redis.ttl(f"ra:{{{ended}}}:meta") > 0


def test_a_record_of_another_version_holds_up_no_other_job(jobs, queue, store, caplog):
    unreadable, alive = sorted(submit(jobs, 10) for _ in range(2))
    store.redis.hset(store.key(unreadable, "meta"), "record", orjson.dumps({"id": unreadable, "from": "2099"}))
    queue.sent.clear()
    jobs.tick()
    assert queue.sent == [alive]
    assert f"the record of job {unreadable} can't be read" in caplog.text
    assert store.active() == [unreadable, alive], "the version that wrote it goes on with it"
    assert [job.id for job in jobs.page(cursor=None, limit=10).jobs] == [alive]
    with pytest.raises(Conflict, match="another version of ragassay wrote it"):
        jobs.get(unreadable)


def test_a_worker_leaves_the_job_of_another_version_and_its_system_to_others(jobs, queue, store):
    job = submit(jobs, 10)
    store.redis.hset(store.key(job, "meta"), mapping={"record": b"{}", "called": b'["default"]'})
    with pytest.raises(Conflict):
        deliver(jobs, queue)
    assert queue.sent == []
    assert store.claim(job).lock.owned()


def test_a_report_that_takes_longer_than_its_lease_is_made_once(jobs, queue, store, monkeypatch):
    job = submit(jobs, 10)
    deliver(jobs, queue)
    made, go, finish = [], threading.Event(), aggregate.finish

    def slowly(*of, **more):
        made.append(job)
        assert go.wait(60)
        return finish(*of, **more)

    monkeypatch.setattr("ragassay.service.jobs.aggregate.finish", slowly)
    end = in_a_thread(lambda: jobs.finalize(job))
    until(lambda: made)
    over = store.now_ms() + store.lease_ms
    until(lambda: store.now_ms() > over)
    jobs.tick()
    jobs.finalize(job)  # a wake-up that was sent before
    go.set()
    end()
    assert (queue.finalized, made, jobs.get(job).status) == ([job], [job], "finished")
    assert meta(store, job)["finalize_begun"] == b"1"
    assert not store.redis.exists(store.key(job, "report_lock"))


def test_a_report_whose_worker_was_killed_is_made_by_another_when_its_lease_is_over(jobs, queue, store):
    job = submit(jobs, 10)
    deliver(jobs, queue)
    assert store.report_lock(job).acquire()  # by a worker that is killed
    jobs.finalize(job)
    assert jobs.get(job).status == "finalizing"

    def taken_over():
        jobs.tick()
        return len(queue.finalized) == 2

    until(taken_over)
    jobs.finalize(job)
    assert (jobs.get(job).status, store.active()) == ("finished", [])


@pytest.mark.parametrize("sends", [lambda *_: False, lambda *_: {}["the interpreter ends"]], ids=["refused", "dying"])
def test_a_wake_up_that_could_not_be_sent_is_sent_in_the_next_round_not_after_a_lease(jobs, queue, store, sends):
    enqueue, queue.enqueue = queue.enqueue, sends
    with suppress(KeyError):
        submit(jobs)
    [job] = store.active()
    queue.enqueue = enqueue
    jobs.tick()
    jobs.tick()
    assert queue.sent == [job]


def test_a_job_whose_rows_were_evicted_fails_and_holds_up_no_other(jobs, queue, store):
    evicted, alive = sorted(submit(jobs, 10) for _ in range(2))
    for _ in range(MAX_DEATHS):
        store.claim(evicted)
        store.redis.hdel(store.key(evicted, "inputs"), "default:0")
        expire_leases(store, evicted)
        queue.sent.clear()
        jobs.tick()
    assert (jobs.get(evicted).status, store.active(), queue.sent) == ("failed", [alive], [alive])
    assert f"the rows of chunk default:0 of job {evicted} are gone from Redis" in jobs.get(evicted).error


def test_results_that_were_evicted_before_the_report_fail_the_job_instead_of_lacking_in_it(jobs, queue, store):
    job = submit(jobs, 60)
    deliver_all(jobs, queue)
    store.redis.hdel(store.key(job, "results"), "default/00001.jsonl")
    jobs.finalize(job)
    failed = jobs.get(job)
    assert (failed.status, store.active()) == ("failed", [])
    assert f"the report can't be made: the results of chunk default:1 of job {job} are gone from Redis" in failed.error


def test_a_worker_stops_local_work_when_its_job_is_cancelled(make_jobs, queue, monkeypatch):
    begun, rating = [], local._rating
    monkeypatch.setattr(local, "_rating", lambda one: begun.append(time.sleep(0.1)) or rating(one))
    jobs = make_jobs(local.LocalJudge())
    job = submit(jobs, 200)
    end = in_a_thread(lambda: deliver(jobs, queue))
    until(lambda: begun)
    jobs.cancel(job)
    end()
    judged = len(begun)
    time.sleep(0.5)
    assert len(begun) <= min(judged + 1, 199)


@pytest.mark.parametrize(
    ("judge", "workers", "chunks"),
    [("a-model", {"a": 3, "b": 4}, 6), ("a-model", {"a": 1}, 1), ("a-model", {}, 9), ("local", {"a": 3}, 10)],
)
def test_a_job_that_asks_a_provider_leaves_one_process_to_the_others(jobs, store, judge, workers, chunks):
    """Without a heartbeat no limit is known."""
    for name, processes in workers.items():
        store.heartbeat("worker", f"{name}:1:{processes}", for_s=60)
    job = submit(jobs, 500, judges=(judge,))
    assert sum(store.claim(job) is not None for _ in range(11)) == chunks


def test_a_job_has_one_message_at_a_time_and_jobs_take_turns(jobs, queue):
    large, small = submit(jobs, 300), submit(jobs, 60)
    order = []
    while queue.sent:
        assert len(queue.sent) == len(set(queue.sent))
        order.append(queue.sent[0])
        deliver(jobs, queue)
    assert order == [large, small, large, small, *[large] * 4]


def test_a_job_that_came_during_a_chunk_goes_before_the_next_chunk_of_the_same_job(jobs, queue):
    large = submit(jobs, 300)
    deliver(jobs, queue)
    small = submit(jobs, 10)
    assert queue.sent == [large, small]
    deliver(jobs, queue)
    assert (jobs.get(large).progress.done, queue.sent) == (50, [small, large])
    deliver_all(jobs, queue)
    assert queue.finalized == [small, large]


def test_the_only_chunk_of_a_worker_that_failed_or_died_has_one_message(make_jobs, queue, store):
    buggy, jobs = make_jobs(error=ZeroDivisionError()), make_jobs()
    job = submit(jobs, 10)
    with pytest.raises(ZeroDivisionError):
        deliver(buggy, queue)
    assert queue.sent == [job]
    store.claim(queue.sent.pop())
    expire_leases(store, job)
    jobs.tick()
    assert queue.sent == [job]


def test_a_message_that_came_in_vain_is_sent_when_a_chunk_may_be_claimed_again(make_jobs, queue, store):
    """One of two processes is left to jobs without a provider."""
    store.heartbeat("worker", "a:1:2", for_s=60)
    judge, other = SlowJudge(), make_jobs()
    job = submit(other, 150, judges=("a-model",))
    end = in_a_thread(lambda: deliver(make_jobs(judge), queue))
    assert judge.began.wait(60)
    deliver(other, queue)
    other.tick()
    assert queue.sent == []
    judge.go.set()
    end()
    deliver_all(other, queue)
    assert queue.finalized == [job]


@pytest.mark.parametrize("seed", range(4))
def test_every_chunk_is_done_whatever_messages_and_workers_are_lost(jobs, queue, store, seed):
    chance = random.Random(seed)
    submitted = [submit(jobs, rows) for rows in (400, 60, 10)]
    while {jobs.get(job).status for job in submitted} != {"finalizing"}:
        what = chance.random()
        if not queue.sent or what < 0.1:
            for job in submitted:
                expire_leases(store, job)
            jobs.tick()
        elif what < 0.2:
            queue.sent.pop(0)
        elif what < 0.3:
            store.claim(queue.sent.pop(0))  # by a worker that is killed before it sends the next message
        else:
            deliver(jobs, queue)
        assert len(queue.sent) <= len(submitted) + 1
    assert [jobs.get(job).progress.done for job in submitted] == [400, 60, 10]


def test_a_system_that_is_called_is_asked_under_one_lock_over_all_jobs(jobs, store):
    first, second = submit(jobs, 100), submit(jobs, 100)
    for job in (first, second):
        store.redis.hset(store.key(job, "meta"), "called", b'["default"]')
    claim = store.claim(first)
    assert (str(claim), store.claim(first), store.claim(second)) == ("default:0", None, None)
    assert store.renew(claim)
    assert store.freed(claim) == [first, second]
    claim = store.claim(second)
    assert store.freed(claim) == []
    claim = store.claim(second)
    store.redis.delete(claim.lock.name)  # its time was over
    assert not store.renew(claim)
    assert store.claim(first).lock.owned()


def test_a_worker_that_twice_finds_a_system_free_and_comes_too_late_waits_for_it(jobs, store, monkeypatch):
    job, claim, waiting = submit(jobs, 60), store._claim, "ra:asks:default:waiting"
    store.redis.hset(store.key(job, "meta"), "called", b'["default"]')
    taken, ends = store._lock("ra:asks:default"), iter([True, False, False])

    def another_is_first(*arguments):
        if claimed := claim(*arguments):
            store.redis.delete(waiting)  # who ended has sent a message to those that waited
            taken.acquire()
        elif next(ends):
            taken.release()
        return claimed

    monkeypatch.setattr(store, "_claim", another_is_first)
    assert store.claim(job) is None
    assert store.redis.lrange(store.key(job, "todo"), 0, -1) == [b"default:0", b"default:1"]
    assert store.redis.zrange(waiting, 0, -1) == [job.encode()]
