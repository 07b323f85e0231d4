"""What happens to a chunk when its worker dies, stops, hangs or loses it; with real Redis and no Celery."""

import asyncio
import threading
import time

import pytest
from redis.exceptions import ConnectionError as RedisAway

from rag import ScriptedJudge, sample, source, steady, tools
from ragassay import benchmark
from ragassay.documents import Report
from ragassay.errors import BudgetReached, Conflict, NotFound, NothingToEvaluate, Unavailable
from ragassay.jobs import Jobs
from ragassay.models import Budget, JobSpec, Judgement, SentenceVerdict, Usage, Verdict
from ragassay.seams import Call, Reply
from ragassay.store.folder import FolderStore
from ragassay.store.redis import MOST_DEATHS, Claim, RedisStore
from ragassay.store.redis_ledger import RedisLedger
from redis_server import RedisServer

CALL = Call(id="c", content="x", purpose="judge")


class Bells:
    """A doorbell that remembers."""

    def __init__(self):
        self.rung, self.finalized = [], []

    def ring(self, job, bell, nonce):
        self.rung.append((job, bell, nonce))

    def finalize(self, job):
        self.finalized.append(job)


@pytest.fixture(scope="module")
def server():
    with RedisServer() as running:
        yield running


@pytest.fixture
def store(server):
    store = RedisStore(server.url, lease_s=0.4)
    store.redis.flushall()
    yield store
    store.redis.close()


@pytest.fixture
def bells():
    return Bells()


class SlowJudge(ScriptedJudge):
    """Waits in every chunk until it is let go, or cancelled."""

    def __init__(self):
        super().__init__()
        self.began, self.go = threading.Event(), threading.Event()

    async def judge(self, samples, ledger):
        self.began.set()
        while not self.go.is_set():
            await asyncio.sleep(0.005)
        return await super().judge(samples, ledger)


@pytest.fixture
def make(store, bells):
    made = []

    def jobs(judge=None, error=None):
        def tools_for(spec, ledger):
            if error:
                raise error
            return tools(judge, ledger)

        made.append(Jobs(store, bells, tools_for))
        return made[-1]

    yield jobs
    for each in made:
        each.close()


def submitted(jobs, count=60):
    rows = [sample(n) for n in range(count)]
    job, _ = jobs.submit(JobSpec(metrics=("faithfulness", "mrr")), source(rows), rows)
    return job.id


def judged(support):
    """What a judge says who finds the first sentence of every answer so supported."""
    verdict = Verdict(judge="x", sentences=(SentenceVerdict(id="A1", text="", support=support),), has_contexts=True)
    return Judgement(verdict=verdict)


def pump(jobs, bells):
    """Deliver the oldest message."""
    jobs.pump(*bells.rung.pop(0))


def in_a_thread(work):
    """Work in a thread, as the main thread of a worker's child would; an error is raised at the end."""
    outcome = []

    def run():
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def end():
        thread.join(10)
        assert not thread.is_alive()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]

    return end


def test_workers_log_a_jobs_start_once_and_its_end_with_how_well_it_retrieved(make, bells, caplog):
    jobs = make()
    with caplog.at_level("INFO", "ragassay"):
        job = submitted(jobs)
        pump(jobs, bells)
        pump(jobs, bells)
        jobs.finalize(job)
    # paris, the only relevant one, is first of two everywhere: 1/5, 1/10, 1
    assert [r.getMessage() for r in caplog.records if r.name == "ragassay"] == [
        f"evaluation of 60 queries starts: {job}, system default",
        f"evaluation of 60 queries ends: {job}, system default: P@5 0.200, P@10 0.100, MRR 1.000",
    ]


def test_a_job_is_done_chunk_by_chunk_and_finished_once(make, bells, store):
    jobs = make()
    job = submitted(jobs)
    assert [bell for _, bell, _ in bells.rung] == [0, 1]  # two chunks, so two bells
    pump(jobs, bells)
    assert jobs.get(job).progress.done == 50
    pump(jobs, bells)
    assert bells.finalized == [job]
    jobs.finalize(job)
    report, ended = jobs.report(job), jobs.get(job).ended_at
    jobs.finalize(job)
    assert (jobs.report(job), jobs.get(job).ended_at) == (report, ended)
    assert store.active() == []


def test_a_chunk_whose_worker_died_goes_to_another(make, bells, store):
    jobs = make()
    job = submitted(jobs, 10)
    dead = store.claim(job)
    pump(jobs, bells)
    assert jobs.get(job).progress.done == 0
    time.sleep(0.5)
    jobs.tick()
    pump(jobs, bells)
    assert jobs.get(job).progress.done == 10
    assert store.commit(dead, []) == "stale"


