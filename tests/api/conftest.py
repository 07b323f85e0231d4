"""One Redis for all tests of the API, and a server over it for each."""

import pytest
from api_server import serving
from redis_server import RedisServer


@pytest.fixture(scope="session")
def redis():
    with RedisServer() as server:
        yield server


@pytest.fixture
def served(redis):
    with serving(redis.url) as served:
        served.jobs.store.redis.flushall()
        yield served
