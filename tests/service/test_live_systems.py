"""Live systems asked by real workers: over kills, and within their caps whatever many workers and jobs there are."""

import json
import os
import signal
from collections import Counter

import pytest

from endpoint import CAPITAL, Endpoint
from polling import until
from service.running import Service

ROWS = 120
QUESTIONS = [
    {
        "query_id": f"q{n}",
        "query": f"What is capital {n}?",
        "ground_truth_answer": "Paris.",
        "relevant_doc_ids": ["paris"],
    }
    for n in range(ROWS)
]


class Counting(Endpoint):
    """Repeats the query in its answer; ``most`` is how many requests were in flight at once."""

    def __init__(self):
        super().__init__(lambda _: 0.05)
        self.now = self.most = 0

    def answer(self, request):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            super().answer(request)
        finally:
            with self.lock:
                self.now -= 1

    def reply(self, request, body):
        self.send(request, 200, json.dumps({**CAPITAL, "answer": f"Paris, to {body['query']}"}).encode())


@pytest.fixture(scope="module")
def endpoint():
    with Counting() as system:
        yield system


@pytest.fixture(scope="module")
def service(endpoint, tmp_path_factory):
    path = tmp_path_factory.mktemp("operator") / "systems.yaml"
    path.write_text(
        f"systems:\n  slow: {{kind: http, url: {endpoint.url}, concurrency: 3}}\n"
        f"  rated: {{kind: http, url: {endpoint.url}, concurrency: 3, rate: 40}}\n"
    )
    with Service(workers=3, systems=path, preload="nothing") as running:
        yield running.ready()


def submit(service, systems, rows=QUESTIONS):
    return service.submit(rows, judge=None, systems=systems, metrics=["mrr"], accurate=None)


def settled(service, job):
    """The queries whose answers are in the journal at this moment."""
    return {json.loads(text)["answer"].removeprefix("Paris, to ") for text in service.settled(job)}


def test_a_killed_worker_asks_no_answered_query_again_and_the_report_is_whole(service, endpoint, capsys):
    endpoint.asked.clear()
    job = submit(service, ["slow"])
    until(lambda: len(settled(service, job)) >= 20, 30, "some answers")
    parent = service.part("celery")
    os.kill(parent.pid, signal.SIGSTOP)  # so that it starts no other child before we have looked
    busy = [child for child in parent.children() if child.is_running()]
    for child in busy:
        os.kill(child.pid, signal.SIGKILL)
    answered = settled(service, job)
    os.kill(parent.pid, signal.SIGCONT)
    report = service.finished(job, within_s=120)
    asked = Counter(body["query"] for body, *_ in filter(None, endpoint.asked))
    again = {query: times for query, times in asked.items() if times > 1}
    with capsys.disabled():
        print(f"\nkilled after {len(answered)} answers: {len(again)} of {ROWS} queries were asked again")
    assert not answered & again.keys()
    assert set(asked) == {row["query"] for row in QUESTIONS}
    assert sum(times - 1 for times in again.values()) <= 3, "only what was in flight is asked again"
    system = report["systems"]["slow"]
    assert (system["queries"], system["failed_responses"], system["metrics"]["mrr"]["value"]) == (ROWS, 0, 1.0)
    assert len({row["query_id"] for row in report["results"]["slow"]}) == ROWS


def test_caps_hold_over_all_workers_and_jobs(service, endpoint):
    endpoint.asked.clear()
    endpoint.most = 0
    jobs = [submit(service, ["rated"]) for _ in range(2)]
    for job in jobs:
        service.finished(job, within_s=120)
    assert endpoint.most <= 3
    arrivals = sorted(arrived for _, arrived, _ in endpoint.asked)
    # 240 queries at 40 a second; six chunks of 50 or 20, each of which begins anew: at most one query too early for each
    took_s = arrivals[-1] - arrivals[0]
    assert (2 * ROWS - 6) / took_s <= 40 * 1.05


def test_jobs_that_want_the_same_system_take_turns(service, endpoint):
    endpoint.asked.clear()
    # long enough for the second to be submitted meanwhile on a busy machine
    many = [
        {**row, "query_id": f"{n}-{row['query_id']}", "query": f"{n} {row['query']}"}
        for n in range(3)
        for row in QUESTIONS
    ]
    first = submit(service, ["slow"], many)
    until(lambda: len(endpoint.asked) > 5, 30, "the first job's beginning")
    second = submit(service, ["slow"], [{**row, "query": f"second {row['query']}"} for row in QUESTIONS])
    for job in (first, second):
        service.finished(job, within_s=120)
    order = [body["query"].startswith("second") for body, *_ in endpoint.asked]
    assert order.index(True) < len(order) - 1 - order[::-1].index(False), "the second waited for the whole of the first"
