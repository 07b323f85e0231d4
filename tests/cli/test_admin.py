"""``ragassay admin``: what an operator is told of the service, and what becomes of a job that is to go on."""

import json
import socket

import pytest

from job_workers import submit
from offline_runs import FakeRuntime
from ragassay.service.jobs import Jobs
from ragassay.service.queue import CHUNKS, QUEUES, Queue
from ragassay.service.redis import RedisStore
from redis_server import redis_server


@pytest.fixture
def url(monkeypatch):
    with redis_server() as address:
        monkeypatch.setenv("RAGASSAY_STATE_URL", address)
        yield address


@pytest.fixture
def store(url):
    store = RedisStore(url, lease_s=2)
    yield store
    store.redis.close()


@pytest.fixture
def jobs(store, url):
    jobs = Jobs(store, Queue(url), FakeRuntime())
    yield jobs
    jobs.close()


def staffed(store):
    """A worker and two beats are there."""
    store.heartbeat("worker", f"{socket.gethostname()}:1:3", for_s=60)
    for process in (2, 3):
        store.heartbeat("beat", f"{socket.gethostname()}:{process}:1", for_s=60)


def test_a_service_without_troubles(cli, store, jobs):
    staffed(store)
    submit(jobs, 300)
    code, out, err = cli("admin", "health")
    assert (code, err) == (0, "")
    version = store.redis.info("server")["redis_version"]
    used, *others = out.splitlines()
    assert used.startswith(f"redis (state):  {version}: ")
    assert used.endswith(" MB without a limit, noeviction, append-only file, fsync everysec")
    assert others == [
        "workers:        1 with 3 processes",
        "schedulers:     2",
        "messages:       ragassay.chunks 4, ragassay.reports 0, ragassay.schedules 0, taken 0",
        "jobs:           1 queued, 0 stalled, 1 listed",
    ]
    assert json.loads(cli("admin", "health", "--json")[1])["waiting"] == {**dict.fromkeys(QUEUES, 0), CHUNKS: 4}


def test_each_trouble_is_a_line_and_the_exit_code_is_3(cli, store, jobs):
    store.redis.config_set("maxmemory-policy", "allkeys-lru")
    store.redis.config_set("appendonly", "no")
    store.redis.sadd("ra:active", "evicted")
    store.redis.hset(store.key("stuck", "meta"), mapping={"status": "running", "created_ms": 1})
    store.redis.sadd("ra:active", "stuck")
    store.redis.rpush(store.key("stuck", "todo"), "default:0")
    code, _, err = cli("admin", "health")
    assert code == 3
    assert err.splitlines() == [
        "error: Redis evicts keys (maxmemory-policy allkeys-lru): jobs can vanish",
        "error: Redis keeps no append-only file: a restart loses jobs",
        "error: no worker is running: jobs wait; start one: ragassay serve worker",
        "error: no beat is running: what is lost is not put right; start one: ragassay serve scheduler",
        "error: chunks wait, and no worker has claimed one for 60 s (job stuck)",
        "error: job evicted is active and has no record: were keys evicted?; see docs/operations.md",
    ]


def test_redis_is_away(cli, monkeypatch):
    monkeypatch.setenv("RAGASSAY_STATE_URL", "unix:///nowhere/redis.sock")
    code, _, err = cli("admin", "health")
    assert (code, err.startswith("error: Redis does not answer")) == (3, True)
