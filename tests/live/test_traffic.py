"""From spans to states: what a rule decides about each request, within a budget and once, whatever is killed."""

from contextlib import suppress
from dataclasses import replace

import pytest

from job_workers import PayingJudge, expire_leases, in_a_thread
from live_traffic import GOOD, QUESTION, WRONG, received, set_rule, spans_of, trace_id, work_all
from offline_runs import FakeRuntime
from ragassay.core.errors import Conflict, NotFound
from ragassay.datasets.traces import SpanRule, TraceSpan
from ragassay.live import store as live_store
from ragassay.live import traffic
from ragassay.live.decide import decide, is_sampled, share_in_contexts
from ragassay.live.models import LiveRule
from ragassay.service.redis import RedisStore


def state(live, n):
    request = live.store.request(trace_id(n))
    return request.status, request.reason


def counts(live, stream="shop"):
    today = live.store.counts(stream, live.store.today())
    return {name: number for name, number in today.model_dump().items() if number}


def test_settle_each_request_has_a_state_and_its_reason(live, queue):
    set_rule(live, rate=0.0, low_score=0.5)
    failed, unanswered = spans_of(2, error="timeout", answer=None), spans_of(4, answer=None, other="x")
    requests = [spans_of(1), failed, spans_of(3, context=WRONG), unanswered, spans_of(5, root=False)]
    live.store.append(received(*requests))
    live.store.append(received(spans_of(6), stream="other"))
    work_all(live, queue)
    assert state(live, 1) == ("not_sampled", "not among the 0 of the requests")
    assert state(live, 2) == ("evaluated", "its response failed: timeout")
    assert state(live, 3)[0] == "evaluated"
    assert state(live, 4)[0] == "no_answer"
    assert "input.value, other" in state(live, 4)[1]
    assert state(live, 5) == ("waiting", "waiting for its root span")
    assert state(live, 6) == ("not_sampled", "stream other has no rule")
    assert counts(live) == {"received": 5, "waiting": 1, "not_sampled": 1, "no_answer": 1, "evaluated": 2}
    [window] = live.windows("shop", "hour", limit=1).windows
    assert (window.rows, window.always) == (0, 2)


def test_append_a_request_without_root_is_complete_after_a_silence(make_live, store, queue):
    live = make_live()
    live.store._silence_ms = 0
    set_rule(live)
    live.store.append(received(spans_of(1, root=False)))
    work_all(live, queue)
    status, reason = state(live, 1)
    assert (status, reason.startswith("its root span did not come, and no question is found")) == ("no_answer", True)


def test_append_late_spans_and_those_beyond_the_limit_are_counted(live, queue, monkeypatch):
    set_rule(live)
    monkeypatch.setattr(live_store, "MAX_SPANS", 3)
    assert live.store.append(received(spans_of(1), spans_of(1))) == (0, 3)
    work_all(live, queue)
    assert live.store.append(received(spans_of(1))) == (3, 0)
    assert counts(live) == {"received": 1, "evaluated": 1, "late": 3, "refused": 3}


def test_append_spans_beyond_the_bytes_of_a_trace_are_refused(live):
    spans = spans_of(1, **{f"text{n}": "x" * 200_000 for n in range(20)})
    assert live.store.append(received(spans[:2], spans[2:])) == (0, 1)
    assert counts(live) == {"received": 1, "waiting": 1, "refused": 1}


def test_append_a_request_is_of_the_stream_of_its_root(live, queue):
    set_rule(live)
    *inner, root = spans_of(1)
    live.store.append(received(inner, stream="search"))
    assert (counts(live, "search"), counts(live)) == ({"received": 1, "waiting": 1}, {})
    live.store.append(received([root]))  # the last of its spans
    assert counts(live, "search") == {}
    assert [one.name for one in live.streams()] == ["shop"]  # an internal service is no stream, unless it has a rule
    set_rule(live, "ruled")
    *inner, root = spans_of(2)
    for spans, stream in ((inner, "ruled"), ([root], "shop")):
        live.store.append(received(spans, stream=stream))
    assert [one.name for one in live.streams()] == ["ruled", "shop"]
    for span in reversed(received(spans_of(3))):  # its root comes first
        live.store.append([span])
    work_all(live, queue)
    assert counts(live) == {"received": 3, "evaluated": 3}
    assert {one.trace for one in live.store.requests("shop", limit=9).requests} == {trace_id(n) for n in (1, 2, 3)}
    assert live.store.request(trace_id(1)).read_from == {"query": "answer", "answer": "answer", "contexts": "search"}
    assert live.store.requests("search", limit=9).requests == ()


