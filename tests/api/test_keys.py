"""Keys: made, listed, revoked; what Redis and logs hold of them; how often one may ask."""

import logging
import re

import pytest

from api.projects import BOOTSTRAP, PEPPER, caller, keyed_server, made_key
from api_server import problem, rows, serving
from polling import until
from ragassay.api import security
from ragassay.core.errors import BadSettings, Conflict
from ragassay.core.settings import Settings
from ragassay.service.access import Access
from redis_server import RedisServer


@pytest.fixture(scope="module")
def server():
    with keyed_server() as served:
        yield served


@pytest.fixture
def served(server):
    server.jobs.store.redis.flushall()
    return server


def test_a_key_is_made_used_and_revoked_over_http(served):
    with caller(served, BOOTSTRAP, **{"X-Ragassay-Project": "search"}) as operator:
        answer = operator.post("/v1/keys", json={"name": "CI", "scopes": ["read", "submit"]})
        made = answer.json()
        assert answer.status_code == 201
        assert answer.headers["cache-control"] == "no-store"
        assert re.fullmatch(rf"ra_{made['id']}_[0-9a-f]{{48}}", made["key"])
        assert (made["project"], made["scopes"]) == ("search", ["submit", "read"])
        with caller(served, made["key"]) as http:
            assert http.get("/v1/jobs").json() == {"jobs": [], "next": None}
            assert problem(http.get("/v1/keys"), 403)["detail"] == "this key may not operate"
        (listed,) = operator.get("/v1/keys").json()["keys"]
        assert made == listed | {"key": made["key"]}
        assert operator.delete(f"/v1/keys/{made['id']}").json() == listed
        problem(operator.delete(f"/v1/keys/{made['id']}"), 404)
        with caller(served, made["key"]) as http:
            assert problem(http.get("/v1/jobs"), 401)["detail"] == "the key is missing or wrong"
        assert operator.get("/v1/keys").json() == {"keys": []}


def test_an_operator_of_a_project_makes_keys_of_that_project_only(served):
    with caller(served, made_key(served, "search").key) as operator:
        assert operator.post("/v1/keys", json={"name": "x"}).json()["project"] == "search"
        problem(operator.post("/v1/keys", json={"name": "x", "project": "docs"}), 422)
        problem(operator.post("/v1/keys", json={"name": "x"}, headers={"X-Ragassay-Project": "docs"}), 403)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "a\u0007b"},
        {"name": "x", "scopes": ["admin"]},
    ],
)
def test_a_key_that_makes_no_sense_is_refused(served, body):
    with caller(served, BOOTSTRAP) as operator:
        problem(operator.post("/v1/keys", json=body), 422)
        assert operator.get("/v1/keys").json() == {"keys": []}


def test_a_project_has_a_bounded_number_of_keys(served, monkeypatch):
    monkeypatch.setattr("ragassay.service.access.MOST_KEYS", 2)
    first, _ = made_key(served, "search"), made_key(served, "search")
    with pytest.raises(Conflict, match="project search has 2 keys"):
        made_key(served, "search")
    made_key(served, "docs")
    served.access.revoke(first.id)
    made_key(served, "search")


def test_redis_and_the_log_hold_no_secret(served, caplog):
    with caplog.at_level(logging.DEBUG):
        key = made_key(served, "search")
        with caller(served, key.key) as http:
            http.post("/v1/jobs", json={"samples": rows(1), "metrics": ["mrr"]})
            assert key.key[:30] not in str(problem(http.delete(f"/v1/keys/{key.key}"), 404))
        with caller(served, key.key[:-1] + "x") as http:
            answer = http.get("/v1/jobs")
        served.access.revoke(key.id)
    secret = key.key.rpartition("_")[2]
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpx"))
    assert f"key made: key={key.id} project=search" in ours
    redis = served.jobs.store.redis
    kept = b"".join(redis.dump(name) or b"" for name in redis.keys("*")).decode("latin-1")
    everything = "".join(map(str, (redis.hgetall(f"ra:key:{key.id}"), redis.keys("*"), kept)))
    for text in (ours, everything, answer.text):
        assert not [each for each in (secret, PEPPER, BOOTSTRAP) if each in text]


# --- who may ask without a key ------------------------------------------------------------------------------------


def test_a_pepper_alone_locks_the_server_and_lets_it_listen_anywhere(redis):
    settings = Settings.model_construct(key_pepper=PEPPER)
    security.check_bind("0.0.0.0", settings)
    with serving(redis.url, settings) as served:
        problem(served.http.get("/v1/jobs"), 401)
        served.jobs.store.redis.flushall()


@pytest.mark.parametrize("pepper", ["short", "with a blank inside it", "pfeffer-für-die-schlüssel"])
def test_a_pepper_that_is_no_good_is_refused_at_the_start(pepper):
    with pytest.raises(BadSettings, match="RAGASSAY_KEY_PEPPER"):
        security.check_bind("127.0.0.1", Settings(key_pepper=pepper))


def test_no_key_is_made_without_a_pepper(served):
    with pytest.raises(BadSettings, match=r"RAGASSAY_KEY_PEPPER: there are no keys without a pepper; .*openssl rand"):
        Access(served.jobs.store, Settings.model_construct()).make("x", project="a", scopes=["read"])
    assert not served.access.any_made()


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
        assert served.http.get("/healthz").status_code == 200


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
                assert http.get("/v1/metrics").status_code == status
                assert http.get("/healthz").status_code == 200
        locked.redis.start()
        with caller(locked, key) as http:
            until(lambda: http.get("/v1/metrics").status_code == 200, what="the key was not good again")


# --- how often ---------------------------------------------------------------------------------------------------


def test_a_key_that_asks_too_often_is_told_when_to_come_again():
    with keyed_server(key_requests_per_minute=2) as served:
        key, other = made_key(served, "a").key, made_key(served, "a").key
        with caller(served, key) as http, caller(served, other) as second:
            answers = [http.get("/v1/metrics") for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200, 200, 429]
            assert problem(answers[2], 429)["detail"] == "more than 2 requests a minute of this key"
            assert 50 <= int(answers[2].headers["retry-after"]) <= 60
            served.jobs.store.redis.delete(f"ra:limit:key:{key.split('_')[1]}")  # what a minute does
            assert http.get("/v1/metrics").status_code == 200
            assert second.get("/v1/metrics").status_code == 200
            with caller(served, BOOTSTRAP) as operator:
                assert [operator.get("/v1/metrics").status_code for _ in range(4)] == [200] * 4
            assert [http.get("/healthz").status_code for _ in range(4)] == [200] * 4


def test_wrong_keys_from_one_address_are_answered_with_429_and_right_ones_go_on():
    with keyed_server(wrong_keys_per_minute=5) as served:
        good = made_key(served, "a").key
        with caller(served, "ra_" + "0" * 12 + "_" + "0" * 48) as wrong, caller(served, BOOTSTRAP) as operator:
            assert [wrong.get("/v1/metrics").status_code for _ in range(7)] == [401] * 5 + [429] * 2
            assert int(wrong.get("/v1/metrics").headers["retry-after"]) <= 12
            with caller(served, good) as http, caller(served) as nobody:
                assert http.get("/v1/metrics").status_code == 200
                assert nobody.get("/v1/metrics").status_code == 401
            # a secret that a person chose can be guessed: its guesses are not looked at any more
            assert operator.get("/v1/metrics").status_code == 429
