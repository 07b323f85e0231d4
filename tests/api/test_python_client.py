"""``ragassay.Client`` against a server that runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from api_server import rows, serving
from polling import until
from ragassay import Client
from ragassay.client import ServiceError
from ragassay.core.errors import (
    BadData,
    BadSettings,
    NothingToEvaluate,
    Unavailable,
)
from ragassay.core.settings import Settings
from redis_server import free_port


def wrong(data):
    return [{**row, "answer": "Elsewhere."} for row in data]


def test_client_wait_outlives_a_short_outage_and_raises_after_two_minutes(served, monkeypatch):
    now = 0.0
    with Client(served.url) as client:
        job = client.submit(rows(2), metrics="mrr")
        answers = [job, Unavailable("down"), job, *[Unavailable("down", retry_after=7.0)] * 4]
        waits = []

        def answer(_):
            nonlocal now
            now += 50
            one = answers.pop(0)
            if isinstance(one, Exception):
                raise one
            return one

        monkeypatch.setattr(client, "job", answer)
        monkeypatch.setattr("ragassay.client.time.monotonic", lambda: now)
        monkeypatch.setattr("ragassay.client.time.sleep", waits.append)
        with pytest.raises(Unavailable):
            client.wait(job)
    assert answers == []  # 100 s after the first failure it polls again, after 150 s it raises
    assert waits[-3:] == [7.0] * 3


def test_a_wrong_key_an_unknown_job_and_a_server_that_is_not_there_are_errors_of_one_line(served, redis):
    with Client(served.url) as client, pytest.raises(ServiceError, match="there is no job '0000") as unknown:
        client.job("0" * 32)
    assert (unknown.value.code, unknown.value.status) == ("not_found", 404)
    with serving(redis.url, Settings.model_construct(bootstrap_key="k" * 20)) as locked:
        with Client(locked.url, "wrong") as client, pytest.raises(ServiceError) as refused:
            client.submit(rows(1), metrics="mrr")
        assert (refused.value.status, "key" in str(refused.value)) == (401, True)
        with Client(locked.url, "k" * 20) as client:
            assert client.submit(rows(1), metrics="mrr").status == "queued"
    with Client(f"http://127.0.0.1:{free_port()}") as nobody, pytest.raises(Unavailable, match="no service answers at"):
        nobody.job("x")
    with pytest.raises(BadSettings, match="'localhost:8400' is not an address"):
        Client("localhost:8400")


def test_what_the_service_refuses_is_said_as_it_says_it(served):
    with Client(served.url) as client:
        with pytest.raises(ServiceError, match="judge: 'http://x/y' is not the name of a model") as refused:
            client.submit(rows(1), judge="http://x/y")
        assert (refused.value.code, refused.value.status) == ("bad_settings", 422)
        with pytest.raises(ServiceError, match="unknown metric 'mrrr'; did you mean mrr"):
            client.submit(rows(1), metrics=["mrrr"])
        with pytest.raises(BadData, match="data: row 2: query: is missing"):
            client.submit([*rows(1), {"answer": "?", "query": None}])
        with pytest.raises(NothingToEvaluate, match="no row has a response"):
            client.submit([{"query": "?"}])
        with pytest.raises(BadSettings, match="the service asks no system of a caller's, such as 'new'"):
            client.submit(rows(1), systems={"new": {"kind": "http", "url": "http://127.0.0.1:1/"}})


def test_the_example_of_the_page_runs_as_it_stands(served, worker):
    page = Path(__file__).parents[2].joinpath("docs", "python.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(import ragassay\n[^`]*ragassay\.Client[^`]*)```", page)
    code = [sys.executable, "-c", example.replace("http://127.0.0.1:8400", served.url)]
    done = subprocess.run(code, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-3:] == ["1 of 1", "1.0 1", "('faithfulness',)"], done.stderr


def test_schedules_are_planned_changed_run_and_deleted(served, worker):
    job = {"dataset": "faq", "metrics": ["mrr"], "gates": [{"mrr": ">= 0.7"}]}
    with Client(served.url) as client:
        client.datasets.import_(rows(4), "faq")
        made = client.schedules.add("nightly", "30 2 * * *", job, zone="Europe/Berlin")
        assert (made.zone, len(made.next), made.last) == ("Europe/Berlin", 5, None)
        with pytest.raises(ServiceError, match="there is a schedule 'nightly' already"):
            client.schedules.add("nightly", "0 3 * * *", job)
        assert client.schedules.add("nightly", "0 3 * * *", job, replace=True).cron == "0 3 * * *"
        assert client.schedules.change("nightly", paused=True).next == ()
        assert client.schedules.run("nightly").trigger == "manual"
        run = until(lambda: next((run for run in client.schedules.runs("nightly") if run.status == "finished"), None))
        assert (run.gates_passed, client.report(run.job).metrics["mrr"].value) == (1, 0.75)
        assert client.job(run.job).planned.schedule == "nightly"

        assert client.schedules.change("nightly", paused=False).next
        assert client.schedules.change("nightly", catch_up="skip").catch_up == "skip"
        assert [one.name for one in client.schedules.list()] == ["nightly"]
        assert client.schedules.show("nightly").last.job == run.job
        client.schedules.delete("nightly")
        assert client.schedules.list() == ()
