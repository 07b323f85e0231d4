"""A real Redis, jobs in it without Celery, and live traffic over them whose waits are short."""

import pytest

import job_workers
from api_server import Lexical
from ragassay.core.settings import Settings
from ragassay.live import store as live_store
from ragassay.live.traffic import LiveTraffic
from ragassay.service.jobs import Jobs

server, store, queue = job_workers.server, job_workers.store, job_workers.queue


@pytest.fixture(scope="module", autouse=True)
def no_waits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_store, "BATCH_S", 0.0)
        patch.setattr(live_store, "GRACE_S", 0.0)
        yield


@pytest.fixture
def make_live(store, queue):
    """Live traffic whose requests are looked at at once; ``runtime`` judges."""
    made = []

    def live(runtime=None):
        made.append(Jobs(store, queue, runtime or Lexical()))
        return LiveTraffic(made[-1], Settings())

    yield live
    for each in made:
        each.close()


@pytest.fixture
def live(make_live):
    return make_live()
