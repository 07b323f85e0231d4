"""What is traced, counted and logged: it costs nothing where nobody looks, and never gets in the way of the work."""

import asyncio
import io
import json
import logging
import re
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from offline_runs import evaluated, new_run, sample
from otlp_receiver import OtlpReceiver
from ragassay import observability
from ragassay.core.errors import Unavailable
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Response
from ragassay.core.settings import Settings


@pytest.fixture
def collector(monkeypatch):
    with OtlpReceiver() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        monkeypatch.setattr(observability, "LAST_SPANS_S", 20.0)
        yield running
        observability.stop_tracing()


HEAVY = "litellm torch sentence_transformers opentelemetry.exporter google.protobuf"


@pytest.mark.parametrize(
    ("modules", "others"),
    [
        # redis and FastAPI import OpenTelemetry's interface by themselves where it is installed
        ("ragassay_workers.tasks, ragassay_workers.beat", "fastapi prometheus_client"),
        ("ragassay.api.app", ""),
    ],
)
def test_without_a_collector_no_process_imports_what_sends_spans_or_is_heavy_or_reads_the_environment(modules, others):
    code = (
        f"import os, sys; os.environ['RAGASSAY_LEASE_S'] = 'nonsense'; import {modules}; del os.environ['RAGASSAY_LEASE_S']\n"
        "from ragassay import observability; from ragassay.core.settings import Settings\n"
        f"observability.start_tracing('worker'); print({{*{f'{HEAVY} {others}'.split()!r}}} & {{*sys.modules}} or '')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "\n"


def test_what_was_counted_is_taken_once():
    observability.take_counted()
    observability.count("rows", amount=2)
    observability.count("rows")
    observability.observe("provider_seconds", "m", seconds=61.0)
    taken = observability.take_counted()
    assert taken == {"rows": 3, "provider_seconds\x1fm\x1f+Inf": 1, "provider_seconds_sum\x1fm": 61.0}
    assert observability.take_counted() == {}


def test_a_span_that_fails_has_the_code_of_the_error_and_not_its_message(collector):
    observability.start_tracing("worker")

    def fail(error):
        with observability.span("failing"):
            raise error

    for error in (Unavailable("a secret"), ValueError("a secret")):
        with pytest.raises(type(error)):
            fail(error)
    observability.stop_tracing()
    assert [span.attributes for span in collector.spans] == [
        {"error.type": "unavailable"},
        {"error.type": "ValueError"},
    ]
    assert all(span.failed for span in collector.spans)


def test_a_job_goes_on_with_the_trace_of_its_record(collector, monkeypatch):
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    observability.start_tracing("worker")
    with observability.span("submit", "producer"):
        parent = observability.traceparent()
        assert dict(observability.headers()) == {}  # the operator wants none sent
    with observability.span("chunk", parent=parent, began_ms=1_000):
        line = json.loads(observability.JsonLines().format(logging.makeLogRecord({"msg": "x"})))
        assert line["trace"] == parent.split("-")[1]
    observability.stop_tracing()
    submit, chunk = collector.named("submit")[0], collector.named("chunk")[0]
    assert (chunk.trace, chunk.parent) == (submit.trace, submit.span)
    assert chunk.seconds > 1_000_000_000  # since 1970
    assert observability.traceparent() is None


def test_traces_without_the_extra_are_a_warning(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    observability.start_tracing("api")
    assert "nothing is traced: sending traces needs the extra 'traces'" in caplog.text
    assert observability.traceparent() is None


def test_start_end_and_misses_are_logged_without_a_metric_being_asked_for_them(tmp_path, caplog):
    # paris is the relevant one. q1: rank 1; q2: not found; q3: no response; q4: not judged
    missed = sample(2, response=Response(retrieved_doc_ids=["lyon"]))
    samples = [sample(1), missed, sample(3, response=None), sample(4, relevant_doc_ids=None)]
    with caplog.at_level("DEBUG", "ragassay"):
        report = evaluated(new_run(tmp_path, samples, RunConfig(metrics=("recall@3",)), systems=("bm25",)))
    ours = [record for record in caplog.records if record.name == "ragassay"]
    records = [(record.levelname, re.sub(r"\d{8}-[-\w]+", "RUN", record.getMessage())) for record in ours]
    queries = [text for level, text in records if level == "DEBUG"]
    assert (len(queries), re.fullmatch(r"bm25: query q1: 2 results in \d+\.\d{3} ms", queries[0]) is None) == (4, False)
    assert [record for record in records if record[0] != "DEBUG"] == [
        ("INFO", "evaluation of 4 queries starts: RUN, systems bm25"),
        ("WARNING", "bm25: query q2 has no relevant result"),
        ("WARNING", "bm25: query q3 has no relevant result"),
        # three judged queries: 1/5 / 3, 1/10 / 3, 1 / 3
        ("INFO", "evaluation of 4 queries ends: RUN, system bm25: P@5 0.067, P@10 0.033, MRR 0.333"),
    ]
    assert [row.relevant_ranks for row in report.results["bm25"]] == [(1,), (), (), None]


@pytest.mark.parametrize("event", ["after_setup_logger", "after_setup_task_logger"])
def test_what_a_worker_logs_of_data_stays_on_its_line_and_acts_on_no_terminal(event):
    from celery import signals

    import ragassay_workers.process  # noqa: F401 - it listens to Celery's events

    stream, logger = io.StringIO(), logging.getLogger("of a worker")
    logger.addHandler(logging.StreamHandler(stream))
    try:
        getattr(signals, event).send(None, logger=logger, loglevel=0, logfile=None, format="", colorize=False)
        logger.error("gate missed: %s", "\x1b[2Jhybrid\nERROR all is well")
    finally:
        logger.handlers.clear()
    assert stream.getvalue() == "gate missed: \\u001b[2Jhybrid\\nERROR all is well\n"


def written(settings, log):
    """What a handler writes of what ``log`` does with a logger of ours."""
    stream, logger = io.StringIO(), logging.getLogger("ragassay.of-a-test")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    observability.prepare_handler(handler, settings)
    logger.addHandler(handler)
    logger.propagate = False  # what pytest-xdist is told of a test has to be UTF-8
    try:
        log(logger)
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
    return stream.getvalue()


def test_a_line_is_one_object_whatever_the_data_holds():
    odd = 'a "quote"\n\u2028\x1b[2J\ud800 é' + "x" * 10_000

    def log(logger):
        with observability.about(job="j", chunk="default:0", schedule=None):
            logger.error("gate missed: %s", odd, extra={"event": "gate_missed", "value": float("nan"), "metric": odd})

    text = written(Settings(log_format="json"), log)
    assert text.isascii()
    assert len(text.splitlines()) == 1
    line = json.loads(text)
    assert (line["level"], line["event"], line["job"], line["chunk"]) == ("ERROR", "gate_missed", "j", "default:0")
    assert line["value"] == "nan"
    assert "schedule" not in line
    assert len(line["message"]) < 2100
    assert len(line["metric"]) < 2100
    assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)


def test_the_fields_are_those_of_the_work_under_way_also_in_tasks_and_threads():
    def log(logger):
        async def work(job):
            with observability.about(job=job):
                await asyncio.sleep(0)
                await asyncio.to_thread(logger.error, "x")

        async def both():
            with observability.about(request="r"):
                await asyncio.gather(work("a"), work("b"))

        asyncio.run(both())
        logger.error("x")

    lines = [json.loads(line) for line in written(Settings(log_format="json"), log).splitlines()]
    assert sorted((line.get("job"), line.get("request")) for line in lines[:2]) == [("a", "r"), ("b", "r")]
    assert "job" not in lines[2]


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_key_and_no_password_of_the_settings_is_written(form, monkeypatch):
    monkeypatch.setenv("SOME_PROVIDERS_API_KEY", "sk-secret-1")
    secrets = {"metrics_key": "secret-of-the-scraper", "bootstrap_key": "secret-of-the-operator"}
    settings = Settings(log_format=form, state_url="redis://user:secret-of-redis@h:1/0", **secrets)

    def log(logger):
        logger.error("%s %s", "sk-secret-1", "redis://user:secret-of-redis@h", extra={"why": "secret-of-the-scraper"})
        try:
            raise ValueError("secret-of-the-operator")
        except ValueError:
            logger.exception("it failed")

    text = written(settings, log)
    assert "secret" not in text
    assert text.count("***") == (5 if form == "json" else 4)  # text has no fields
    assert "Traceback" in text


def test_the_command_line_logs_each_gate_missed_as_an_error(tmp_path, cli, monkeypatch):
    row = {"query_id": "q\nERROR forged", "query": "?", "relevant_doc_ids": ["a"], "retrieved_doc_ids": ["b", "a"]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (tmp_path / "ragassay.yaml").write_text("data: rows.jsonl\nmetrics: [mrr]\ngates:\n  - mrr: '>= 0.8'\n")

    def said(*options):
        logging.getLogger().handlers.clear()  # those of pytest, for which a command sets up none
        code, _, err = cli(*options, "gate", "--json")
        assert code == 1
        return err

    assert "gate missed:" not in said()
    assert re.search(r"ERROR gate missed: run=\S+ metric=mrr value=0.500 threshold=0.8: ", said("-v"))
    assert "DEBUG default: query q\\nERROR forged: 2 results in " in said("-vv")
    monkeypatch.setenv("RAGASSAY_LOG_FORMAT", "json")
    lines = [json.loads(line) for line in said("-v").splitlines() if line.startswith("{")]
    events = {line["event"]: line for line in lines if "event" in line}
    assert events["gate_missed"].items() >= {"level": "ERROR", "value": 0.5, "threshold": 0.8}.items()
    assert events["evaluation_ended"].items() >= {"P@5": 0.2, "P@10": 0.1, "MRR": 0.5}.items()
