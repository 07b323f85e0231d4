"""``ragassay.Client``, ``ragassay evaluate --server`` and ``ragassay job``, against a server that runs."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import httpx
import orjson
import pytest

from api_server import rows, with_failed_rows
from loopback import LoopbackServer, Quiet
from polling import until
from ragassay import Client
from ragassay.client import ServiceError
from ragassay.core.errors import BadData, BadSettings, NothingToEvaluate, Unavailable
from redis_server import free_port


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "rivers.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows(60)))
    return path


@pytest.fixture
def client(served):
    with Client(served.url) as client:
        yield client


# --- commands ---


def test_no_command_sends_control_characters_of_a_job_to_the_terminal(cli, served):
    hostile = "a\x1b]52;c;aGk=\x07\rb\x7f\x9b2J\u202e"
    samples = [{**row, "answer": hostile, "category": hostile, "metadata": {hostile: 1}} for row in rows(2)]
    gate = {"metric": "mrr", "min": 1.0, "slice": f"category={hostile}"}
    job = served.submit(samples, name=hostile, metrics=["mrr"], gates=[gate])["id"]
    served.work()
    shown = [cli(*command) for command in (("job", "show", job), ("show", job), ("job", "show", hostile))]
    json_ = [cli(*command, "--json", job) for command in (("job", "show"), ("show", "--rows"))]
    assert re.findall("[^\n -~]", "".join(out + err for _, out, err in (*shown, *json_))) == []
    assert "name:            a\\u001b]52" in shown[0][1]
    assert [json.loads(line)["answer"] for line in json_[1][1].splitlines()] == [hostile] * 2


def test_submit_prints_the_id_alone_and_the_other_commands_take_it(cli, submit, data, served):
    code, out, err = submit(data, "--metrics", "mrr,recall@5,faithfulness", "--name", "nightly")
    job = out.strip()
    assert (code, out) == (0, f"{job}\n")
    assert f"ragassay job show {job}" in err
    code, out, _ = cli("job", "show", job)
    assert code == 0
    assert all(said in out for said in ("status:          queued", "nightly", "0 of 60 done"))
    code, _, err = cli("show", job)
    assert (code, "queued and has no report" in err) == (2, True)
    served.work()
    code, out, _ = cli("show", job, "-o", "r.json", "-o", "r.csv")
    assert code == 0
    assert "rivers: 60 queries, judge local" in out
    assert f"{served.url}/v1/jobs/{job}/report" in out
    assert json.loads((data.parent / "r.json").read_text())["systems"]["default"]["queries"] == 60
    assert (data.parent / "r.csv").exists()
    code, _, err = cli("job", "cancel", job)
    assert (code, "finished already" in err) == (2, True)


def test_a_configuration_as_init_writes_it_can_be_sent(cli, submit, data, served):
    assert cli("info", "init", "written.yaml")[0] == 0
    code, out, err = submit(data, "--config", "written.yaml")
    assert code == 0, err
    assert served.http.get(f"/v1/jobs/{out.strip()}").json()["status"] == "queued"


def pause(served, job):
    store = served.jobs.store
    store.redis.hset(store.key(job, "meta"), "status", "running")
    store.transition(job, "paused", fields={"error": "the budget of 1 USD is reached"})


def test_job_list_and_resume(cli, submit, data, served):
    job = submit(data, "--name", "nightly", "--budget-usd", 1)[1].strip()
    assert cli("job", "list", "--status", "paused") == (0, "there is no job\n", "")
    pause(served, job)
    code, out, _ = cli("job", "list")
    assert (code, f"{job}  " in out, "nightly" in out, "paused" in out) == (0, True, True, True)
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
    code, _, err = cli("job", "retry", job)
    assert (code, f"no row of job {job} failed" in err) == (2, True)


def test_waiting_for_a_job_that_its_budget_has_paused_ends_with_4(submit, data, served):
    def paused():
        pause(served, until(lambda: served.http.get("/v1/jobs").json()["jobs"])[0]["id"])

    thread = threading.Thread(target=paused)
    thread.start()
    code, out, err = submit(data, wait=True)
    thread.join()
    assert (code, out) == (4, "")
    assert "the budget of 1 USD is reached; resume with a higher one: ragassay job resume" in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("evaluate nope.jsonl --no-wait --server URL", 2, "there is no such file"),
        ("evaluate rivers.jsonl --no-wait --server URL --dry-run", 2, "leave out --server"),
        ("evaluate bare.jsonl --no-wait --server URL", 5, "no row has a response"),
        ("evaluate rivers.jsonl --no-wait --server URL --set embeddings=m", 2, "embeddings: a job can't set this; the"),
        ("evaluate rivers.jsonl --no-wait --server NOBODY", 3, "ragassay serve"),
        ("evaluate rivers.jsonl --no-wait", 2, "add --server URL"),
        (f"job show {'0' * 32}", 2, "there is no job"),
        ("job show ../../healthz", 2, "there is no"),
        ("job show x --server OTHER", 3, "responded 502, but not as a ragassay service does"),
        (f"show --rows {'0' * 32}", 2, "here, and there is no job"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(cli, data, served, arguments, code, said):
    class Other(Quiet, BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(502)
            self.end_headers()
            self.wfile.write(b"<html>Bad Gateway</html>")

    (data.parent / "bare.jsonl").write_text('{"query": "Which?", "ground_truth_answer": "This."}\n')
    with LoopbackServer(Other) as other:
        urls = {"URL": served.url, "NOBODY": f"http://127.0.0.1:{free_port()}", "OTHER": other.url}
        got, out, err = cli(*(urls.get(word, word) for word in arguments.split()))
    assert (got, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


def test_an_answer_that_was_lost_makes_no_second_job(client, monkeypatch):
    send, answers = client._http.request, []

    def lose_the_first(*arguments, **options):
        answers.append(send(*arguments, **options))
        if len(answers) == 1:
            raise httpx.ReadError("the connection was lost")
        return answers[-1]

    monkeypatch.setattr(client._http, "request", lose_the_first)
    monkeypatch.setattr("ragassay.client.time.sleep", lambda _: None)
    job = client.submit(rows(2), metrics="mrr")
    assert [one.id for one in client.jobs()] == [job.id]


def test_ctrl_c_while_waiting_says_how_to_go_on(submit, data, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ragassay.client.time.sleep", interrupted)
    code, out, err = submit(data, wait=True)
    assert (code, out) == (130, "")
    assert "the job goes on: ragassay job show" in err


# --- Python ---


def test_client_wait_outlives_a_short_outage_and_raises_after_two_minutes(client, monkeypatch):
    now = 0.0
    job = client.submit(rows(2), metrics="mrr")
    asked = (job, 3.0)  # it asks for three seconds
    answers = iter([asked, Unavailable("down"), asked, *[Unavailable("down", retry_after=7.0)] * 4])
    waits = []

    def answer(_):
        nonlocal now
        now += 50
        if isinstance(one := next(answers), Exception):
            raise one
        return one

    monkeypatch.setattr(client, "_polled", answer)
    monkeypatch.setattr("ragassay.client.time.monotonic", lambda: now)
    monkeypatch.setattr("ragassay.client.time.sleep", waits.append)
    with pytest.raises(Unavailable):
        client.wait(job)
    assert list(answers) == []  # 100 s after the first failure it polls again, after 150 s it raises
    assert waits == [3.0] * 3 + [7.0] * 3


def test_client_wait_polls_as_often_as_the_service_allows(client, served, monkeypatch):
    job = client.submit(rows(2), metrics="mrr")
    assert served.http.get(f"/v1/jobs/{job.id}").headers["retry-after"] == "1"
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        served.work()

    monkeypatch.setattr("ragassay.client.time", SimpleNamespace(sleep=sleep))
    ended = client.wait(job)
    assert waits == [1.0]
    assert (ended.status, "retry-after" in served.http.get(f"/v1/jobs/{job.id}").headers) == ("finished", False)


RETRIEVER = SimpleNamespace(retrieve=lambda query, top_k: [query])


@pytest.mark.parametrize(
    ("given", "error", "code", "said"),
    [
        ({"data": [*rows(1), {"answer": "?", "query": None}]}, BadData, "bad_data", "data: row 2: query: is missing"),
        ({"data": [{"query": "?"}]}, NothingToEvaluate, "nothing_to_evaluate", "no row has a response"),
        ({"systems": {"new": {"kind": "http"}}}, BadSettings, "bad_settings", "no system of a caller's, such as 'new'"),
        ({"systems": {"own": RETRIEVER}}, BadSettings, "bad_settings", "no system of a caller's, such as 'own'"),
        ({"systems": "online"}, ServiceError, "unknown_name", "system 'online'"),
    ],
)
def test_what_can_not_be_submitted_is_said_as_the_service_says_it(client, given, error, code, said):
    with pytest.raises(error, match=said) as refused:
        client.submit(given.pop("data", rows(1)), **given)
    assert refused.value.code == code


def test_schedules_are_planned_changed_run_and_deleted(client, worker):
    job, schedules = {"dataset": "faq", "metrics": ["mrr"], "gates": [{"mrr": ">= 0.7"}]}, client.schedules
    client.datasets.import_(rows(4), "faq")
    assert len(schedules.add("nightly", "30 2 * * *", job, zone="Europe/Berlin").next) == 5
    with pytest.raises(ServiceError, match="there is a schedule 'nightly' already"):
        schedules.add("nightly", "0 3 * * *", job)
    assert schedules.add("nightly", "0 3 * * *", job, replace=True).cron == "0 3 * * *"
    assert schedules.change("nightly", paused=True).next == ()
    assert schedules.run("nightly").trigger == "manual"
    run = until(lambda: next((run for run in schedules.runs("nightly") if run.status == "finished"), None))
    assert (run.gates_passed, client.report(run.job).metrics["mrr"].value) == (1, 0.75)
    assert client.job(run.job).planned.schedule == "nightly"
    assert schedules.show("nightly").last.job == run.job
    schedules.delete("nightly")
    assert schedules.list() == ()
