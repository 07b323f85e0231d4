"""Requests that are wrong below JSON, in uploads or in parameters: each a problem that says what, and the server stays well."""

import gzip
import json
import os
import socket
import threading
import time
from contextlib import suppress

import httpx
import psutil
import pytest

from api_server import problem
from polling import slowness, until
from ragassay.api.middleware import PROTECTIVE

NDJSON, CSV = {"Content-Type": "application/x-ndjson"}, {"Content-Type": "text/csv"}
JSON = {"Content-Type": "application/json"}
ROW = '{"query":"Which?","answer":"This."}'
HOST = b"Host: localhost\r\n"

WIRE = {
    "out of the root, encoded": (b"GET /v1/datasets/..%2f..%2fetc%2fpasswd HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no route"),
    "a header in the path": (b"GET /v1/jobs/a%0d%0aSet-Cookie:b=c HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no job"),
    "another name of this machine": (b"GET /v1/jobs HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "loopback names"),
}  # fmt: skip


def spoken(served, request):
    """The answer to bytes that no HTTP client would send: status, headers by their small names, body."""
    answer = until(lambda: _answer(served, request), what="no answer")
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}, body


def _answer(served, request):
    """What comes back; nothing where the connection was closed, while we were sending, before the answer was read."""
    host, port = served.url.removeprefix("http://").split(":")
    answer = b""
    with suppress(ConnectionError), socket.create_connection((host, int(port)), timeout=10) as raw:
        with suppress(ConnectionError):
            raw.sendall(request)
        while not (b"\r\n\r\n" in answer and answer.endswith(b"}")) and (piece := raw.recv(65536)):
            answer += piece
    return answer


@pytest.mark.parametrize("name", WIRE)
def test_what_is_no_request_as_we_read_it_is_answered_with_a_problem(served, name):
    request, status, said = WIRE[name]
    got, headers, body = spoken(served, request)
    document = json.loads(body)
    assert got in (status if isinstance(status, tuple) else (status,)), document
    assert document["status"] == got
    assert said in document["detail"]
    assert "bytearray" not in document["detail"]
    assert headers["content-type"] == "application/problem+json"
    assert all(name.lower() in headers for name in PROTECTIVE)
    assert not {"server", "set-cookie"} & set(headers)
    assert served.http.get("/healthz").status_code == 200
    assert served.http.get("/v1/jobs").json()["jobs"] == []


UPLOADS = {
    "100,000 levels": ('{"query":"a","metadata":' + "[" * 100_000, NDJSON, 422, "nested too deeply"),
    "20,000 columns": (",".join(f"c{n}" for n in range(20_000)) + "\n1", CSV, 413, "at most 10,000"),
    "gzip without saying so": (gzip.compress(ROW.encode()), NDJSON, 422, "is not text"),
    "a bomb in gzip": (gzip.compress(bytes(10**8)), {**NDJSON, "Content-Encoding": "gzip"}, 415, "encoded as 'gzip'"),
    "a form with a file": (
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="../../x"\r\n\r\na\r\n--b--\r\n',
        {"Content-Type": "multipart/form-data; boundary=b"}, 415, "multipart",
    ),
    "XML with an entity": (
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', {"Content-Type": "application/xml"}, 415, "xml"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UPLOADS)
def test_a_broken_upload_is_answered_with_a_problem_and_nothing_is_kept(served, name):
    content, headers, status, said = UPLOADS[name]
    answer = served.http.put("/v1/datasets/up", content=content, headers=headers)
    document = problem(answer, status)
    assert said in " ".join([document["detail"], document.get("where", ""), *document.get("problems", ())])
    assert served.http.get("/v1/datasets").json() == {"datasets": [], "next": None}


def test_memory_stays_where_it_is_whatever_comes(served):
    """The server is in this process. 60 MB is what a body within the limits may need for a moment, thirty times over."""
    bombs = [
        lambda: served.http.put("/v1/datasets/up", content=UPLOADS["a bomb in gzip"][0], headers=UPLOADS["a bomb in gzip"][1]),
        lambda: served.http.post("/v1/jobs", content=b"[" * 1_900_000, headers=JSON),
        lambda: served.http.post("/v1/jobs", content=(b" " * 100_000 for _ in range(400)), headers=JSON),
    ]  # fmt: skip
    for bomb in bombs:
        bomb()
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    for _ in range(6):
        for bomb in bombs:
            bomb()
    assert process.memory_info().rss - before < 60_000_000
    assert httpx.get(f"{served.url}/healthz", trust_env=False).status_code == 200


@pytest.mark.parametrize(("brackets", "status"), [(600_000, 413), (190_000, 422)])
def test_brackets_within_the_limit_do_not_stop_other_requests(served, brackets, status):
    content = '{"name": "brackets", "cron": "0 5 * * *", "job": {"a": [' + ",".join(["[]"] * brackets) + "]}}"

    def send():
        with httpx.Client(base_url=served.url, trust_env=False, timeout=60) as http:
            answers.append(http.post("/v1/schedules", content=content, headers=JSON))

    answers, took = [], []
    sender = threading.Thread(target=send)
    sender.start()
    while sender.is_alive():
        began = time.process_time()
        assert served.http.get("/healthz").status_code == 200
        took.append(time.process_time() - began)
    problem(answers[0], status)
    assert max(took) < 0.5 * slowness()
