"""Who may come in, with which key and how often, and what nobody may see."""

import logging
import re

import pytest

from api.projects import BOOTSTRAP, PEPPER, caller, keyed_server, made_key
from api_server import problem, rows, serving
from polling import until
from ragassay.api import security
from ragassay.api.app import create_app
from ragassay.api.middleware import PROTECTIVE
from ragassay.core.errors import BadSettings, Conflict
from ragassay.core.settings import Settings
from ragassay.service.access import Access, check_bind
from redis_server import RedisServer


@pytest.fixture(scope="module")
def keyed():
    with keyed_server(wrong_keys=10**6) as served:
        yield served


@pytest.fixture
def locked(keyed):
    keyed.jobs.store.redis.flushall()
    return keyed


# --- what every answer has, and what none has ---


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:80", "[::1].evil.example"),
        *("[::1]evil.example:8400", "localhost:evil.example", "127.0.0.1]", "[localhost]", "[::1"),
    ],
)
def test_without_a_key_a_web_page_can_not_reach_it_by_another_name(served, host):
    assert problem(served.http.get("/v1/jobs", headers={"Host": host}), 421)["where"] == "Host"


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
        ({"Origin": "https://evil.example"}, True),
        ({"Origin": "null"}, True),
        ({"Origin": "http://["}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "OWN"}, False),
        ({}, False),
    ],
)
def test_a_change_by_a_page_of_another_site_is_refused_with_and_without_keys(served, locked, headers, refused):
    for server in (served, locked):
        sent = {name: value.replace("OWN", server.url) for name, value in headers.items()}
        for request in ("POST /v1/schedules/nightly/run", "PUT /v1/datasets/of-mine", "DELETE /ui/x", "PATCH /v1/x"):
            answer = server.http.request(*request.split(), headers=sent)
            assert (answer.status_code == 403) is refused, request
            assert not refused or problem(answer, 403)["code"] == "cross_site"
        assert server.http.get("/v1/jobs", headers=sent).status_code == 200


def test_no_answer_is_shared_with_another_site_and_tls_stays(served, redis):
    """That every answer has the protective headers is checked with each request (``Witness`` in api_server.py)."""
    answer = served.http.get("/v1/jobs", headers={"Origin": "https://evil.example"})
    assert {name: answer.headers[name] for name in PROTECTIVE} == PROTECTIVE
    assert not [name for name in answer.headers if name.startswith(("access-control", "strict-transport"))]
    with serving(redis.url, Settings(tls=True)) as behind_tls:
        assert behind_tls.http.get("/nothing").headers["strict-transport-security"] == "max-age=31536000"


def test_a_bug_is_a_500_that_names_the_entry_in_the_log_and_nothing_else(served, caplog, monkeypatch):
    monkeypatch.setattr(served.jobs, "get", lambda job: {}["a secret of ours"])
    with caplog.at_level(logging.ERROR, "ragassay.api"):
        answer = served.http.get("/v1/jobs/" + "0" * 32)
    document = problem(answer, 500)
    assert not re.search("secret|KeyError", answer.text)
    (entry,) = caplog.records
    assert document["instance"] in entry.getMessage()
    assert document["instance"] in document["hint"]
    assert entry.exc_info[0] is KeyError


def test_it_is_ready_when_redis_answers_and_a_worker_lives(served):
    assert served.http.get("/healthz").json()["status"] == "ok"
    assert "no worker is running" in problem(served.http.get("/readyz"), 503)["detail"]
    served.jobs.store.heartbeat("worker", "host:1", for_s=60)
    (warning,) = served.http.get("/readyz").json()["warnings"]
    assert warning.startswith("no scheduler is running")
    served.jobs.store.heartbeat("beat", "host:3", for_s=60)
    assert served.http.get("/readyz").json() == {"status": "ready", "workers": 1, "beats": 1, "warnings": []}


# --- secrets of the operator ---


