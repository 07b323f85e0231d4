"""Who may come in, what nobody may see, and what the API's process does not load."""

import logging
import subprocess
import sys

import httpx
import pytest

from api_server import problem, rows, serving
from ragassay.api.app import create_app
from ragassay.api.middleware import PROTECTIVE
from ragassay.api.security import check_bind
from ragassay.core.errors import BadSettings
from ragassay.core.settings import Settings

KEY = "0123456789abcdef-a-key-of-the-tests"


@pytest.fixture(scope="module")
def locked(redis):
    with serving(redis.url, Settings.model_construct(bootstrap_key=KEY, wrong_keys_per_minute=0)) as served:
        yield served


def test_with_the_key_all_opens_and_health_needs_none(locked):
    locked.submit(rows(1))
    assert locked.http.get("/v1/jobs").status_code == 200
    for path in ("/healthz", "/openapi.json"):
        assert httpx.get(locked.url + path, trust_env=False).status_code == 200
    problem(httpx.get(locked.url + "/readyz", trust_env=False), 503)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8400", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:80"),
        *(
            "[::1].evil.example",
            "[::1]evil.example:8400",
            "localhost:evil.example",
            "127.0.0.1]",
            "[localhost]",
            "[::1",
        ),
    ],
)
def test_without_a_key_a_web_page_can_not_reach_it_by_another_name(served, host):
    document = problem(served.http.get("/v1/jobs", headers={"Host": host}), 421)
    assert document["where"] == "Host"


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
        ({"Origin": "https://evil.example"}, True),
        ({"Origin": "null"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "OWN"}, False),
        ({}, False),
    ],
)
def test_post_of_another_site_is_refused_with_and_without_keys(served, locked, headers, refused):
    for server in (served, locked):
        sent = {name: value.replace("OWN", server.url) for name, value in headers.items()}
        for method, path in (
            ("POST", "/v1/schedules/nightly/run"),
            ("PUT", "/v1/datasets/of-mine"),
            ("DELETE", "/ui/x"),
        ):
            answer = server.http.request(method, path, headers=sent)
            assert (answer.status_code == 403) is refused, (method, path)
            if refused:
                assert problem(answer, 403)["code"] == "cross_site"
        assert server.http.get("/v1/jobs", headers=sent).status_code == 200


def test_no_page_of_another_origin_may_read_an_answer(served):
    for headers in ({"Origin": "https://evil.example"}, {"Origin": served.url}):
        answer = served.http.get("/v1/jobs", headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LocalHost"])
def test_loopback_needs_no_key(host):
    check_bind(host, Settings())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "example.org", "", "localhost.example.org"])
def test_any_other_address_needs_a_key(host):
    with pytest.raises(BadSettings, match="RAGASSAY_BOOTSTRAP_KEY"):
        check_bind(host, Settings())
    check_bind(host, Settings(bootstrap_key=KEY))


@pytest.mark.parametrize(
    "key", ["short", "fifteen-letters", "with a blank inside it", "schlüssel-der-lang-ist", "new\nline" * 4]
)
def test_a_key_that_is_no_good_is_refused_at_the_start(key):
    with pytest.raises(BadSettings, match="RAGASSAY_BOOTSTRAP_KEY"):
        create_app(None, Settings(bootstrap_key=key))


def test_a_key_is_never_printed():
    settings = Settings(bootstrap_key=KEY, server_key=KEY)
    assert KEY not in repr(settings)
    assert KEY not in str(settings)


def test_a_bug_is_a_500_that_names_the_entry_in_the_log_and_nothing_else(served, caplog, monkeypatch):
    monkeypatch.setattr(served.jobs, "get", lambda job: {}["a secret of ours"])
    with caplog.at_level(logging.ERROR, "ragassay.api"):
        answer = served.http.get("/v1/jobs/" + "0" * 32)
    document = problem(answer, 500)
    assert "secret" not in answer.text
    assert "KeyError" not in answer.text
    (entry,) = caplog.records
    assert document["instance"] in entry.getMessage()
    assert document["instance"] in document["hint"]
    assert entry.exc_info[0] is KeyError
    assert served.http.get("/healthz").status_code == 200


def test_every_answer_tells_browsers_to_run_frame_and_keep_nothing(served):
    """The server of the tests checks the same of every other answer (``Witness`` in api_server.py)."""
    for path in ("/healthz", "/v1/jobs", "/nothing", "/v1/jobs?limit=0"):
        answer = served.http.get(path)
        assert {name: answer.headers[name] for name in PROTECTIVE} == PROTECTIVE
        assert not {"server", "strict-transport-security", "access-control-allow-origin"} & set(answer.headers)


def test_behind_tls_browsers_are_told_to_stay_with_it(redis):
    with serving(redis.url, Settings(tls=True)) as served:
        assert served.http.get("/nothing").headers["strict-transport-security"] == "max-age=31536000"


def test_it_is_ready_when_redis_answers_and_a_worker_lives(served):
    assert served.http.get("/healthz").json()["status"] == "ok"
    assert "no worker is running" in problem(served.http.get("/readyz"), 503)["detail"]
    served.jobs.store.heartbeat("worker", "host:1", for_s=60)
    served.jobs.store.heartbeat("worker", "host:2", for_s=60)
    (warning,) = served.http.get("/readyz").json()["warnings"]
    assert warning.startswith("no beat is running")
    served.jobs.store.heartbeat("beat", "host:3", for_s=60)
    assert served.http.get("/readyz").json() == {"status": "ready", "workers": 2, "beats": 1, "warnings": []}
    served.jobs.store.redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        (warning,) = served.http.get("/readyz").json()["warnings"]
    finally:
        served.jobs.store.redis.config_set("maxmemory-policy", "noeviction")
    assert "allkeys-lru" in warning


def test_the_api_loads_nothing_heavy():
    code = (
        "import sys, ragassay.api.app, ragassay.api.security;"
        "from ragassay.core.settings import Settings;"
        "ragassay.api.app.create_app(None, Settings()).openapi();"
        "heavy = {'litellm', 'torch', 'sentence_transformers', 'transformers', 'scipy.special', 'pyarrow', 'pandas', 'rouge_score',"
        " 'bert_score', 'celery', 'rich', 'typer'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
