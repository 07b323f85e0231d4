"""docs/operations.md: each state is brought about for real, its commands are run there as they stand, and say what is shown."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import redis

from job_workers import RecordingQueue, expire_leases, submit
from offline_runs import FakeRuntime
from polling import until
from ragassay.service.health import health, redis_server
from ragassay.service.jobs import Jobs
from ragassay.service.redis import RedisStore
from redis_server import RedisServer, binary, free_port
from service.running import ROOT, rows
from service.stack import KEY, Stack

PAGE = (ROOT / "docs" / "operations.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", PAGE, flags=re.M)[1:]}


def blocks(section, kind="bash"):
    return re.findall(rf"^```{kind}\n(.*?)^```", SECTIONS[section], re.S | re.M)


def numbers(pattern):
    """The pattern with any numbers for its numbers."""
    return re.sub(r"\d(?:[\d,]|\\\.(?=\d))*", r"[\\d,.]+", pattern)


def shown(section, text, number=0):
    """Does a text hold what the page shows?"""
    return re.search(numbers(re.escape(blocks(section, "text")[number].strip())), text) is not None


def bash(section, folder, ports, *, only=None, **variables):
    """Run the commands of a section, or one of its blocks, with our ports; returns what they print."""
    commands = blocks(section) if only is None else [blocks(section)[only]]
    text = re.sub(r"\b\d{4}\b", lambda port: str(ports.get(port[0], port[0])), "\n".join(commands))
    path = f"{folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": path, "RAGASSAY_SERVER_KEY": KEY, **variables},
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Site:
    """The production compose file's processes, one of each, and an operator with their variables."""

    def __init__(self, stack):
        self.tried = set()
        self.stack, self.client = stack, httpx.Client(base_url=f"http://127.0.0.1:{stack.port}", timeout=20)
        self.client.headers = {"Authorization": f"Bearer {KEY}"}
        state, broker = (stack.redis_ports[name] for name in ("redis", "broker"))
        self.ports = {"6379": state, "6380": broker, "8400": stack.port}
        self.variables = {
            "RAGASSAY_STATE_URL": f"redis://127.0.0.1:{state}/0",
            "RAGASSAY_BROKER_URL": f"redis://127.0.0.1:{broker}/0",
            "RAGASSAY_SERVER": f"http://127.0.0.1:{stack.port}",
        }
        self.store = RedisStore(self.variables["RAGASSAY_STATE_URL"], lease_s=2)
        self.broker = redis.Redis(port=broker)
        (stack.folder / "bin").mkdir()
        (stack.folder / "bin" / "redis-server").symlink_to(binary())

    def close(self):
        for opened in (self.store.redis, self.broker, self.client):
            opened.close()

    def start(self, *names):
        for name in names:
            self.stack.start(name)
        until(lambda: self.kept() and self.ready(), 60, "a ready service")

    def kept(self):
        """Starts beat again where it has ended, as what keeps the processes does."""
        if "beat" in self.stack.processes and self.stack.processes["beat"].poll() is not None:
            self.stack.start("beat")
        return True

    def ready(self):
        try:
            there = self.client.get("/readyz").json()
        except (httpx.HTTPError, ValueError):
            return False
        return there.get("workers", 0) > 0 and there["beats"] > 0

    def bash(self, section, **more):
        self.tried.add(section)
        return bash(section, self.stack.folder, self.ports, **{**self.variables, **more})

    def health(self):
        """What ``ragassay admin health`` says of problems; see tests/cli/test_admin.py."""
        problems = health(self.store, self.variables["RAGASSAY_BROKER_URL"]).problems
        return "".join(f"error: {problem}\n" for problem in problems)

    def waiting_messages(self, job):
        messages = [json.loads(message) for message in self.broker.lrange("ragassay.chunks", 0, -1)]
        return [message for message in messages if job in message["headers"]["argsrepr"]]

    def submit(self, count, **more):
        body = {"samples": rows(count), "metrics": ["mrr"], **more}
        return self.client.post("/v1/jobs", json=body).raise_for_status().json()["id"]

    def job(self, job):
        return self.client.get(f"/v1/jobs/{job}").json()

    def finished(self, job):
        until(lambda: self.kept() and self.job(job)["status"] == "finished", 60, f"job {job}")
        return self.job(job)["progress"]


