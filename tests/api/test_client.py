"""``ragassay evaluate --server`` and ``ragassay job``, against a server that runs."""

import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api_server import rows, with_failed_rows
from loopback import LoopbackServer, Quiet
from polling import until
from ragassay.core.errors import BadData
from ragassay.datasets.load import load_rows
from redis_server import free_port

METRICS = "mrr,recall@5,faithfulness"


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "rivers.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows(60)))
    return path


def test_no_command_sends_control_characters_of_a_job_to_the_terminal(cli, submit, served, tmp_path):
    hostile = "a\x1b]52;c;aGk=\x07\rb\x7f\x9b2J\u202e"
    samples = [{**row, "answer": hostile, "category": hostile, "metadata": {hostile: 1}} for row in rows(2)]
    gate = {"metric": "mrr", "min": 1.0, "slice": f"category={hostile}"}
    job = served.submit(samples, name=hostile, metrics=["mrr"], gates=[gate])["id"]
    served.work()
    _, lines, _ = cli("show", "--rows", "--json", job)
    assert [json.loads(line)["answer"] for line in lines.splitlines()] == [hostile] * 2
    for command in (
        ("job", "show", job),
        ("job", "show", job, "--json"),
        ("show", job),
        ("show", "--rows", "--json", job),
        ("job", "show", hostile),
    ):
        _, out, err = cli(*command)
        assert re.findall("[^\n -~]", out + err) == [], command
    assert "name:            a\\u001b]52" in cli("job", "show", job)[1]


def test_submit_prints_the_id_alone_and_the_other_commands_take_it(cli, submit, data, served):
    code, out, err = submit(data, "--metrics", METRICS, "--name", "nightly")
    job = out.strip()
    assert (code, out) == (0, f"{job}\n")
    assert f"ragassay job show {job}" in err
    code, out, _ = cli("job", "show", job)
    assert code == 0
    assert "status:          queued" in out
    assert "nightly" in out
    assert "0 of 60 done" in out
    code, _, err = cli("show", job)
    assert (code, "queued and has no report" in err) == (2, True)
    served.work()
    assert json.loads(cli("job", "show", job, "--json")[1])["status"] == "finished"
    code, out, _ = cli("show", job, "-o", "r.json", "-o", "r.csv")
    assert code == 0
    assert "rivers: 60 queries, judge local" in out
    assert f"{served.url}/v1/jobs/{job}/report" in out
    assert json.loads((data.parent / "r.json").read_text())["systems"]["default"]["queries"] == 60
    assert (data.parent / "r.csv").exists()
    code, out, _ = cli("show", "--rows", "--json", job)
    assert [json.loads(line)["query_id"] for line in out.splitlines()] == [f"q{n}" for n in range(60)]
    code, _, err = cli("job", "cancel", job)
    assert (code, "finished already" in err) == (2, True)


def test_job_list_and_resume(cli, submit, data, served):
    job = submit(data, "--name", "nightly", "--budget-usd", 1)[1].strip()
    assert cli("job", "list", "--status", "paused") == (0, "there is no job\n", "")
    store = served.jobs.store
    store.redis.hset(store.key(job, "meta"), "status", "running")
    store.transition(job, "paused", fields={"error": "the budget of 1 USD is reached"})
    code, out, _ = cli("job", "list")
    assert (code, f"{job}  " in out, "nightly" in out, "paused" in out) == (0, True, True, True)
    assert [one["id"] for one in json.loads(cli("job", "list", "--json")[1])] == [job]
    assert "budget_usd" in cli("job", "resume", job, "--budget-usd", "much")[2]
    code, out, err = cli("job", "resume", job, "--budget-usd", 2, "--budget-tokens", "none")
    assert (code, "status:          running" in out) == (0, True), err


def test_failed_rows_are_tried_again(cli, submit, data, served):
    job = submit(data)[1].strip()
    code, _, err = cli("job", "retry", job)
    assert (code, "is queued; its failed rows can be tried again once it has ended" in err) == (2, True)
    with_failed_rows(served, job)
    assert "60 of 60 done, 50 with a failure" in cli("job", "show", job)[1]
    code, out, _ = cli("job", "retry", job)
    assert (code, "10 of 60 done, 0 with a failure" in out) == (0, True)
    assert json.loads(cli("job", "retry", job, "--json")[1])["retries"] == 1
    served.work()
    assert "60 of 60 done, 0 with a failure" in cli("job", "show", job)[1]
    code, _, err = cli("job", "retry", job)
    assert (code, f"no row of job {job} failed" in err) == (2, True)


