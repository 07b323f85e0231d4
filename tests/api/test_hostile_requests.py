"""Requests that are wrong below JSON, in uploads or in parameters: each a problem that says what, and the server stays well."""

import gzip
import json
import os
import socket
from contextlib import suppress

import httpx
import psutil
import pytest

from api.test_broken_requests import BODIES, QUERIES
from api_server import problem, rows
from polling import until
from ragassay.api.headers import PROTECTIVE

NDJSON, CSV = {"Content-Type": "application/x-ndjson"}, {"Content-Type": "text/csv"}
PARQUET, JSON = {"Content-Type": "application/vnd.apache.parquet"}, {"Content-Type": "application/json"}
ROW = '{"query":"Which?","answer":"This."}'
HOST = b"Host: localhost\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST
POST = b"POST /v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
JOBS = b"GET /v1/jobs HTTP/1.1\r\n" + HOST

WIRE = {
    "bytes that are no text": (b"\x00\x01\x02\r\n\r\n", 400, "illegal request line"),
    "TLS to a plain port": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50) + b"\r\n\r\n", 400, "illegal request line"),
    "HTTP/0.9": (b"GET /healthz\r\n\r\n", 400, "illegal request line"),
    "HTTP/2 without asking": (b"PRI * HTTP/2.0\r\n\r\n", 404, "no route"),
    "no Host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "Host"),
    "two Hosts": (GET + HOST + b"\r\n", 400, "multiple Host"),
    "a blank in a header's name": (GET + b"A b: c\r\n\r\n", 400, "illegal header line"),
    "a header without a name": (GET + b": c\r\n\r\n", 400, "illegal header line"),
    "a header without a colon": (GET + b"A\r\n\r\n", 400, "illegal header line"),
    "a zero in a header": (GET + b"A: b\x00c\r\n\r\n", 400, "illegal header line"),
    "a bare CR in a header": (GET + b"A: b\rSet-Cookie: c\r\n\r\n", 400, "illegal header line"),
    "a header of 200 KB": (GET + b"A: " + b"a" * 200_000 + b"\r\n\r\n", 431, "too long"),
    "20,000 headers": (GET + b"".join(b"A%d: b\r\n" % n for n in range(20_000)) + b"\r\n", 431, "too long"),
    "a target of 200 KB": (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", (404, 431), ""),
    "a blank in the target": (b"GET /v1/jo bs HTTP/1.1\r\n" + HOST + b"\r\n", 400, "illegal request line"),
    "UTF-8 in the target": ("GET /v1/jobs/é HTTP/1.1\r\n".encode() + HOST + b"\r\n", 400, "illegal request line"),
    "a control character as method": (b"G\x7fT / HTTP/1.1\r\n" + HOST + b"\r\n", 400, "illegal request line"),
    "an invented method": (b"BREW /v1/jobs HTTP/1.1\r\n" + HOST + b"\r\n", 405, "BREW is not allowed"),
    "TRACE": (b"TRACE /v1/jobs HTTP/1.1\r\n" + HOST + b"\r\n", 405, "TRACE is not allowed"),
    "CONNECT": (b"CONNECT 10.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no route"),
    "as to a proxy": (b"GET http://10.0.0.1/ HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no route"),
    "OPTIONS of all": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no route"),
    "out of the root": (b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no route"),
    "out of the root, encoded": (b"GET /v1/datasets/..%2f..%2fetc%2fpasswd HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no route"),
    "dots in the middle": (b"GET /v1/jobs/../jobs HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no route"),
    "a backslash": (b"GET /v1\\jobs HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no route"),
    "half an escape": (b"GET /v1/jobs/%e HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no job"),
    "a header in the path": (b"GET /v1/jobs/a%0d%0aSet-Cookie:b=c HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no job"),
    "another name of this machine": (b"GET /v1/jobs HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "loopback names"),
    "a length that is no number": (POST + b"Content-Length: x\r\n\r\n", 400, "bad Content-Length"),
    "a negative length": (POST + b"Content-Length: -1\r\n\r\n", 400, "bad Content-Length"),
    "a length of 30 digits": (POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", 400, "bad Content-Length"),
    "two lengths": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400, "conflicting Content-Length"),
    "a length and chunks": (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, ""),
    "chunks in gzip": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, "chunked is supported"),
    "a chunk's length that is no number": (CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n", 400, "illegal chunk header"),
    "a chunk of minus one": (CHUNKED + b"-1\r\n{}\r\n0\r\n\r\n", 400, "illegal chunk header"),
    "a chunk of 10^36 bytes": (CHUNKED + b"f" * 30 + b"\r\n", 400, "illegal chunk header"),
    "a chunk longer than it says": (CHUNKED + b"1\r\n{}\r\n0\r\n\r\n", 400, "malformed chunk footer"),
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


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /healthz HTTP/1.0\r\n\r\n",
        GET + b"X-A: b\r\n c\r\n\r\n",
        GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
        GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        GET + b"Content-Length: 5\r\n\r\nhello",
        GET + b"X-Forwarded-Host: evil.example\r\nX-Original-URL: /v1/jobs\r\nX-HTTP-Method-Override: DELETE\r\n\r\n",
    ],
    ids=["HTTP/1.0", "a folded header", "a websocket", "HTTP/2 by upgrade", "a GET with a body", "override headers"],
)
def test_what_is_old_or_offered_is_answered_as_plain_http(served, request_):
    status, _, body = spoken(served, request_)
    assert (status, json.loads(body)["status"]) == (200, "ok")


UPLOADS = {
    "nothing": ("", NDJSON, 422, "empty"),
    "blank lines": ("\n\n\n", NDJSON, 422, "empty"),
    "a byte order mark alone": ("\ufeff", NDJSON, 422, "empty"),
    "NaN": ('{"query":"a","cost_usd":NaN}', NDJSON, 422, "up.jsonl:1: cost_usd: should be a finite number, is NaN"),
    "infinity": ('{"query":"a","cost_usd":1e999}', NDJSON, 422, "is infinity"),
    "half a surrogate pair": (r'{"query":"\ud800"}', NDJSON, 422, "half a surrogate pair"),
    "half a pair in a key": (r'{"query":"a","metadata":{"\ud800":1}}', NDJSON, 422, "half a surrogate pair"),
    "100,000 levels": ('{"query":"a","metadata":' + "[" * 100_000, NDJSON, 422, "nested too deeply"),
    "500 levels": ('{"query":"a","metadata":{"a":' + "[" * 500 + "]" * 500 + "}}", NDJSON, 422, "64 levels"),
    "5,000 digits": ('{"query":"a","latency_ms":' + "9" * 5000 + "}", NDJSON, 422, "whole number that is too long"),
    "30 digits": ('{"query":"a","metadata":{"n":' + "9" * 30 + "}}", NDJSON, 422, "more than 64 bits"),
    "a key twice": ('{"query":"a","query":"b"}', NDJSON, 422, "'query' is given twice"),
    "a zero byte": ('{"query":"a\x00"}', NDJSON, 422, "byte 12 is zero"),
    "not UTF-8": (b'{"query":"\xff"}', NDJSON, 422, "byte 0xff at byte 11"),
    "UTF-16": (ROW.encode("utf-16"), NDJSON, 422, "UTF-16"),
    "a list a line": ("[1,2]", NDJSON, 422, "should be an object"),
    "cut off": ('{"query":', NDJSON, 422, "the text ends too early"),
    "two a line": (ROW + ROW, NDJSON, 422, "extra data"),
    "an id twice": ('{"query":"a","query_id":1}\n{"query":"b","query_id":1}', NDJSON, 422, "used already in line 1"),
    "an object as id": ('{"query":"a","query_id":{"a":1}}', NDJSON, 422, "query_id: should be text"),
    "50,000 keys": ('{"query":"a",' + ",".join(f'"k{n}":1' for n in range(50_000)) + "}", NDJSON, 413, "at most 10,000"),
    "one bad row of two": (ROW + '\n{"quer":"b"}', NDJSON, 422, "up.jsonl:2: query: is missing"),
    "an open quote": ('id,question\n1,"a\n', CSV, 422, "never ends"),
    "more cells than columns": ("id,question\n1,a,b,c\n", CSV, 422, "has 4 cells, the header has 2"),
    "a column twice": ("question,question\na,b\n", CSV, 422, "names this column twice"),
    "20,000 columns": (",".join(f"c{n}" for n in range(20_000)) + "\n1", CSV, 413, "at most 10,000"),
    "formulas for a header": ("=1+1\n=2\n", CSV, 422, "query: no column holds it"),
    "every byte": (bytes(range(256)), CSV, 422, "is not text"),
    "Parquet's marks around nothing": (b"PAR1" + bytes(100) + b"PAR1", PARQUET, 422, "not a Parquet file"),
    "no Parquet": (b"hello", PARQUET, 422, "not a Parquet file"),
    "gzip without saying so": (gzip.compress(ROW.encode()), NDJSON, 422, "compressed with gzip"),
    "a bomb in gzip": (gzip.compress(bytes(10**8)), {**NDJSON, "Content-Encoding": "gzip"}, 415, "encoded as 'gzip'"),
    "brotli": (ROW, {**NDJSON, "Content-Encoding": "br"}, 415, "encoded as 'br'"),
    "several encodings": (ROW, {**NDJSON, "Content-Encoding": "gzip, gzip"}, 415, "encoded as"),
    "another charset": (ROW, {"Content-Type": "application/x-ndjson; charset=utf-16"}, 415, "Content-Type"),
    "no type": (ROW, {}, 415, "no Content-Type"),
    "JSON": (f"[{ROW}]", JSON, 415, "application/json"),
    "a form": ("query=a", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "urlencoded"),
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


PARAMETERS = {
    "GET /v1/datasets/a b": "dataset",
    "GET /v1/datasets/" + "a" * 101: "dataset",
    "GET /v1/datasets/%00": "dataset",
    "GET /v1/datasets/kept@": "dataset",
    "GET /v1/datasets/kept@zz": "dataset",
    "PUT /v1/datasets/a@b": "dataset",
    "PUT /v1/datasets/-x": "dataset",
    "PUT /v1/datasets/up?map=x": "OURS=THEIRS",
    "PUT /v1/datasets/up?map=nope=b": "unknown field 'nope'",
    "PUT /v1/datasets/up?columns=theirs": "columns",
    "PUT /v1/datasets/up?description=" + "d" * 2001: "description",
    "GET /v1/datasets?limit=1e3": "limit",
    "GET /v1/datasets?limit=10%00": "limit",
    "GET /v1/datasets/kept/rows?limit=0": "limit",
    "GET /v1/datasets/kept/rows?cursor=-1": "cursor",
    "GET /v1/datasets/kept/versions?cursor=x": "cursor",
    "GET /v1/trends": "metric: is missing",
    "GET /v1/trends?metric=nonsense": "unknown metric 'nonsense'",
    "GET /v1/trends?metric=" + "m" * 201: "metric",
    "GET /v1/trends?metric=mrr&alpha=nan": "alpha",
    "GET /v1/trends?metric=mrr&last=0": "last",
    "GET /v1/trends?metric=mrr&seed=99999999999": "seed",
    "GET /v1/jobs/JOB/results?sort=nonsense": "unknown figure of the rows 'nonsense'",
    "GET /v1/jobs/JOB/results?where=latency_ms%3E%3Dnan": "where",
    "GET /v1/jobs/JOB/results?where=__class__%3E1": "unknown figure of the rows",
    "GET /v1/jobs/JOB/results?failed=maybe": "failed",
    "GET /v1/jobs/JOB/results?text=" + "t" * 5000: "text",
    "GET /v1/jobs/JOB/gates?format=exe": "format",
    "POST /v1/jobs/JOB/resume?budget_usd=inf": "budget_usd",
    "POST /v1/jobs/JOB/resume?budget_usd=-1": "budget_usd",
    "POST /v1/jobs/JOB/resume?budget_tokens=1e400": "budget_tokens",
    "GET /v1/jobs?%ff=1": "unknown query parameter",
    "GET /v1/jobs?limit=%F0%9F%92%A9": "limit",
    "GET /v1/jobs?limit=0x10": "limit",
    "GET /v1/jobs?cursor=%0d%0aSet-Cookie:a=b": "cursor",
}


@pytest.mark.parametrize("request_", PARAMETERS)
def test_a_broken_parameter_of_any_route_is_named(served, request_):
    served.http.put("/v1/datasets/kept", content=ROW, headers=NDJSON)
    job = served.submit(rows(1), metrics=["mrr"])["id"]
    method, path = request_.split(" ", 1)
    content = None if method == "GET" else ROW
    answer = served.http.request(method, path.replace("JOB", job), content=content, headers=NDJSON)
    document = problem(answer, 422)
    assert PARAMETERS[request_] in document["detail"] + (document.get("where") or "")
    assert "set-cookie" not in answer.headers


def test_the_tables_have_their_hundred_entries():
    assert len(WIRE) + len(UPLOADS) + len(PARAMETERS) + len(BODIES) + len(QUERIES) >= 200
    assert min(map(len, (WIRE, UPLOADS, PARAMETERS, BODIES))) >= 35


def test_memory_stays_where_it_is_whatever_comes(served):
    """The server is in this process. 60 MB is what a body within the limits may need for a moment, thirty times over."""
    bombs = [
        lambda: served.http.put("/v1/datasets/up", content=UPLOADS["a bomb in gzip"][0], headers=UPLOADS["a bomb in gzip"][1]),
        lambda: served.http.post("/v1/jobs", content=b"[" * 1_900_000, headers=JSON),
        lambda: served.http.post("/v1/jobs", content=(b" " * 100_000 for _ in range(400)), headers=JSON),
        lambda: spoken(served, WIRE["a header of 200 KB"][0]),
        lambda: spoken(served, WIRE["20,000 headers"][0]),
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
