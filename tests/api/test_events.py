"""``GET /v1/jobs/ID/events``, read over real connections."""

import json
import time

import pytest

from api_server import problem, rows, serving
from ragassay.api import jobs as routes

METRICS = ["mrr"]


@pytest.fixture
def job(served):
    return served.submit(rows(120), metrics=METRICS)["id"]


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(routes, "POLL_S", 0.05)


def stream(served, job):
    return served.http.stream("GET", f"/v1/jobs/{job}/events")


def read(response):
    """The (status, rows done) of each event as it comes."""
    for line in response.iter_lines():
        if line.startswith("data:"):
            document = json.loads(line.removeprefix("data:"))
            yield document["status"], document["progress"]["done"]


def test_events_are_the_job_now_each_change_and_its_end(served, job):
    with stream(served, job) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = read(response)
        assert next(found) == ("queued", 0)
        served.work(most=1)
        assert ("running", 50) in found
        served.work()
        assert list(found)[-1] == ("finished", 120)
    with stream(served, job) as response:
        assert list(read(response)) == [("finished", 120)]


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_events_end_with_every_end_of_a_job(served, job, end):
    with stream(served, job) as response:
        if end == "cancelled":
            served.http.post(f"/v1/jobs/{job}/cancel")
        else:
            served.jobs._fail(job, "its rows are gone")
        assert list(read(response))[-1] == (end, 0)


def test_events_of_a_deleted_job_end_and_an_unknown_one_has_none(served, job):
    with stream(served, job) as response:
        found = read(response)
        assert next(found) == ("queued", 0)
        served.jobs.store.redis.delete(served.jobs.store.key(job, "meta"))
        assert list(found) == []
    problem(served.http.get(f"/v1/jobs/{job}/events"), 404)


def test_a_server_that_stops_does_not_wait_for_its_readers(redis):
    with serving(redis.url) as served:
        job = served.submit(rows(2), metrics=METRICS)["id"]
        response = served.http.send(served.http.build_request("GET", f"/v1/jobs/{job}/events"), stream=True)
        next(read(response))
        began = time.monotonic()
    assert time.monotonic() - began < 8
    response.close()
