"""``ragassay admin keys``: the first key, made where the operator is."""

import json

import pytest

from ragassay.core.settings import Settings
from ragassay.service.access import Access
from ragassay.service.projects import ProjectRedis
from redis_server import RedisServer

PEPPER = "a-pepper-of-the-tests-0123"


@pytest.fixture
def redis(monkeypatch):
    with RedisServer() as server:
        monkeypatch.setenv("RAGASSAY_STATE_URL", server.url)
        monkeypatch.setenv("RAGASSAY_KEY_PEPPER", PEPPER)
        yield server


def access(redis):
    return Access(ProjectRedis(redis.url), Settings.model_construct(key_pepper=PEPPER))


def test_a_key_is_made_listed_and_revoked(cli, redis):
    code, out, err = cli("admin", "keys", "make", "CI of search", "--project", "search", "--scope", "read")
    key, key_id = out.strip(), out.split("_")[1]
    assert (code, err) == (0, f"key {key_id} of project search may read; keep it now, it is not shown again\n")
    known = access(redis).authenticate(key)
    assert (known.project, known.scopes, known.name) == ("search", ("read",), "CI of search")
    made = json.loads(cli("admin", "keys", "make", "nightly", "--json")[1])
    assert (made["project"], made["scopes"]) == ("default", ["submit", "read"])
    listed = json.loads(cli("admin", "keys", "list", "--json")[1])
    assert [each["id"] for each in listed] == [made["id"], key_id]  # by project
    _, table, _ = cli("admin", "keys", "list", "--project", "search")
    assert table.splitlines()[-1].split() == [
        key_id,
        "CI",
        "of",
        "search",
        "search",
        "read",
        f"{known.created_at:%Y-%m-%d}",
    ]
    assert cli("admin", "keys", "revoke", key_id)[1] == f"key {key_id} of project search is revoked\n"
    assert access(redis).authenticate(key) is None
    assert key_id not in cli("admin", "keys", "list")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["make", "x", "--scope", "write"], "--scope: unknown scope 'write'"),
        (["make", "x", "--scope", ","], "names no scope"),
        (["make", "x", "--project", "a b"], "a project's name is letters, digits, '_' and '-'"),
        (["make", ""], "a key's name is up to 100 printable characters"),
        (["revoke", "0" * 12], "there is no key '000000000000'"),
    ],
)
def test_what_makes_no_sense_is_one_line(cli, redis, arguments, said):
    code, out, err = cli("admin", "keys", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_the_redis_of_up_is_found_where_it_keeps_its_address(cli, redis, monkeypatch, tmp_path):
    monkeypatch.delenv("RAGASSAY_STATE_URL")
    folder = tmp_path / "home" / "service" / "redis"
    folder.mkdir(parents=True)
    (folder / "address").write_text(redis.url)
    assert cli("admin", "keys", "make", "x")[0] == 0
    assert access(redis).any_made()


def test_a_project_gets_a_budget_and_none(cli, redis):
    assert "project search: no budget; in 20" in cli("admin", "budget", "search")[1]
    assert "project search: 50 USD a month; in 20" in cli("admin", "budget", "search", "--usd", "50")[1]
    shown = json.loads(cli("admin", "budget", "search", "--json")[1])
    assert (shown["usd"], shown["spent_usd"], shown["reserved_usd"]) == (50, 0, 0)
    assert json.loads(cli("admin", "budget", "--json")[1])["usd"] is None
    assert json.loads(cli("admin", "budget", "search", "--none", "--json")[1])["usd"] is None
