"""Jobs in a real Redis and what works on them without Celery: messages are remembered, and delivered by the test."""

import asyncio
import threading

import pytest

from offline_runs import ScriptedJudge, sample, source_of
from ragassay.core.errors import ProviderDown, Unavailable
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Rating, Usage
from ragassay.core.protocols import Call, Reply
from ragassay.evaluation.inputs import recorded
from ragassay.service.queue import CHUNKS
from ragassay.service.redis import RedisStore
from redis_server import RedisServer

CALL = Call(id="c", content="x", purpose="judge")


class RecordingQueue:
    """A queue that remembers."""

    def __init__(self):
        self.sent, self.finalized = [], []

    def enqueue(self, job):
        self.sent.append(job)

    def finalize(self, job):
        self.finalized.append(job)

    def has_waiting(self):
        return bool(self.sent)

    def waiting(self, queue):
        return " ".join(self.sent).encode() if queue == CHUNKS else b""  # all messages for reports are remembered


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
    """Makes one call of 60 tokens for each sample, which may have taken 100 and twice as much. ``paid``: about which queries.

    ``down``: queries whose call has an unknown outcome; ``garbled``: those whose reply is no verdict; ``outage``: the error of
    a provider that refuses every call, ``refused``: about which queries.
    """

    def __init__(self, price=0.001, outage=None):
        super().__init__()
        self.max_usage = Usage(calls=1, input_tokens=50, output_tokens=50, cost_usd=2 * price)
        self.bill = Usage(calls=1, input_tokens=30, output_tokens=30, cost_usd=price)
        self.down, self.garbled, self.outage, self.paid, self.refused = set(), set(), outage, [], []

    @property
    def made(self):
        return len(self.paid)

    async def judge(self, samples, journal):
        return [await self._judged(sample, journal) for sample in samples]

    async def _judged(self, sample, journal):
        query = sample.query_id
        try:
            async with journal.attempt(
                Call(id=query, content=f"x{query}", purpose="judge", query_id=query), self.max_usage
            ) as attempt:
                if attempt.reply is None and self.outage:
                    self.refused.append(query)
                    attempt.free()
                elif attempt.reply is None and query in self.down:
                    return Rating(reason="the judge failed: 500", waste=Usage(uncertain_calls=1))
                elif attempt.reply is None:
                    self.paid.append(query)
                    garbled = query in self.garbled
                    attempt.settle(Reply(text="?" if garbled else "{}", usage=self.bill, unreadable=garbled))
        except ProviderDown:
            raise
        except Unavailable as error:  # as the judges do: an error of one sample is the reason of its row
            return Rating(reason=f"the judge failed: {error}")
        if attempt.reply is None:
            raise self.outage
        if attempt.reply.text == "?":
            return Rating(reason="the judge's reply could not be read", waste=attempt.reply.usage)
        return self._one(sample).model_copy(update={"usage": attempt.reply.usage})


def submit(jobs, count=60, **spec):
    """Submit a job over so many samples; returns its id."""
    rows = [sample(n) for n in range(count)]
    inputs = recorded(source_of(rows), rows)
    job, _ = jobs.submit(RunConfig(**{"metrics": ("faithfulness", "mrr"), **spec}), inputs)
    return job.id


def submit_with_budget(jobs, **budget):
    spec = {"metrics": ("faithfulness",), "judges": ("a-model",), "performance": {"cache": False}}
    return submit(jobs, 150, budget=budget, **spec)


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
