"""One trace from a request over the queue and a worker's process to the provider; every log line is one JSON object."""

import json
import re

import pytest

from endpoint import CAPITAL, Endpoint
from otlp_receiver import OtlpReceiver
from polling import until
from provider import Provider
from service.running import Service

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
QUESTION = "Which capital is it that nobody may read of in a trace?"
ROWS = [
    {"query_id": f"q{n}", "query": f"{QUESTION} {n}", "ground_truth_answer": "Paris.", "relevant_doc_ids": ["lyon"]}
    for n in range(3)
]
SERVER, CLIENT, PRODUCER, CONSUMER = 2, 3, 4, 5


class Listening(Endpoint):
    """Answers, and keeps the header of each request."""

    def __init__(self):
        super().__init__(lambda _: 0.0)
        self.traceparents = []

    def reply(self, request, body):
        self.traceparents.append(request.headers["traceparent"])
        self.send(request, 200, json.dumps(CAPITAL).encode())


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A job that asked a system and a judge, missed a gate and has ended: its id, what was received, the log lines."""
    path = tmp_path_factory.mktemp("operator") / "systems.yaml"
    with OtlpReceiver() as collector, Provider() as provider, Listening() as endpoint:
        path.write_text(f"systems:\n  online: {{kind: http, url: {endpoint.url}}}\n")
        env = {"OPENAI_API_KEY": "sk-of-the-tests", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        env["PYTHONWARNINGS"] = "ignore:You're running the worker"  # as root, before anything could be set up
        settings = {"log_format": "json", "log_level": "debug", "systems": path, "api_base": provider.url}
        settings |= {"lease_s": 60, "sweep_s": 15}  # on a busy machine too, each chunk is worked on once
        with Service(env={**env, "OTEL_BSP_SCHEDULE_DELAY": "200"}, preload="nothing", **settings) as service:
            body = {"samples": ROWS, "judge": "gpt-4o-mini", "metrics": ["faithfulness", "mrr"], "systems": ["online"]}
            answer = service.client.post(
                "/v1/jobs",
                json={**body, "gates": [{"mrr": ">= 0.8"}]},
                headers={"traceparent": CALLER, "X-Request-ID": "request-7"},
            )
            assert (answer.status_code, answer.headers["x-request-id"]) == (202, "request-7"), answer.text
            job = answer.json()["id"]
            service.finished(job, within_s=120)
            metrics = service.client.get("/metrics").text
            until(lambda: collector.named("job") and collector.named("finalize"), what="the last span")
            service.stop()
            # Celery says past all loggers that it stops, and Redis has a form of its own
            others = re.compile(r"$|worker: |\d+:")
            logs = [line for line in (*service.info, *service.lines) if not others.match(line)]
        yield job, collector, provider, endpoint, logs, metrics


def test_every_span_of_the_job_is_in_the_callers_trace_below_what_caused_it(traced):
    job, collector, *_ = traced
    trace = CALLER.split("-")[1]
    of_job = {span.span: span for span in collector.spans if span.trace == trace}
    by_name = {span.name: span for span in of_job.values()}
    request, submit, chunk = by_name["POST /v1/jobs"], by_name["submit"], by_name["chunk"]
    assert (request.parent, request.kind, request.service) == (CALLER.split("-")[2], SERVER, "ragassay-api")
    assert request.attributes["http.response.status_code"] == 202
    assert (submit.parent, submit.kind) == (request.span, PRODUCER)
    assert (chunk.parent, chunk.kind, chunk.service) == (submit.span, CONSUMER, "ragassay-worker")
    for name in ("chat gpt-4o-mini", "ask system", "commit"):
        assert by_name[name].parent == chunk.span, name
    assert by_name["finalize"].parent == by_name["job"].parent == submit.span
    assert by_name["job"].seconds >= chunk.seconds
    assert {submit.attributes["ragassay.job"], chunk.attributes["ragassay.job"]} == {job}
    # the sweeper may have sent a second wake-up to finalize, which was under way when the worker was stopped
    assert {span.attributes["error.type"] for span in of_job.values() if span.failed} <= {"SystemExit"}


def test_a_call_is_sent_its_span_which_has_the_attributes_of_the_conventions_and_no_text(traced):
    _, collector, provider, endpoint, *_ = traced
    chats = {span.traceparent for span in collector.named("chat gpt-4o-mini")}
    asks = {span.traceparent for span in collector.named("ask system")}
    assert len(chats) == len(provider.log) == 3
    assert {seen.headers["traceparent"][:52] for seen in provider.log} == chats
    assert {header[:52] for header in endpoint.traceparents} == asks

    chat = collector.named("chat gpt-4o-mini")[0]
    assert chat.kind == CLIENT
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert (chat.attributes["gen_ai.request.model"], chat.attributes["gen_ai.provider.name"]) == (
        "gpt-4o-mini",
        "openai",
    )
    assert chat.attributes["gen_ai.usage.input_tokens"] > 0
    assert chat.attributes["gen_ai.usage.output_tokens"] > 0
    assert chat.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert QUESTION in provider.log[0].user
    told = json.dumps([span.attributes for span in collector.spans])
    assert "capital" not in told
    assert "sk-of-the-tests" not in told


def test_every_line_of_every_log_is_an_object_with_the_job_it_is_about(traced):
    job, _, _, _, logs, _ = traced
    lines = [json.loads(line) for line in logs]
    for line in lines:
        assert {"time", "level", "logger", "message"} <= line.keys(), line
    of_job = [line for line in lines if line.get("job") == job]
    events = {line["event"]: line for line in of_job if "event" in line}
    about = {"job": job, "trace": CALLER.split("-")[1]}
    started = events["evaluation_started"]
    assert (started["level"], started["queries"], started["chunk"]) == ("INFO", 3, "online:0")
    assert started.items() >= about.items()
    assert events["query"].items() >= {"level": "DEBUG", "system": "online", "results": 2}.items()
    ended = events["evaluation_ended"]
    assert (ended["level"], ended["P@5"], ended["P@10"], ended["MRR"]) == ("INFO", 0.2, 0.1, 0.5)  # second of two
    missed = events["gate_missed"]
    assert (missed["level"], missed["metric"], missed["value"], missed["threshold"]) == ("ERROR", "mrr", 0.5, 0.8)
    assert events["job_finished"].items() >= {"rows": 3, "rows_failed": 0, **about}.items()
    [request] = [line for line in lines if line.get("request") == "request-7" and line.get("event") == "request"]
    assert (
        request.items()
        >= {"method": "POST", "route": "/v1/jobs", "status": 202, "project": "default", "trace": about["trace"]}.items()
    )
    assert "sk-of-the-tests" not in json.dumps(logs)


def test_what_another_process_did_stands_in_the_numbers_of_the_api(traced):
    *_, metrics = traced
    for line in (
        'ragassay_provider_requests_total{model="gpt-4o-mini",outcome="answered"} 3.0',
        'ragassay_provider_seconds_count{model="gpt-4o-mini"} 3.0',
        'ragassay_system_requests_total{outcome="answered"} 3.0',
        'ragassay_jobs_ended_total{status="finished"} 1.0',
        "ragassay_rows_total 3.0",
        "ragassay_workers 1.0",
    ):
        assert line in metrics.splitlines()
    assert 'ragassay_tokens_total{direction="input",model="gpt-4o-mini",spent_on="judging"}' in metrics
