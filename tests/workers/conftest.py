"""A real Redis, jobs in it, and a queue that remembers what it was given."""

import pytest

from job_workers import RecordingQueue
from offline_runs import FakeRuntime, ScriptedJudge
from ragassay.service.jobs import Jobs
from ragassay.service.redis import RedisStore
from redis_server import RedisServer


@pytest.fixture(scope="module")
def server():
    with RedisServer() as running:
        yield running


@pytest.fixture
def store(server):
    store = RedisStore(server.url, lease_s=2)
    store.redis.flushall()
    yield store
    store.redis.close()


@pytest.fixture
def queue():
    return RecordingQueue()


@pytest.fixture
def judge():
    """What the workers of ``jobs`` judge with, unless a file has another."""
    return ScriptedJudge()


@pytest.fixture
def jobs(make_jobs, judge):
    return make_jobs(judge)


@pytest.fixture
def make_jobs(store, queue):
    made = []

    def jobs(judge=None, error=None):
        made.append(Jobs(store, queue, FakeRuntime(judge, error)))
        return made[-1]

    yield jobs
    for each in made:
        each.close()
