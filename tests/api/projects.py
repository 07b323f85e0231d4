"""A server with keys, and projects full of marked things; for the tests of who reaches what."""

import uuid
from contextlib import contextmanager

import httpx

from api_server import rows, serving
from ragassay.core.settings import Settings
from ragassay.service.access import SCOPES, Access
from redis_server import RedisServer

PEPPER, BOOTSTRAP = "a-pepper-of-the-tests-0123", "a-bootstrap-key-of-the-tests"


@contextmanager
def keyed_server(**settings):
    """A server that asks for keys, over a Redis of its own."""
    given = Settings.model_construct(**{"key_pepper": PEPPER, "bootstrap_key": BOOTSTRAP, **settings})
    with RedisServer() as redis, serving(redis.url, given) as served:
        served.redis, served.settings, served.access = redis, given, Access(served.jobs.store, given)
        yield served


def made_key(served, project, scopes=SCOPES, name="a test"):
    """A key of a project, with all scopes if none are named."""
    return served.access.make(name, project=project, scopes=scopes)


def caller(served, key=None, **headers):
    """A client that sends a key's text, or none."""
    sent = {"Authorization": f"Bearer {key}", **headers} if key else headers
    return httpx.Client(base_url=served.url, trust_env=False, timeout=60, headers=sent, verify=False)


def marked(mark, count=2):
    """Rows that hold a mark wherever there is text."""
    return [
        {
            **row,
            "query": f"{mark} asks: {row['query']}",
            "ground_truth_answer": f"{mark} knows: {row['ground_truth_answer']}",
            "answer": f"{mark} answers: {row['answer']}",
            "contexts": [f"{mark} read: {text}" for text in row["contexts"]],
            "category": mark,
        }
        for row in rows(count)
    ]


def filled(served, project, mark):
    """Make one of each thing in a project, all with the mark in their text; returns {path parameter: its id}."""
    key = made_key(served, project, name=f"{mark} key")
    with caller(served, key.key) as http:
        body = {"name": f"{mark} job", "samples": marked(mark), "metrics": ["mrr"], "gates": [{"mrr": ">= 0"}]}
        answer = http.post("/v1/jobs", json=body)
        assert answer.status_code == 202, answer.text
        served.work()
        dataset = f"of-{project}"
        table = "id,question,answer,ground_truth,category\n" + "".join(
            f"q{n},{mark} question {n}?,{mark} answer {n},{mark} truth {n},{mark}\n" for n in range(4)
        )
        kept = http.put(
            f"/v1/datasets/{dataset}",
            params={"description": f"{mark} description"},
            content=table,
            headers={"Content-Type": "text/csv"},
        )
        assert kept.status_code == 201, kept.text
        plan = {
            "name": f"nightly-{project}",
            "cron": "30 2 * * *",
            "job": {"dataset": dataset, "metrics": ["token_f1"]},
        }
        planned = http.post("/v1/schedules", json={**plan, "job": {**plan["job"], "name": f"{mark} nightly"}})
        assert planned.status_code == 201, planned.text
        added = http.post("/v1/webhooks", json={"url": f"https://{mark}.example/hook"})
        assert added.status_code == 201, added.text
        webhook = added.json()["webhook"]["id"]
        tried = http.post(f"/v1/webhooks/{webhook}/test")
        assert tried.status_code == 202, tried.text
        stream = f"seen-by-{project}"
        put = http.put(f"/v1/live/streams/{stream}", json={"rate": 1, "job": {"metrics": ["token_f1"]}})
        assert put.status_code == 200, put.text
        trace = sent_request(http, stream, mark)
        served.queue.sent.clear()  # nobody delivers it
    ids = {"job": answer.json()["id"], "dataset": dataset, "key": key.id, "schedule": plan["name"], "webhook": webhook}
    ids |= {"stream": stream, "trace": trace}
    return ids, key.key


def sent_request(http, stream, mark):
    """Send the spans of a request; returns its trace id."""
    trace = uuid.uuid4().hex
    span = {
        "traceId": trace,
        "spanId": "a" * 16,
        "name": mark,
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [{"key": "input.value", "value": {"stringValue": f"{mark} question"}}],
    }
    service = [{"key": "service.name", "value": {"stringValue": stream}}]
    body = {"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": [span]}]}]}
    answer = http.post("/v1/traces", json=body)
    assert answer.json() == {}, answer.text
    return trace
