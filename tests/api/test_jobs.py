"""``/v1/jobs``: submitted once, listed, followed, cancelled and gone on with; and the results of their rows."""

import json
import random
import time

import pytest

from api_server import problem, rows, serving
from polling import patience
from ragassay.api import jobs as routes
from ragassay.api.submission import read_evaluation
from ragassay.core.errors import AssayError
from ragassay.core.jobs import Job
from ragassay.core.settings import Settings
from ragassay.service.health import health
from ragassay.service.jobs import Jobs
from ragassay.service.queue import CHUNKS, Queue
from ragassay.service.redis import RedisStore
from redis_server import RedisServer, free_port

METRICS = ["mrr", "recall@5", "faithfulness"]


def test_a_submitted_job_is_queued_and_says_where_to_follow_it(served):
    answer = served.http.post("/v1/jobs", json={"samples": rows(3), "metrics": METRICS, "name": "first"})
    job = Job.model_validate(answer.json())
    assert (answer.status_code, job.status, job.name, job.metrics) == (202, "queued", "first", tuple(METRICS))
    assert (job.progress.rows, job.progress.done, job.judge) == (3, 0, "local")
    assert (answer.headers["location"], int(answer.headers["retry-after"]) >= 1) == (f"/v1/jobs/{job.id}", True)
    assert "idempotent-replayed" not in answer.headers
    assert [use_case for use_case, _ in served.queue.sent] == ["work"]
    assert served.http.get(answer.headers["location"]).json()["id"] == job.id


# --- what the operator allows ---

LISTED, KEYED = {"judges": "openai/a, llm:openai/b"}, {"bootstrap_key": "k" * 24, "judge": "openai/a"}
WITH_REFERENCE = [{"model": "local"}, {"model": "openai/a", "role": "reference", "on": 0.5}]


@pytest.mark.parametrize(
    ("settings", "job", "judges"),
    [
        ({"judge": "openai/a"}, {"judge": "openai/c"}, ["openai/c"]),
        (LISTED, {"judges": ["openai/a", {"model": "openai/b"}]}, ["openai/a", "openai/b"]),
        (KEYED, {"judge": "openai/a"}, ["openai/a"]),
        ({}, {"judges": WITH_REFERENCE}, ["local", "openai/a"]),
        ({"max_concurrency": 4, "max_timeout_s": 4}, {"performance": {"concurrency": 4, "timeout_s": 4}}, ["local"]),
    ],
)
def test_what_the_operator_allows(settings, job, judges):
    spec = read_evaluation(job, Settings(**settings))
    assert [one.model for one in spec.judges] == judges
    assert spec.performance.concurrency <= settings.get("max_concurrency", 32)


@pytest.mark.parametrize(
    ("settings", "job", "where", "said"),
    [
        (LISTED, {"judges": ["openai/a", "openai/c"]}, "judges", "unknown judge 'openai/c'"),
        ({}, {"judges": WITH_REFERENCE, "criteria": {"a": "Is it?"}}, "judges", "criteria can't be judged by the local judge"),
        (KEYED, {"judge": "o3"}, "judge", "unknown judge 'o3'.*openai/a"),
        ({"max_concurrency": 4}, {"performance": {"concurrency": 5}}, "performance.concurrency", "at most 4"),
    ],
)  # fmt: skip
def test_what_the_operator_does_not_allow_is_refused(settings, job, where, said):
    with pytest.raises(AssayError, match=said) as refused:
        read_evaluation(job, Settings(**settings))
    assert refused.value.where == where


# --- a request that is sent again, because its answer was lost ---


def post(served, samples, **options):
    return served.http.post("/v1/jobs", json={"samples": samples, **options}, headers={"Idempotency-Key": "abc"})


def test_the_same_key_and_body_give_the_same_job(served):
    first, again = post(served, rows(2), name="n"), post(served, rows(2), name="n")
    assert (first.status_code, again.status_code, again.json()) == (202, 202, first.json())
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotent-replayed"] == "true"
    assert len(served.http.get("/v1/jobs").json()["jobs"]) == len(served.queue.sent) == 1
    served.work()
    assert post(served, rows(2), name="n").json()["status"] == "finished"


def test_the_same_key_with_another_body_is_refused(served):
    problem(post(served, [{"query": "Which?"}]), 422)  # a key whose body was refused is free again
    assert post(served, rows(2)).status_code == 202
    for samples, more in (([{**row, "answer": "Another one."} for row in rows(2)], {}), (rows(2), {"seed": 1})):
        assert "another body" in problem(post(served, samples, **more), 422)["detail"]


