"""Whatever is wrong with a request, the answer is a problem document that says what, and the server stays well."""

import json
import socket
import time

import httpx
import pytest

from api_server import problem, rows

JSON = {"Content-Type": "application/json"}
UNKNOWN = "0" * 32
ROW = '{"query":"Which?","answer":"This.","relevant_doc_ids":["a"],"retrieved_doc_ids":["a"]}'


def body(more):
    return '{"samples":[' + ROW + "]" + ("," + more if more else "") + "}"


def row(more):
    return '{"samples":[' + ROW[:-1] + "," + more + "}]}"


BODIES = {
    # JSON that means different things to different readers, or nothing
    "empty": ("", 400, "is not valid JSON"),
    "NaN": (row('"cost_usd": NaN'), 400, "is not valid JSON"),
    "half a surrogate pair": (row(r'"category": "\ud800"'), 400, "is not valid JSON"),
    "not UTF-8": (b'{"name": "\xff", "samples": []}', 400, "byte 0xff at offset 10"),
    "150,000 levels": ('{"samples":' + "[" * 150_000, 400, "nested too deeply"),
    # keys
    "no samples": ("{}", 422, "samples: is missing"),
    "a misspelt key": (body('"metric": ["mrr"]'), 422, "unknown key 'metric'"),
    "the provider's address": (body('"api_base": "http://10.0.0.1"'), 422, "the server's operator does"),
    "a body for the provider": (
        body('"parameters": {"extra_body": {"plugins": [1]}}'),
        422,
        "a job can't set this; the server's operator does",
    ),
    "the provider's key": (body('"api_key": "sk-123"'), 422, "unknown key 'api_key'"),
    "a file of the server": (body('"data": "/etc/passwd"'), 422, "a job can't set this"),
    "code to run": (body('"plugins": ["own.py"]'), 422, "a job can't set this"),
    "a file to write": (body('"output": ["report.json"]'), 422, "a job can't set this"),
    # options
    "a seed as text": (body('"seed": "7"'), 422, "seed: should be a whole number, is '7'"),
    "an address as judge": (body('"judge": "huggingface/http://10.0.0.1/x"'), 422, "not the name of a model"),
    "too many calls at once": (body('"performance": {"concurrency": 33}'), 422, "should be at most 32, the operator's"),
    # rows
    "an id twice": ('{"samples": [' + f"{ROW[:-1]},\"query_id\": 1}},{ROW[:-1]},\"query_id\": 1}}" + "]}", 422, "used already"),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_a_broken_body_is_answered_with_a_problem_that_says_what(served, name):
    content, status, said = BODIES[name]
    answer = served.http.post("/v1/jobs", content=content, headers=JSON)
    document = problem(answer, status)
    assert said in document["detail"] + (document.get("where") or "")
    assert served.http.get("/v1/jobs").json() == {"jobs": [], "next": None}
    assert served.queue.sent == []


QUERIES = {
    "/v1/jobs?limit=201": "limit",
    "/v1/jobs?cursor=%ED%A0%80": "cursor",
    "/v1/jobs?limt=5": "limt",
}


@pytest.mark.parametrize("path", QUERIES)
def test_a_broken_parameter_is_answered_with_a_problem_that_names_it(served, path):
    assert QUERIES[path] in problem(served.http.get(path), 422)["detail"]


@pytest.mark.parametrize("cursor", ["-1", "９", "9" * 20])
def test_a_cursor_of_results_is_one_that_a_page_gave(served, cursor):
    job = served.submit(rows(1), metrics=["mrr"])["id"]
    assert "cursor" in problem(served.http.get(f"/v1/jobs/{job}/results", params={"cursor": cursor}), 422)["detail"]


@pytest.mark.parametrize("job", [UNKNOWN, "a}b{c", "..%2f..%2fmeta"])
@pytest.mark.parametrize("what", ["", "/report", "/results", "/cancel"])
def test_an_unknown_job_is_not_found_wherever_it_is_named(served, job, what):
    method = "POST" if what == "/cancel" else "GET"
    problem(served.http.request(method, f"/v1/jobs/{job}{what}"), 404)
    if not what:
        problem(served.http.post(f"/v1/jobs/{job}/cancel"), 404)


@pytest.mark.parametrize("path", ["/v1", "/v1/jobs/", "//v1/jobs"])
def test_an_unknown_route_is_a_problem_too(served, path):
    assert problem(httpx.get(served.url + path, trust_env=False), 404)["hint"] == "see /openapi.json"


def test_a_method_that_a_route_lacks_is_refused_with_those_it_has(served):
    for method, path, allowed in (
        ("PUT", "/v1/jobs", "GET, POST"),
        ("PATCH", f"/v1/jobs/{UNKNOWN}", "GET"),
        ("GET", f"/v1/jobs/{UNKNOWN}/cancel", "POST"),
        ("POST", "/healthz", "GET"),
        ("OPTIONS", "/v1/jobs", "GET, POST"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ):
        answer = served.http.request(method, path)
        problem(answer, 405)
        assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_a_body_that_is_no_plain_json_by_its_headers_is_refused(served, headers):
    document = problem(served.http.post("/v1/jobs", content=body(""), headers=headers), 415)
    assert document["where"] in ("Content-Type", "Content-Encoding")


def test_a_body_above_the_limit_is_refused_in_one_line_that_says_what_to_do(served):
    content = body('"name": "' + "n" * 2_000_000 + '"')
    document = problem(served.http.post("/v1/jobs", content=content, headers=JSON), 413)
    assert "2,000,000 bytes" in document["detail"]
    assert "ragassay evaluate" in document["hint"]


def test_the_limit_holds_for_a_body_of_unknown_length(served):
    pieces = (b" " * 100_000 for _ in range(50))
    document = problem(served.http.post("/v1/jobs", content=pieces, headers=JSON), 413)
    assert document["code"] == "too_large"


def test_a_body_that_never_ends_is_given_up(served, monkeypatch):
    monkeypatch.setattr("ragassay.api.bodies.LONGEST_S", 0.2)
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(
            f"POST /v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            'Content-Length: 500\r\n\r\n{"samples"'.encode()
        )
        assert raw.recv(4096).startswith(b"HTTP/1.1 408")


def test_a_client_that_goes_away_leaves_the_server_well(served):
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(
            f"POST /v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            'Content-Length: 500\r\n\r\n{"samples"'.encode()
        )
    assert served.http.get("/healthz").status_code == 200


def test_hostile_bodies_within_the_limit_are_dealt_with_in_seconds(served):
    many = range(60_000)
    hostile = [
        {"samples": [{"query": "q", "retrieved_doc_ids": [*map(str, many), "59999"]}]},
        {"samples": [{"query": "q", "answer": "a", **{f"retrieved_doc_{n}": 1 for n in many}}]},
        {"samples": [{"query": "q", "answer": "a", **{f"c{i}_{j}": 1 for j in range(60)}} for i in range(1000)]},
        {"samples": [{"query": "q", "answer": "a", "metadata": {f"m{n}": n for n in many}}]},
    ]
    twice = '{"samples": [{"query": "q", ' + ", ".join(f'"k{n}": 1' for n in [*many, 59999]) + "}]}"
    for content in [*map(json.dumps, hostile), twice]:
        began = time.process_time()
        assert served.http.post("/v1/jobs", content=content, headers=JSON).status_code in (202, 400, 413, 422)
        assert time.process_time() - began < 8
