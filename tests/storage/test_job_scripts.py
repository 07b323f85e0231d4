"""Each script of a job's life alone: fresh, sent again, with a stale token, in a wrong status, with nothing, too much, no key."""

import struct
from typing import get_args

import pytest
from redis import Redis

import job_workers
from ragassay.core.jobs import JobStatus
from ragassay.service.job_state import TRANSITIONS
from ragassay.service.redis import PARTIAL_FILE
from ragassay.storage.runs import GATES_FILE, REPORT_FILE
from raw_job import LIFE, RawJob

FIRST, SECOND = "default:0", "default:1"


server = job_workers.server


@pytest.fixture(scope="module")
def redis(server):
    with Redis.from_url(server.url) as connection:
        yield connection


@pytest.fixture
def job(redis):
    return RawJob(redis)


CALLS = {
    "claim": (lambda job, token: job.claim(token), None),
    "renew": (lambda job, token: job.renew(FIRST, token), 0),
    "reserve": (lambda job, token: job.reserve(FIRST, token), "stop"),
    "settle": (lambda job, token: job.settle(FIRST, token), 0),
    "commit": (lambda job, token: job.commit(FIRST, token), "stale"),
    "release": (lambda job, token: job.release(FIRST, token), "stale"),
    "sweep": (lambda job, token: job.sweep(), []),
    "transition": (lambda job, token: job.turn("cancelled"), ("", False)),
}


@pytest.mark.parametrize("script", LIFE)
def test_a_script_makes_nothing_of_a_job_that_is_not_there(job, script):
    job.redis.delete(*job.redis.scan_iter(job.key("*")))
    call, nothing = CALLS[script]
    assert call(job, "mine") == nothing
    assert job.everything == {}


TURNS = {  # all that a script can make of a status
    **{script: [lambda job, call=call: call(job, "mine")] for script, (call, _) in CALLS.items()},
    "claim": [lambda job: job.claim("another")],
    "retry": [lambda job: job.retry(FIRST), lambda job: job.retry()],
    "transition": [lambda job, to=to: job.turn(to) for to in TRANSITIONS["transition"]],
}


@pytest.mark.parametrize("script", [*LIFE, "retry"])
def test_a_script_changes_a_status_as_the_table_of_transitions_says(redis, script):
    made = set()
    for before in get_args(JobStatus):
        for turn in TURNS[script]:
            job = RawJob(redis, 2, status=before)
            redis.hset(job.key("owner"), FIRST, "mine")
            redis.sadd(job.key("done"), SECOND)
            turn(job)
            made.add((before, job.meta["status"]))
    table = TRANSITIONS.get(script, {})
    assert {(before, after) for before, after in made if before != after} == {
        (before, after) for after, befores in table.items() for before in befores
    }


@pytest.mark.parametrize(("about", "claimed"), [({"provider": 1}, 2), ({"provider": 0}, 3)])
def test_no_more_chunks_are_claimed_than_may_be_worked_on_at_once(redis, about, claimed):
    job = RawJob(redis, **about)
    assert sum(job.claim(token, most=2) is not None for token in "abc") == claimed


def test_a_call_is_reserved_once_and_spent_when_it_is_settled_however_often_that_is_sent(job):
    job.claim("mine")
    assert [job.reserve(FIRST, "mine") for _ in range(3)] == ["granted"] * 3
    assert job.books == (0, 0.5, 0, 100, 1, 0)
    assert [job.settle(FIRST, "mine", rows=2) for _ in range(2)] == [1, 0]
    assert job.books == (0.25, 0, 60, 0, 0, 0)
    assert job.counters == {"rows": 2}
    assert job.reserve(FIRST, "mine", number=2) == "settled reply"
    assert job.books == (0.25, 0, 60, 0, 0, 0)


def test_of_two_replies_to_a_call_the_first_is_kept_whoever_brings_them(job):
    job.claim("mine")
    for n in (1, 2):
        assert job.reserve(FIRST, "mine", number=n) == "granted"
    assert [job.settle(FIRST, "mine", reply=f"reply {n}", number=n) for n in (2, 1)] == [1, 1]
    assert job.settle(FIRST, "late", reply="reply 3", number=3) == 0
    assert job.reserve(FIRST, "mine", number=4) == "settled reply 2"


def test_a_claim_that_is_sent_again_gives_the_same_chunk(job):
    assert [job.claim("mine"), job.claim("mine"), job.claim("other")] == [FIRST, FIRST, SECOND]


def test_a_request_with_an_unknown_outcome_is_spent_at_its_estimate_and_another_may_follow(job):
    job.claim("mine")
    job.reserve(FIRST, "mine")
    assert job.settle(FIRST, "mine", reply="", spent=("0.5", 100), unknown=1) == 1
    assert (job.books, job.month) == ((0.5, 0, 100, 0, 0, 1), (0.5, 0, 0.5))
    assert job.counters["uncertain_calls"] == 1
    assert job.reserve(FIRST, "mine", number=2) == "granted"
    assert job.settle(FIRST, "mine", reply="", number=2, spent=("0", 0)) == 1
    assert job.books == (0.5, 0, 100, 0, 0, 1)


