"""Failed rows of a job that has ended are tried again: the others stay, nothing is paid or counted twice."""

import asyncio

import pytest

from job_workers import PayingJudge, deliver, deliver_all, expire_leases, finish, meta, submit
from offline_runs import sample, source_of
from ragassay.core.errors import Conflict, NotFound
from ragassay.core.eval_config import Budget, RunConfig
from ragassay.core.models import Response, Usage
from ragassay.core.protocols import Call, Reply
from ragassay.evaluation.inputs import recorded
from ragassay.service.job_run import JobRun
from ragassay.service.notifications import Notification
from ragassay.service.redis import MAX_DEATHS, OUTBOX
from ragassay.service.redis_journal import RedisJournal, Retry
from ragassay.storage.selection import Selection

PRICE = 0.25  # sums of it are exact
MOST, BILL = PayingJudge(PRICE).max_usage, PayingJudge(PRICE).bill


@pytest.fixture
def judge():
    return PayingJudge(PRICE)


@pytest.fixture
def work(jobs, queue):
    """Works on a job until it has ended; its report."""

    def work(job):
        finish(jobs, queue, job)
        return JobRun(jobs.store, job).report_with_results()

    return work


def spent(report):
    """USD on replies that were used, and on others; calls that may have been paid."""
    evaluation = report.systems["default"].evaluation
    return evaluation.usage.cost_usd, evaluation.waste.cost_usd, evaluation.waste.uncertain_calls


def failed(report):
    return {row.query_id for row in report.results["default"] if row.failed}


def finished(jobs, work, count=120, **spec):
    job = submit(jobs, count, metrics=("faithfulness", "mrr"), **spec)
    return job, work(job)


def books(store, job):
    """USD spent and reserved, and calls in flight."""
    return tuple(float(meta(store, job).get(name, 0)) for name in ("spent_usd", "open_usd", "in_flight"))


def test_only_failed_rows_are_judged_again_and_the_report_counts_all_that_was_spent(jobs, judge, work, store):
    judge.down = {"q3", "q110"}
    job, before = finished(jobs, work)
    untouched = store.redis.hget(store.key(job, "results"), "default/00001.jsonl")
    judge.down, judge.asked = set(), []
    now = jobs.retry(job)
    assert (now.status, now.retries, now.progress.done, now.progress.failed) == ("running", 1, 118, 0)
    assert JobRun(jobs.store, job).report_with_results() == before, "until there is another"
    after = work(job)
    assert (judge.asked, len(judge.paid)) == (["q3", "q110"], 120)
    assert (jobs.get(job).status, jobs.get(job).progress.done, failed(after)) == ("finished", 120, set())
    assert store.redis.hget(store.key(job, "results"), "default/00001.jsonl") == untouched
    assert spent(after) == (120 * PRICE, 0.0, 2), "calls of the first time that may have been paid are still told"
    assert books(store, job) == (120 * PRICE + 2 * MOST.cost_usd, 0, 0)
    page = jobs.results(job, cursor=None, limit=200, selection=Selection(failed=True))
    assert page.results == (), "the columns follow"


def test_a_reply_that_was_no_verdict_is_asked_for_again_and_both_are_counted(jobs, judge, work, store):
    judge.garbled = {"q0"}
    job, before = finished(jobs, work, 10)
    for time in (1, 2):
        assert failed(before) == {"q0"}
        jobs.retry(job)
        judge.garbled = {"q0"} if time == 1 else set()
        before = work(job)
    assert (failed(before), judge.paid.count("q0"), len(judge.paid)) == (set(), 3, 12)
    assert spent(before) == (10 * PRICE, 2 * PRICE, 0)
    assert books(store, job) == (12 * PRICE, 0, 0)


def test_rows_that_fail_again_and_again_stay_failed_and_the_others_stay_as_they_were(jobs, judge, queue, work, store):
    judge.down = {"q1"}
    job, _ = finished(jobs, work, 10)
    jobs.retry(job)
    for _ in range(MAX_DEATHS):
        assert store.claim(job) is not None
        expire_leases(store, job)
        jobs.tick()
    queue.sent.clear()
    after = work(job)
    row = next(row for row in after.results["default"] if row.query_id == "q1")
    assert row.scores["faithfulness"].reason == "worker crashed repeatedly on this chunk"
    assert (failed(after), spent(after)) == ({"q1"}, (9 * PRICE, 0.0, 1))
    assert (jobs.get(job).progress.done, jobs.get(job).progress.failed) == (10, 1)


def test_the_budget_holds_over_all_times_and_a_paused_one_goes_on_under_another(jobs, judge, queue, work):
    judge.down = {"q1", "q2"}
    job, _ = finished(jobs, work, 10, budget=Budget(usd=8 * PRICE + 2 * MOST.cost_usd + PRICE))
    judge.down = set()
    jobs.retry(job)
    deliver_all(jobs, queue)
    assert (jobs.get(job).status, len(judge.paid)) == ("paused", 8)
    with pytest.raises(Conflict, match="is paused"):
        jobs.retry(job)
    assert failed(work(job)) == {"q1", "q2"}
    jobs.resume(job, Budget(usd=100.0))
    after = work(job)
    assert (failed(after), jobs.get(job).status) == (set(), "finished")
    assert spent(after) == (10 * PRICE, 0.0, 2)


