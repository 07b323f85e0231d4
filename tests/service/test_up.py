"""``ragassay up`` starts quickly, stops quickly, restarts what exits, and leaves nothing behind, however it ends."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import ragassay.local.up
from polling import patience, slowness, until
from ragassay.errors import Unavailable
from ragassay.local.up import Up
from ragassay.settings import Settings
from redis_server import binary, redis_server
from service.chaos import StopMonitor, stamping_provider
from service.running import Service, environment, rows

RETRIEVAL = {"judge": "local", "metrics": ["ndcg@10", "mrr"]}  # nothing that takes seconds to import


def gone(processes):
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


def run_up(*options, within_s=20, **settings):
    """Run it to its end, for starts that fail."""
    with tempfile.TemporaryDirectory(prefix="ra-up-") as folder:
        return subprocess.run(
            [sys.executable, "-m", "ragassay.cli", "up", *options],
            env=environment(home=folder, **settings), cwd=folder, capture_output=True, text=True, timeout=within_s,
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
    processor = sum(sum(psutil.Process(p.pid).cpu_times()[:2]) for p in (idle.process, idle.part("cli serve")))
    with capsys.disabled():
        print(f"\nup: /healthz answered {idle.took:.2f} s after the command ({processor:.2f} s of processor time)")
    busy = os.getloadavg()[0] > os.cpu_count()
    assert idle.took < 3 * slowness() or (busy and processor < 3 * slowness())


def test_a_second_one_in_the_same_folder_is_refused(idle):
    done = run_up("--port", "0", "--data", str(idle.data))
    assert done.returncode == 2
    assert f"another 'ragassay up' (process {idle.process.pid}) works in" in done.stderr
    assert idle.client.get("/healthz").status_code == 200


def test_what_is_killed_is_restarted_with_a_line_that_says_so(idle):
    idle.ready()
    for word, name in (("cli serve", "api"), ("workers.beat", "beat"), ("watchdog", None), ("redis-server", "redis")):
        old = idle.part(word)
        os.kill(old.pid, signal.SIGKILL)
        until(lambda old=old: not old.is_running(), 30, f"the end of {word}")
        if name:
            line = f"{name} stopped unexpectedly (signal 9); restarting in"
            until(lambda line=line: line in "\n".join(idle.warnings), 30, idle.warnings)
        assert idle.part(word).pid != old.pid
        assert idle.client.get("/healthz").status_code == 200  # the socket stays: a request waits, none is refused
    assert len(idle.finished(idle.submit(rows(10), **RETRIEVAL))["systems"]["default"]["results"]) == 10


def test_redis_that_hangs_is_answered_for_within_seconds_and_reported(idle, capsys):
    idle.ready()
    warnings = len(idle.warnings)
    redis = idle.part("redis-server")
    redis.send_signal(signal.SIGSTOP)
    try:
        for path, status, limit_s in (("/healthz", 200, 1), ("/readyz", 503, 3), ("/v1/jobs", 503, 3)):
            began = time.monotonic()
            answer = idle.client.get(path)
            took = time.monotonic() - began
            with capsys.disabled():
                print(f"\n{path} while Redis hangs: {answer.status_code} in {took:.2f} s")
            assert answer.status_code == status
            assert took < patience(limit_s)
        report = "Redis has not answered for 5 s"
        until(lambda: report in "\n".join(idle.warnings[warnings:]), 60, "the report")
    finally:
        redis.send_signal(signal.SIGCONT)
    until(lambda: "Redis answers again" in idle.warnings[warnings:], 60, "the end of the report")
    until(lambda: idle.client.get("/readyz").status_code == 200, 60, "a ready service")
    assert redis.is_running(), "a Redis that hangs is reported, not killed"


@pytest.mark.parametrize("closed", [False, True])
def test_it_goes_on_while_nobody_reads_its_terminal(closed):
    """A pipe that is full, and one whose reading end is closed; supervision used to stop with the first line."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    if closed:
        os.close(reader)
    with tempfile.TemporaryDirectory(prefix="ra-up-") as folder:
        command = [sys.executable, "-m", "ragassay.cli", "up", "--port", "0", "--workers", "1", "--data", folder]
        process = subprocess.Popen(
            command, env=environment(home=folder, preload="nothing"), cwd=folder, stdout=writer, stderr=writer,
            start_new_session=True,
        )  # fmt: skip
        service = Service(data=Path(folder))
        service.process = process
        try:
            for _ in range(3):
                worker = service.part("celery")
                worker.kill()
                until(lambda worker=worker: gone([worker]), 30, "the end of the worker")
                assert service.part("celery").pid != worker.pid
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
            service.folder.rmdir()
            os.close(writer)
            if not closed:
                os.close(reader)


