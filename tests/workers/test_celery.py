"""The Celery application and its tasks, and what a worker's processes do besides."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from celery.app.defaults import NAMESPACES, flatten
from redis.exceptions import ConnectionError as RedisAway

from job_workers import submit
from offline_runs import FakeRuntime
from polling import until
from ragassay.core.errors import Unavailable
from ragassay.service.jobs import SLOTS, Jobs
from ragassay.service.queue import CHUNKS, REPORTS, SCHEDULES, Queue, broker_url
from ragassay.service.redis import RedisStore
from ragassay_workers import beat, log, periodic, process, tasks
from ragassay_workers.app import app, configuration
from ragassay_workers.periodic import Periodic, heartbeat
from redis_server import redis_server


def test_every_setting_is_one_that_celery_knows():
    assert set(configuration()) <= {name for name, _ in flatten(NAMESPACES)}


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


def test_importing_the_application_reads_no_environment_and_loads_nothing_heavy():
    code = (
        "import os, sys; os.environ['RAGASSAY_LEASE_S'] = 'nonsense'; import ragassay_workers.tasks\n"
        "print(sorted({'litellm', 'torch', 'sentence_transformers', 'fastapi'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("ours", "celerys"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("rediss://:pw@h/0", "rediss://:pw@h/0"),
        ("unix:///s.sock", "redis+socket:///s.sock"),
        ("unix:///s.sock?db=1", "redis+socket:///s.sock?virtual_host=1"),
        ("unix:///s.sock?socket_timeout=3&db=1", "redis+socket:///s.sock?socket_timeout=3&virtual_host=1"),
    ],
)
def test_celery_spells_a_socket_its_own_way(ours, celerys):
    assert broker_url(ours) == celerys


def test_a_message_that_the_broker_does_not_take_is_logged_and_no_error(caplog):
    Queue("unix:///nowhere/redis.sock").enqueue("j", 0, "n")
    assert "the broker does not take ragassay.work for job j" in caplog.text


def test_a_message_has_ids_only():
    with redis_server() as url:
        Queue(url).enqueue("job-1", 2, "nonce")
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
    tasks.work("job", 1, "nonce")
    assert f"job job: {error}" in caplog.text


def test_a_bug_is_not_hidden(fake):
    fake(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        tasks.work("job", 1, "nonce")


def test_celerys_soft_time_limit_breaks_the_chunk_off(fake):
    jobs = fake()
    tasks.work("job", 1, "nonce")
    os.kill(os.getpid(), signal.SIGUSR1)
    assert jobs.broken_off == [False]


def test_a_process_that_forks_gets_connections_of_its_own():
    here = process.jobs()
    assert process.jobs() is here
    process._after_fork()
    assert process.jobs() is not here


def test_a_heartbeat_is_seen_and_ends():
    with redis_server() as url:
        store = RedisStore(url)
        beating = heartbeat(store, "worker")
        beating.start()
        until(lambda: store.alive("worker"))
        assert store.alive("worker") == 1
        assert store.alive("worker", socket.gethostname()) == 1
        assert store.alive("worker", "elsewhere") == 0
        assert store.alive("beat") == 0
        assert 0 < store.redis.ttl("ra:alive:worker") <= periodic.HEARTBEAT_LASTS_S
        beating.stop(wait_s=30)
        assert store.alive("worker") == 0


def test_a_heartbeat_outlives_an_outage(caplog, monkeypatch):
    monkeypatch.setattr(periodic, "HEARTBEAT_EVERY_S", 0.01)
    calls = threading.Semaphore(0)

    class Away:
        def heartbeat(self, *_, **__):
            calls.release()
            raise RedisAway("connection refused")

        deregister = heartbeat

    beating = heartbeat(Away(), "worker")
    beating.start()
    assert calls.acquire(timeout=30)
    assert calls.acquire(timeout=30)
    beating.stop(wait_s=30)
    assert "heartbeat of worker" in caplog.text
    assert "failed: connection refused" in caplog.text


@pytest.mark.parametrize(("error", "traceback"), [(RedisAway("away"), False), (ZeroDivisionError("a bug"), True)])
def test_the_sweeper_goes_on_whatever_happens(caplog, error, traceback):
    jobs = FakeJobs(error)
    sweeper = Periodic("the sweeper's round", 0.01, jobs.tick)
    sweeper.start()
    until(lambda: len(jobs.calls) >= 3)
    sweeper.stop(wait_s=30)
    assert f"the sweeper's round failed: {error}" in caplog.text
    assert ("Traceback" in caplog.text) == traceback


def test_verbose_libraries_log_warnings_only():
    log._set_levels(logging.getLogger("of a worker"))
    assert logging.getLogger("LiteLLM").getEffectiveLevel() == logging.WARNING


def test_children_learn_that_the_parent_stops_and_give_their_chunk_back_in_time(monkeypatch):
    jobs, broken_off = FakeJobs(), threading.Event()
    monkeypatch.setenv("RAGASSAY_SHUTDOWN_S", str(process.AHEAD_S))
    monkeypatch.setattr(jobs, "break_off", lambda *, stopping: broken_off.set() if stopping else None)
    monkeypatch.setattr(process, "jobs", lambda: jobs)
    monkeypatch.setattr(process, "_pipe", os.pipe())
    monkeypatch.setattr(process, "_heartbeat", None)
    reader, _ = process._pipe
    threading.Thread(target=process._watch_parent, args=(reader, os.getppid()), daemon=True).start()
    assert not broken_off.wait(0.1)
    called = []
    process._stop(lambda *arguments: called.append(arguments), signal.SIGTERM, None)
    assert broken_off.wait(30)
    assert called == [(signal.SIGTERM, None)]
    process._stop(signal.SIG_DFL, signal.SIGTERM, None)  # a second signal finds nothing left to close
    os.close(reader)


def test_the_pipe_is_made_before_the_fork_and_only_the_parent_keeps_its_end(monkeypatch):
    monkeypatch.setattr(process, "_pipe", None)
    monkeypatch.setenv("RAGASSAY_SHUTDOWN_S", "1")
    warmed = []
    monkeypatch.setattr(process.wiring, "warm_up", warmed.append)
    process._after_fork()  # a pool that did not start as a worker does: there is no pipe
    process._before_fork()
    assert len(warmed) == 1
    reader, writer = process._pipe
    before = set(threading.enumerate())
    process._after_fork()  # as in a child
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive(), "the pipe is closed and there is no chunk, so there is nothing to wait for"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writer)
    os.close(reader)


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


def test_a_worker_that_is_ready_has_a_heartbeat_and_handles_signals_before_celery_does(monkeypatch):
    monkeypatch.setattr(process, "_heartbeat", None)
    monkeypatch.setattr(process, "_pipe", None)
    handled = []
    before = {n: signal.signal(n, lambda *a: handled.append(a[0])) for n in (signal.SIGTERM, signal.SIGQUIT)}
    try:
        with redis_server() as url:
            monkeypatch.setenv("RAGASSAY_STATE_URL", url)
            process._ready(consumer_of(CHUNKS, REPORTS))
            until(lambda: RedisStore(url).alive("worker") == 1)
            assert RedisStore(url).processes() == 3
            os.kill(os.getpid(), signal.SIGTERM)
            process._heartbeat.stop(wait_s=30)
            assert RedisStore(url).alive("worker") == 0
        assert handled == [signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def consumer_of(*queues):
    """What Celery hands to a worker that is ready, with three processes."""
    amqp = SimpleNamespace(queues=SimpleNamespace(consume_from=dict.fromkeys(queues)))
    return SimpleNamespace(controller=SimpleNamespace(concurrency=3), app=SimpleNamespace(amqp=amqp))


def test_a_worker_that_takes_no_chunks_has_no_process_for_them(monkeypatch):
    monkeypatch.setattr(process, "_heartbeat", None)
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGQUIT)}
    try:
        with redis_server() as url:
            monkeypatch.setenv("RAGASSAY_STATE_URL", url)
            process._ready(consumer_of(REPORTS))
            until(lambda: RedisStore(url).alive("worker") == 1)
            assert RedisStore(url).processes() == 0
            process._heartbeat.stop(wait_s=30)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_beat_runs_its_rounds_until_a_signal(monkeypatch):
    swept, looked, woken, seen = [], [], [], []

    def work_then_stop():
        until(lambda: swept and looked and woken and RedisStore(url).alive("beat"))
        seen.append(RedisStore(url).alive("beat"))
        os.kill(os.getpid(), signal.SIGTERM)

    with redis_server() as url:
        monkeypatch.setenv("RAGASSAY_STATE_URL", url)
        monkeypatch.setattr(beat.logs, "set_up", lambda _: None)
        monkeypatch.setattr("ragassay.service.jobs.Jobs.tick", lambda self: swept.append(True))
        monkeypatch.setattr("ragassay.service.schedules.Schedules.tick", lambda self: looked.append(True))
        monkeypatch.setattr("ragassay.service.notifier.Notifier.deliver_due", lambda self: woken.append(True))
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        threading.Thread(target=work_then_stop, daemon=True).start()
        try:
            beat.main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        assert seen == [1]
        assert RedisStore(url).alive("beat") == 0


def test_the_application_offers_its_tasks():
    app.loader.import_default_modules()
    offered = {name for name in app.tasks if name.startswith("ragassay.")}
    assert offered == {"ragassay.work", "ragassay.finalize", "ragassay.start"}


def test_an_outage_during_a_start_is_one_line_in_the_log(monkeypatch, caplog):
    class Away:
        def of(self, project):
            raise RedisAway("no Redis")

    monkeypatch.setattr(process, "schedules", Away)
    tasks.start("default", "nightly", 1)
    assert [record.getMessage() for record in caplog.records] == ["schedule nightly: no Redis"]
