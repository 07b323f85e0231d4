"""One Redis for all tests of the API, and a server over it for each."""

import threading

import pytest

from api_server import serving
from ragassay.core.settings import Settings
from redis_server import RedisServer


@pytest.fixture(scope="session")
def redis():
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def server(redis, tmp_path_factory):
    # no environment is clean yet at this scope, and tests change the working directory
    settings = Settings.model_construct(home=tmp_path_factory.mktemp("home"))
    with serving(redis.url, settings) as served:
        yield served


@pytest.fixture
def served(server):
    server.jobs.store.redis.flushall()
    server.queue.sent.clear()
    return server


@pytest.fixture
def cli(cli, monkeypatch, served):
    """The command line, against ``served``, with the judge that its jobs have."""
    monkeypatch.setenv("RAGASSAY_SERVER", served.url)
    monkeypatch.setattr("ragassay.evaluation.runtime.embedder", lambda *_: (None, "the tests need no model"))
    return cli


@pytest.fixture
def worker(served):
    """Answers the slots in a thread, as a worker process would."""
    stop = threading.Event()

    def work():
        while not stop.wait(0.02):
            served.work()
        served.jobs.close()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stop.set()
    thread.join(20)


@pytest.fixture
def submit(cli, served):
    """``ragassay evaluate --server`` against ``served``, or the service at ``url``."""

    def run(*arguments, wait=False, url=None):
        return cli("evaluate", *arguments, "--server", url or served.url, *([] if wait else ["--no-wait"]))

    return run
