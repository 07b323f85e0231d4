"""``ragassay serve worker --check``: a health check fails when nobody runs, and when those who run do nothing."""

import socket
import time

import pytest

import job_workers

MINUTES = 600_000


server, store = job_workers.server, job_workers.store


@pytest.fixture(autouse=True)
def _named(monkeypatch, server):
    monkeypatch.setenv("RAGASSAY_STATE_URL", server.url)


def put_job(store, job, *, age_ms, leased=False, **meta):
    now_ms = int(time.time() * 1000)
    store.redis.sadd("ra:active", job)
    store.redis.hset(store.key(job, "meta"), mapping={"status": "running", "created_ms": now_ms - age_ms, **meta})
    store.redis.rpush(store.key(job, "todo"), "default:1")
    if leased:
        store.redis.zadd(store.key(job, "lease"), {"default:0": now_ms + MINUTES})


def put_process(store, kind="worker"):
    store.heartbeat(kind, f"{socket.gethostname()}:1:2", for_s=60)


def check(cli, part="worker"):
    code, _, err = cli("serve", part, "--check")
    return code, err


def test_check_names_a_part_that_does_not_run(cli, store):
    for part, seconds in (("worker", 30), ("scheduler", 60)):
        code, err = check(cli, part)
        assert (code, f"no {part} on this host has sent a heartbeat for {seconds} s" in err) == (3, True)


def test_check_finds_the_redis_of_serve_in_this_folder(cli, store, server, tmp_path, monkeypatch):
    monkeypatch.delenv("RAGASSAY_STATE_URL")
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path))
    address = tmp_path / "service" / "redis" / "address"
    address.parent.mkdir(parents=True)
    address.write_text(server.url)
    put_process(store)
    assert check(cli)[0] == 0


def test_check_names_work_that_waits_and_nobody_takes(cli, store):
    put_process(store)
    put_process(store, "beat")
    put_job(store, "stuck", age_ms=MINUTES)
    code, err = check(cli)
    assert (code, "chunks wait, and no worker has claimed one for 60 s (job stuck)" in err) == (3, True)
    assert check(cli, "scheduler")[0] == 0


def test_check_names_a_schedule_that_is_due_and_that_no_beat_takes(cli, store):
    put_process(store, "beat")
    store.redis.sadd("ra:schedules", "default")
    for late_s, expected in ((50, 0), (65, 3)):
        store.redis.zadd("ra:p:{default}:due", {"nightly": (time.time() - late_s) * 1000})
        code, err = check(cli, "scheduler")
        assert code == expected
    assert "a schedule is due, and no scheduler has started it for 60 s" in err


@pytest.mark.parametrize(
    "options",
    [
        {"age_ms": 1000},
        {"claimed_ms": int(time.time() * 1000) + MINUTES},
        {"changed_ms": int(time.time() * 1000) + MINUTES},  # it was resumed, or its failed rows are tried again
        {"leased": True},
        {"status": "paused"},
        {"next_ms": int(time.time() * 1000)},  # it waits for its provider
    ],
)
def test_check_passes_where_work_waits_with_a_reason(cli, store, options):
    put_process(store)
    put_job(store, "fine", **{"age_ms": MINUTES, **options})
    assert check(cli)[0] == 0
