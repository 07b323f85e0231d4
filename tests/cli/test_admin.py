"""``ragassay admin`` and ``schedule``: what an operator is told, keys, budgets; what is refused before a service is asked."""

import json
import socket

import pytest

from job_workers import submit
from offline_runs import FakeRuntime
from ragassay.core.settings import Settings
from ragassay.service.access import Access
from ragassay.service.jobs import Jobs
from ragassay.service.projects import ProjectRedis
from ragassay.service.queue import CHUNKS, QUEUES, Queue
from ragassay.service.redis import RedisStore
from redis_server import RedisServer

PEPPER = "a-pepper-of-the-tests-0123"


@pytest.fixture
def url(monkeypatch):
    with RedisServer() as server:
        monkeypatch.setenv("RAGASSAY_STATE_URL", server.url)
        monkeypatch.setenv("RAGASSAY_KEY_PEPPER", PEPPER)
        yield server.url


@pytest.fixture
def store(url):
    store = RedisStore(url, lease_s=2)
    yield store
    store.redis.close()


def test_a_service_without_troubles(cli, store, url):
    store.heartbeat("worker", f"{socket.gethostname()}:1:3", for_s=60)
    for process in (2, 3):
        store.heartbeat("beat", f"{socket.gethostname()}:{process}:1", for_s=60)
    jobs = Jobs(store, Queue(url), FakeRuntime())
    submit(jobs, 300)
    code, out, err = cli("admin", "health")
    assert (code, err) == (0, "")
    version = store.redis.info("server")["redis_version"]
    used, *others = out.splitlines()
    assert used.startswith(f"redis (state):  {version}: ")
    assert used.endswith(" MB without a limit, noeviction, append-only file, fsync everysec")
    assert others == [
        "workers:        1 with 3 processes",
        "schedulers:     2",
        "messages:       ragassay.chunks 1, ragassay.reports 0, ragassay.schedules 0, taken 0",
        "jobs:           1 queued, 0 stalled, 1 listed",
    ]
    assert json.loads(cli("admin", "health", "--json")[1])["waiting"] == {**dict.fromkeys(QUEUES, 0), CHUNKS: 1}
    jobs.close()


def test_each_trouble_is_a_line_and_the_exit_code_is_3(cli, store, monkeypatch):
    store.redis.config_set("maxmemory-policy", "allkeys-lru")
    store.redis.config_set("appendonly", "no")
    store.redis.sadd("ra:active", "evicted")
    store.redis.hset(store.key("stuck", "meta"), mapping={"status": "running", "created_ms": 1})
    store.redis.sadd("ra:active", "stuck")
    store.redis.rpush(store.key("stuck", "todo"), "default:0")
    code, _, err = cli("admin", "health")
    assert code == 3
    assert err.splitlines() == [
        "error: Redis evicts keys (maxmemory-policy allkeys-lru): jobs can vanish",
        "error: Redis keeps no append-only file: a restart loses jobs",
        "error: no worker is running: jobs wait; start one: ragassay serve worker",
        "error: no scheduler is running: schedules, webhooks and lost chunks wait; start one: ragassay serve scheduler",
        "error: chunks wait, and no worker has claimed one for 60 s (job stuck)",
        "error: job evicted is active and has no record: were keys evicted?; see docs/operations.md",
    ]
    monkeypatch.setenv("RAGASSAY_STATE_URL", "unix:///nowhere/redis.sock")
    assert "Redis does not answer" in cli.refused("admin", "health", code=3)


def test_a_key_is_made_listed_and_revoked(cli, url):
    access = Access(ProjectRedis(url), Settings.model_construct(key_pepper=PEPPER))
    code, out, err = cli("admin", "keys", "make", "CI of search", "--project", "search", "--scope", "read")
    key, key_id = out.strip(), out.split("_")[1]
    assert (code, err) == (0, f"key {key_id} of project search may read; keep it now, it is not shown again\n")
    known = access.authenticate(key)
    assert (known.project, known.scopes, known.name) == ("search", ("read",), "CI of search")
    made = json.loads(cli("admin", "keys", "make", "nightly", "--json")[1])
    assert (made["project"], made["scopes"]) == ("default", ["submit", "read"])
    listed = json.loads(cli("admin", "keys", "list", "--json")[1])
    assert [each["id"] for each in listed] == [made["id"], key_id]  # by project
    assert cli("admin", "keys", "list", "--project", "search")[1].splitlines()[-1].startswith(key_id)
    assert cli("admin", "keys", "revoke", key_id)[1] == f"key {key_id} of project search is revoked\n"
    assert access.authenticate(key) is None
    assert key_id not in cli("admin", "keys", "list")[1]


def test_keys_refuse_what_makes_no_sense_in_one_line(cli, url):
    for arguments, said in (
        (["make", "x", "--scope", "write"], "--scope: unknown scope 'write'"),
        (["make", "x", "--project", "a b"], "a project's name is letters, digits, '_' and '-'"),
        (["revoke", "0" * 12], "there is no key '000000000000'"),
    ):
        assert said in cli.refused("admin", "keys", *arguments)


def test_the_redis_of_serve_is_found_and_a_project_gets_a_budget_and_none(cli, url, monkeypatch, tmp_path):
    monkeypatch.delenv("RAGASSAY_STATE_URL")
    folder = tmp_path / "home" / "service" / "redis"
    folder.mkdir(parents=True)
    (folder / "address").write_text(url)
    assert "project search: no budget; in 20" in cli("admin", "budget", "search")[1]
    assert "project search: 50 USD a month; in 20" in cli("admin", "budget", "search", "--usd", "50")[1]
    shown = json.loads(cli("admin", "budget", "search", "--json")[1])
    assert (shown["usd"], shown["spent_usd"], shown["reserved_usd"]) == (50, 0, 0)
    assert json.loads(cli("admin", "budget", "--json")[1])["usd"] is None
    assert json.loads(cli("admin", "budget", "search", "--none", "--json")[1])["usd"] is None


SCHEDULED = 'metrics: [mrr]\nschedule:\n  cron: "30 2 * * *"\n  dataset: faq\n'


@pytest.fixture
def nobody(monkeypatch):
    monkeypatch.setenv("RAGASSAY_SERVER", "http://127.0.0.1:9")


def test_what_can_not_be_planned_is_one_line(cli, tmp_path, nobody):
    (tmp_path / "ragassay.yaml").write_text("metrics: [mrr]")
    assert "it is not said when" in cli.refused("schedule", "add")
    (tmp_path / "ragassay.yaml").write_text(SCHEDULED)
    assert "schedule" in cli.refused("schedule", "add", "--set", "schedule.data=rows.jsonl")


def test_where_no_service_answers_each_command_says_so(cli, tmp_path, nobody):
    (tmp_path / "ragassay.yaml").write_text(SCHEDULED)
    for command in ("add", "list", "set nightly --pause", "show nightly", "run nightly", "remove nightly"):
        assert "no service answers at http://127.0.0.1:9" in cli.refused("schedule", *command.split(), code=3)
