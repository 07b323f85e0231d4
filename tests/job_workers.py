"""Jobs in a real Redis and what works on them without Celery: messages are remembered, and delivered by the test."""

import asyncio
import threading

import pytest

from offline_runs import ScriptedJudge, sample, source_of
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.evaluation.inputs import recorded
from ragassay.service.redis import RedisStore
from redis_server import RedisServer

CALL = Call(id="c", content="x", purpose="judge")


class RecordingQueue:
    """A queue that remembers."""

    def __init__(self):
        self.sent, self.finalized = [], []

    def enqueue(self, job):
        self.sent.append(job)
        return True

    def finalize(self, job):
        self.finalized.append(job)
        return True

    def waiting(self, queue):
        return 0


@pytest.fixture(scope="module")
def server():
    """A real Redis for the tests of a file; a ``conftest`` that imports this, ``store`` and ``queue`` has them."""
    with RedisServer() as running:
        yield running


@pytest.fixture
def store(server):
    """Jobs in that Redis, empty at first."""
    store = RedisStore(server.url, lease_s=2)
    store.redis.flushall()
    yield store
    store.redis.close()


@pytest.fixture
def queue():
    """Remembers the messages that were sent."""
    return RecordingQueue()


class SlowJudge(ScriptedJudge):
    """Waits in every chunk until it is let go, or cancelled."""

    def __init__(self):
        super().__init__()
        self.began, self.go = threading.Event(), threading.Event()

    async def judge(self, samples, journal):
        self.began.set()
        while not self.go.is_set():
            await asyncio.sleep(0.005)
        return await super().judge(samples, journal)


class PayingJudge(ScriptedJudge):
    """Makes one call of 60 tokens for each sample, which may have taken 100; counts those it made."""

    def __init__(self):
        super().__init__()
        self.made = 0

    async def judge(self, samples, journal):
        for each in samples:
            call = Call(id=each.query_id, content=f"x{each.query_id}", purpose="judge")
            most = Usage(calls=1, input_tokens=50, output_tokens=50, cost_usd=0.002)
            async with journal.attempt(call, most) as attempt:
                if attempt.reply is None:
                    self.made += 1
                    bill = Usage(calls=1, input_tokens=30, output_tokens=30, cost_usd=0.001)
                    attempt.settle(Reply(text="{}", usage=bill))
        return await super().judge(samples, journal)


def submit(jobs, count=60, **spec):
    """Submit a job over so many samples; returns its id."""
    rows = [sample(n) for n in range(count)]
    inputs = recorded(source_of(rows), rows)
    job, _ = jobs.submit(EvalConfig(**{"metrics": ("faithfulness", "mrr"), **spec}), inputs)
    return job.id


def submit_with_budget(jobs, **budget):
    return submit(
        jobs, 150, metrics=("faithfulness",), judges=("a-model",), budget=budget, performance={"cache": False}
    )


def deliver(jobs, queue):
    """Deliver the oldest message."""
    jobs.work(queue.sent.pop(0))


def deliver_all(jobs, queue):
    """Deliver messages until none is left."""
    while queue.sent:
        deliver(jobs, queue)


def finish(jobs, queue, job):
    """Deliver messages until none is left, and have the report made."""
    deliver_all(jobs, queue)
    jobs.finalize(job)


def in_a_thread(work):
    """Work in a thread, as the main thread of a worker's child would; returns what waits for its end.

    An error of the work is raised there.
    """
    outcome = []

    def run():
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def end():
        thread.join(60)
        assert not thread.is_alive()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]

    return end


def expire_leases(store, job):
    """What the time does to a chunk whose worker died: its lease runs out."""
    leases = store.key(job, "lease")
    if held := store.redis.zrange(leases, 0, -1):
        store.redis.zadd(leases, dict.fromkeys(held, 1), xx=True)


def meta(store, job):
    """The job's own record in Redis."""
    return {name.decode(): value for name, value in store.redis.hgetall(store.key(job, "meta")).items()}


def deaths(store, job):
    """How often each chunk died."""
    died = store.redis.hgetall(store.key(job, "dead"))
    return {name.decode(): int(count) for name, count in died.items() if not name.startswith(b"why:")}


def money(store, job):
    """Tokens spent and reserved, and calls in flight."""
    books = meta(store, job)
    return tuple(float(books.get(name, 0)) for name in ("spent_tokens", "open_tokens", "in_flight"))