def test_append_nothing_is_taken_while_too_many_wait(live, queue, monkeypatch):
    monkeypatch.setattr(live_store, "MAX_WAITING", 1)
    with pytest.raises(live_store.Unavailable):  # one body with several
        live.store.append(received(spans_of(1), spans_of(2)))
    *inner, root = spans_of(1)
    live.store.append(received(inner))
    with pytest.raises(live_store.Unavailable, match="1 requests wait") as raised:
        live.store.append(received(spans_of(2)))
    assert raised.value.retry_after == 10
    with pytest.raises(NotFound):
        live.store.request(trace_id(2))
    live.store.append(received([root]))  # of a request that waits already
    work_all(live, queue)
    assert state(live, 1)[0] == "not_sampled"


def test_append_remembers_the_newest_requests_only(live, queue, monkeypatch):
    monkeypatch.setattr(live_store, "MAX_RECENT", 5)
    for n in range(8):
        live.store.append(received(spans_of(n)))
        work_all(live, queue, rounds=1)
    assert [one.trace for one in live.store.requests("shop", limit=50).requests] == [
        trace_id(n) for n in (7, 6, 5, 4, 3)
    ]
    assert counts(live) == {"received": 8, "not_sampled": 8}


@pytest.mark.parametrize(("limit", "most"), [("MAX_BATCH", 2), ("MAX_BATCH_BYTES", 600)])
def test_tick_closes_a_batch_of_many_rows_or_bytes_at_once(live, monkeypatch, limit, most):
    monkeypatch.setattr(live_store, "BATCH_S", 60.0)
    monkeypatch.setattr(live_store, limit, most)
    set_rule(live)
    live.store.append(received(*(spans_of(n) for n in range(5))))
    live.tick_all()
    assert [len(live.store.rows(batch)) for batch in live.store.open_batches()] == [2, 2]  # the fifth row waits
    assert (counts(live)["evaluating"], state(live, 1)) == (5, ("evaluating", "chosen by the rate"))


def test_tick_a_request_that_breaks_the_reader_holds_up_no_other(live, queue, monkeypatch):
    real = traffic.decide

    def decide(spans, *others):
        if spans[0].trace == trace_id(1):
            raise RecursionError
        return real(spans, *others)

    monkeypatch.setattr(traffic, "decide", decide)
    set_rule(live)
    live.store.append(received(spans_of(1), spans_of(2)))
    work_all(live, queue)
    assert [state(live, n)[0] for n in (1, 2)] == ["failed", "evaluated"]
    assert state(live, 1)[1].startswith("its spans can't be read: RecursionError")


def test_tick_a_row_that_can_not_be_stored_holds_up_no_other(live, queue):
    set_rule(live)
    live.store.append(received(spans_of(1, answer='{"answer": "x \\ud800 y"}'), spans_of(2)))
    live.store.append(received(spans_of(3)))
    live.store.redis.lset(live.store.key("spans", trace_id(3)), 0, b"no span")
    work_all(live, queue)
    assert [state(live, n)[0] for n in (1, 2, 3)] == ["failed", "evaluated", "failed"]
    assert state(live, 1)[1].startswith("its row can't be stored: ")


def test_tick_all_a_project_that_fails_holds_up_no_other(live, queue, caplog):
    set_rule(live)
    other = live.of("a-first")
    other.store.append(received(spans_of(1)))
    other.store.redis.zadd(other.store.key("open"), {"no-batch": 1})
    live.store.append(received(spans_of(2)))
    work_all(live, queue)
    assert state(live, 2)[0] == "evaluated"
    assert "live traffic of project a-first" in caplog.text


