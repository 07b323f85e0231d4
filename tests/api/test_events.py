"""``GET /v1/jobs/ID/events``, read over real connections."""

import json
import socket
import threading
import time

import httpx
import pytest

from api_server import problem, rows, serving
from polling import until
from ragassay.api import events as watching
from ragassay.job_documents import JobEvent

METRICS = ["mrr"]


class EventReader:
    """Reads events of a stream line by line."""

    def __init__(self):
        self.fields = {}

    def line(self, line):
        """The event that this line completes, or None."""
        if line:
            name, _, value = line.partition(":")
            self.fields[name] = value.removeprefix(" ")  # a comment has no name
            return None
        fields, self.fields = self.fields, {}
        if "data" not in fields:
            return None
        return JobEvent.model_validate(
            {"job": json.loads(fields["data"]), "event": fields["event"], "id": fields["id"]}
        )


@pytest.fixture
def job(served):
    return served.submit(rows(120), metrics=METRICS)["id"]


def stream(served, job, known=None):
    headers = {"Last-Event-ID": known} if known else {}
    return served.http.stream("GET", f"/v1/jobs/{job}/events", headers=headers)


def read(response, most=10_000):
    """Events as they come, up to so many."""
    reader, found = EventReader(), []
    for line in response.iter_lines():
        if event := reader.line(line):
            found.append(event)
            if len(found) == most:
                break
    return found


def said(events):
    return [(event.event, event.job.status, event.job.progress.done) for event in events]


def test_a_reader_is_told_the_state_then_each_change_and_the_end(served, job):
    with stream(served, job) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        reader, found = EventReader(), []

        def following(event, done):
            while not found or (found[-1].event, found[-1].job.progress.done) != (event, done):
                if one := reader.line(next(lines)):
                    found.append(one)

        following("progress", 0)
        served.work(most=1)
        following("progress", 50)
        served.work()
        found += [event for line in lines if (event := reader.line(line))]
    assert said(found[:2]) == [("status", "queued", 0), ("progress", "queued", 0)]
    assert (found[2].event, found[2].job.status) == ("status", "running")
    assert said(found[-1:]) == [("finished", "finished", 120)]
    assert len({event.id for event in found}) == len(found)


def test_who_connects_again_is_told_what_has_changed_since_and_nothing_twice(served, job):
    with stream(served, job) as response:
        first = read(response, most=1)  # the connection breaks between two events of one state
    with stream(served, job, first[0].id) as response:
        assert said(read(response, most=1)) == [("progress", "queued", 0)]
    served.work()
    with stream(served, job, first[0].id) as response:
        missed = read(response)
    assert said(missed) == [("status", "finished", 120), ("progress", "finished", 120), ("finished", "finished", 120)]
    with stream(served, job, missed[-2].id) as response:
        assert said(read(response)) == [("finished", "finished", 120)]
    with stream(served, job, missed[-1].id) as response:
        assert (response.status_code, read(response)) == (204, [])
    with stream(served, job, "an id of somebody else's") as response:
        assert said(read(response)) == said(missed)


def test_waiting_and_alerts_are_events(served):
    job = served.submit(rows(60), metrics=METRICS, gates=[{"mrr": ">= 0.99"}])["id"]
    store = served.jobs.store
    meta = {"waiting": "the provider failed (500)", "waiting_since_ms": 1_790_000_000_000}
    store.redis.hset(store.key(job, "meta"), mapping=meta)
    with stream(served, job) as response:
        (waiting,) = [event for event in read(response, most=3) if event.event == "waiting"]
    assert "the provider failed (500); since 2026" in waiting.job.waiting
    store.end_wait(job)
    served.work()
    with stream(served, job, waiting.id) as response:
        kinds = [event.event for event in read(response)]
    assert kinds == ["status", "waiting", "progress", "alert", "finished"]


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_every_end_of_a_job_ends_the_stream(served, job, end):
    with stream(served, job) as response:
        if end == "cancelled":
            served.http.delete(f"/v1/jobs/{job}")
        else:
            served.jobs._fail(job, "its rows are gone")
        assert said(read(response))[-1] == ("finished", end, 0)


def test_a_job_whose_record_is_gone_ends_the_stream_and_an_unknown_one_has_none(served, job):
    with stream(served, job) as response:
        served.jobs.store.redis.delete(served.jobs.store.key(job, "meta"))
        assert [event.event for event in read(response)] == ["status", "progress"]
    problem(served.http.get(f"/v1/jobs/{job}/events"), 404)


def test_a_quiet_stream_sends_comments(served, job, monkeypatch):
    monkeypatch.setattr(watching, "HEARTBEAT_EVERY_S", 0.2)
    with stream(served, job) as response:
        lines = response.iter_lines()
        assert next(line for line in lines if line.startswith(":")) == ": still there"


def test_a_hundred_readers_hold_no_thread_and_one_look_serves_them_all(served, job, monkeypatch):
    looks = []
    pulses = watching.liveness.pulses
    monkeypatch.setattr(watching.liveness, "pulses", lambda *a: looks.append(a[1]) or pulses(*a))
    host, port = served.url.removeprefix("http://").split(":")
    before = threading.active_count()
    request = f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    readers = [socket.create_connection((host, int(port)), timeout=30) for _ in range(100)]
    try:
        for reader in readers:
            reader.sendall(request)
            assert reader.recv(65536).startswith(b"HTTP/1.1 200")
        looks.clear()
        began = time.monotonic()
        until(lambda: len(looks) >= 3)
        assert len(looks) <= (time.monotonic() - began) / watching.LOOK_EVERY_S + 2
        assert set(map(tuple, looks)) == {(job,)}
        assert threading.active_count() - before < 45  # the pool that answers other requests has 40 at the most
        assert served.http.get(f"/v1/jobs/{job}").json()["status"] == "queued"
        served.work()
        for reader in readers:
            received = b""
            while b"event: finished" not in received:
                piece = reader.recv(65536)
                assert piece
                received += piece
    finally:
        for reader in readers:
            reader.close()
    looks.clear()
    time.sleep(3 * watching.LOOK_EVERY_S)
    assert len(looks) <= 1, "nobody reads, and it goes on looking"


def test_readers_that_go_away_leave_nothing_behind(served, job):
    watch = served.http  # keeps the connection pool of the fixture out of it
    assert watch
    for _ in range(5):
        with httpx.stream("GET", f"{served.url}/v1/jobs/{job}/events") as response:
            read(response, most=1)
    with stream(served, job) as response:
        served.http.delete(f"/v1/jobs/{job}")
        assert said(read(response))[-1] == ("finished", "cancelled", 0)


def test_a_server_that_stops_does_not_wait_for_its_readers(redis):
    with serving(redis.url) as served:
        job = served.submit(rows(2), metrics=METRICS)["id"]
        response = served.http.send(served.http.build_request("GET", f"/v1/jobs/{job}/events"), stream=True)
        read(response, most=2)
        began = time.monotonic()
    assert time.monotonic() - began < 8
    response.close()