def test_submit_with_one_key_makes_one_job_however_long_it_takes(served):
    """Both requests begin before either job is saved."""
    create, answers = served.jobs.store.create, []

    def slowly(*arguments, **options):
        served.jobs.store.create = create
        answers.append(post(served, rows(1)))
        create(*arguments, **options)

    served.jobs.store.create = slowly
    answers.append(post(served, rows(1)))
    (job,) = served.http.get("/v1/jobs").json()["jobs"]
    assert [(answer.status_code, answer.json()["id"]) for answer in answers] == [(202, job["id"])] * 2
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert len(served.queue.sent) == 1


def test_the_key_is_kept_with_the_job_or_not_at_all(served, monkeypatch):
    """A crash right after the job was saved must not leave a key that makes another one."""

    def crash(job):
        raise KeyError(job)

    with monkeypatch.context() as patch:
        patch.setattr(served.queue, "enqueue", crash)
        problem(post(served, rows(1)), 500)
    (made,) = served.http.get("/v1/jobs").json()["jobs"]
    again = post(served, rows(1))
    assert (again.status_code, again.json()["id"]) == (202, made["id"])


# --- Redis ---


def test_a_broker_that_is_away_costs_no_job(redis, monkeypatch):
    """The job is saved; the scheduler enqueues it once the broker answers, and tries with no job before."""
    slot, back, sent = Queue(f"redis://127.0.0.1:{free_port()}/0"), Queue(redis.url), []
    jobs = Jobs(RedisStore(redis.url, patient=False), slot, None)
    with serving(redis.url, jobs=jobs) as served:
        job = served.submit(rows(1), metrics=["mrr"])["id"]
        assert served.http.get(f"/v1/jobs/{job}").json()["status"] == "queued"
        assert job in jobs.store.active()
    monkeypatch.setattr(slot, "enqueue", sent.append)
    jobs.tick()
    assert sent == []
    Jobs(jobs.store, back, None).tick()
    assert job.encode() in back.waiting(CHUNKS)


def test_while_redis_is_away_every_route_says_so_and_then_all_is_well_again():
    with RedisServer("--appendfsync", "always") as redis, serving(redis.url) as served:
        job = served.submit(rows(2), metrics=["mrr"])["id"]
        redis.kill()
        submit = served.http.post("/v1/jobs", json={"samples": rows(1)})
        cancel = served.http.post(f"/v1/jobs/{job}/cancel")
        reads = ("/v1/jobs", f"/v1/jobs/{job}", f"/v1/jobs/{job}/report", f"/v1/jobs/{job}/results", "/readyz")
        for answer in (submit, cancel, *map(served.http.get, reads)):
            assert problem(answer, 503)["code"] == "unavailable"
            assert int(answer.headers["retry-after"]) >= 1
        assert served.http.get("/healthz").status_code == 200
        redis.start()
        served.work()
        assert served.http.get(f"/v1/jobs/{job}").json()["status"] == "finished"


def test_a_nearly_full_redis_takes_no_job_and_a_full_one_nothing_and_both_say_so():
    with RedisServer("--maxmemory", "2mb") as redis, serving(redis.url) as served:
        noise = random.Random(0)
        answers = []
        while len(answers) < 60 and (not answers or answers[-1].status_code == 202):
            some = [{"query": "Which?", "answer": noise.randbytes(2000).hex()} for _ in range(20)]  # can't be packed
            answers.append(served.http.post("/v1/jobs", json={"samples": some}))
        assert len(answers) > 2
        assert "no new jobs are taken: Redis uses more than 70 %" in problem(answers[-1], 503)["detail"]
        assert answers[-1].headers["retry-after"] == "60"
        first, second = (f"/v1/jobs/{answer.json()['id']}/cancel" for answer in answers[:2])
        assert served.http.post(first).status_code == 200, "there is room for those that are there"
        served.jobs.store.redis.config_set("maxmemory", 1)
        assert "Redis refuses writes now" in problem(served.http.post(second), 503)["detail"]
        assert any("70 %" in warning for warning in health(served.jobs.store).problems)


# --- cancelled, and gone on with ---


def test_a_cancelled_job_makes_no_more_calls_and_keeps_what_is_done(served):
    job = served.submit(rows(120), metrics=METRICS)["id"]
    served.work(most=1)
    assert served.http.post(f"/v1/jobs/{job}/cancel").json()["status"] == "cancelled"
    served.work()
    after = served.http.get(f"/v1/jobs/{job}").json()
    assert (after["status"], after["progress"]["done"], after["ended_at"] is None) == ("cancelled", 50, False)
    run = served.http.get(f"/v1/jobs/{job}/report").json()["run"]
    assert (run["status"], run["rows"], run["rows_done"]) == ("incomplete", 120, 50)
    again = served.http.post(f"/v1/jobs/{job}/cancel")
    assert (again.status_code, again.json()) == (200, after)
    assert "not paused" in problem(served.http.post(f"/v1/jobs/{job}/resume"), 409)["detail"]


