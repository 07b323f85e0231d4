"""``ragassay alive``: a health check fails when nobody runs, and when those who run do nothing."""

import socket
import time

import pytest

from ragassay.service.redis import RedisStore
from redis_server import redis_server

MINUTES = 600_000


@pytest.fixture
def store(monkeypatch):
    with redis_server() as url:
        monkeypatch.setenv("RAGASSAY_STATE_URL", url)
        store = RedisStore(url)
        yield store
        store.redis.close()


def put_job(store, job, *, age_ms, leased=False, **meta):
    now_ms = int(time.time() * 1000)
    store.redis.sadd("ra:active", job)
    store.redis.hset(store.key(job, "meta"), mapping={"status": "running", "created_ms": now_ms - age_ms, **meta})
    store.redis.rpush(store.key(job, "todo"), "default:1")
    if leased:
        store.redis.zadd(store.key(job, "lease"), {"default:0": now_ms + MINUTES})


def run_worker(store, kind="worker"):
    store.heartbeat(kind, f"{socket.gethostname()}:1:2", for_s=60)


def test_nobody_runs(cli, store):
    code, _, err = cli("serve", "worker", "--check")
    assert code == 3
    assert err == "error: no worker on this host has sent a heartbeat for 30 s; restart it, and see its log\n"


def test_work_waits_and_nobody_takes_it(cli, store):
    run_worker(store)
    put_job(store, "stuck", age_ms=MINUTES)
    code, _, err = cli("serve", "worker", "--check")
    assert code == 3
    assert "chunks wait, and no worker has claimed one for 60 s (job stuck)" in err
    run_worker(store, "beat")
    assert cli("serve", "scheduler", "--check")[0] == 0


def test_a_schedule_is_due_and_no_beat_takes_it(cli, store):
    run_worker(store, "beat")
    store.redis.sadd("ra:schedules", "default")
    store.redis.zadd("ra:p:{default}:due", {"nightly": (time.time() - 50) * 1000})
    assert cli("serve", "scheduler", "--check")[0] == 0
    store.redis.zadd("ra:p:{default}:due", {"nightly": (time.time() - 65) * 1000})
    code, _, err = cli("serve", "scheduler", "--check")
    assert code == 3
    assert "a schedule is due, and no scheduler has started it for 60 s" in err


def test_no_beat_has_completed_a_round(cli, store):
    code, _, err = cli("serve", "scheduler", "--check")
    assert (code, "no scheduler on this host has sent a heartbeat for 60 s" in err) == (3, True)


@pytest.mark.parametrize(
    "options",
    [
        {"age_ms": 1000},
        {"age_ms": MINUTES, "claimed_ms": int(time.time() * 1000) + MINUTES},
        {"age_ms": MINUTES, "leased": True},
        {"age_ms": MINUTES, "status": "paused"},
        {"age_ms": MINUTES, "next_ms": int(time.time() * 1000)},
    ],
    ids=["new", "claimed lately", "worked on", "paused", "waits for its provider"],
)
def test_work_waits_with_a_reason(cli, store, options):
    run_worker(store)
    put_job(store, "fine", **options)
    assert cli("serve", "worker", "--check")[0] == 0
