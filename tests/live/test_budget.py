"""The budget of a day holds to the call over all jobs of a stream, and what it leaves out says so."""

import pytest

from job_workers import PayingJudge, in_a_thread
from live_traffic import received, set_rule, spans_of, trace_id, work_all
from offline_runs import FakeRuntime

BUDGET = 0.0205  # USD; a call may take 0.002 and takes 0.001


def test_budget_of_a_day_stops_at_the_call_and_says_so(make_live, queue):
    judge = PayingJudge()
    live = make_live(FakeRuntime(judge))
    set_rule(live, judges=("a-model",), budget_usd=BUDGET)
    live.store.append(received(*(spans_of(n) for n in range(40))))
    work_all(live, queue)
    counts, spent = live.store.counts("shop", live.store.today()), live.store.spent_usd("shop", live.store.today())
    assert spent <= BUDGET
    assert spent == pytest.approx(judge.made * 0.001)
    assert counts.evaluated > 0
    assert counts.evaluated + counts.budget_reached == 40
    made = judge.made  # those that come later make no call, and no job
    live.store.append(received(*(spans_of(n) for n in range(50, 60))))
    work_all(live, queue)
    assert live.store.request(trace_id(55)).status == "budget_reached"
    assert (judge.made, len(live.store.redis.keys("ra:{*}:meta"))) == (made, 1)

    set_rule(live, judges=("a-model",), budget_usd=1)  # a new rule opens the day again
    live.store.append(received(spans_of(70)))
    work_all(live, queue)
    assert live.store.request(trace_id(70)).status == "evaluated"


def test_budget_of_a_day_holds_over_jobs_of_several_workers(live, make_live, queue):
    judges = [PayingJudge(), PayingJudge()]
    workers = [make_live(FakeRuntime(one)) for one in judges]
    set_rule(live, judges=("a-model",), budget_usd=BUDGET)
    for part in range(2):
        live.store.append(received(*(spans_of(n) for n in range(20 * part, 20 * part + 20))))
        live.tick_all()
        live.store.close_batches()
    live.tick_all()
    jobs = sorted(set(queue.sent))
    assert len(jobs) == 2
    for end in [in_a_thread(lambda of=of, job=job: of.jobs.work(job)) for of, job in zip(workers, jobs, strict=True)]:
        end()
    work_all(live, queue)
    assert live.store.spent_usd("shop", live.store.today()) <= BUDGET
    counts = live.store.counts("shop", live.store.today())
    assert counts.evaluated + counts.budget_reached == 40