def test_all_requests_of_a_worker_that_died_are_spent_and_may_have_been_paid(job):
    job.claim("dead")
    for n in range(3):
        assert job.reserve(FIRST, "dead", f"c{n}") == "granted"
    job.expire(FIRST)
    job.sweep()
    assert (job.books, job.month) == ((1.5, 0, 300, 0, 0, 3), (1.5, 0, 1.5))
    assert job.counters["uncertain_calls"] == 3


def test_a_worker_that_lost_its_lease_and_a_job_that_has_ended_change_nothing(job):
    job.claim("dead")
    job.expire(FIRST)
    job.sweep()
    assert job.claim("mine") == FIRST
    assert job.commit(FIRST, "dead") == "stale"
    assert [job.turn(to) for to in ("cancelled", "failed")] == [("running", True), ("cancelled", False)]


def test_the_end_of_a_job_books_what_is_open_and_has_its_keys_expire(job):
    job.claim("mine")
    job.reserve(FIRST, "mine")
    assert [job.turn("cancelled") for _ in range(2)] == [("running", True), ("cancelled", False)]
    assert (job.books, job.todo, job.owner) == ((0.5, 0, 100, 0, 0, 1), [], {})
    assert job.redis.ttl(job.key("meta")) > 900


def test_a_reply_that_comes_after_the_end_expires_with_its_job(job):
    job.claim("mine")
    job.reserve(FIRST, "mine")
    job.turn("cancelled")
    assert job.settle(FIRST, "mine") == 0
    assert job.redis.hget(job.key(f"calls:{FIRST}"), "c") == b"reply"
    assert 0 < job.redis.ttl(job.key(f"calls:{FIRST}")) <= job.redis.ttl(job.key("meta"))


def test_calls_of_a_project_stay_within_its_cap_whatever_their_jobs_may_spend(job):
    job.claim("mine")
    job.redis.set(job.key("cap"), "0.8")
    assert job.reserve(FIRST, "mine", "a") == "granted"
    assert [job.reserve(FIRST, "mine", "b", usd=usd) for usd in ("0.5", "")] == ["wait", "project has no price"]
    job.settle(FIRST, "mine", "a")
    assert job.month == (0.25, 0, 0)
    assert job.reserve(FIRST, "mine", "b") == "granted"
    job.settle(FIRST, "mine", "b", spent=("0.5", 0))
    assert job.reserve(FIRST, "mine", "c") == "over"


def test_of_two_calls_with_the_same_content_the_second_waits_for_the_reply_to_the_first(job):
    job.claim("one")
    job.claim("other")
    assert job.reserve(FIRST, "one", content="same") == "granted"
    assert job.reserve(SECOND, "other", "d", content="same") == "busy"
    job.settle(FIRST, "one")
    assert job.reserve(SECOND, "other", "d", content="same") == "same reply"
    assert job.reserve(FIRST, "one", content="same") == "settled reply"


def test_a_call_does_not_wait_for_one_whose_worker_died_or_that_came_to_nothing(job):
    job.claim("dead")
    job.claim("other")
    job.reserve(FIRST, "dead", content="same")
    job.redis.hdel(job.key("owner"), FIRST)
    assert job.reserve(SECOND, "other", "d", content="same") == "granted"
    job.settle(SECOND, "other", "d", reply="")
    assert job.reserve(SECOND, "other", "e", content="same") == "granted"


@pytest.mark.parametrize(
    ("about", "usd", "tokens", "answers"),
    [
        ({"most_usd": 1}, "0.5", 0, ["granted", "granted", "wait"]),
        ({"most_usd": 0.4}, "0.5", 0, ["over"]),
        ({"most_usd": 0}, "0", 0, ["granted"]),
        ({"most_usd": 0}, "0.000001", 0, ["over"]),
        ({"most_usd": 1}, "", 0, ["job has no price"]),
        ({"most_tokens": 100}, "", 100, ["granted", "wait"]),
        ({"most_tokens": 1}, "0", 1e12, ["over"]),
        ({}, "1e9", 10**15, ["granted", "granted"]),
        ({"most_usd": 1}, "-0.5", 0, ["granted", "granted", "granted"]),
    ],
)
def test_a_budget_lets_through_what_fits_beside_all_that_is_open(redis, about, usd, tokens, answers):
    job = RawJob(redis, **about)
    job.claim("mine")
    asked = [job.reserve(FIRST, "mine", f"c{n}", usd=usd, tokens=tokens) for n in range(len(answers))]
    assert asked == answers
    assert job.books[4] == asked.count("granted")


