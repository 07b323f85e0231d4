"""One ``ragassay serve`` that is used, hurt and asked too much: traces, reports, budgets, outages, systems, uploads."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from endpoint import CAPITAL, Endpoint
from offline_runs import without_times, write_jsonl
from otlp_receiver import OtlpReceiver
from polling import patience, slowness, until
from provider import Answer, Provider, empty, good, hang, reset, status, tokens
from ragassay.llm import Prices
from ragassay.service.redis import RedisStore
from redis_server import RedisServer
from service.chaos_checks import MICRO_USD, CapWatch
from service.running import Service, environment, rows, run_up

OUTAGE_S = float(os.environ.get("OUTAGE_S", "8"))  # two minutes in ``make outages``
CALL_S, ROWS, LIVE_ROWS = 2, 50, 120
MAX_REQUESTS = 40  # of a job while its provider is down
FAULTS = {
    "500": status(500),
    "html": lambda seen: Answer(raw=b"<html>busy</html>"),
    "empty": empty,
    "reset": reset,
    "hang": hang,
    "429-for-an-hour": status(429, {"Retry-After": "3600"}),
}
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SERVER, CLIENT, PRODUCER, CONSUMER = 2, 3, 4, 5
RETRIEVAL = {"judge": "local", "metrics": ["ndcg@10", "mrr"]}  # nothing that takes seconds to import
JSON_LINES = {"Content-Type": "application/x-ndjson"}


class Counting(Endpoint):
    """Repeats the query in its answer; ``most`` is how many requests were in flight at once."""

    def __init__(self):
        super().__init__(lambda _: 0.05)
        self.now = self.most = 0

    def answer(self, request):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        super().answer(request)
        with self.lock:
            self.now -= 1

    def reply(self, request, body):
        self.send(request, 200, json.dumps({**CAPITAL, "answer": f"Paris, to {body['query']}"}).encode())


@pytest.fixture(scope="module")
def endpoint():
    with Counting() as system:
        yield system


@pytest.fixture(scope="module")
def judges():
    """How the provider answers a model, by the model's name; well, where nothing stands here."""
    return {}


@pytest.fixture(scope="module")
def provider(judges):
    with Provider(then=lambda seen: judges.get(seen.body["model"], good)(seen), latency_s=0.05) as running:
        yield running


@pytest.fixture(scope="module")
def collector():
    with OtlpReceiver() as running:
        yield running


@pytest.fixture(scope="module")
def service(provider, endpoint, collector, tmp_path_factory):
    path = tmp_path_factory.mktemp("operator") / "systems.yaml"
    slow = {"kind": "http", "url": endpoint.url, "concurrency": 3}
    path.write_text(json.dumps({"systems": {"slow": slow, "rated": {**slow, "rate": 40}}}))
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    env["PYTHONWARNINGS"] = "ignore:You're running the worker"  # as root, before anything could be set up
    settings = {"api_base": provider.url, "systems": path, "log_format": "json"}
    with RedisServer() as broker, Service(broker_url=broker.url, traced=False, env=env, **settings) as running:
        yield running.ready()


@pytest.fixture(scope="module")
def store(service):
    store = RedisStore(service.redis_url)
    yield store
    store.redis.close()


def questions(of, count, relevant="paris"):
    labels = {"ground_truth_answer": "Paris.", "relevant_doc_ids": [relevant]}
    return [{"query_id": f"q{n}", "query": f"{of} {n}?", **labels} for n in range(count)]


def requests(provider, judge, before=float("inf")):
    return sum(seen.body["model"] == judge and seen.t < before for seen in provider.log)


def amounts(store, job):
    names = ("spent_usd", "open_usd", "in_flight", "uncertain_calls")
    found = store.redis.hmget(store.key(job, "meta"), names)
    return {name: float(n or 0) for name, n in zip(names, found, strict=True)}


# --- what operators see ---


