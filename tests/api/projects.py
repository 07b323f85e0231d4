"""A server with keys, and projects full of marked things; for the tests of who reaches what."""

import uuid
from contextlib import contextmanager

import httpx
import pytest

from api_server import rows, serving
from ragassay.core.settings import Settings
from ragassay.service.access import SCOPES, Access
from redis_server import RedisServer

PEPPER, BOOTSTRAP = "a-pepper-of-the-tests-0123", "a-bootstrap-key-of-the-tests"


@contextmanager
def keyed_server(wrong_keys=30, **settings):
    """A server that asks for keys, over a Redis of its own; one address may send so many ``wrong_keys`` in a minute."""
    given = Settings.model_construct(**{"key_pepper": PEPPER, "bootstrap_key": BOOTSTRAP, **settings})
    with pytest.MonkeyPatch.context() as patch, RedisServer() as redis:
        patch.setattr("ragassay.api.security.WRONG_KEYS_A_MINUTE", wrong_keys)
        with serving(redis.url, given) as served:
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
    """Make one of each thing in a project, all with the mark in their text; returns {path parameter: its id}, and a key."""
    key = made_key(served, project, name=f"{mark} key")
    dataset, schedule, stream, trace = f"of-{project}", f"nightly-{project}", f"seen-by-{project}", uuid.uuid4().hex
    lines = "".join(f"q{n},{mark} question {n}?,{mark} answer {n},{mark} truth {n},{mark}\n" for n in range(4))
    plan = {"dataset": dataset, "metrics": ["token_f1"], "name": f"{mark} nightly"}
    span = {
        "traceId": trace,
        "spanId": "a" * 16,
        "name": mark,
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [{"key": "input.value", "value": {"stringValue": f"{mark} question"}}],
    }
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": stream}}]}
    with caller(served, key.key) as http:

        def made(method, path, **options):
            answer = http.request(method, path, **options)
            assert answer.status_code < 300, answer.text
            return answer.json()

        body = {"name": f"{mark} job", "samples": marked(mark), "metrics": ["mrr"], "gates": [{"mrr": ">= 0"}]}
        job = made("POST", "/v1/jobs", json=body)["id"]
        served.work()
        table = {
            "content": f"id,question,answer,ground_truth,category\n{lines}",
            "headers": {"Content-Type": "text/csv"},
        }
        made("PUT", f"/v1/datasets/{dataset}", params={"description": f"{mark} description"}, **table)
        made("POST", "/v1/schedules", json={"name": schedule, "cron": "30 2 * * *", "job": plan})
        webhook = made("POST", "/v1/webhooks", json={"url": f"https://{mark}.example/hook"})["webhook"]["id"]
        made("POST", f"/v1/webhooks/{webhook}/test")
        made("PUT", f"/v1/live/streams/{stream}", json={"rate": 1, "job": {"metrics": ["token_f1"]}})
        spans = [{"resource": service, "scopeSpans": [{"spans": [span]}]}]
        assert made("POST", "/v1/traces", json={"resourceSpans": spans}) == {}
        served.queue.sent.clear()  # nobody delivers it
    ids = {"job": job, "dataset": dataset, "key": key.id, "schedule": schedule, "webhook": webhook}
    return {**ids, "stream": stream, "trace": trace}, key.key