def test_settle_reasons_are_short_and_can_be_stored(live, queue):
    set_rule(live)
    named = [replace(span, name="n" * 5000) for span in spans_of(2)]
    live.store.append(received(spans_of(1, answer=None, **{"\ud800" + "a" * 5000: "x"}), named))
    work_all(live, queue)
    assert len(state(live, 1)[1]) == 500
    assert {len(name) for name in live.store.request(trace_id(2)).read_from.values()} == {200}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("command", range(1, 40, 3))
def test_tick_killed_at_any_command_loses_nothing_and_evaluates_nothing_twice(live, queue, store, monkeypatch, command):
    set_rule(live)
    live.store.append(received(*(spans_of(n) for n in range(12)), spans_of(99, answer=None)))
    left, real = [command], type(store.redis).execute_command

    def execute(self, *arguments, **options):
        left[0] -= 1
        answer = real(self, *arguments, **options) if left[0] != 0 or command % 2 else None
        if left[0] == 0:
            raise Killed  # before the command, or after it
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(type(store.redis), "execute_command", execute)
        with suppress(Killed):
            work_all(live, queue, rounds=2)
    for job in store.active():
        if store.redis.exists(store.key(job, "lease")):
            expire_leases(store, job)
    live.jobs.tick()
    work_all(live, queue)
    assert counts(live) == {"received": 13, "evaluated": 12, "no_answer": 1}
    assert live.windows("shop", "hour", limit=1).windows[0].rows == 12
    assert len(store.redis.keys("ra:{*}:meta")) == 1


def test_tick_of_two_beats_makes_one_job(live, make_live, queue):
    second = make_live()
    set_rule(live)
    live.store.append(received(*(spans_of(n) for n in range(5))))
    for _ in range(3):
        live.tick_all()
        second.tick_all()
    work_all(live, queue)
    assert counts(live) == {"received": 5, "evaluated": 5}
    assert len(live.store.redis.keys("ra:{*}:meta")) == 1


def test_settle_and_harvest_count_once_for_two_beats_with_the_same_request(live):
    rule = LiveRule(rate=1.0)
    live.store.append(received(spans_of(1)))
    [(trace, request)] = live.store.due(9)
    decision = decide(request.spans(), rule, "shop")
    live.store.append(received(spans_of(1)))  # while the beats decide
    for _ in range(2):
        live.store.settle(trace, decision, len(request.stored))
    assert counts(live) == {"received": 1, "evaluating": 1, "late": 3}
    live.store.close_batches()
    [batch] = live.store.open_batches()
    states = {trace: ("evaluated", "")}
    assert [live.store.harvest(batch, "job", {"sampled": [1]}, states) for _ in range(2)] == [True, False]
    assert counts(live) == {"received": 1, "evaluated": 1, "late": 3}


def test_looked_at_an_hour_with_rows_since_then_stays(live):
    key, hour = live.store.key("to_look_at"), "shop 2026-11-26T17"
    live.store.redis.zadd(key, {hour: 1e12})
    [(member, at)] = live.store.to_look_at()
    live.store.redis.zadd(key, {hour: 1e12 + 1})
    live.store.looked_at(member, at)
    assert live.store.to_look_at() == [(hour, 1e12 + 1)]
    live.store.looked_at(hour, 1e12 + 1)
    assert live.store.to_look_at() == []


def test_harvest_counts_that_have_expired_stay_away(live, queue):
    set_rule(live)
    live.store.append(received(spans_of(1)))
    live.tick_all()
    live.store.redis.delete(live.store.key("counts", "shop", live.store.hours("shop")[0]))
    work_all(live, queue)
    assert state(live, 1)[0] == "evaluated"
    assert counts(live) == {}


def test_add_to_dataset_adds_the_question_once(live, queue):
    set_rule(live)
    live.store.append(received(spans_of(1), spans_of(2)))
    work_all(live, queue)
    live.add_to_dataset(trace_id(1), "hard")
    assert live.add_to_dataset(trace_id(2), "hard").rows == 2
    with pytest.raises(Conflict, match="has request"):
        live.add_to_dataset(trace_id(2), "hard")
    with pytest.raises(NotFound):
        live.add_to_dataset(trace_id(3), "hard")