def test_a_chunk_that_kills_its_worker_again_and_again_becomes_failed_rows(make, bells, store):
    jobs = make()
    job = submitted(jobs, 60)
    for _ in range(MOST_DEATHS):
        assert store.claim(job).chunk == "default:0"
        time.sleep(0.45)
        jobs.tick()
    assert jobs.get(job).progress.failed == 50
    while bells.rung:
        pump(jobs, bells)
    jobs.finalize(job)
    page = jobs.results(job, cursor=None, limit=200)
    reasons = [result.scores["faithfulness"].reason for result in page.results]
    assert reasons[:50] == ["the worker died on this chunk again and again"] * 50
    assert page.results[50].scores["faithfulness"].value == 1.0
    assert jobs.get(job).status == "finished"


def test_a_worker_that_stops_gives_its_chunk_back_and_nothing_is_held_against_it(make, bells, store):
    judge = SlowJudge()
    jobs = make(judge)
    job = submitted(jobs, 10)
    end = in_a_thread(lambda: pump(jobs, bells))
    assert judge.began.wait(5)
    jobs.break_off(stopping=True)
    end()
    assert store.redis.exists(f"ra:{{{job}}}:dead") == 0
    assert store.redis.lrange(f"ra:{{{job}}}:todo", 0, -1) == [b"default:0"]
    jobs.pump(job, 0, "late")
    assert jobs.get(job).progress.done == 0, "a worker that stops takes nothing more"
    bells.rung.clear()
    other = make()
    other.tick()  # the bell was hushed, so it rings at once
    pump(other, bells)
    assert bells.finalized == [job]


def test_a_worker_that_is_told_to_stop_before_its_chunk_has_begun_gives_it_back(make, bells, store):
    judge = SlowJudge()
    jobs = make(judge)
    job = submitted(jobs, 10)
    claim = store.claim(job)
    jobs.break_off(stopping=True)
    assert jobs._work(claim) == "stale"
    assert store.redis.lrange(f"ra:{{{job}}}:todo", 0, -1) == [b"default:0"]


def test_a_chunk_that_takes_too_long_is_given_back_and_counts_as_a_death(make, bells, store):
    judge = SlowJudge()
    jobs = make(judge)
    job = submitted(jobs, 10)
    end = in_a_thread(lambda: pump(jobs, bells))
    assert judge.began.wait(5)
    jobs.break_off(stopping=False)
    end()
    assert store.redis.hget(f"ra:{{{job}}}:dead", "default:0") == b"1"
    judge.go.set()
    pump(jobs, bells)  # the worker itself goes on, and rang
    assert bells.finalized == [job]


def test_a_lost_lease_ends_the_work_and_what_it_made_is_not_kept(make, bells, store):
    judge = SlowJudge()
    jobs = make(judge)
    job = submitted(jobs, 10)
    end = in_a_thread(lambda: pump(jobs, bells))
    assert judge.began.wait(5)
    store.redis.hset(f"ra:{{{job}}}:owner", "default:0", "somebody else")
    end()
    assert jobs.get(job).progress.done == 0
    assert store.redis.hget(f"ra:{{{job}}}:owner", "default:0") == b"somebody else"


def test_a_lease_is_kept_for_as_long_as_the_chunk_takes(make, bells, store):
    judge = SlowJudge()
    jobs = make(judge)
    job = submitted(jobs, 10)
    end = in_a_thread(lambda: pump(jobs, bells))
    assert judge.began.wait(5)
    time.sleep(1)  # two and a half leases
    jobs.tick()
    judge.go.set()
    end()
    assert jobs.get(job).progress.done == 10
    assert store.redis.exists(f"ra:{{{job}}}:dead") == 0


@pytest.mark.parametrize("error", [Unavailable("the provider is away"), ZeroDivisionError("a bug")])
def test_a_chunk_that_fails_is_given_back_at_once(make, bells, store, error):
    jobs = make(error=error)
    job = submitted(jobs, 10)
    with pytest.raises(type(error)):
        pump(jobs, bells)
    assert store.redis.hget(f"ra:{{{job}}}:dead", "default:0") == b"1"
    assert store.redis.llen(f"ra:{{{job}}}:todo") == 1


def test_a_job_that_can_not_be_done_fails_with_the_reason(make, bells):
    jobs = make(error=NothingToEvaluate("there is nothing"))
    job = submitted(jobs, 10)
    pump(jobs, bells)
    assert (jobs.get(job).status, jobs.get(job).error) == ("failed", "there is nothing")


