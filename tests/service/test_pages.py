"""The commands of docs/service.md, docs/nightly.md and docs/operations.md work as they stand there, and print what is shown."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import httpx
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
from service.running import ROOT, Service, bash, blocks

SERVICE, NIGHTLY, OPERATIONS = (
    (ROOT / "docs" / f"{name}.md").read_text() for name in ("service", "nightly", "operations")
)
WITH, _, WITHOUT = NIGHTLY.partition("## Without the service")
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", OPERATIONS, flags=re.M)[1:]}
HERE = "http://127.0.0.1:8400"


@contextmanager
def rag_server(*options):
    """The port of the example server."""
    port = free_port()
    server = subprocess.Popen([sys.executable, ROOT / "examples" / "rag_server.py", "--port", str(port), *options])

    def answers():
        try:
            return httpx.post(f"http://127.0.0.1:{port}/ask", json={"query": "?"}).is_success
        except httpx.TransportError:
            return False

    try:
        until(answers, 60, "the system under test")
        yield port
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def system():
    with rag_server() as port:
        yield port


@pytest.fixture(scope="module")
def service(system, tmp_path_factory):
    """The service with the system that the page on nightly runs registers."""
    (start,) = blocks(WITH, "sh")
    assert start.endswith("RAGASSAY_SYSTEMS=systems.yaml ragassay serve\n")
    (registered,) = re.findall(r"<<'YAML'\n(.*?)^YAML", start, re.S | re.M)
    systems = tmp_path_factory.mktemp("operator") / "systems.yaml"
    systems.write_text(registered.replace(":8000/", f":{system}/"))
    with Service(systems=systems) as running:
        yield running.ready()


def test_the_commands_of_the_page_on_the_service_work_and_show_what_it_shows(service):
    first, *others = blocks(SERVICE, "bash")
    assert first == "ragassay serve\n"
    done = bash("\n".join(others).replace(HERE, service.url), service.folder, COLUMNS="120")
    assert done.stderr == ""
    started, mean, alerts = blocks(SERVICE, "text")
    assert [line.split()[:3] for line in started.splitlines()] == [line.split()[:3] for line in service.info]
    assert '"status":"finished"' in (service.folder / "events.txt").read_text().splitlines()[-2]
    assert json.loads((service.folder / "comparison.json").read_text())["kind"] == "comparison"
    assert len(json.loads((service.folder / "trend.json").read_text())["systems"]["default"]["points"]) == 2
    # the job that was cancelled had ended
    for text in (mean, alerts, '"next":"1"', '"status":409', '"status":"ready"'):
        assert text in done.stdout


def test_the_commands_with_the_service_work_and_show_what_the_page_shows(service):
    done = bash("\n".join(blocks(WITH, "bash")).replace(HERE, service.url), service.folder)
    wanted = [line.split() for line in blocks(WITH, "text")[0].splitlines()]
    begin = done.stdout.index("nightly: 30 2 * * *")
    printed = [line.split() for line in done.stdout[begin:].splitlines()[: len(wanted)]]
    assert printed[:3] == wanted[:3]
    assert [line[2:] for line in printed[3:8]] == [["planned"]] * 5
    assert [line[2:-1] for line in printed[8:]] == [line[2:-1] for line in wanted[8:]]


def test_the_commands_without_the_service_work(system, tmp_path):
    home = {"RAGASSAY_HOME": str(tmp_path / "home")}
    bash("\n".join(blocks(WITHOUT, "bash")).replace(":8000/", f":{system}/"), tmp_path, **home)
    assert (tmp_path / "gates.md").read_text()
    line = next(text for text in blocks(WITHOUT, "text") if "30 2" in text)
    assert bash(line.partition("* * * ")[2].replace("/srv/assistant", str(tmp_path)), tmp_path, **home).stdout == ""


def test_three_runs_with_a_regression_end_in_one_verified_alert_and_a_cost_report(tmp_path):
    example, received = ROOT / "examples" / "regression", free_port()
    systems = tmp_path / "systems.yaml"
    with rag_server("--wrong-from", "6") as asked:  # the first query is ours
        systems.write_text((example / "systems.yaml").read_text().replace(":8001/", f":{asked}/"))
        with Service(systems=systems, outgoing_allowed="127.0.0.1") as service:
            service.ready()
            script = (example / "run.sh").read_text().replace(HERE, service.url)
            script = script.replace("9000", str(received)).replace("examples/", f"{ROOT}/examples/")
            printed = bash(script, service.folder).stdout.splitlines()
            jobs = service.get("/v1/jobs")["jobs"]
    (notice,) = [json.loads(line)["data"] for line in printed if line.startswith('{"type"')]
    wanted = {"schedule": "walk", "system": "online", "gate": "online: mrr drop <= 0.050", "cause": "undecided"}
    assert notice.items() >= {**wanted, "value": 0.5, "baseline": 1.0, "threshold": 0.05}.items()
    assert notice["job"] == next(job["id"] for job in jobs if job["alerts"])
    words = [line.split() for line in printed]
    gates = [line[4:-1] for line in words if line[2:5] == ["finished,", "by", "hand"]]
    assert next(line for line in words if "online" in line and "%" in line)[-8:] == "67 % 4 of 6 6 0 3".split()
    assert gates == [["hand", "0", "of", "1"], ["hand", "1", "of", "1"], ["hand"]]


# --- docs/operations.md, on a Redis ---


def operate(section, folder, ports, number=0):
    """Run one of the blocks of a section with our ports."""
    commands = blocks(SECTIONS[section], "bash")[number]
    text = re.sub(r"\b\d{4}\b", lambda port: str(ports.get(port[0], port[0])), commands)
    return bash(text, folder, [folder / "bin"]).stdout


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
        operate("Back up and restore", tmp_path, ports, 0)
        server.kill()
        for path in server.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        operate("Back up and restore", tmp_path, ports, 1)
        shutil.copytree(tmp_path / "restored", server.folder, dirs_exist_ok=True)
        server.start()
        jobs, queue = jobs_in(server.url)
        assert JobRun(jobs.store, done).report_document() == report
        assert jobs.get(half).progress.done == 50
        jobs.tick()
        finish(jobs, queue, half)
        assert jobs.get(half).status == "finished"


def test_commands_move_a_redis_with_its_jobs(jobs_in):
    with RedisServer(tcp=True) as old, RedisServer(tcp=True) as new:
        job = submit(jobs_in(old.url)[0])
        ports = {"6379": old.port, "6381": new.port}
        operate("Move Redis", old.folder, ports, 0)
        jobs, queue = jobs_in(new.url)
        assert "Redis is a replica and takes no writes" in redis_server(jobs.store.redis, "state").problems[0]
        old.kill()
        operate("Move Redis", old.folder, ports, 1)
        jobs.tick()
        finish(jobs, queue, job)
        assert jobs.get(job).status == "finished"


@pytest.mark.parametrize(
    ("setting", "value", "shown"),
    [("maxmemory", 1_000_000, "Redis is full"), ("maxmemory-policy", "allkeys-lru", "Redis evicts")],
)
def test_health_names_a_setting_that_is_wrong_and_a_command_puts_it_right(jobs_in, setting, value, shown, tmp_path):
    with RedisServer(tcp=True) as server:
        state = jobs_in(server.url)[0].store.redis
        state.config_set(setting, value)
        (problem,) = redis_server(state, "state").problems
        expected, *_ = blocks(SECTIONS[shown], "text")
        assert re.sub(r"\d+ MB", "N MB", f"error: {problem}\n") == re.sub(r"\d+ MB", "N MB", expected)
        assert operate(shown, tmp_path, {"6379": server.port}) == "OK\n"
        assert redis_server(state, "state").problems == ()


def test_a_full_disk_is_said_and_ends_when_there_is_room(jobs_in, tmp_path):
    """A limit on the size of files stands in for the disk."""
    port, section = free_port(), "A disk is full"

    def answers():
        with redis.Redis(port=port) as asked:
            try:
                return asked.ping()
            except redis.RedisError:
                return False

    def start(limit):
        trap = f'trap "" XFSZ; ulimit -f {limit}; exec {binary()} --port {port} --dir {tmp_path} --appendonly yes --save ""'
        process = subprocess.Popen(["bash", "-c", trap], stdout=subprocess.DEVNULL, start_new_session=True)
        until(answers, 20, "Redis")
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
        assert f"error: {problem}\n" == blocks(SECTIONS[section], "text")[0]
        assert problem in health(store).problems
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process = start("unlimited")
        assert redis_server(store.redis, "state").problems == ()
        assert jobs.get(job).status == "queued"
        operate(section, tmp_path, {"6379": port})
    finally:
        process.kill()
        process.wait()


def test_health_of_a_redis_with_a_wrong_password_names_it(monkeypatch, cli):
    with RedisServer(tcp=True) as server:
        with redis.Redis(port=server.port) as operator:
            operator.config_set("requirepass", "right")
        monkeypatch.setenv("RAGASSAY_STATE_URL", f"redis://:wrong@127.0.0.1:{server.port}/0")
        code, _, err = cli("admin", "health")
    assert (code, err.startswith("error: Redis rejected our credentials")) == (3, True)
    assert "`Redis rejected our credentials`" in OPERATIONS