def test_add_to_dataset_says_that_the_job_of_a_request_is_gone(live, queue):
    set_rule(live)
    live.store.append(received(spans_of(1)))
    work_all(live, queue)
    job = live.store.request(trace_id(1)).job
    live.jobs.store.redis.delete(live.jobs.store.key(job, "meta"))
    with pytest.raises(NotFound, match=job):
        live.add_to_dataset(trace_id(1), "hard")


def test_worst_rows_name_their_job_which_is_in_no_list(live, queue, monkeypatch):
    set_rule(live)
    live.store.append(received(*(spans_of(n) for n in range(70)), spans_of(99, context=WRONG)))
    work_all(live, queue)
    read, real = [], RedisStore.samples
    monkeypatch.setattr(RedisStore, "samples", lambda *given: read.append(given) or real(*given))
    [worst] = live.worst("shop", "faithfulness", live.store.hours("shop"), 1)
    assert (len(read), worst.query) == (1, f"{QUESTION} (99)")  # of two chunks, one is read
    assert (worst.trace, worst.job) == (trace_id(99), live.store.request(trace_id(99)).job)
    assert worst.value < 0.5
    assert live.jobs.get(worst.job).status == "finished"
    assert live.jobs.page(cursor=None, limit=10).jobs == ()


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


def test_is_sampled_is_the_same_share_for_whoever_asks():
    ids = [trace_id(n) for n in range(4000)]
    chosen = {id_ for id_ in ids if is_sampled(id_, 0.1)}
    assert 330 < len(chosen) < 470  # 400, and three and a half standard deviations of 19
    assert chosen < {id_ for id_ in ids if is_sampled(id_, 0.2)}
    assert not any(is_sampled(id_, 0.0) for id_ in ids)
    assert all(is_sampled(id_, 1.0) for id_ in ids)


def test_share_in_contexts_counts_the_answers_words():
    assert share_in_contexts("Backups start at two.", ["The backup starts at two o'clock."]) == 1.0
    assert share_in_contexts(WRONG, [GOOD]) == 0.0
    assert share_in_contexts("", [GOOD]) == 1.0


@pytest.mark.parametrize(
    ("spans", "rule", "status", "cause"),
    [
        (spans_of(1), LiveRule(rate=1.0), "evaluating", "sampled"),
        (spans_of(1), LiveRule(rate=0.0), "not_sampled", None),
        (spans_of(1, error="down", answer=None), LiveRule(rate=0.0), "evaluating", "error"),
        (spans_of(1, error="down", answer=None), LiveRule(rate=0.0, errors=False), "not_sampled", None),
        (spans_of(1, context=WRONG), LiveRule(rate=0.0, low_score=0.5), "evaluating", "low_score"),
        (spans_of(1), LiveRule(rate=0.0, low_score=0.5), "not_sampled", None),
        (spans_of(1, answer=None), LiveRule(rate=1.0), "no_answer", None),
    ],
)
def test_decide_by_rule(spans, rule, status, cause):
    decision = decide(spans, rule, "shop")
    assert (decision.status, decision.cause) == (status, cause)
    assert (decision.sample is not None) == (status == "evaluating")


def test_decide_reads_the_spans_that_a_rule_names():
    trace = trace_id(5)
    tool = TraceSpan(trace, "d", "a", "TOOL", 1.0, 2.0, {"output.value": "The final words."}, name="compose")
    wiki = {"retrieval.documents.0.document.content": "From the wiki."}
    other = TraceSpan(trace, "e", "a", "CHAIN", 1.0, 2.0, wiki, name="wiki")
    spans = [*spans_of(5), tool, other]
    rule = LiveRule(rate=1.0, spans=SpanRule(answer="compose", retrieval="wiki"))
    decision = decide(spans, rule, "shop")
    assert decision.sample.answer == "The final words."
    assert decision.sample.contexts == ("From the wiki.",)
    assert decision.read_from == {"query": "answer", "answer": "compose", "contexts": "wiki"}


def test_decide_a_row_that_can_not_be_read_says_why():
    spans = [span for span in spans_of(5) if span.kind != "RETRIEVER"]
    bad = TraceSpan(trace_id(5), "f", "a", "LLM", 1.0, 2.0, {"llm.token_count.prompt": -5}, name="x")
    decision = decide([*spans, bad], LiveRule(rate=1.0), "shop")
    assert decision.status == "failed"
    assert "input_tokens" in decision.reason