@pytest.mark.parametrize(
    ("asked", "caps"),
    [
        ({}, [b"0.5", b"900"]),
        ({"budget_usd": 2}, [b"2.0", b"900"]),
        ({"budget_usd": 2, "budget_tokens": "none"}, [b"2.0", None]),
    ],
)
def test_resume_changes_only_the_caps_that_are_given(served, asked, caps):
    job = served.submit(rows(2), budget={"usd": 0.5, "tokens": 900})["id"]
    store = served.jobs.store
    store.redis.hset(store.key(job, "meta"), "status", "paused")
    store.redis.hset(store.key(job, "meta"), "spent_usd", 0.4)
    for usd in (0, 0.3):
        assert "budget_usd" in str(problem(served.http.post(f"/v1/jobs/{job}/resume?budget_usd={usd}"), 422))
    resumed = served.http.post(f"/v1/jobs/{job}/resume", params=asked)
    assert resumed.json()["status"] == "running"
    assert store.redis.hmget(store.key(job, "meta"), "most_usd", "most_tokens") == caps


# --- followed ---


@pytest.fixture
def events(served, monkeypatch):
    """Reads the (status, rows done) of each event of a job as it comes."""
    monkeypatch.setattr(routes, "POLL_S", 0.05)

    def read(job, server=served):
        with server.http.stream("GET", f"/v1/jobs/{job}/events") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for line in response.iter_lines():
                if line.startswith("data:"):
                    document = json.loads(line.removeprefix("data:"))
                    yield document["status"], document["progress"]["done"]

    return read


def test_events_are_the_job_now_each_change_and_its_end(served, events):
    job = served.submit(rows(120), metrics=["mrr"])["id"]
    found = events(job)
    assert next(found) == ("queued", 0)
    served.work(most=1)
    assert ("running", 50) in found
    served.work()
    assert list(found)[-1] == ("finished", 120)
    assert list(events(job)) == [("finished", 120)]


def test_events_end_with_a_job_that_is_cancelled_or_gone_and_an_unknown_one_has_none(served, events):
    cancelled, gone = (served.submit(rows(2), metrics=["mrr"])["id"] for _ in range(2))
    of_cancelled, of_gone = events(cancelled), events(gone)
    assert next(of_cancelled) == next(of_gone) == ("queued", 0)
    served.http.post(f"/v1/jobs/{cancelled}/cancel")
    served.jobs.store.redis.delete(served.jobs.store.key(gone, "meta"))
    assert list(of_cancelled) == [("cancelled", 0)]
    assert list(of_gone) == []
    problem(served.http.get(f"/v1/jobs/{gone}/events"), 404)


def test_a_server_that_stops_does_not_wait_for_its_readers(redis, events):
    with serving(redis.url) as served:
        found = events(served.submit(rows(2), metrics=["mrr"])["id"], served)
        next(found)
        began = time.monotonic()
    assert time.monotonic() - began < patience(8)


# --- lists ---


def pages(served, path, **parameters):
    """The entries of each page of a list."""
    while True:
        answer = served.http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        (name,) = set(page) - {"next"}
        yield page[name]
        if page["next"] is None:
            return
        parameters["cursor"] = page["next"]


@pytest.fixture
def many(served):
    assert list(pages(served, "/v1/jobs")) == [[]]
    return [served.submit(rows(1), metrics=["mrr"], name=f"job {n}")["id"] for n in range(60)]