def test_the_sweeper_passes_over_a_job_whose_keys_are_gone_and_closes_one_that_ended(make, bells, store):
    jobs = make()
    gone, ended, alive = (submitted(jobs, 10) for _ in range(3))
    store.redis.delete(f"ra:{{{gone}}}:meta")
    store.turn(ended, "cancelled", "queued")
    store.redis.delete(f"ra:{{{alive}}}:bells")
    bells.rung.clear()
    jobs.tick()
    assert store.active() == [alive]
    assert [job for job, _, _ in bells.rung] == [alive]
    assert store.redis.ttl(f"ra:{{{ended}}}:meta") > 0


def test_a_finalize_that_was_lost_is_rung_again(make, bells):
    jobs = make()
    job = submitted(jobs, 10)
    pump(jobs, bells)
    bells.finalized.clear()
    time.sleep(0.5)
    jobs.tick()
    assert bells.finalized == [job]


# --- the ledger -------------------------------------------------------------------------------------------------


def reserve(store, claim):
    return asyncio.run(RedisLedger(store, claim, cache=False).reserve(CALL, Usage()))


def test_a_settled_call_is_returned_and_not_made_again(make, store):
    job = submitted(make(), 10)
    first = store.claim(job)
    ledger = RedisLedger(store, first, cache=False)
    assert asyncio.run(ledger.reserve(CALL, Usage())) is None
    asyncio.run(ledger.settle(CALL, Reply(text="said")))
    time.sleep(0.45)
    store.sweep(job)
    assert reserve(store, store.claim(job)).text == "said"
    assert make().get(job).uncertain_calls == 0


def test_a_call_that_a_dead_worker_left_open_is_counted_once_as_uncertain(make, store):
    job = submitted(make(), 10)
    first = store.claim(job)
    assert reserve(store, first) is None
    assert reserve(store, first) is None  # asked again by the same claim, as after a lost answer of Redis
    assert make().get(job).uncertain_calls == 0
    time.sleep(0.45)
    store.sweep(job)
    assert reserve(store, store.claim(job)) is None
    assert make().get(job).uncertain_calls == 1


@pytest.mark.parametrize("how", ["cancelled", "given to somebody else"])
def test_no_further_call_is_made_for_work_that_is_not_wanted(make, store, how):
    jobs = make()
    job = submitted(jobs, 10)
    claim = store.claim(job)
    if how == "cancelled":
        jobs.cancel(job)
    else:
        time.sleep(0.45)
        store.sweep(job)
        store.claim(job)
    with pytest.raises(asyncio.CancelledError):
        reserve(store, claim)


def test_a_lease_is_not_given_up_while_redis_is_away(store, monkeypatch):
    def away(*_):
        raise RedisAway("nobody there")

    monkeypatch.setattr(store, "run", away)
    assert store.renew(Claim("job", "default:0", "token")) is True


def stopping(jobs, count=400, rule="faithfulness width <= 0.5", **spec):
    rows = [sample(n) for n in range(count)]
    spec = JobSpec(metrics=("faithfulness", "mrr"), judge="a-model", stop_when=rule, **spec)
    job, _ = jobs.submit(spec, source(rows), rows)
    return job.id


def drain(jobs, bells):
    while bells.rung:
        pump(jobs, bells)
    jobs.finalize(bells.finalized[-1])


def test_a_job_stops_when_its_rule_is_satisfied_and_its_report_is_that_of_the_command_line(make, bells, tmp_path):
    judge = ScriptedJudge()
    jobs = make(judge)
    job = stopping(jobs)
    drain(jobs, bells)
    report = Report.model_validate_json(jobs.report(job))
    assert jobs.get(job).status == "finished"
    assert len(judge.asked) == report.stopped.rows < 400
    rows = [sample(n) for n in range(400)]
    given = {"default": (report.provenance.systems["default"], {s.query_id: s.response for s in rows})}
    spec = report.provenance.configuration
    run = benchmark.prepare(FolderStore(tmp_path), spec, source(rows), rows, given, tools())
    asyncio.run(benchmark.work(run, tools()))
    assert steady(benchmark.finish(run).model_dump()) == steady(report.model_dump())


def test_results_of_a_stopped_job_are_paged_in_the_datasets_order(make, bells):
    jobs = make()
    job = stopping(jobs)
    drain(jobs, bells)
    found, cursor = [], None
    while True:
        page = jobs.results(job, cursor=cursor, limit=70)
        found += [result.query_id for result in page.results]
        if (cursor := page.next) is None:
            break
    report = Report.model_validate_json(jobs.report(job))
    assert found == [result.query_id for result in report.systems["default"].results]
    assert len(found) == report.stopped.rows


