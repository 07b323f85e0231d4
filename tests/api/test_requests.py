"""Whatever is wrong with a request, the answer is a problem document that says what, and the server stays well."""

import gzip
import json
import os
import socket
import threading
import time

import httpx
import psutil
import pytest

from api_server import problem, rows
from polling import slowness
from ragassay.api.submission import JobRequest, read
from ragassay.config import ProjectConfig
from ragassay.core.errors import BadData
from ragassay.core.eval_config import EvalConfig, RunConfig
from ragassay.core.settings import Settings
from ragassay.service.registered import Registered

JSON = {"Content-Type": "application/json"}
UNKNOWN = "0" * 32
ROW = '{"query":"Which?","answer":"This.","relevant_doc_ids":["a"],"retrieved_doc_ids":["a"]}'


def body(more=""):
    return '{"samples":[' + ROW + "]" + ("," + more if more else "") + "}"


def row(more):
    return '{"samples":[' + ROW[:-1] + "," + more + "}]}"


OPERATOR = [
    ("api_base", '"api_base": "http://10.0.0.1"'),
    ("embeddings", '"embeddings": "ours"'),
    ("bertscore_model", '"bertscore_model": null'),
    ("judge_prompt", '"judge_prompt": {"name": "own.md", "text": "Be kind."}'),
    ("extra_body", '"extra_body": {}'),
    ("requests_per_minute", '"requests_per_minute": 7'),
    ("parameters.extra_body", '"parameters": {"temperature": 0, "extra_body": {}}'),
    ("performance.requests_per_minute", '"performance": {"requests_per_minute": 7}'),
    ("performance.tokens_per_minute", '"performance": {"batch": 5, "tokens_per_minute": 7}'),
]
BODIES = {
    # JSON that means different things to different readers, or nothing
    "NaN": (row('"cost_usd": NaN'), 400, "is not valid JSON"),
    "not UTF-8": (b'{"name": "\xff", "samples": []}', 400, "byte 0xff at byte 11"),
    "150,000 levels": ('{"samples":' + "[" * 150_000, 400, "nested too deeply"),
    # keys
    "a misspelt key": (body('"metric": ["mrr"]'), 422, "unknown key 'metric'"),
    **{
        f"the operator's key {where}": (body(sent), 422, f"the server's operator does{where}")
        for where, sent in OPERATOR
    },
    "two of the operator's keys: the first": (
        body('"performance": {"tokens_per_minute": 7, "requests_per_minute": 7}'),
        422,
        "performance.tokens_per_minute",
    ),
    "code to run": (body('"plugins": ["own.py"]'), 422, "a job can't set this"),
    # options
    "too many calls at once": (body('"performance": {"concurrency": 33}'), 422, "should be at most 32, the operator's"),
    # rows
    "responses of several systems in a list": (
        row('"responses": [{"answer": "A."}]'),
        422,
        "should be {system: response}",
    ),
    "an id twice": ('{"samples": [' + f'{ROW[:-1]},"query_id": 1}},' * 2 + ROW + "]}", 422, "used already"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_broken_body_is_answered_with_a_problem_that_says_what(served, name):
    content, status, said = BODIES[name]
    document = problem(served.http.post("/v1/jobs", content=content, headers=JSON), status)
    assert said in document["detail"] + (document.get("where") or "")
    assert served.http.get("/v1/jobs").json() == {"jobs": [], "next": None}
    assert served.queue.sent == []


def test_warnings_say_which_keys_of_a_row_to_rename():
    row = {"query": "Who?", "relevant_doc_ids": ["a"], "Bot reply": "Ann.", "old_truth": "a", "new_truth": "b"}
    _, inputs, _ = read(json.dumps({"samples": [row]}).encode(), Settings(), Registered(), None)
    assert inputs.dataset.warnings == (
        "Bot reply is kept as metadata; did you mean answer? rename Bot reply to answer",
        (
            "old_truth and new_truth are kept as metadata; did you mean ground_truth_answer? "
            "rename old_truth to ground_truth_answer or rename new_truth to ground_truth_answer"
        ),
    )
    with pytest.raises(BadData) as refused:
        read(b'{"samples": [{"Frage": "Who?", "answer": "I."}]}', Settings(), Registered(), None)
    assert refused.value.hint == "call the keys as we do: ragassay info schema sample"


@pytest.mark.parametrize("value", [[[[]]], {"no such key": [[]]}, 1e300, -7.5], ids=str)
def test_a_wrong_value_of_any_key_is_refused_by_its_name(served, value):
    body = {"samples": rows(1), "metrics": ["mrr"]}
    for key in JobRequest.model_fields:
        document = problem(served.http.post("/v1/jobs", json={**body, key: value}), 422)
        assert key in document["detail"] + (document.get("where") or ""), (key, document)
    assert served.queue.sent == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/v1/jobs?cursor=%ED%A0%80", 422, "cursor"),
        ("/v1/jobs?limt=5", 422, "limt"),
        ("/v1/jobs/JOB/results?where=mrr", 422, "where[0]: should be a figure and a bound"),
        ("/v1/jobs/JOB/results?failure=x", 422, "failure: should be 'answered_the_unanswerable', 'wrong_refusal',"),
        *((f"/v1/jobs/JOB/results?cursor={cursor}", 422, "cursor") for cursor in ("-1", "９", "9" * 20)),
        *((f"/v1/jobs/{job}{what}", 404, "no job") for job in (UNKNOWN, "a}b{c") for what in ("", "/report", "/results")),
        ("/v1/jobs/a%0d%0aSet-Cookie:b=c", 404, "no job"),
        ("//v1/jobs", 404, "no route"),
    ],
)  # fmt: skip
def test_a_broken_address_is_answered_with_a_problem_that_names_it(served, path, status, said):
    if "JOB" in path:
        path = path.replace("JOB", served.submit(rows(1), metrics=["mrr"])["id"])
    assert said in problem(httpx.get(served.url + path, trust_env=False, timeout=60), status)["detail"]