@pytest.fixture(scope="module")
def site():
    stack = Stack(
        ROOT / "docker-compose.yml",
        ROOT / "deploy" / "compose.production.yml",
        lease_s=2,
        sweep_s=0.5,
        bootstrap_key=KEY,
    )
    with stack, closing(Site(stack)) as site:
        site.start("redis", "broker", "api", "worker", "beat")
        yield site


STATES = {"Look first", "A worker crashes repeatedly", "A provider is down", "A budget is reached"}
REDIS = {"Redis is full", "Redis evicts", "Clean up", "Back up and restore"}


@pytest.mark.timeout(900)  # of other processes' time
def test_the_states_of_jobs_and_the_ways_out_of_them(site):
    site.tried.clear()
    look_first(site)
    without_workers(site)
    a_beat_died(site)
    assert site.tried == STATES


@pytest.mark.timeout(900)
def test_the_states_of_redis_and_the_ways_out_of_them(site):
    site.tried.clear()
    redis_is_full(site)
    redis_evicts(site)
    clean_up(site)
    redis_was_down(site)
    back_up_and_restore(site)
    assert site.tried == REDIS


def look_first(site):
    out = site.bash("Look first")
    assert shown("Look first", out)
    assert '"status":"ready"' in out
    said, _ = blocks("The parts", "text")[0].splitlines()  # the warning is test_admin.py's
    assert re.search(numbers(re.escape(said.removeprefix("INFO "))), site.stack.log("worker"))


def without_workers(site):
    """Jobs that nobody takes, one whose chunk kills, one that failed, one that waits, one that is paused."""
    site.stack.stop("worker")
    queued, crashed, failed, waiting, paused = (site.submit(60) for _ in range(5))
    assert shown("Jobs stay queued", site.health())
    site.broker.flushall()
    until(lambda: site.kept() and site.waiting_messages(queued), 60, "the sweeper")
    died = site.store.key(crashed, "dead")
    for _ in range(5):
        assert site.store.claim(crashed)
        before = site.store.redis.hget(died, "default:0")
        expire_leases(site.store, crashed)
        until(lambda known=before: site.kept() and site.store.redis.hget(died, "default:0") != known, 60, "the sweeper")
    site.store.transition(failed, "failed", fields={"error": "the file of the system 'v1' has changed"})
    until(lambda: site.kept() and site.store.redis.ttl(site.store.key(failed, "meta")) > 0, 60, "the sweeper")
    meta = {"waiting": "the provider failed (500)", "waiting_since_ms": 1_790_000_000_000, "next_ms": 9_999_999_999_999}
    site.store.redis.hset(site.store.key(waiting, "meta"), mapping={**meta, "status": "running"})
    out = site.bash("A provider is down", WAITING=waiting)
    assert "waiting:         the provider failed (500); since 2026-09-21" in out
    assert "status:          cancelled" in out
    site.store.redis.hset(site.store.key(paused, "meta"), "status", "running")
    site.store.transition(paused, "paused", fields={"error": "the budget is reached"})
    assert "status:          running" in site.bash("A budget is reached", PAUSED=paused)
    site.start("worker")
    assert [site.finished(job)["failed"] for job in (queued, paused, crashed)] == [0, 0, 50]
    out = site.bash("A worker crashes repeatedly", JOB=crashed, FAILED=failed)
    assert shown("A worker crashes repeatedly", out)
    assert site.finished(failed) == {"rows": 60, "done": 60, "failed": 0}