def test_a_job_that_may_stop_is_worked_on_by_one_worker_at_a_time(make, bells, store):
    jobs = make()
    job = stopping(jobs)
    first = store.claim(job)
    assert store.claim(job) is None
    store.give_back(first, died=False)
    assert store.claim(job).chunk == first.chunk


def test_a_worker_that_dies_between_its_results_and_the_stop_changes_no_number(make, bells, monkeypatch):
    calm = make()
    job = stopping(calm)
    drain(calm, bells)
    dying = make()
    other = stopping(dying)
    with monkeypatch.context() as patched:
        patched.setattr(dying, "_watch", lambda *_: type("Blind", (), {"why": None}))
        for _ in range(4):
            pump(dying, bells)
    awake = make()
    while bells.rung:
        pump(awake, bells)
    awake.finalize(other)
    calm_report, late = (Report.model_validate_json(calm.report(each)) for each in (job, other))
    assert awake.get(other).progress.done > calm_report.stopped.rows
    assert steady(late.model_dump()) == steady(calm_report.model_dump())


def test_a_job_may_be_decided_against_a_finished_one(make, bells):
    half = {f"q{n}": judged("not_found") for n in range(400)}
    jobs = make(ScriptedJudge(**half))
    before = submitted(jobs, 400)
    while bells.rung:
        pump(jobs, bells)
    with pytest.raises(Conflict):
        stopping(jobs, rule="faithfulness decided against baseline", baseline=before)
    jobs.finalize(before)
    better = make()
    after = stopping(better, rule="faithfulness decided against baseline", baseline=f"{before}#default")
    drain(better, bells)
    stopped = Report.model_validate_json(better.report(after)).stopped
    assert stopped.intervals["default"]["faithfulness"].low > 0
    assert stopped.rows < 400


CHEAP = Usage(calls=1, input_tokens=30, output_tokens=30, cost_usd=0.001)


class PayingJudge(ScriptedJudge):
    """Makes one call of 60 tokens for each sample, which may have taken 100; counts those it made."""

    made = 0

    async def judge(self, samples, ledger):
        for each in samples:
            call = Call(id=each.query_id, content=f"x{each.query_id}", purpose="judge")
            most = Usage(calls=1, input_tokens=50, output_tokens=50, cost_usd=0.002)
            if await ledger.reserve(call, most) is None:
                PayingJudge.made += 1
                await ledger.settle(call, Reply(text="{}", usage=CHEAP))
        return await super().judge(samples, ledger)


def capped(jobs, **budget):
    PayingJudge.made = 0
    rows = [sample(n) for n in range(150)]
    spec = JobSpec(metrics=("faithfulness",), judge="a-model", budget=budget, cache=False)
    return jobs.submit(spec, source(rows), rows)[0].id


def test_a_budget_holds_over_all_workers_and_a_higher_one_goes_on(make, bells):
    first, second = make(PayingJudge()), make(PayingJudge())
    job = capped(first, tokens=6000)
    ends = [
        in_a_thread(lambda jobs=jobs, bell=bell: jobs.pump(*bell))
        for jobs, bell in zip((first, second), bells.rung[:2], strict=True)
    ]
    for end in ends:
        end()
    del bells.rung[:2]
    while bells.rung:
        pump(first, bells)
    paused = first.get(job)
    # 99 calls of 60 tokens are 5,940; after 98 (5,880) one of at most 100 fits, after 99 it does not
    assert (paused.status, PayingJudge.made) == ("paused", 99)
    assert "the budget of 6,000 tokens is reached: 5,940 are spent" in paused.error
    first.tick()
    assert bells.rung == []
    assert first.resume(job, Budget(tokens=100_000)).status == "running"
    while bells.rung:
        pump(second, bells)
    second.finalize(job)
    assert (second.get(job).status, second.get(job).error, PayingJudge.made) == ("finished", None, 150)
    with pytest.raises(Conflict, match="is finished, not paused"):
        second.resume(job, Budget())


def test_a_cap_on_usd_names_what_is_spent(make, bells):
    jobs = make(PayingJudge())
    job = capped(jobs, usd=0.0505)
    while bells.rung:
        pump(jobs, bells)
    # after 49 calls of 0.001, one of at most 0.002 would pass 0.0505 only from 0.0495 on: the 49th leaves 0.049
    assert (jobs.get(job).status, PayingJudge.made) == ("paused", 49)
    assert "0.0490 USD are spent" in jobs.get(job).error