@pytest.mark.parametrize(
    ("host", "open_"),
    [
        *((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "LocalHost")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.5", "example.org", "", "localhost.example.org")),
    ],
)
def test_any_address_but_loopback_needs_a_key(host, open_):
    check_bind(host, Settings(bootstrap_key=BOOTSTRAP))
    check_bind(host, Settings(key_pepper=PEPPER))
    if open_:
        check_bind(host, Settings())
    else:
        with pytest.raises(BadSettings, match="RAGASSAY_BOOTSTRAP_KEY"):
            check_bind(host, Settings())


@pytest.mark.parametrize(
    "secret", ["fifteen-letters", "with a blank inside it", "schlüssel-der-lang-ist", "new\nline" * 4]
)
@pytest.mark.parametrize("name", ["bootstrap_key", "key_pepper"])
def test_a_secret_that_is_no_good_is_refused_at_the_start(name, secret):
    with pytest.raises(BadSettings, match=f"RAGASSAY_{name.upper()}"):
        create_app(None, Settings(**{name: secret}))


def test_no_key_is_made_without_a_pepper(locked):
    with pytest.raises(BadSettings, match=r"RAGASSAY_KEY_PEPPER: there are no keys without a pepper; .*openssl rand"):
        Access(locked.jobs.store, Settings.model_construct()).make("x", project="a", scopes=["read"])
    assert not locked.access.any_made()


# --- keys of projects ---


def test_a_key_is_made_used_and_revoked_over_http(locked):
    with caller(locked, BOOTSTRAP, **{"X-Ragassay-Project": "search"}) as operator:
        answer = operator.post("/v1/keys", json={"name": "CI", "scopes": ["read", "submit"]})
        made = answer.json()
        assert (answer.status_code, made["project"], made["scopes"]) == (201, "search", ["submit", "read"])
        assert re.fullmatch(rf"ra_{made['id']}_[0-9a-f]{{48}}", made["key"])
        (listed,) = operator.get("/v1/keys").json()["keys"]
        assert made == listed | {"key": made["key"]}
        with caller(locked, made["key"]) as http:
            assert http.get("/v1/jobs").json() == {"jobs": [], "next": None}
            assert operator.delete(f"/v1/keys/{made['id']}").json() == listed
            assert problem(http.get("/v1/jobs"), 401)["detail"] == "the key is missing or wrong"
        problem(operator.delete(f"/v1/keys/{made['id']}"), 404)
        assert operator.get("/v1/keys").json() == {"keys": [], "next": None}


def test_an_operator_of_a_project_makes_keys_of_that_project_only(locked):
    with caller(locked, made_key(locked, "search").key) as operator:
        problem(operator.post("/v1/keys", json={"name": "x", "project": "docs"}), 422)
        problem(operator.post("/v1/keys", json={"name": "x"}, headers={"X-Ragassay-Project": "docs"}), 403)
        assert operator.post("/v1/keys", json={"name": "x"}).json()["project"] == "search"
        first, second = operator.get("/v1/keys").json()["keys"]
        page = operator.get("/v1/keys?limit=1").json()
        assert page["keys"] == [first]
        rest = operator.get("/v1/keys", params={"cursor": page["next"]}).json()
        assert rest == {"keys": [second], "next": None}
        assert "cursor" in problem(operator.get("/v1/keys?cursor=x"), 422)["detail"]


def test_a_project_has_a_bounded_number_of_keys(locked, monkeypatch):
    monkeypatch.setattr("ragassay.service.access.MAX_KEYS", 2)
    first, _ = made_key(locked, "search"), made_key(locked, "search")
    with pytest.raises(Conflict, match="project search has 2 keys"):
        made_key(locked, "search")
    made_key(locked, "docs")
    locked.access.revoke(first.id)
    made_key(locked, "search")


def test_redis_and_the_log_hold_no_secret(locked, caplog):
    with caplog.at_level(logging.DEBUG):
        key = made_key(locked, "search")
        with caller(locked, key.key) as http:
            http.post("/v1/jobs", json={"samples": rows(1), "metrics": ["mrr"]})
            assert key.key[:30] not in str(problem(http.delete(f"/v1/keys/{key.key}"), 404))
        with caller(locked, key.key[:-1] + "x") as http:
            answer = http.get("/v1/jobs")
        locked.access.revoke(key.id)
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpx"))
    assert f"key made: key={key.id} project=search" in ours
    redis = locked.jobs.store.redis
    kept = b"".join(redis.dump(name) or b"" for name in redis.keys("*")).decode("latin-1")
    for text in (ours, kept, str(redis.hgetall(f"ra:key:{key.id}")), str(redis.keys("*")), answer.text):
        assert not [each for each in (key.key.rpartition("_")[2], PEPPER, BOOTSTRAP) if each in text]
    assert BOOTSTRAP not in repr(locked.settings) + str(locked.settings)


# --- who may ask without a key ---


def test_with_keys_health_and_the_document_alone_need_none(locked):
    with caller(locked) as nobody:
        assert [nobody.get(path).status_code for path in ("/healthz", "/openapi.json", "/readyz")] == [200, 200, 503]
        problem(nobody.get("/v1/jobs"), 401)
    assert locked.http.get("/v1/jobs").status_code == 200


def test_the_first_key_closes_a_server_that_was_open_and_revoking_it_does_not_open_it_again(monkeypatch):
    monkeypatch.setattr(security, "LOOK_EVERY_S", 0.05)
    with RedisServer() as redis, serving(redis.url, Settings.model_construct()) as served:
        assert served.http.get("/v1/jobs").status_code == 200
        access = Access(served.jobs.store, Settings.model_construct(key_pepper=PEPPER))
        made = access.make("first", project="a", scopes=["read"])
        until(lambda: served.http.get("/v1/jobs").status_code == 401, what="the server stayed open")
        with caller(served, made.key) as http:  # it has no pepper
            assert "RAGASSAY_KEY_PEPPER" in problem(http.get("/v1/jobs"), 503)["hint"]
        access.revoke(made.id)
        problem(served.http.get("/v1/jobs"), 401)
        with serving(redis.url, Settings.model_construct()) as another:
            problem(another.http.get("/v1/jobs"), 401)


def test_while_redis_is_away_nobody_comes_in_but_the_bootstrap_key(monkeypatch):
    monkeypatch.setattr(security, "LOOK_EVERY_S", 0.0)
    with keyed_server() as locked, serving(locked.redis.url, Settings.model_construct()) as opened:
        key = made_key(locked, "a").key
        locked.jobs.store.redis.delete("ra:keys:made")
        assert opened.http.get("/v1/metrics").status_code == 200
        locked.redis.kill()
        problem(opened.http.get("/v1/metrics"), 503)
        for text, status in ((key, 503), (BOOTSTRAP, 200), ("ra_no", 401), (None, 401)):
            with caller(locked, text) as http:
                assert (http.get("/v1/metrics").status_code, http.get("/healthz").status_code) == (status, 200)
        locked.redis.start()
        with caller(locked, key) as http:
            until(lambda: http.get("/v1/metrics").status_code == 200, what="the key was not good again")


# --- how often ---


def test_a_key_that_asks_too_often_is_told_when_to_come_again():
    with keyed_server(key_requests_per_minute=2) as served:
        key, other = made_key(served, "a").key, made_key(served, "a").key
        with caller(served, key) as http, caller(served, other) as second:
            answers = [http.get("/v1/metrics") for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200, 200, 429]
            assert problem(answers[2], 429)["detail"] == "more than 2 requests a minute of this key"
            assert 50 <= int(answers[2].headers["retry-after"]) <= 60
            assert second.get("/v1/metrics").status_code == 200
            for path, unlimited in (("/v1/metrics", served.http), ("/healthz", http)):
                assert [unlimited.get(path).status_code for _ in range(4)] == [200] * 4
            served.jobs.store.redis.delete(f"ra:limit:key:{key.split('_')[1]}")  # what a minute does
            assert http.get("/v1/metrics").status_code == 200


def test_wrong_keys_from_one_address_are_answered_with_429_and_right_ones_go_on():
    with keyed_server(wrong_keys=5) as served:
        good = made_key(served, "a").key
        with caller(served, "ra_" + "0" * 12 + "_" + "0" * 48) as wrong:
            assert [wrong.get("/v1/metrics").status_code for _ in range(7)] == [401] * 5 + [429] * 2
            assert int(wrong.get("/v1/metrics").headers["retry-after"]) <= 12
            with caller(served, good) as http, caller(served) as nobody:
                assert http.get("/v1/metrics").status_code == 200
                assert nobody.get("/v1/metrics").status_code == 401
            # a secret that a person chose can be guessed: its guesses are not looked at any more
            assert served.http.get("/v1/metrics").status_code == 429