def test_a_job_is_one_trace_from_its_request_to_the_provider_and_its_log_lines_say_so(
    service, provider, endpoint, collector
):
    body = {"samples": questions("Secret", 3, "lyon"), "judge": "traced", "systems": ["slow"]}
    body |= {"gates": [{"mrr": ">= 0.8"}], "metrics": ["faithfulness", "mrr"]}
    sent = {"traceparent": CALLER, "X-Request-ID": "request-7"}
    answer = service.client.post("/v1/jobs", json=body, headers=sent)
    assert (answer.status_code, answer.headers["x-request-id"]) == (202, "request-7"), answer.text
    job, trace = answer.json()["id"], CALLER.split("-")[1]
    service.finished(job, within_s=120)
    metrics = service.client.get("/metrics").text

    def spans():
        by_name = {span.name: span for span in collector.spans if span.trace == trace}
        return by_name if {"job", "finalize", "POST /v1/jobs"} <= by_name.keys() else None

    by_name = until(spans, what="the last span")
    request, submit, chunk, chat = (by_name[name] for name in ("POST /v1/jobs", "submit", "chunk", "chat traced"))
    assert (request.parent, request.kind, request.service) == (CALLER.split("-")[2], SERVER, "ragassay-api")
    assert request.attributes["http.response.status_code"] == 202
    assert (submit.parent, submit.kind, submit.attributes["ragassay.job"]) == (request.span, PRODUCER, job)
    assert (chunk.parent, chunk.kind, chunk.service) == (submit.span, CONSUMER, "ragassay-worker")
    assert by_name["finalize"].parent == by_name["job"].parent == submit.span
    assert {by_name[name].parent for name in ("chat traced", "ask system", "commit")} == {chunk.span}
    about = {"operation.name": "chat", "request.model": "traced", "provider.name": "openai"}
    assert chat.attributes.items() >= {f"gen_ai.{name}": value for name, value in about.items()}.items()
    assert (chat.kind, chat.attributes["gen_ai.response.finish_reasons"]) == (CLIENT, ["stop"])
    assert min(chat.attributes[f"gen_ai.usage.{kind}_tokens"] for kind in ("input", "output")) > 0
    seen = {one.headers["traceparent"][:52] for one in provider.log if one.body["model"] == "traced"}
    assert seen == {span.traceparent for span in collector.named("chat traced")}
    asked = {span.traceparent for span in collector.named("ask system") if span.trace == trace}
    assert {line[:52] for sent in endpoint.headers if trace in (line := sent.get("traceparent", ""))} == asked
    assert "Secret" not in json.dumps([span.attributes for span in collector.spans])
    for line in ('requests_total{model="traced",outcome="answered"} 3.0', 'seconds_count{model="traced"} 3.0'):
        assert f"ragassay_provider_{line}" in metrics.splitlines()

    # Celery says past all loggers that it starts and stops, and Redis has a form of its own
    lines = [json.loads(line) for line in (*service.info, *service.lines) if not re.match(r"$|worker: |\d+:", line)]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    for role in ("state", "broker"):
        assert any(re.match(rf"Redis \({role}\) [\d.]+: \d+ MB", line["message"]) for line in lines)
    events = {line["event"]: line for line in lines if line.get("job") == job and "event" in line}
    ended = {"P@5": 0.2, "P@10": 0.1, "MRR": 0.5}  # second of two
    wanted = {"evaluation_started": {"queries": 3, "chunk": "slow:0"}, "evaluation_ended": ended}
    wanted |= {"gate_missed": {"level": "ERROR", "value": 0.5}, "job_finished": {"rows": 3}}
    for event, fields in wanted.items():
        assert events[event].items() >= {"trace": trace, **fields}.items()
    (of_request,) = [line for line in lines if line.get("request") == "request-7" and line.get("event") == "request"]
    assert of_request.items() >= {"route": "/v1/jobs", "status": 202, "project": "default", "trace": trace}.items()


# --- starts and parts ---


def test_serve_answers_within_three_seconds_of_the_command_and_a_second_one_in_its_folder_is_refused(service):
    """By the clock; where other tests keep the machine busy, by the processor time of what has to happen in turn."""
    in_turn = (service.process, service.part("cli serve api"))
    processor = sum(sum(psutil.Process(p.pid).cpu_times()[:2]) for p in in_turn)
    busy = os.getloadavg()[0] > os.cpu_count()
    assert service.took < 3 * slowness() or (busy and processor < 3 * slowness())
    done = run_up("--port", "0", "--data", str(service.data))
    assert (done.returncode, "another 'ragassay serve' works in" in done.stderr) == (2, True)


def test_serve_restarts_what_is_killed(service):
    parts = {"cli serve api": "api", "workers.beat": "scheduler", "celery": "worker", "redis-server": "redis"}
    for word, name in parts.items():
        old = service.part(word)
        os.kill(old.pid, signal.SIGKILL)
        line = f"{name} stopped unexpectedly (signal 9); restarting"
        until(lambda line=line: line in "\n".join(service.lines), 30, service.lines)
        assert service.part(word).pid != old.pid
        assert service.client.get("/healthz").status_code == 200  # the socket stays: a request waits, none is refused
    assert len(service.finished(service.submit(rows(10), **RETRIEVAL))["results"]["default"]) == 10


def test_api_answers_within_seconds_while_redis_hangs(service):
    redis = service.part("redis-server")
    redis.send_signal(signal.SIGSTOP)
    try:
        for path, code, limit_s in (("/healthz", 200, 1), ("/readyz", 503, 3), ("/v1/jobs", 503, 3)):
            began = time.monotonic()
            assert service.client.get(path).status_code == code
            assert time.monotonic() - began < patience(limit_s)
    finally:
        redis.send_signal(signal.SIGCONT)
    until(lambda: service.client.get("/readyz").status_code == 200, 60, "a ready service")