def test_a_full_disk_is_named_and_redis_is_restarted_until_there_is_space(monkeypatch):
    """A stand-in for Redis fails as Redis does with a full disk, as long as a file is there."""
    with tempfile.TemporaryDirectory(prefix="ra-up-") as folder:
        full, server = Path(folder) / "full", Path(folder) / "redis-server"
        server.write_text(
            f"#!/bin/sh\nif [ -e {full} ]; then echo '# Error writing to the AOF file: No space left on device'; exit 1; fi\n"
            f'exec {binary()} "$@"\n'
        )
        server.chmod(0o755)
        with Service(preload="nothing", env={"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}) as service:
            service.ready()
            full.touch()
            service.part("redis-server").kill()
            text = "redis stopped unexpectedly (exit code 1, no space left on the disk of"
            until(lambda: "\n".join(service.warnings).count(text) > 4, 120, service.warnings)
            assert service.process.poll() is None
            full.unlink()
            until(lambda: service.client.get("/readyz").status_code == 200, 120, "a ready service")
            assert len(service.finished(service.submit(rows(10), **RETRIEVAL))["systems"]["default"]["results"]) == 10


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
        assert service.warnings == []

        service.start().ready()
        watch = StopMonitor(service, provider, job)
        with watch.looking():
            # The leases of a minute were given back, or this would take longer; and it was not held against the chunks.
            report = service.finished(job, within_s=45)
        assert [r["query_id"] for r in report["systems"]["default"]["results"]] == [row["query_id"] for row in made]
        assert watch.repeated() == set()
        sent = [seen.prompt_hash for seen in provider.log[before:]]
        assert len(set(sent)) == len(made)
        assert len(sent) - len(made) <= 2 * 2, "more calls were made again than were in flight"
        assert service.redis.exists(f"ra:{{{job}}}:dead") == 0


def test_killed_itself_it_leaves_nothing_behind_and_can_be_started_again(provider, capsys):
    with Service(api_base=provider.url) as service:
        service.ready()
        done = service.submit(rows(10, "kept"), **RETRIEVAL)
        report = service.finished(done)
        job = service.submit(rows(100, "orphan"), performance={"cache": False})
        until(lambda: service.job(job)["status"] == "running", 10, "the first claim")
        tree = service.tree()
        assert len(tree) >= 7  # watchdog, redis, api, worker and its two children, beat
        began = time.monotonic()
        service.process.kill()
        service.process.wait()
        until(lambda: gone(tree), 30, "the end of everything it started")
        with capsys.disabled():
            print(f"\nup: everything was gone {time.monotonic() - began:.1f} s after its own kill -9")
        assert mentioning(str(service.data)) == []
        service.start().ready()
        service.process.kill()
        service.process.wait()
        service.start().ready()  # at once: it waits for what is left of the other
        assert service.warnings == []
        assert service.report(done) == report
        assert len(service.finished(job)["systems"]["default"]["results"]) == 100


def test_a_redis_that_outlived_everything_is_ended_before_another_works_on_its_files():
    with Service(preload="nothing") as service:
        service.ready()
        job = service.submit(rows(10), **RETRIEVAL)
        report = service.finished(job)
        orphan = service.part("redis-server")
        killed = [service.process, *(p for p in service.tree() if p != orphan)]
        for process in sorted(killed, key=lambda p: p.pid):
            with suppress(psutil.NoSuchProcess):
                process.kill()  # as `killall -9 python` would: the watchdog too
        service.process.wait()
        assert orphan.is_running()
        service.start()
        assert gone([orphan])
        assert service.report(job) == report


def test_a_redis_that_is_there_is_used_and_left_running():
    with redis_server() as url, Service(preload="nothing", state_url=url) as service:
        service.ready()
        assert not any("redis-server" in " ".join(p.cmdline()) for p in service.tree())
        assert not (service.data / "redis").exists()
        assert service.client.get("/readyz").json()["workers"] == 1
        service.stop()
        assert mentioning(url.removeprefix("unix://"))


def test_a_folder_too_deep_for_a_socket_gets_a_port_with_a_password_and_a_key_is_asked_for_where_one_is_set():
    with tempfile.TemporaryDirectory(prefix="ra-") as folder:
        deep = Path(folder) / ("a long name " * 10).strip()
        with Service(preload="nothing", data=deep, bootstrap_key="a-key-of-some-length") as service:
            configuration = deep / "redis" / "redis.conf"
            assert "requirepass" in configuration.read_text()
            assert configuration.stat().st_mode & 0o077 == 0
            assert service.client.get("/v1/jobs").status_code == 401
            header = {"Authorization": "Bearer a-key-of-some-length"}
            assert service.client.get("/v1/jobs", headers=header).json() == {"jobs": [], "next": None}


def test_ctrl_c_ends_it_at_once_when_there_is_nothing_to_do(capsys):
    with Service(preload="nothing") as service:
        service.ready()
        tree = service.tree()
        took = service.stop(signal.SIGINT)
        with capsys.disabled():
            print(f"\nup: stopped {took:.1f} s after Ctrl-C")
        assert service.process.returncode == 0
        assert took < 10
        assert gone(tree)
        assert service.warnings == []


def test_a_port_in_use_is_one_clear_line_and_nothing_is_left():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_up("--port", str(port))
    assert done.returncode == 2
    assert done.stderr == f"error: can't listen on 127.0.0.1:{port}: address already in use; choose another: --port N\n"
    assert done.stdout == ""


def test_an_open_address_needs_a_key():
    done = run_up("--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert "RAGASSAY_BOOTSTRAP_KEY" in done.stderr


def test_an_address_of_another_machine_is_refused():
    done = run_up("--host", "192.0.2.1", "--port", "0", bootstrap_key="a-key-of-some-length")
    assert done.returncode == 2
    assert "can't listen on 192.0.2.1" in done.stderr


def test_a_redis_that_does_not_answer_ends_it_with_the_setting_to_look_at(monkeypatch, tmp_path):
    monkeypatch.setattr(ragassay.local.up, "REDIS_WITHIN_S", 0.3)
    monkeypatch.setenv("RAGASSAY_STATE_URL", "unix:///nowhere/redis.sock")
    lines = []
    with pytest.raises(Unavailable, match=r"Redis has not answered for 0\.3 s \(.*\); check RAGASSAY_STATE_URL"):
        Up(Settings(), tmp_path, host="127.0.0.1", port=0, workers=1, info=lines.append, warn=lines.append).run()
    assert lines == ["stopping ..."]
    assert mentioning(str(tmp_path)) == []


def test_a_folder_that_can_not_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").touch()
    done = run_up("--port", "0", "--data", str(tmp_path / "file" / "folder"))
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: cannot work in {tmp_path}/file/folder: ")
    assert done.stderr.count("\n") == 1
