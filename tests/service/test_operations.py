"""docs/operations.md: its commands for Redis are run as they stand, and health says what the page shows."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import redis

from job_workers import RecordingQueue, deliver, finish, submit
from offline_runs import FakeRuntime
from polling import until
from ragassay.service.health import health, redis_server
from ragassay.service.job_run import JobRun
from ragassay.service.jobs import Jobs
from ragassay.service.redis import RedisStore
from redis_server import RedisServer, binary, free_port
from service.running import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", PAGE, flags=re.M)[1:]}


def blocks(section, kind="bash"):
    return re.findall(rf"^```{kind}\n(.*?)^```", SECTIONS[section], re.S | re.M)


def bash(section, folder, ports, number=0):
    """Run one of the blocks of a section with our ports."""
    text = re.sub(r"\b\d{4}\b", lambda port: str(ports.get(port[0], port[0])), blocks(section)[number])
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def jobs_in():
    """Jobs in a Redis by its address, with the queue of their messages."""
    opened = []

    def jobs(url, **options):
        queue = RecordingQueue()
        opened.append(Jobs(RedisStore(url, **options), queue, FakeRuntime()))
        return opened[-1], queue

    yield jobs
    for each in opened:
        each.close()
        each.store.redis.close()


def test_commands_back_up_and_restore_jobs_and_reports(jobs_in, tmp_path):
    with RedisServer(tcp=True) as server:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "redis-server").symlink_to(binary())
        ports = {"6379": server.port}
        jobs, queue = jobs_in(server.url)
        done = submit(jobs, 60)
        finish(jobs, queue, done)
        half = submit(jobs, 60)
        deliver(jobs, queue)
        report = JobRun(jobs.store, done).report_document()
        bash("Back up and restore", tmp_path, ports, 0)
        server.kill()
        for path in server.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        bash("Back up and restore", tmp_path, ports, 1)
        shutil.copytree(tmp_path / "restored", server.folder, dirs_exist_ok=True)
        server.start()
        jobs, queue = jobs_in(server.url)
        assert JobRun(jobs.store, done).report_document() == report
        assert jobs.get(half).progress.done == 50
        jobs.wake(half)
        finish(jobs, queue, half)
        assert jobs.get(half).status == "finished"


def test_commands_move_a_redis_with_its_jobs(jobs_in):
    with RedisServer(tcp=True) as old, RedisServer(tcp=True) as new:
        job = submit(jobs_in(old.url)[0])
        ports = {"6379": old.port, "6381": new.port}
        bash("Move Redis", old.folder, ports, 0)
        jobs, queue = jobs_in(new.url)
        assert "Redis is a replica and takes no writes" in redis_server(jobs.store.redis, "state").problems[0]
        old.kill()
        bash("Move Redis", old.folder, ports, 1)
        jobs.wake(job)
        finish(jobs, queue, job)
        assert jobs.get(job).status == "finished"


@pytest.mark.parametrize(
    ("setting", "shown"),
    [({"maxmemory": 1_000_000}, "Redis is full"), ({"maxmemory-policy": "allkeys-lru"}, "Redis evicts")],
)
def test_health_names_a_setting_that_is_wrong_and_a_command_puts_it_right(jobs_in, setting, shown, tmp_path):
    with RedisServer(tcp=True) as server:
        jobs, _ = jobs_in(server.url)
        for name, value in setting.items():
            jobs.store.redis.config_set(name, value)
        (problem,) = redis_server(jobs.store.redis, "state").problems
        expected = re.sub(r"\d+ MB", r"\\d+ MB", re.escape(blocks(shown, "text")[0].strip()).replace(r"\ ", " "))
        assert re.fullmatch(expected, f"error: {problem}")
        assert bash(shown, tmp_path, {"6379": server.port}) == "OK\n"
        assert redis_server(jobs.store.redis, "state").problems == ()


def test_a_full_disk_is_said_and_ends_when_there_is_room(jobs_in, tmp_path):
    """A limit on the size of files stands in for the disk."""
    port, section = free_port(), "A disk is full"

    def start(limit):
        trap = f'trap "" XFSZ; ulimit -f {limit}; exec {binary()} --port {port} --dir {tmp_path} --appendonly yes --save ""'
        process = subprocess.Popen(["bash", "-c", trap], stdout=subprocess.DEVNULL, start_new_session=True)
        until(lambda: _answers(port), 20, "Redis")
        return process

    process = start(200)  # blocks of 1,024 bytes
    try:
        jobs, _ = jobs_in(f"redis://127.0.0.1:{port}/0", patient=False)
        store, job = jobs.store, submit(jobs, 10)

        def fill():
            try:
                store.redis.append("noise", "x" * 50_000)
            except redis.ResponseError as error:
                return str(error)
            return None

        assert "MISCONF" in until(fill, 20, "a full disk")
        (problem,) = redis_server(store.redis, "state").problems
        assert f"error: {problem}\n" == blocks(section, "text")[0]
        assert problem in health(store).problems
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process = start("unlimited")
        assert redis_server(store.redis, "state").problems == ()
        assert jobs.get(job).status == "queued"
        bash(section, tmp_path, {"6379": port})
    finally:
        process.kill()
        process.wait()


def _answers(port):
    with closing(redis.Redis(port=port)) as asked:
        try:
            return asked.ping()
        except redis.RedisError:
            return False


def test_health_of_a_redis_with_a_wrong_password_names_it(monkeypatch, cli):
    with RedisServer(tcp=True) as server:
        with redis.Redis(port=server.port) as operator:
            operator.config_set("requirepass", "right")
        monkeypatch.setenv("RAGASSAY_STATE_URL", f"redis://:wrong@127.0.0.1:{server.port}/0")
        code, _, err = cli("admin", "health")
    assert (code, err.startswith("error: Redis rejected our credentials")) == (3, True)
    assert "`Redis rejected our credentials`" in PAGE