def test_lists_are_read_page_by_page_in_an_order_that_stays(served):
    headers, answers = {"Content-Type": "application/x-ndjson"}, [json.dumps(row) + "\n" for row in rows(3)]
    plan = {"cron": "0 3 * * *", "job": {"dataset": "a", "metrics": ["mrr"], "gates": [{"mrr": ">= 1.1"}]}}
    jobs = []
    names = ["a", "a-b", "ab"]  # as a dataset and one of its parts are called
    for name in reversed(names):
        for n in (1, 2, 3):
            served.http.put(f"/v1/datasets/{name}", content="".join(answers[:n]), headers=headers)
    for name in reversed(names):
        served.http.post("/v1/schedules", json={"name": name, **plan})
    for _ in range(3):
        served.http.post("/v1/schedules/a/run")
        served.work()
        jobs.append(served.http.get("/v1/jobs?limit=1").json()["jobs"][0]["id"])
    hooks = [f"https://alerts.example/{n}" for n in range(3)]
    for hook in hooks:
        served.http.post("/v1/webhooks", json={"url": hook})
    for path, key, wanted in (
        ("/v1/webhooks", "url", hooks),
        ("/v1/jobs", "id", jobs[::-1]),
        ("/v1/alerts", "job", jobs[::-1]),
        ("/v1/schedules/a/runs", "job", jobs[::-1]),
        ("/v1/schedules", "name", names),
        ("/v1/datasets", "name", names),
        ("/v1/datasets/a/versions", "rows", [3, 2, 1]),
        ("/v1/datasets/a/rows", "query_id", ["q0", "q1", "q2"]),
        (f"/v1/jobs/{jobs[0]}/results", "query_id", ["q0", "q1", "q2"]),
    ):
        for limit, sizes in ((2, [2, 1]), (3, [3]), (200, [3])):
            listed = list(pages(served, path, limit=limit))
            assert list(map(len, listed)) == sizes, path
            assert [one[key] for page in listed for one in page] == wanted, path
        if path not in ("/v1/schedules", "/v1/datasets"):  # whose cursor is a name
            for cursor in ("x", f"{'٣' * 15}-x"):  # digits, but none of Redis's
                assert "cursor" in problem(served.http.get(path, params={"cursor": cursor}), 422)["detail"], path


def test_an_entry_that_is_deleted_between_two_pages_ends_no_list(served):
    made = [
        served.http.post("/v1/webhooks", json={"url": f"https://a.example/{n}"}).json()["webhook"] for n in range(3)
    ]
    listed = pages(served, "/v1/webhooks", limit=1)
    for hook in made:
        assert next(listed) == [hook]
        served.http.delete(f"/v1/webhooks/{hook['id']}")


def test_jobs_of_one_status_are_found_wherever_they_stand(served, many, monkeypatch):
    for job in (many[3], many[25], many[55]):
        served.http.post(f"/v1/jobs/{job}/cancel")
    ids = [job["id"] for page in pages(served, "/v1/jobs", status="cancelled") for job in page]
    assert sorted(ids) == sorted([many[3], many[25], many[55]])
    assert sum(len(page) for page in pages(served, "/v1/jobs", status="queued", limit=10)) == 57
    assert list(pages(served, "/v1/jobs", status="failed")) == [[]]
    monkeypatch.setattr("ragassay.service.jobs.MAX_LOOKED_AT", 25)
    looked = list(pages(served, "/v1/jobs", status="cancelled", limit=20))
    assert sorted(job["id"] for page in looked for job in page) == sorted(ids)
    assert len(looked) == 3  # 60 jobs, 25 looked at for each page


def test_records_that_are_gone_make_no_empty_page(served, many):
    store = served.jobs.store
    for job in many[:35]:
        store.redis.delete(store.key(job, "meta"))
    assert [len(page) for page in pages(served, "/v1/jobs", limit=25)] == [25]
    assert [entry.id for entry in served.jobs.reports.newest()] == many[:34:-1]


# --- the results of its rows ---


def named(results):
    return [(row["system"], row["query_id"]) for row in results]


def test_the_pages_of_a_running_job_repeat_nothing_and_miss_nothing_that_was_there(served):
    drawn = random.Random(7)
    samples = [{**row, "latency_ms": drawn.choice([None, 100.0, drawn.uniform(1, 1000)])} for row in rows(230)]
    job = served.submit(samples, metrics=["mrr"])["id"]
    served.work(most=3)
    there = {one for page in pages(served, f"/v1/jobs/{job}/results", sort="mrr") for one in named(page)}
    reading = pages(served, f"/v1/jobs/{job}/results", sort="-latency_ms", limit=60)
    seen = named(next(reading))
    served.work()
    seen += [one for page in reading for one in named(page)]
    assert len(seen) == len(set(seen))
    assert there <= set(seen)


def test_results_that_were_let_go_are_said_to_be_gone(served):
    job = served.submit(rows(60), metrics=["mrr"])["id"]
    served.work()
    redis = served.jobs.store.redis
    assert 0 < redis.ttl(f"ra:{{{job}}}:results") <= 30 * 86_400
    redis.delete(f"ra:{{{job}}}:results")
    assert "30 days" in problem(served.http.get(f"/v1/jobs/{job}/results"), 404)["detail"]
    assert served.http.get(f"/v1/jobs/{job}/report").status_code == 200