# --- jobs, cancels and budgets ---


def test_a_job_gives_the_report_that_the_command_line_gives(service, provider):
    """All default metrics: the judged ones, the retrieval ones and the one from sentence embeddings."""
    made, before = rows(60), len(provider.log)
    job = service.submit(made, dataset="questions", metrics=None, accurate=None)
    report = service.finished(job, within_s=120)
    assert len(provider.log) - before == 60, "one call for each sample"
    file = write_jsonl(service.folder / "questions.jsonl", made)
    done = subprocess.run(
        [sys.executable, "-m", "ragassay.cli", "evaluate", str(file), "--judge", "gpt-4o-mini", "--json"],
        env=environment(home=service.folder / "cli", api_base=provider.url),
        cwd=service.folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "semantic_similarity" in report["provenance"]["metrics"]
    assert without_times(report) == without_times(json.loads(done.stdout))
    assert service.job(job)["progress"] == {"rows": 60, "done": 60, "failed": 0}


def test_a_small_job_does_not_wait_for_a_large_one_and_a_cancel_lets_only_reserved_calls_through(
    service, provider, store
):
    service.finished(service.submit(rows(2, "first")))  # workers import their libraries with the first job
    large = service.submit(rows(2000, "large"))
    time.sleep(2)
    began = time.monotonic()
    report = service.finished(service.submit(rows(20, "small")))
    assert len(report["results"]["default"]) == 20
    assert time.monotonic() - began < patience(10)
    assert service.job(large)["progress"]["done"] < 2000, "the large job was over, so this shows nothing"
    service.answered("POST", f"/v1/jobs/{large}/cancel").raise_for_status()
    booked, calls = amounts(store, large), len(provider.log)  # a cancel books open calls: they may have been paid
    time.sleep(1)
    assert len(provider.log) - calls <= booked["in_flight"] + booked["uncertain_calls"]
    now = amounts(store, large)
    assert (now["in_flight"], now["open_usd"]) == (0, pytest.approx(0, abs=MICRO_USD))
    assert service.job(large)["status"] == "cancelled"


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_budget_that_is_too_small_is_never_exceeded_and_is_what_the_provider_bills(service, provider, store, share):
    of, uncached = f"capped{share}", {"performance": {"cache": False}}
    whole = service.finished(service.submit(rows(ROWS, f"whole{share}"), **uncached), within_s=120)
    usd = whole["systems"]["default"]["evaluation"]["usage"]["cost_usd"] * share
    job, watch = service.submit(rows(ROWS, of), budget={"usd": usd}, **uncached), CapWatch(store)
    with watch.over(job):
        until(lambda: service.job(job)["status"] == "paused", 120, "its pause")
        time.sleep(0.5)
    prices = Prices()
    bill = sum(prices.cost("gpt-4o-mini", *tokens(s, good(s))) for s in provider.log if f" {of} " in s.user)
    now = amounts(store, job)
    assert (watch.breaches, watch.looks > 10) == ([], True)
    assert bill == pytest.approx(now["spent_usd"], abs=MICRO_USD)
    assert 0 < bill <= usd + MICRO_USD
    assert (now["in_flight"], now["open_usd"]) == (0, pytest.approx(0, abs=MICRO_USD))


# --- a provider that fails ---


def for_a_while(fault, ends, name):
    """``fault`` from the first request on, however late that comes, for the time of an outage; then good replies."""

    def answer(seen):
        return fault(seen) if time.monotonic() < ends.setdefault(name, seen.t + OUTAGE_S) else good(seen)

    return answer


def test_after_an_outage_every_row_is_scored_and_few_requests_were_made_meanwhile(service, provider, judges):
    ends, jobs, waits = {}, {}, {name: set() for name in FAULTS}
    for name, fault in FAULTS.items():
        judges[f"{name}-for-a-while"] = for_a_while(fault, ends, name)
        # who asks for an hour is asked again when the time to give up has come
        more = {"provider_outage_timeout_s": OUTAGE_S + 2} if "hour" in name else {}
        performance = {"cache": False, "timeout_s": CALL_S, **more}
        jobs[name] = service.submit(rows(ROWS, name), judge=f"{name}-for-a-while", performance=performance)

    def ended(name):
        job = service.job(jobs[name])
        waits[name] |= {job["waiting"]} - {None}
        assert job["status"] not in ("failed", "cancelled"), job
        return bool(job["ended_at"])

    until(lambda: [ended(name) for name in jobs].count(True) == len(jobs), 2 * OUTAGE_S + 120, "the end of all jobs")
    for name, job in jobs.items():
        scored = service.report(job)["systems"]["default"]["metrics"]
        assert {scored[metric]["n"] for metric in ("faithfulness", "accurate", "mrr")} == {ROWS}, name
        assert service.job(job)["progress"] == {"rows": ROWS, "done": ROWS, "failed": 0}
        assert requests(provider, f"{name}-for-a-while", before=ends[name]) <= MAX_REQUESTS, name
        assert waits[name], "it did not say what it waited for"


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
    job = service.submit(rows(ROWS, judge), judge=judge, performance={"cache": False, "concurrency": 1})
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
    assert ({number % 5 for number in again}, len(set(again))) == ({0, 1}, 20)
    assert len(again) <= 20 + 1, "the call that was on its way when its worker died"
    assert (after["metrics"]["faithfulness"]["n"], service.job(job)["progress"]["failed"]) == (50, 0)
    assert after["evaluation"]["usage"]["calls"] == 50
    assert after["evaluation"]["waste"]["calls"] == before["systems"]["default"]["evaluation"]["waste"]["calls"]


# --- live systems ---


def live_job(service, system, name):
    asked = questions(name, LIVE_ROWS)
    return service.submit(asked, judge=None, systems=[system], metrics=["mrr"], accurate=None)


def test_a_killed_worker_asks_a_live_system_no_answered_query_again_and_the_report_is_whole(service, endpoint):
    def answered():
        """The queries whose answers are in the journal at this moment."""
        return {json.loads(text)["answer"].removeprefix("Paris, to ") for text in service.settled(job)}

    endpoint.asked.clear()
    job = live_job(service, "slow", "killed")
    until(lambda: len(answered()) >= 20, 30, "some answers")
    parent = service.part("celery")
    os.kill(parent.pid, signal.SIGSTOP)  # so that it starts no other child before we have looked
    service.kill_children()
    before = answered()
    os.kill(parent.pid, signal.SIGCONT)
    report = service.finished(job, within_s=120)
    asked = Counter(body["query"] for body, *_ in filter(None, endpoint.asked))
    again = {query: times for query, times in asked.items() if times > 1}
    assert not before & again.keys()
    assert len(asked) == LIVE_ROWS
    assert sum(times - 1 for times in again.values()) <= 3, "only what was in flight is asked again"
    assert report["systems"]["slow"]["metrics"]["mrr"]["value"] == 1.0
    assert len({row["query_id"] for row in report["results"]["slow"]}) == LIVE_ROWS


def test_caps_of_a_live_system_hold_over_all_workers_and_jobs_which_take_turns(service, endpoint):
    endpoint.asked.clear()
    endpoint.most = 0
    jobs = [live_job(service, "rated", name) for name in ("one", "two")]
    for job in jobs:
        service.finished(job, within_s=120)
    assert endpoint.most <= 3
    arrivals = sorted(arrived for _, arrived, _ in endpoint.asked)
    # 240 queries at 40 a second; six chunks of 50 or 20, each of which begins anew: at most one query too early for each
    assert (2 * LIVE_ROWS - 6) / (arrivals[-1] - arrivals[0]) <= 40 * 1.05
    order = "".join(body["query"][0] for body, *_ in endpoint.asked)  # of the first job "o", of the second "t"
    assert order.index("t") < order.rindex("o"), "the second waited for the whole of the first"


# --- uploads ---


@pytest.mark.timeout(180)
def test_an_upload_of_many_rows_leaves_the_memory_of_the_api_as_it_was(service):
    text = "the quick brown fox jumps over the lazy dog " * 10
    row = {"answer": text, "ground_truth": text, "contexts": [text]}
    process = Path(f"/proc/{service.part('cli serve api').pid}")
    lines = (
        json.dumps({"query_id": f"q{n}", "query": f"{n}?", **row}).encode() + b"\n" for n in range(20_000)
    )  # 27 MB

    def max_resident():
        """The most bytes in memory since the mark was reset."""
        return int(re.search(r"VmHWM:\s+(\d+)", (process / "status").read_text())[1]) * 1024

    shadow = service.folder / "pickle.py"
    shadow.write_text("raise SystemExit('imported from the folder it was started in')")
    small = service.client.put("/v1/datasets/small", content=b'{"query": "?"}\n', headers=JSON_LINES)
    assert small.status_code == 201, service.logs()
    (process / "clear_refs").write_text("5")
    before = max_resident()
    sent = service.client.put("/v1/datasets/large", content=lines, headers=JSON_LINES, timeout=120)
    shadow.unlink()
    assert (sent.status_code, sent.json()["rows"]) == (201, 20_000)
    assert max_resident() - before < 20_000_000
    assert list((service.folder / "home" / "uploads").iterdir()) == []