def test_a_job_that_fails_as_a_whole_goes_on_with_failed_rows_and_with_those_that_have_no_results(
    jobs, judge, queue, work, store
):
    judge.down = {"q1"}
    job = submit(jobs, 170, metrics=("faithfulness",))
    deliver(jobs, queue)
    store.transition(job, "failed", fields={"error": "no key"})
    jobs.tick()
    queue.sent.clear()
    judge.down = set()
    for done, worked_on in ((49, 0), (49, 1), (50, 1)):
        assert jobs.retry(job).progress.done == done
        for _ in range(worked_on):
            deliver(jobs, queue)
        store.transition(job, "failed", fields={"error": "no key"})
        jobs.tick()
        queue.sent.clear()
    jobs.retry(job)
    after = work(job)
    assert (failed(after), len(judge.paid), jobs.get(job).progress.done) == (set(), 170, 170)
    assert spent(after) == (170 * PRICE, 0.0, 1)


def test_a_finalize_of_the_time_before_changes_nothing_of_the_one_after(jobs, judge, work, store):
    judge.down = {"q1"}
    job, before = finished(jobs, work, 10)
    jobs.retry(job)
    late = {"report.json": before.without_rows.model_dump_json().encode(), "gates.json": b"{}"}
    assert store.transition(job, "finished", guard=("retries", 0), contents=late) == ("running", False)
    assert JobRun(store, job).gates() is None
    assert store.active() == [job]
    judge.down = set()
    assert failed(work(job)) == set()


def test_a_reply_of_before_is_used_unless_it_could_not_be_read_and_is_not_counted_again(jobs, judge, work, store):
    job, _ = finished(jobs, work, 10)
    store.redis.hset(store.key(job, "meta"), "status", "running")
    store.redis.delete(store.key(job, "done"))
    store.redis.rpush(store.key(job, "todo"), "default:0")
    claim = store.claim(job)
    before = RedisJournal(store, claim, cache=False)
    journal = RedisJournal(store, claim, cache=False, retry=Retry(2, {"q1"}))
    answer, judging = (Call(id=p, content=p, purpose=p, query_id="q1") for p in ("answer", "judge"))
    of_another = Call(id="other", content="other", purpose="judge", query_id="q2")

    async def asked():
        for call in (answer, judging, of_another):
            reply = Reply(text="first", usage=BILL, unreadable=call is judging)
            await before.settle(await before.reserve(call, MOST), reply)
        known, unknown = [await journal.reserve(call, MOST) for call in (answer, judging)]
        await journal.settle(unknown, Reply(text="second", usage=BILL))
        return known, await journal.reserve(judging, MOST), await journal.reserve(of_another, MOST)

    known, again, other = asyncio.run(asked())
    assert (known.text, known.usage) == ("first", BILL)
    assert (again.text, again.usage) == ("second", BILL)
    assert (other.text, other.usage) == ("first", Usage()), "the row's result has what it took"


def test_retry_is_refused_where_nothing_can_be_tried_again(jobs, judge, work, store):
    judge.down = {"q1"}
    job = submit(jobs, 10, metrics=("faithfulness",))
    with pytest.raises(Conflict, match="is queued"):
        jobs.retry(job)
    work(job)
    judge.down = set()
    assert [jobs.retry(job).retries for _ in range(3)] == [1, 1, 1], "asked for again it changes nothing"
    work(job)
    told = [Notification.model_validate_json(each).id for each in store.redis.lrange(OUTBOX, 0, -1)]
    assert told[-1] == f"{job}:job_finished:1"
    with pytest.raises(Conflict, match="no row of job"):
        jobs.retry(job)
    rows = [sample(0), sample(1, response=Response(error="it timed out"))]
    failed, _ = jobs.submit(RunConfig(metrics=("faithfulness",)), recorded(source_of(rows), rows))
    work(failed.id)
    with pytest.raises(Conflict, match="1 rows were submitted with an error"):
        jobs.retry(failed.id)
    judge.down = {"q1"}
    cancelled, before = finished(jobs, work, 10, performance={"cache": False})
    jobs.retry(cancelled)
    jobs.cancel(cancelled)
    assert JobRun(jobs.store, cancelled).report_with_results() == before
    with pytest.raises(Conflict, match="is cancelled"):
        jobs.retry(cancelled)
    evicted, _ = finished(jobs, work, 10, performance={"cache": False})
    store.redis.hdel(store.key(evicted, "inputs"), "default:0")
    with pytest.raises(NotFound, match="rows or results"):
        jobs.retry(evicted)
