"""The Celery application and its tasks, and what a worker's processes do besides."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from redis.exceptions import ConnectionError as RedisAway

from job_workers import submit
from offline_runs import FakeRuntime
from polling import until
from ragassay.core.errors import Unavailable
from ragassay.service.jobs import SLOTS, Jobs
from ragassay.service.queue import CHUNKS, REPORTS, SCHEDULES, Queue
from ragassay.service.redis import RedisStore
from ragassay_workers import periodic, process, tasks
from ragassay_workers.periodic import attempt, heartbeat
from redis_server import redis_server


def test_without_workers_wake_ups_do_not_pile_up_and_lost_ones_are_sent_again():
    with redis_server() as url:
        store, queue = RedisStore(url, lease_s=0.001), Queue(url)
        jobs = Jobs(store, queue, FakeRuntime())
        for _ in range(2):
            submit(jobs, 300)

        def rounds(count):
            for _ in range(count):
                time.sleep(0.003)  # longer than a lease: what was sent is taken for lost
                jobs.tick()
            return queue.waiting(CHUNKS)

        assert rounds(20) == 2 * SLOTS
        store.redis.delete(CHUNKS)
        assert rounds(1) == 2 * SLOTS
        store.redis.close()


def test_a_message_has_ids_only():
    with redis_server() as url:
        Queue(url).enqueue("job-1")
        Queue(url).finalize("job-1")
        Queue(url).start("default", "nightly", 1)
        messages = [RedisStore(url).redis.lrange(queue, 0, -1) for queue in (CHUNKS, REPORTS, SCHEDULES)]
    assert [len(waiting) for waiting in messages] == [1, 1, 1]
    assert all(b'"content-type": "application/json"' in message for waiting in messages for message in waiting)


class FakeJobs:
    def __init__(self, error=None):
        self.error, self.calls, self.broken_off = error, [], []

    def work(self, *arguments):
        self.calls.append(arguments)
        if self.error:
            raise self.error

    finalize = tick = work

    @property
    def alerts(self):
        return self

    def break_off(self, *, stopping):
        self.broken_off.append(stopping)


def test_importing_the_application_reads_no_environment_and_loads_nothing_heavy():
    code = (
        "import os, sys; os.environ['RAGASSAY_LEASE_S'] = 'nonsense'; import ragassay_workers.tasks\n"
        "print(sorted({'litellm', 'torch', 'sentence_transformers', 'fastapi'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def fake(monkeypatch):
    handler = signal.getsignal(signal.SIGUSR1)

    def use(error=None):
        jobs = FakeJobs(error)
        monkeypatch.setattr(process, "jobs", lambda: jobs)
        return jobs

    yield use
    signal.signal(signal.SIGUSR1, handler)


@pytest.mark.parametrize("error", [Unavailable("the provider is away"), RedisAway("Redis is away")])
def test_an_outage_is_a_line_in_the_log(fake, caplog, error):
    fake(error)
    tasks.work("job")
    assert f"job job: {error}" in caplog.text


def test_a_bug_is_not_hidden(fake):
    fake(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        tasks.work("job")


def test_celerys_soft_time_limit_breaks_the_chunk_off(fake):
    jobs = fake()
    tasks.work("job")
    os.kill(os.getpid(), signal.SIGUSR1)
    assert jobs.broken_off == [False]


def test_a_heartbeat_is_seen_and_ends():
    with redis_server() as url:
        store = RedisStore(url)
        beating = heartbeat(store, 1)
        beating.start()
        until(lambda: store.alive("worker"))
        assert store.alive("worker") == 1
        assert store.alive("worker", socket.gethostname()) == 1
        assert store.alive("worker", "elsewhere") == 0
        assert store.alive("beat") == 0
        assert 0 < store.redis.ttl("ra:alive:worker") <= periodic.HEARTBEAT_LASTS_S
        beating.stop()
        until(lambda: store.alive("worker") == 0)


@pytest.mark.parametrize(("error", "traceback"), [(RedisAway("away"), False), (ZeroDivisionError("a bug"), True)])
def test_the_sweeper_goes_on_whatever_happens(caplog, error, traceback):
    jobs = FakeJobs(error)
    for _ in range(3):
        assert not attempt("the sweeper's round", jobs.tick)
    assert len(jobs.calls) == 3
    assert f"the sweeper's round failed: {error}" in caplog.text
    assert ("Traceback" in caplog.text) == traceback


def test_a_child_whose_parent_died_ends(monkeypatch):
    exits = []

    def leave(code):
        exits.append(code)
        raise SystemExit

    monkeypatch.setattr(process.os, "_exit", leave)
    reader, writer = os.pipe()
    os.close(writer)
    with pytest.raises(SystemExit):
        process._watch_parent(reader, parent=os.getppid() + 1)
    os.close(reader)
    assert exits == [1]
