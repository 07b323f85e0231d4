"""What is traced and counted costs nothing where nobody looks, and never gets in the way of the work."""

import json
import logging
import subprocess
import sys

import pytest

from otlp_receiver import OtlpReceiver
from ragassay import observability
from ragassay.core.errors import MissingExtra, Unavailable
from ragassay.core.settings import Settings


@pytest.fixture
def collector(monkeypatch):
    with OtlpReceiver() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
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
        f"observability.start_tracing(Settings(), 'worker'); print({{*{f'{HEAVY} {others}'.split()!r}}} & {{*sys.modules}} or '')"
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
    observability.start_tracing(Settings(), "worker")

    def fail(error):
        with observability.span("failing"):
            raise error

    for error in (Unavailable("a secret"), ValueError("a secret")):
        with pytest.raises(type(error)):
            fail(error)
    observability.stop_tracing(within_s=20)
    assert [span.attributes for span in collector.spans] == [
        {"error.type": "unavailable"},
        {"error.type": "ValueError"},
    ]
    assert all(span.failed for span in collector.spans)


def test_a_job_goes_on_with_the_trace_of_its_record(collector):
    observability.start_tracing(Settings(trace_headers=False), "worker")
    with observability.span("submit", "producer"):
        parent = observability.traceparent()
        assert dict(observability.headers()) == {}  # the operator wants none sent
    with observability.span("chunk", parent=parent, began_ms=1_000):
        line = json.loads(observability.JsonLines().format(logging.makeLogRecord({"msg": "x"})))
        assert line["trace"] == parent.split("-")[1]
    observability.stop_tracing(within_s=20)
    submit, chunk = collector.named("submit")[0], collector.named("chunk")[0]
    assert (chunk.trace, chunk.parent) == (submit.trace, submit.span)
    assert chunk.seconds > 1_000_000_000  # since 1970
    assert observability.traceparent() is None


def test_traces_that_are_asked_for_need_the_extra_and_a_variable_of_the_machine_is_only_a_warning(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingExtra, match="sending traces needs the extra 'traces'"):
        observability.start_tracing(Settings(traces=True), "api")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    observability.start_tracing(Settings(), "api")
    assert "nothing is traced: sending traces needs the extra 'traces'" in caplog.text
    caplog.clear()
    observability.start_tracing(Settings(traces=False), "api")
    assert caplog.text == ""
    assert observability.traceparent() is None