def test_a_worker_that_died_in_a_call_has_spent_what_it_reserved(make, bells, store):
    jobs = make(PayingJudge())
    job = capped(jobs, tokens=1_000_000)
    claim = store.claim(job)
    most = Usage(input_tokens=50, output_tokens=50)
    dead = RedisLedger(store, claim, cache=False)
    assert asyncio.run(dead.reserve(Call(id="default/q0", content="x", purpose="judge"), most)) is None
    time.sleep(0.5)
    jobs.tick()
    while bells.rung:
        pump(jobs, bells)
    meta = store.meta(job)
    assert float(meta["spent_tokens"]) == 150 * 60 + 100
    assert (float(meta["open_tokens"]), meta["in_flight"], meta["uncertain_calls"]) == (0, b"0", b"1")


def test_a_call_waits_for_those_in_flight_and_is_refused_when_they_leave_nothing(make, bells, store):
    jobs = make(PayingJudge())
    most = Usage(input_tokens=50, output_tokens=50)
    calls = [Call(id=name, content=name, purpose="judge") for name in "ab"]

    async def in_turn(spent):
        job = capped(jobs, tokens=150)
        mine, other = (RedisLedger(store, store.claim(job), cache=False) for _ in range(2))
        assert await mine.reserve(calls[0], most) is None
        waiting = asyncio.create_task(other.reserve(calls[1], most))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await mine.settle(calls[0], Reply(text="{}", usage=Usage(calls=1, input_tokens=spent)))
        return await waiting

    assert asyncio.run(in_turn(50)) is None
    with pytest.raises(BudgetReached):
        asyncio.run(in_turn(51))


def test_a_model_without_a_price_can_not_have_a_budget_in_usd(make, bells, store):
    job = capped(make(PayingJudge()), usd=1)
    ledger = RedisLedger(store, store.claim(job), cache=False)
    with pytest.raises(BudgetReached, match="has no price"):
        asyncio.run(ledger.reserve(CALL, Usage(calls=1, cost_usd=None)))
    assert "in_flight" not in store.meta(job)


def money(store, job):
    """Tokens spent and reserved, and calls in flight."""
    meta = store.meta(job)
    return tuple(float(meta.get(name, 0)) for name in ("spent_tokens", "open_tokens", "in_flight"))


def test_a_settlement_that_is_sent_again_or_comes_late_changes_no_bill(make, store):
    job = capped(make(PayingJudge()), tokens=1000)
    claim = store.claim(job)
    ledger, call = RedisLedger(store, claim, cache=False), Call(id="c", content="c", purpose="judge")
    most, answer = Usage(input_tokens=100), Reply(text="{}", usage=Usage(calls=1, input_tokens=60))
    assert asyncio.run(ledger.reserve(call, most)) is None
    sent = []
    run = store.run
    store.run = lambda *given: sent.append(given) or run(*given)
    asyncio.run(ledger.settle(call, answer))
    assert money(store, job) == (60, 0, 0)
    run(*sent[0])  # as redis-py does when the answer was lost
    late = RedisLedger(store, Claim(job, claim.chunk, "lost its lease"), cache=False)
    asyncio.run(late.release(call, Usage(uncertain_calls=1)))
    assert money(store, job) == (60, 0, 0)
    assert asyncio.run(ledger.reserve(call, most)) == answer


def test_a_hit_of_the_cache_at_the_cap_leaves_the_books_alone(make, store):
    job = capped(make(PayingJudge()), tokens=50)
    reply = Reply(text="{}", usage=Usage(calls=1, input_tokens=60))
    earlier = RedisLedger(store, store.claim(capped(make(PayingJudge()))), cache=True)
    asyncio.run(earlier.reserve(CALL, Usage(input_tokens=100)))
    asyncio.run(earlier.settle(CALL, reply))
    ledger = RedisLedger(store, store.claim(job), cache=True)
    hit = asyncio.run(ledger.reserve(CALL, Usage(input_tokens=100)))
    assert (hit.text, hit.usage.cache_hits) == ("{}", 1)
    assert money(store, job) == (0, 0, 0)


def test_a_worker_that_was_refused_before_a_resume_does_not_pause_the_job_again(make, bells, store):
    jobs = make(PayingJudge())
    job = capped(jobs, tokens=600)
    while bells.rung:
        pump(jobs, bells)
    assert jobs.get(job).status == "paused"
    jobs.resume(job, Budget(tokens=10_000))
    store.pause(job, "the budget of 600 tokens is reached", 0)
    assert (jobs.get(job).status, jobs.get(job).error) == ("running", None)
    jobs.cancel(job)
    store.pause(job, "the budget of 600 tokens is reached", 1)
    assert (jobs.get(job).status, jobs.get(job).error) == ("cancelled", None)
    with pytest.raises(NotFound):
        store.resume("f" * 32, Budget())
