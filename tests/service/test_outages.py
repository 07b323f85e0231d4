"""A provider that fails, however it does it, costs a job time, and neither rows nor hundreds of requests.

The waits are the product's own. OUTAGE_S is the length of an outage: 8 s here, two minutes in ``make outages``.
"""

import os
import re
import time

import pytest

from polling import until
from provider import Answer, Provider, empty, good, hang, reset, status
from service.running import Service, rows

OUTAGE_S = float(os.environ.get("OUTAGE_S", "8"))
SWEEP_S, CALL_S = 0.5, 2
ROWS = 50
MOST_REQUESTS = 40  # of a job while its provider is down
FAULTS = {
    "500": status(500),
    "502": status(502),
    "html": lambda seen: Answer(raw=b"<html>busy</html>"),
    "empty": empty,
    "reset": reset,
    "hang": hang,
    "429-for-an-hour": status(429, {"Retry-After": "3600"}),
}


@pytest.fixture(scope="module")
def judges():
    """How the provider answers a model, by the model's name; well, where nothing stands here."""
    return {}


@pytest.fixture(scope="module")
def provider(judges):
    with Provider(then=lambda seen: judges.get(seen.body["model"], good)(seen)) as running:
        yield running


@pytest.fixture(scope="module")
def service(provider):
    with Service(api_base=provider.url, sweep_s=SWEEP_S, traced=False) as running:
        running.ready()
        running.finished(running.submit(rows(2)))  # workers import their libraries with the first job
        yield running


def until_then(moment, fault):
    """``fault`` until the moment, then good replies."""
    return lambda seen: fault(seen) if time.monotonic() < moment else good(seen)


def submit(service, judge, **performance):
    performance = {"cache": False, "timeout_s": CALL_S, **performance}
    return service.submit(rows(ROWS, judge), judge=judge, performance=performance)


def followed(service, jobs, within_s):
    """Wait for the end of jobs; the time that each took, and what each said that it waited for."""
    began, took, waits = time.monotonic(), {}, {name: {} for name in jobs}

    def ended():
        for name in jobs.keys() - took.keys():
            job = service.job(jobs[name])
            if job["waiting"]:
                waits[name][job["waiting"]] = None
            if job["ended_at"]:
                assert job["status"] == "finished", job
                took[name] = time.monotonic() - began
        return len(took) == len(jobs)

    try:
        until(ended, within_s, "the end")
    except AssertionError as error:
        left = [service.job(job) for name, job in jobs.items() if name not in took]
        raise AssertionError(f"{error} of {left}\n{service.logs()}") from None
    return took, {name: list(lines) for name, lines in waits.items()}


def requests(provider, judge, before=float("inf")):
    return sum(seen.body["model"] == judge and seen.t < before for seen in provider.log)


def metrics(service, job):
    return service.report(job)["systems"]["default"]["metrics"]


def test_after_an_outage_every_row_is_scored_and_few_requests_were_made_meanwhile(service, provider, judges, capsys):
    end = time.monotonic() + OUTAGE_S
    jobs = {}
    for name, fault in FAULTS.items():
        judges[f"{name}-for-a-while"] = until_then(end, fault)
        # who asks for an hour is asked again when the time to give up has come
        more = {"provider_outage_timeout_s": OUTAGE_S + 2} if "hour" in name else {}
        jobs[name] = submit(service, f"{name}-for-a-while", **more)
    took, waits = followed(service, jobs, within_s=2 * OUTAGE_S + 120)
    for name, job in jobs.items():
        made = requests(provider, f"{name}-for-a-while", before=end)
        with capsys.disabled():
            print(
                f"\n{name} for {OUTAGE_S:g} s: finished {took[name] - OUTAGE_S:.1f} s after it; {made} requests meanwhile"
            )
        scored = metrics(service, job)
        assert {scored[metric]["n"] for metric in ("faithfulness", "accurate", "mrr")} == {ROWS}
        assert service.job(job)["progress"] == {"rows": ROWS, "done": ROWS, "failed": 0}
        assert made <= MOST_REQUESTS
        assert waits[name], "it did not say what it waited for"
        assert all("; since 2" in line for line in waits[name])


def test_rows_that_failed_are_tried_again_through_a_kill_and_the_others_are_asked_about_once(service, provider, judges):
    judge, mended = "fails-for-some", []

    def asked_about(seen):
        return int(re.search(r"How heavy is \S+ number (\d+)", seen.user)[1])

    def some_fail(seen):
        number = asked_about(seen)
        if mended:
            time.sleep(0.1)  # so that there is time for the kill
        elif number % 5 == 0:
            return Answer(status=413, message="it is too long")
        elif number % 5 == 1:
            return Answer("no verdict")
        return good(seen)

    judges[judge] = some_fail
    job = submit(service, judge, concurrency=1)
    before = service.finished(job)
    assert service.job(job)["progress"]["failed"] == 20
    asked, settled = requests(provider, judge), len(service.settled(job))
    mended.append(True)
    answer = service.client.post(f"/v1/jobs/{job}/retry")
    assert (answer.status_code, answer.json()["progress"]["done"]) == (202, 30)
    assert service.report(job) == before
    until(lambda: len(service.settled(job)) > settled + 5, 60, "calls")
    service.kill_children()
    retried = service.finished(job)
    after = retried["systems"]["default"]
    again = [asked_about(seen) for seen in provider.log if seen.body["model"] == judge][asked:]
    assert {number % 5 for number in again} == {0, 1}
    assert len(set(again)) == 20
    assert len(again) <= 20 + 1, "the call that was on its way when its worker died"
    assert (after["metrics"]["faithfulness"]["n"], service.job(job)["progress"]["failed"]) == (50, 0)
    scores = [{row["query_id"]: row["scores"] for row in one["results"]["default"]} for one in (before, retried)]
    assert sum(scores[0][query] == scores[1][query] for query in scores[0]) == 30
    assert after["evaluation"]["usage"]["calls"] == 50
    assert after["evaluation"]["waste"]["calls"] == before["systems"]["default"]["evaluation"]["waste"]["calls"]