def test_waiting_for_a_job_that_its_budget_has_paused_ends_with_4(submit, data, served):
    def pause():
        jobs = until(lambda: served.http.get("/v1/jobs").json()["jobs"])
        store = served.jobs.store
        store.redis.hset(store.key(jobs[0]["id"], "meta"), "status", "running")
        store.transition(jobs[0]["id"], "paused", fields={"error": "the budget of 1 USD is reached"})

    thread = threading.Thread(target=pause)
    thread.start()
    code, out, err = submit(data, wait=True)
    thread.join()
    assert (code, out) == (4, "")
    assert "the budget of 1 USD is reached; resume with a higher one: ragassay job resume" in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nope.jsonl"], 2, "there is no such file"),
        (["rivers.jsonl", "--metrics", "mrrr"], 2, "did you mean mrr"),
        (["rivers.jsonl", "--seed", "-1"], 2, "--seed: should be at least 0"),
        (["rivers.jsonl", "--judge", "http://x/y"], 2, "judges: 'http://x/y' is not the name of a model"),
        (["rivers.jsonl", "-o", "r.json"], 2, "leave out --no-wait"),
        (["rivers.jsonl", "--dry-run"], 2, "leave out --server"),
        (["bare.jsonl"], 5, "no row has a response"),
    ],
)
def test_a_mistake_in_what_is_submitted_is_one_line_and_an_exit_code(submit, data, arguments, code, said):
    (data.parent / "bare.jsonl").write_text('{"query": "Which?", "ground_truth_answer": "This."}\n')
    got, out, err = submit(*arguments)
    assert (got, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["job", "show", "0" * 32], "there is no job"),
        (["job", "show", "../../healthz"], "there is no"),
        (["show", "x", "-o", "r.xyz"], "xyz"),
        (["show", "--rows", "0" * 32], "has no such job"),
        (["job", "show", "x", "--server", "localhost:8400"], "is not an address"),
        (["evaluate", "rivers.jsonl", "--no-wait"], "add --server URL"),
        (["submit", "rivers.jsonl"], "use: ragassay evaluate DATA --server URL"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(cli, data, arguments, said):
    got, out, err = cli(*arguments)
    assert (got, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_without_a_server_it_says_how_to_start_one(submit, data):
    began = time.monotonic()
    code, _, err = submit(data, url=f"http://127.0.0.1:{free_port()}")
    assert (code, "ragassay serve" in err) == (3, True)
    assert time.monotonic() - began < 5


def test_a_server_that_is_none_of_ours_is_noticed(cli):
    class Other(Quiet, BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(502)
            self.end_headers()
            self.wfile.write(b"<html>Bad Gateway</html>")

    with LoopbackServer(Other) as server:
        code, _, err = cli("job", "show", "x", "--server", server.url)
    assert (code, "responded 502, but not as a ragassay service does" in err) == (3, True)


def test_an_answer_that_was_lost_makes_no_second_job(submit, data, served):
    """A proxy that swallows the first answer: the job is made, the client does not hear of it and asks again."""
    host, port = served.url.removeprefix("http://").split(":")

    def pass_on(client, swallow):
        request = client.recv(65536)
        length = int(re.search(rb"content-length: (\d+)", request.lower())[1])
        while len(request.partition(b"\r\n\r\n")[2]) < length:
            request += client.recv(65536)
        with socket.create_connection((host, int(port)), timeout=20) as server:
            server.sendall(request.replace(b"keep-alive", b"close", 1))
            with server.makefile("rb") as answer:
                whole = answer.read()
        if not swallow:
            client.sendall(whole)

    def relay():
        for swallow in (True, False):
            client, _ = listener.accept()
            with client:
                pass_on(client, swallow)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=relay)
        thread.start()
        code, out, err = submit(data, url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join(30)
    assert code == 0, err
    assert [job["id"] for job in served.http.get("/v1/jobs").json()["jobs"]] == [out.strip()]


def test_ctrl_c_while_waiting_says_how_to_go_on(submit, data, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ragassay.client.time.sleep", interrupted)
    code, out, err = submit(data, wait=True)
    assert (code, out) == (130, "")
    assert "the job goes on: ragassay job show" in err


texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
names = st.one_of(
    texts, st.sampled_from(["category", "difficulty", "response", "answer", "a.b", "inputs", "context", "query"])
)
plain = st.recursive(
    st.one_of(texts, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(names, inner, max_size=2)),
    max_leaves=4,
)
ids = st.lists(texts, max_size=3, unique=True)
some_responses = st.fixed_dictionaries(
    {},
    optional={
        "answer": texts,
        "contexts": st.lists(texts, max_size=2),
        "retrieved_doc_ids": ids,
        "cost_usd": st.floats(0, 1e6),
        "latency_ms": st.floats(0, 1e6),
        "input_tokens": st.integers(0, 10**6),
        "error": texts,
        "metadata": st.dictionaries(names, plain, max_size=2),
    },
)
some_rows = st.fixed_dictionaries(
    {"query": texts.filter(str.strip)},
    optional={
        "ground_truth_answer": st.lists(texts, max_size=2),
        "key_facts": st.lists(texts, max_size=2),
        "relevant_doc_ids": ids,
        "category": texts,
        "answerable": st.booleans(),
        "metadata": st.dictionaries(names, plain, max_size=2),
        "labels": st.dictionaries(names, plain, max_size=2),
        "response": some_responses,
    },
)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(some_rows, min_size=1, max_size=4))
def test_what_submit_sends_is_read_as_the_same_dataset(given_rows):
    """Rows become samples, samples are sent as rows, and those become the same samples again."""
    try:
        read = load_rows(given_rows)
    except BadData:
        return
    sent = orjson.loads(orjson.dumps([s.model_dump(mode="json", exclude_defaults=True) for s in read.samples]))
    assert load_rows(sent).digest == read.digest