def test_a_method_or_a_kind_of_body_that_a_route_does_not_take_is_refused(served):
    answer = served.http.put("/v1/jobs")
    problem(answer, 405)
    assert answer.headers["allow"] == "GET, POST"
    for wrong in ({"Content-Type": "text/plain"}, {**JSON, "Content-Encoding": "gzip"}):
        document = problem(served.http.post("/v1/jobs", content=body(), headers=wrong), 415)
        assert document["where"] in ("Content-Type", "Content-Encoding")


def test_a_body_above_the_limit_is_refused_whatever_its_length_is_said_to_be(served):
    for content in (body('"name": "' + "n" * 2_000_000 + '"'), (b" " * 100_000 for _ in range(50))):
        document = problem(served.http.post("/v1/jobs", content=content, headers=JSON), 413)
        assert "2,000,000 bytes" in document["detail"]
        assert "ragassay evaluate" in document["hint"]


def test_a_body_that_never_ends_is_given_up(served, monkeypatch):
    monkeypatch.setattr("ragassay.api.bodies.LONGEST_S", 0.2)
    host, port = served.url.removeprefix("http://").split(":")
    head = ("POST /v1/jobs HTTP/1.1", f"Host: {host}", "Content-Type: application/json", "Content-Length: 500", "", "")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall("\r\n".join(head).encode() + b'{"samples"')
        assert raw.recv(4096).startswith(b"HTTP/1.1 408")


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
        assert time.process_time() - began < 8 * slowness()


def test_memory_stays_where_it_is_whatever_comes(served):
    """The server is in this process. 60 MB is what a body within the limits may need for a moment, eighteen times over."""
    bomb = gzip.compress(bytes(10**8))
    packed = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
    process, used = psutil.Process(os.getpid()), []
    for _ in range(7):
        problem(served.http.put("/v1/datasets/up", content=bomb, headers=packed), 415)
        problem(served.http.post("/v1/jobs", content=b"[" * 1_900_000, headers=JSON), 413)
        problem(served.http.post("/v1/jobs", content=(b" " * 100_000 for _ in range(400)), headers=JSON), 413)
        used.append(process.memory_info().rss)
    assert used[-1] - used[0] < 60_000_000


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


def test_who_may_set_a_key_is_decided_by_which_model_has_it():
    for base, adding in ((EvalConfig, RunConfig), (RunConfig, ProjectConfig), (EvalConfig, JobRequest)):
        assert issubclass(adding, base)
        assert adding.model_fields.keys() > base.model_fields.keys()
    operators = RunConfig.model_fields.keys() - EvalConfig.model_fields.keys()
    assert operators == {"api_base", "embeddings", "bertscore_model", "judge_prompt"}
    assert not operators & JobRequest.model_fields.keys()
    for section, more in (
        ("parameters", {"extra_body"}),
        ("performance", {"requests_per_minute", "tokens_per_minute"}),
    ):
        of_job, of_run = (model.model_fields[section].annotation for model in (JobRequest, ProjectConfig))
        assert issubclass(of_run, of_job)
        assert of_run.model_fields.keys() - of_job.model_fields.keys() == more
