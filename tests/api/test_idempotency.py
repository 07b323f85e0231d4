"""A request that is sent again, because its answer was lost, makes no second job."""

import random

import pytest

from api_server import problem, rows, serving
from ragassay.service.health import health
from ragassay.service.jobs import Jobs
from ragassay.service.queue import Queue
from ragassay.service.redis import RedisStore
from redis_server import RedisServer, free_port


def post(served, key, samples, **options):
    headers = {"Idempotency-Key": key}
    return served.http.post("/v1/jobs", json={"samples": samples, **options}, headers=headers)


def test_the_same_key_and_body_give_the_same_job(served):
    first = post(served, "abc", rows(2), name="n")
    again = post(served, "abc", rows(2), name="n")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotent-replayed"] == "true"
    assert len(served.http.get("/v1/jobs").json()["jobs"]) == 1
    assert len(served.queue.sent) == 1
    served.work()
    assert post(served, "abc", rows(2), name="n").json()["status"] == "finished"


@pytest.mark.parametrize(
    "other",
    [
        {"samples": rows(3)},
        {"samples": [{**row, "answer": "Another one."} for row in rows(2)]},
        {"name": "another"},
        {"seed": 1},
        {"metrics": ["recall@5"]},
    ],
)
def test_the_same_key_with_another_body_is_refused(served, other):
    body = {"samples": rows(2), "metrics": ["mrr"]}
    assert post(served, "abc", **body).status_code == 202
    assert "another body" in problem(post(served, "abc", **{**body, **other}), 422)["detail"]
    assert post(served, "xyz", **{**body, **other}).status_code == 202


def test_a_key_whose_body_was_refused_is_free_again(served):
    problem(post(served, "abc", [{"query": "Which?"}]), 422)
    assert post(served, "abc", rows(1)).status_code == 202


def test_submit_with_one_key_makes_one_job_however_long_it_takes(served):
    """Both requests begin before either job is saved."""
    create, answers = served.jobs.store.create, []

    def slowly(*arguments, **options):
        served.jobs.store.create = create
        answers.append(post(served, "abc", rows(1)))
        create(*arguments, **options)

    served.jobs.store.create = slowly
    answers.append(post(served, "abc", rows(1)))
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[1].headers["idempotent-replayed"] == "true"
    (job,) = served.http.get("/v1/jobs").json()["jobs"]
    assert {answer.json()["id"] for answer in answers} == {job["id"]}
    assert len(served.queue.sent) == 1


def test_the_key_is_kept_with_the_job_or_not_at_all(served):
    """A crash right after the job was saved must not leave a key that makes another one."""
    enqueue = served.jobs.wake

    def crash(job):
        raise KeyError(job)

    served.jobs.wake = crash
    try:
        problem(post(served, "abc", rows(1)), 500)
    finally:
        served.jobs.wake = enqueue
    (made,) = served.http.get("/v1/jobs").json()["jobs"]
    again = post(served, "abc", rows(1))
    assert (again.status_code, again.json()["id"]) == (202, made["id"])


def test_a_broker_that_is_away_costs_no_job(redis, caplog):
    """The job is saved; the sweeper enqueues it later."""
    slot = Queue(f"redis://127.0.0.1:{free_port()}/0")
    jobs = Jobs(RedisStore(redis.url, patient=False), slot, None)
    with serving(redis.url, jobs=jobs) as served:
        job = served.submit(rows(1), metrics=["mrr"])["id"]
        assert served.http.get(f"/v1/jobs/{job}").json()["status"] == "queued"
        assert job in jobs.store.active()


def test_while_redis_is_away_every_route_says_so_and_then_all_is_well_again():
    with RedisServer("--appendfsync", "always") as redis, serving(redis.url) as served:
        job = served.submit(rows(2), metrics=["mrr"])["id"]
        redis.kill()
        requests = [
            ("POST", "/v1/jobs", {"json": {"samples": rows(1)}}),
            ("GET", "/v1/jobs", {}),
            ("GET", f"/v1/jobs/{job}", {}),
            ("GET", f"/v1/jobs/{job}/report", {}),
            ("GET", f"/v1/jobs/{job}/results", {}),
            ("POST", f"/v1/jobs/{job}/cancel", {}),
            ("GET", "/readyz", {}),
            ("GET", "/v1/metrics", {}),  # nobody can tell whether a key is needed now
        ]
        for method, path, body in requests:
            answer = served.http.request(method, path, **body)
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
            some = [
                {"query": "Which?", "answer": noise.randbytes(2000).hex()} for _ in range(20)
            ]  # 40 kB, can't be packed
            answers.append(served.http.post("/v1/jobs", json={"samples": some}))
        assert len(answers) > 2
        assert "no new jobs are taken: Redis uses more than 70 %" in problem(answers[-1], 503)["detail"]
        assert answers[-1].headers["retry-after"] == "60"
        first, second = (f"/v1/jobs/{answer.json()['id']}/cancel" for answer in answers[:2])
        assert served.http.post(first).status_code == 200, "there is room for those that are there"
        served.jobs.store.redis.config_set("maxmemory", 1)
        assert "Redis refuses writes now" in problem(served.http.post(second), 503)["detail"]
        assert any("70 %" in warning for warning in health(served.jobs.store).problems)
