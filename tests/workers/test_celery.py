"""The Celery application and its tasks, and what a worker's processes do besides."""

import os
import signal
import socket

import kombu
import pytest
from kombu import Connection
from kombu.transport import redis as transport
from redis.exceptions import ConnectionError as RedisAway

from job_workers import submit
from offline_runs import FakeRuntime
from polling import until
from ragassay.core.errors import Unavailable
from ragassay.service.jobs import Jobs
from ragassay.service.queue import CHUNKS, REPORTS, SCHEDULES, Queue
from ragassay_workers import periodic, process, tasks
from ragassay_workers.periodic import Heartbeat, attempt
from redis_server import RedisServer


def test_without_workers_wake_ups_do_not_pile_up_and_lost_ones_are_sent_again(server, store):
    queue = Queue(server.url)
    jobs = Jobs(store, queue, FakeRuntime())
    for _ in range(2):
        submit(jobs, 300)

    def rounds(count):
        for _ in range(count):
            jobs.tick()
        return store.redis.llen(CHUNKS)

    assert rounds(3) == 2
    store.redis.delete(CHUNKS)
    assert rounds(2) == 2


def test_a_message_has_ids_only(server, store):
    queue = Queue(server.url)
    queue.enqueue("job-1"), queue.finalize("job-1"), queue.start("default", "nightly", 1)
    messages = [store.redis.lrange(queue, 0, -1) for queue in (CHUNKS, REPORTS, SCHEDULES)]
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
    tasks.work("job")
    assert f"job job: {error}" in caplog.text
    fake(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):  # a bug is not hidden
        tasks.work("job")


def test_celerys_soft_time_limit_breaks_the_chunk_off(fake):
    jobs = fake()
    tasks.work("job")
    os.kill(os.getpid(), signal.SIGUSR1)
    assert jobs.broken_off == [False]


def test_a_child_that_forks_has_connections_of_its_own(server, monkeypatch):
    monkeypatch.setenv("RAGASSAY_STATE_URL", server.url)
    of_parent = process.jobs()
    process._after_fork()
    of_child = process.jobs()
    process.jobs.cache_clear()
    assert of_child is not of_parent
    for each in (of_parent, of_child):
        each.close()
        each.store.redis.close()


def test_a_heartbeat_is_seen_and_ends(store):
    beating = Heartbeat(store, 1)
    beating.start()
    until(lambda: store.alive("worker"))
    hosts = (None, socket.gethostname(), "elsewhere")
    assert [store.alive("worker", host) for host in hosts] == [1, 1, 0]
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


def test_a_message_that_can_not_be_acknowledged_gives_its_place_back(monkeypatch):
    """A worker without a free place would not ask for the next message, and not see that its connection is gone."""
    monkeypatch.setattr(transport.Channel, "QoS", process.FreeingQoS)
    taken = []
    with RedisServer(tcp=True) as broker, Connection(broker.url) as connection:
        producer, places = connection.Producer(), kombu.Queue("places")
        consumer = connection.Consumer([places], callbacks=[lambda _, message: taken.append(message)])
        for n in range(2):
            producer.publish({"n": n}, routing_key="places", declare=[places], exchange="")
        consumer.qos(prefetch_count=2)
        consumer.consume()
        while len(taken) < 2:
            connection.drain_events(timeout=30)
        assert not consumer.channel.qos.can_consume()
        broker.kill()
        for message in taken:
            with pytest.raises(connection.connection_errors):
                message.ack()
        assert consumer.channel.qos.can_consume()
