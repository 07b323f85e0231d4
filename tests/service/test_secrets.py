"""A marked secret in every place where one can stand: it arrives where it belongs, and is found nowhere else.

The provider and the endpoint repeat what they were sent, in errors and in answers, as some do.
"""

import base64
import json
import logging
import signal

import pytest
import zstandard
from redis import Redis

from endpoint import CAPITAL, Endpoint
from offline_runs import write_jsonl
from polling import until
from provider import Answer, Provider, verdicts
from ragassay.core.settings import Settings
from redis_server import RedisServer
from service.running import Service, rows

MARK = "c4nary"
KEYS = {
    f"RAGASSAY_{name.upper()}": f"{MARK}-{name.replace('_', '-')}-0123456789abcdef"
    for name, field in Settings.model_fields.items()
    if not field.repr and not name.endswith("_url")
}
OURS = {
    **KEYS,
    "RAGASSAY_JUDGE": "gpt-4o-mini",
    "OPENAI_API_KEY": f"sk-{MARK}-of-openai-0123456789",
    "RAG_TOKEN": f"{MARK}-of-the-endpoint-0123456789",
    "RAG_LOGIN": f"{MARK}-under-another-name-0123456789",
}
PASSWORD = f"{MARK}-of-redis-0123456789"
USER = f"{MARK}-in-an-address"


def telltale(seen):
    """Repeats the key it was sent: the text of the question decides whether in an error or in a verdict."""
    if "poor number" in seen.user:
        return Answer(status=401, message=f"Incorrect API key provided: {seen.auth.split()[-1]}")
    if "number 3" in seen.user:
        return Answer(status=400, message=f"Incorrect API key provided: {seen.auth}, see {seen.auth.split()[-1]}")
    if "number 4" in seen.user and seen.n % 2 == 0:
        return Answer(status=429, message=f"{seen.auth} asks too often", headers={"Retry-After": "0"})
    verdict = verdicts(seen)
    for entry in verdict["answer"]:
        entry["why"] = f"no context says so ({seen.auth.split()[-1]})"
    return Answer(json.dumps(verdict))


class Telltale(Endpoint):
    """Repeats its headers."""

    def reply(self, request, body):
        sent = {name: value for name, value in request.headers.items() if name in ("Authorization", "X-Login")}
        text = body.get("query") or body["messages"][-1]["content"]
        if "number 3" in text:
            return self.send(request, 403, json.dumps({"error": f"who are you? {sent}"}).encode())
        if "number 4" in text:
            return self.send(request, 200, json.dumps({"error": f"{sent}"}).encode())
        if "number 5" in text:
            return self.send(request, 200, f"no JSON: {sent}".encode())
        answer = f"It weighs 1 gram, {sent}."
        reply = {**CAPITAL, "answer": answer, "choices": [{"message": {"content": answer}}]}
        return self.send(request, 200, json.dumps(reply).encode())


@pytest.fixture(scope="module")
def provider():
    with Provider(then=telltale) as running:
        yield running


@pytest.fixture(scope="module")
def endpoint():
    with Telltale() as running:
        yield running


def systems(endpoint):
    headers = {"Authorization": "Bearer ${RAG_TOKEN}", "X-Login": "${RAG_LOGIN}"}
    return {
        "online": {"kind": "http", "url": endpoint.url, "headers": headers},
        "chat": {"kind": "openai", "url": endpoint.url, "model": "m", "api_key": "${RAG_TOKEN}"},
    }


def marks(content):
    """Where the mark stands in bytes or text, plain or as HTTP's Basic credentials; with what is around it."""
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    pairs = (f"{user}:{secret}" for user in ("", "me") for secret in (*OURS.values(), USER, PASSWORD))
    basic = (base64.b64encode(pair.encode()).decode() for pair in pairs)
    return [text[max(0, at - 60) : at + 60] for form in (MARK, *basic) if (at := text.find(form)) >= 0]