def a_beat_died(site):
    site.stack.stop("beat")
    del site.stack.processes["beat"]  # or it is started again
    assert shown("The scheduler died", site.health())
    assert "no beat is running" in site.client.get("/readyz").json()["warnings"][0]
    assert site.finished(site.submit(60))["done"] == 60, "jobs go on"
    site.start("beat")


def redis_is_full(site):
    connection, noise = site.store.redis, random.Random(0)
    site.stack.stop("worker")
    under_way = site.submit(120)
    connection.config_set("maxmemory", connection.info("memory")["used_memory"] + 1_000_000)

    def fill(send):
        """Sends rows until they are refused, which is when the buffers of the worker that ended have been freed too."""
        answers = []
        while not answers or (answers[-1].is_success and len(answers) < 100):
            big = [{"query": "Which?", "answer": noise.randbytes(2000).hex()} for _ in range(100)]
            answers.append(send(f"big-{len(answers)}", big))
        return answers

    def upload(name, big):
        headers = {"Content-Type": "application/x-ndjson"}
        lines = b"".join(json.dumps(row).encode() + b"\n" for row in big)
        return site.client.put(f"/v1/datasets/{name}", headers=headers, content=lines)

    refused = fill(lambda _, big: site.client.post("/v1/jobs", json={"samples": big}))[-1]
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "60")
    assert shown("Redis is full", "{detail}; {hint}".format(**refused.json()), 1)
    answers = fill(upload)
    assert answers[-1].status_code == 503
    below = connection.info("memory")["used_memory"] * 9 // 10  # what was left might do for a few results
    connection.config_set("maxmemory", below)
    problem = answers[-1].json()
    assert blocks("Redis is full", "text")[2].strip() == f"{problem['detail']}; {problem['hint']}"
    assert shown("Redis is full", site.health())
    site.stack.start("worker")
    time.sleep(3)  # it tries, and loses nothing
    assert site.job(under_way)["status"] in ("queued", "running")
    out = site.bash("Redis is full")
    assert out == "OK\n"
    assert site.finished(under_way) == {"rows": 120, "done": 120, "failed": 0}
    for name in [f"big-{n}" for n, answer in enumerate(answers) if answer.is_success]:
        site.client.delete(f"/v1/datasets/{name}").raise_for_status()
    until(lambda: site.kept() and site.ready(), 60, "a ready service")


def redis_evicts(site):
    site.store.redis.config_set("maxmemory-policy", "allkeys-lru")
    assert shown("Redis evicts", site.health())
    assert site.bash("Redis evicts") == "OK\n"
    assert site.health() == ""


def clean_up(site):
    site.client.put(
        "/v1/datasets/old", content=json.dumps(rows(1)[0]), headers={"Content-Type": "application/x-ndjson"}
    ).raise_for_status()
    out = site.bash("Clean up")
    assert '"name":"old"' in out
    assert site.client.get("/v1/datasets").json()["datasets"] == []


def redis_was_down(site):
    job = site.submit(600)
    for name in ("redis", "broker"):
        site.stack.kill(name)
    done = site.stack.run("beat", "ragassay", "admin", "health")
    assert (done.returncode, shown("Redis is down, or was restarted", done.stderr)) == (3, True)
    answer = site.client.get(f"/v1/jobs/{job}")
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    site.stack.start("redis")
    until(lambda: "the broker does not answer" in site.client.get("/readyz").text, 30, "the state")
    assert "the broker does not answer" in site.health()
    site.stack.start("broker")

    try:
        until(lambda: site.kept() and site.ready() and site.job(job)["status"] == "finished", 90, "the job")
    except AssertionError:
        logs = [f"== {name}\n{site.stack.log(name)[-4000:]}" for name in ("worker", "beat", "api")]
        print(site.job(job), site.client.get("/readyz").text, *logs, sep="\n")
        raise
    assert site.job(job)["progress"] == {"rows": 600, "done": 600, "failed": 0}


