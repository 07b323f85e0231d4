"""A real Redis, its outbox, and a real receiver."""

import pytest

from ragassay.core.http_guard import Allowed
from ragassay.service.notifications import Notification
from ragassay.service.notifier import DELIVERIES, Notifier
from ragassay.service.redis import OUTBOX, RedisStore
from receiver import Receiver
from redis_server import RedisServer


@pytest.fixture(scope="session")
def redis():
    with RedisServer() as server:
        yield server


@pytest.fixture
def store(redis):
    store = RedisStore(redis.url)
    store.redis.flushall()
    yield store
    store.redis.close()


@pytest.fixture
def alerts(store):
    return Notifier(store, allowed=Allowed.read(["127.0.0.1"]))


@pytest.fixture
def notify(store):
    """What a step of a job does that is worth a notification."""
    return lambda notification: store.redis.rpush(OUTBOX, notification.model_dump_json())


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def webhook(alerts, receiver):
    """A webhook for all alerts, with its secret."""
    return alerts.add_webhook("default", receiver.url)


@pytest.fixture
def work(alerts):
    """A round of a beat."""
    return alerts.deliver_due


@pytest.fixture
def make_due(store):
    """What the time does: it goes by until the next try is due."""

    def due():
        waiting = dict(store.redis.zrange(DELIVERIES, 0, -1, withscores=True))
        ahead = min(waiting.values(), default=0) - store.redis.time()[0] * 1000
        if ahead > 0:
            store.redis.zadd(DELIVERIES, {each: score - ahead for each, score in waiting.items()}, xx=True)

    return due


@pytest.fixture
def notice():
    """A gate that was missed; ``more`` overrides its fields."""

    def make(number=1, **more):
        fields = {
            "id": f"job-{number}:gate_missed:mrr",
            "kind": "gate_missed",
            "project": "default",
            "at": "2026-01-31T14:05:00.000+00:00",
            "job": f"job-{number}",
            "system": "v2",
            "gate": "v2: mrr >= 0.800",
            "metric": "mrr",
            "value": 0.75,
            "threshold": 0.8,
            "cause": "threshold",
        }
        return Notification(**{**fields, **more})

    return make