def unpacked(content):
    return zstandard.ZstdDecompressor().decompress(content, 2**28) if content[:4] == b"\x28\xb5\x2f\xfd" else content


def leaks_of_files(*folders):
    paths = [(folder, path) for folder in folders for path in folder.rglob("*") if path.is_file()]
    found = {str(path.relative_to(folder)): marks(unpacked(path.read_bytes())) for folder, path in paths}
    return {name: where for name, where in found.items() if where}


def leaks_of_redis(redis):
    pairs = ((key, value) for key in redis.scan_iter("*") for value in values(redis, key))
    return {key.decode(): where for key, value in pairs if (where := marks(unpacked(value)))}


def values(redis, key):
    yield key
    match redis.type(key):
        case b"string":
            yield redis.get(key)
        case b"hash":
            yield from (part for pair in redis.hgetall(key).items() for part in pair)
        case b"list":
            yield from redis.lrange(key, 0, -1)
        case b"set":
            yield from redis.smembers(key)
        case b"zset":
            yield from redis.zrange(key, 0, -1)
        case b"stream":
            yield from (part for _, entry in redis.xrange(key) for pair in entry.items() for part in pair)
        case kind:
            raise AssertionError(f"{key!r} is a {kind!r}, which nobody looks into")


def test_the_search_finds_what_it_should(tmp_path):
    (tmp_path / "a.zst").write_bytes(zstandard.compress(f"x {MARK} y".encode()))
    (tmp_path / "b").write_text(base64.b64encode(f"me:{USER}".encode()).decode())
    assert set(leaks_of_files(tmp_path)) == {"a.zst", "b"}
    assert {"RAGASSAY_API_KEY", "RAGASSAY_BOOTSTRAP_KEY", "RAGASSAY_SERVER_KEY"} <= KEYS.keys()


QUICK = {"max_failed_share": 1.0, "metrics": ["faithfulness", "mrr"]}
QUICK |= {"performance": {"provider_outage_timeout_s": 1, "attempts": 2}}


@pytest.fixture
def work(tmp_path, endpoint):
    """A folder with rows, and a configuration that asks two systems and reads a third."""
    folder = tmp_path / "work"
    folder.mkdir()
    write_jsonl(folder / "rows.jsonl", rows(6))
    asked = ("query_id", "query", "relevant_doc_ids")
    write_jsonl(folder / "questions.jsonl", [{key: row[key] for key in asked} for row in rows(6)])
    both = {"judge": "gpt-4o-mini", **QUICK, "systems": {**systems(endpoint), "recorded": "rows.jsonl"}}
    (folder / "evaluate.json").write_text(json.dumps({"data": "questions.jsonl", **both}))
    return folder


@pytest.fixture
def command(cli, work, monkeypatch):
    """Runs it with all secrets in its environment and every log line; what of them it printed."""

    def run(*arguments, api_base, exits=(0, 3)):
        monkeypatch.chdir(work)
        for name, value in {**OURS, "RAGASSAY_API_BASE": api_base, "RAGASSAY_HOME": str(work / "home")}.items():
            monkeypatch.setenv(name, value)
        logging.getLogger().handlers.clear()  # those of pytest, for which a command sets up none
        code, out, err = cli("-v", *arguments)
        assert code in exits, err[-3000:]
        assert "INFO" in err or exits == (2,) or "show" in arguments
        return marks(out) + marks(err)

    return run


def test_no_secret_is_in_a_run_its_reports_or_what_is_printed(provider, endpoint, work, command):
    before = len(provider.log)
    outputs = [part for kind in ("json", "csv", "md") for part in ("-o", f"report.{kind}")]
    told = command("evaluate", "--config", "evaluate.json", *outputs, "--json", api_base=provider.url)
    told += command("show", "last", "--json", api_base=provider.url)
    assert any(OURS["RAGASSAY_API_KEY"] in seen.auth for seen in provider.log[before:])
    assert any(OURS["RAG_LOGIN"] == sent.get("X-Login") for sent in endpoint.headers)
    assert (told, leaks_of_files(work)) == ([], {})