def back_up_and_restore(site):
    rows_of_dataset = "".join(json.dumps(row) + "\n" for row in rows(30))
    kind = {"Content-Type": "application/x-ndjson"}
    site.client.put("/v1/datasets/kept", content=rows_of_dataset, headers=kind).raise_for_status()
    site.finished(done := site.submit(60, gates=[{"mrr": ">= 0.1"}]))
    half = site.submit(1500)
    until(lambda: site.job(half)["progress"]["done"], 30, "a chunk")
    site.stack.stop("worker")
    before = site.job(half)["progress"]["done"]
    assert 0 < before < 1500
    paths = [f"/v1/jobs/{done}/{part}" for part in ("report", "results", "gates")] + ["/v1/datasets/kept/rows"]
    kept = [site.client.get(path).content for path in paths]
    listed = [job["id"] for job in site.client.get("/v1/jobs?limit=200").json()["jobs"]]
    folder, section = site.stack.folder, "Back up and restore"
    site.bash(section, only=0)
    for name in ("api", "beat", "redis", "broker"):
        site.stack.kill(name)
    shutil.rmtree(folder / "redis")
    shutil.rmtree(folder / "broker")
    site.bash(section, only=1)
    (folder / "restored").rename(folder / "redis")
    site.start("redis", "broker", "api", "worker", "beat")
    assert [site.client.get(path).content for path in paths] == kept
    assert [job["id"] for job in site.client.get("/v1/jobs?limit=200").json()["jobs"]] == listed
    assert site.job(half)["progress"]["done"] >= before
    assert site.finished(half) == {"rows": 1500, "done": 1500, "failed": 0}
    assert site.health() == ""


def test_a_redis_is_moved():
    with RedisServer(tcp=True) as old, RedisServer(tcp=True) as new:
        store = RedisStore(old.url)
        job = submit(Jobs(store, RecordingQueue(), FakeRuntime()))
        ports = {"6379": old.port, "6381": new.port}
        bash("Move Redis", old.folder, ports, only=0)
        moved_to = RedisStore(new.url)
        assert "Redis is a replica and takes no writes" in redis_server(moved_to.redis, "state").problems[0]
        old.kill()
        bash("Move Redis", old.folder, ports, only=1)
        jobs = Jobs(moved_to, queue := RecordingQueue(), FakeRuntime())
        jobs.wake(job)
        while queue.sent:
            jobs.work(queue.sent.pop(0))
        jobs.finalize(job)
        assert jobs.get(job).status == "finished"
        jobs.close()
        for each in (store, moved_to):
            each.redis.close()


def test_a_full_disk_is_said_and_ends_when_there_is_room(tmp_path):
    """A limit on the size of files stands in for the disk."""
    port, section = free_port(), "A disk is full"

    def start(limit):
        trap = f'trap "" XFSZ; ulimit -f {limit}; exec {binary()} --port {port} --dir {tmp_path} --appendonly yes --save ""'
        process = subprocess.Popen(["bash", "-c", trap], stdout=subprocess.DEVNULL, start_new_session=True)
        until(lambda: _answers(port), 20, "Redis")
        return process

    process = start(200)  # blocks of 1,024 bytes
    store = RedisStore(f"redis://127.0.0.1:{port}/0", patient=False)
    jobs = Jobs(store, RecordingQueue(), FakeRuntime())
    try:
        job = submit(jobs, 10)

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
        jobs.close()
        store.redis.close()
        process.kill()
        process.wait()


def _answers(port):
    with redis.Redis(port=port) as asked:
        try:
            return asked.ping()
        except redis.RedisError:
            return False


def test_a_wrong_password_is_named(monkeypatch, cli):
    with RedisServer(tcp=True) as server:
        with redis.Redis(port=server.port) as operator:
            operator.config_set("requirepass", "right")
        monkeypatch.setenv("RAGASSAY_STATE_URL", f"redis://:wrong@127.0.0.1:{server.port}/0")
        code, _, err = cli("admin", "health")
    assert (code, err.startswith("error: Redis rejected our credentials")) == (3, True)
    assert "`Redis rejected our credentials`" in PAGE