def test_counters_with_a_new_model_beyond_the_most_count_it_as_other(job):
    job.claim("mine")
    job.redis.hset(job.key("counters"), mapping={f"filler{n}": 1 for n in range(2000)})
    job.reserve(FIRST, "mine")
    job.settle(FIRST, "mine", **{"tokens\x1fa-model\x1fjudging": 60, "filler1": 2})
    assert (job.counters["tokens\x1fother\x1fjudging"], job.counters["filler1"]) == (60, 3)


def test_results_are_kept_once_and_the_last_ones_end_the_work(redis):
    job, size = RawJob(redis, 2), 1_000_000
    job.claim("a"), job.claim("b")
    assert job.commit(FIRST, "a", blob="x" * size, rows=size, failed=size // 2) == "kept"
    assert job.commit(FIRST, "a", blob="other") == "stale"
    assert job.redis.hstrlen(job.key("results"), FIRST) == size
    assert job.redis.get(job.key("columns")) == struct.pack("<d", 1)
    assert job.commit(SECOND, "b", rows=0) == "last"
    assert (job.meta["status"], job.meta["rows_done"], job.done) == ("finalizing", str(size), {FIRST, SECOND})
    assert job.counters == {"chunks": 2, "rows": size, "rows_failed": size // 2}
    assert (job.owner, job.leased) == ({}, set())


@pytest.mark.parametrize(("give_up_ms", "outcome"), [(600_000, "released"), (0, "given up"), (-1, "given up")])
def test_a_provider_that_fails_is_waited_for_or_given_up(job, give_up_ms, outcome):
    job.claim("mine")
    assert job.wait(FIRST, "mine", give_up_ms=give_up_ms) == outcome
    assert (FIRST in job.todo) == (outcome == "released")
    assert job.wait(SECOND, "lost", give_up_ms=give_up_ms) == "stale"
    assert job.claim("other") == (None if outcome == "released" else SECOND)
    if outcome == "released":
        job.probe_due()
        assert job.claim("other") == FIRST


@pytest.fixture
def ended(job):
    """A job that has finished, with a failed row in its first chunk, a report and rows that will be gone."""
    for token, chunk in zip("abc", job.chunks, strict=True):
        job.claim(token)
        job.commit(chunk, token, failed=int(chunk == FIRST))
    for name in (REPORT_FILE, GATES_FILE, PARTIAL_FILE):
        job.redis.set(job.key(name), name)
    job.redis.hset(job.key("meta"), mapping={"alerts": "[]", "given_up": "it was down"})
    job.turn("finished")
    job.redis.delete(job.key("todo"))
    job.redis.expire(job.key("meta"), 1000)
    return job


def test_a_chunk_that_is_tried_again_is_done_no_more_and_keeps_its_results_and_the_report_until_there_are_others(ended):
    ended.redis.hset(ended.key("meta"), "changed_ms", 1)
    assert ended.retry(FIRST, rows=1) == "finished"
    assert (ended.todo, ended.done, ended.meta["status"]) == ([FIRST], {SECOND, "default:2"}, "running")
    assert (ended.meta["rows_done"], ended.meta["rows_failed"], ended.meta["retries"]) == ("149", "0", "1")
    assert ended.redis.hget(ended.key("results"), FIRST) == b"results"
    assert ended.redis.mget(ended.key(REPORT_FILE), ended.key(PARTIAL_FILE)) == [None, REPORT_FILE.encode()]
    assert not ended.redis.exists(ended.key(GATES_FILE))
    assert not {"alerts", "given_up"} & ended.meta.keys()
    assert int(ended.meta["changed_ms"]) > 1, "its chunks wait from now on"
    assert ended.redis.ttl(ended.key("meta")) == -1
    assert ended.redis.sismember("ra:active", ended.id)
    assert ended.redis.hgetall(ended.key("tries")) == {FIRST.encode(): b"1"}
    ended.claim("mine")
    assert ended.commit(FIRST, "mine", blob="better", rows=1) == "last"
    assert (ended.meta["rows_done"], ended.redis.hget(ended.key("results"), FIRST)) == ("150", b"better")


def test_a_retry_that_is_sent_again_or_comes_too_late_changes_nothing(ended):
    seen = ended.meta["changed_ms"]
    ended.retry(FIRST, rows=1)
    before = ended.everything
    assert ended.retry(FIRST, rows=1, changed_ms=seen) == "running"
    assert ended.everything == before
    ended.claim("mine")
    ended.commit(FIRST, "mine", rows=1)
    ended.turn("finished")
    ended.redis.hset(ended.key("meta"), "changed_ms", int(seen) + 1)  # it may be the same millisecond
    before = ended.everything
    assert ended.retry(FIRST, rows=1, changed_ms=seen) == "stale"
    assert ended.everything == before