@pytest.mark.parametrize("place", ["--set", "RAGASSAY_API_BASE", "url"])
def test_an_address_with_a_password_is_refused_without_repeating_it(work, command, place):
    address, fine, arguments = f"http://me:{USER}@127.0.0.1:9/v1", "http://127.0.0.1:9/v1", []
    if place == "url":
        config = json.loads((work / "evaluate.json").read_text())
        config["systems"]["online"]["url"] = address
        (work / "evaluate.json").write_text(json.dumps(config))
    elif place == "--set":
        arguments = [place, f"api_base={address}"]
    api_base = address if place == "RAGASSAY_API_BASE" else fine
    assert command("evaluate", "--config", "evaluate.json", *arguments, api_base=api_base, exits=(2,)) == []


def test_no_secret_is_in_redis_the_logs_or_an_answer_of_the_service(provider, endpoint, work):
    """Real workers, over a Redis with a password; one job finishes, one fails, and the API's callers see both."""
    registered = work / "systems.yaml"
    registered.write_text(json.dumps({"systems": systems(endpoint)}))
    answers = []
    with RedisServer("--requirepass", PASSWORD) as redis:
        state_url = redis.url.replace("unix://", f"unix://:{PASSWORD}@")
        environment = {**OURS, "RAGASSAY_API_BASE": provider.url, "RAGASSAY_SYSTEMS": str(registered)}
        with Service(workers=1, env={**environment, "RAGASSAY_STATE_URL": state_url}) as service:
            service.client.headers["Authorization"] = f"Bearer {OURS['RAGASSAY_BOOTSTRAP_KEY']}"
            service.client.event_hooks["response"] = [lambda answer: (answer.read(), answers.append(answer))]
            body = {"samples": rows(6), "systems": ["online", "chat"], "gates": [{"mrr": ">= 0.99"}], **QUICK}
            judged = service.answered("POST", "/v1/jobs", json={**body, "judge": OURS["RAGASSAY_JUDGE"]}).json()["id"]
            poor = service.answered("POST", "/v1/jobs", json={**QUICK, "samples": rows(2, of="poor")}).json()["id"]
            for job, status in ((judged, "finished"), (poor, "failed")):
                until(
                    lambda job=job, status=status: service.job(job)["status"] == status, 120, f"a job that is {status}"
                )
            assert "rejected the key (401): Incorrect API key provided: ***" in service.job(poor)["error"]
            of_job = ("", "/report", "/results", "/gates?format=markdown", "/gates?format=junit", "/events")
            others = "/v1/jobs /v1/systems /openapi.json /docs /readyz /v1/trends?metric=mrr /nothing".split()
            for path in (*(f"/v1/jobs/{judged}{part}" for part in of_job), *others):
                service.client.get(path)
            for sent in ("Bearer wrong", f"Basic {OURS['RAGASSAY_BOOTSTRAP_KEY']}"):
                service.client.get("/v1/jobs", headers={"Authorization": sent})
            redis.process.send_signal(signal.SIGSTOP)
            service.client.get("/v1/jobs")
            redis.process.send_signal(signal.SIGCONT)
            with Redis(unix_socket_path=str(redis.socket), password=PASSWORD) as connection:
                kept = leaks_of_redis(connection)
            in_files = leaks_of_files(service.folder, redis.folder)  # what it printed as well
    assert {answer.status_code for answer in answers} >= {200, 202, 401, 404, 503}
    told = {f"{answer.request.method} {answer.url}": marks(answer.text) for answer in answers if marks(answer.text)}
    assert (told, kept, in_files) == ({}, {}, {})
    assert OURS["RAG_LOGIN"] in str(endpoint.headers)
    assert OURS["RAGASSAY_API_KEY"] in str([seen.auth for seen in provider.log])
