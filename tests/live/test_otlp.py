"""``POST /v1/traces`` as exporters meet it: OpenTelemetry's own, and bodies that are wrong."""

import gzip
import json

import pytest
from google.protobuf.internal.encoder import _VarintBytes
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from api.projects import BOOTSTRAP, caller, keyed_server, made_key
from otlp_receiver import in_hex
from ragassay.datasets.traces import TraceSpan
from ragassay.live import otlp, store
from ragassay.live.traffic import LiveTraffic

PROTOBUF = "application/x-protobuf"
BINARY, JSON = {"Content-Type": PROTOBUF}, {"Content-Type": "application/json"}
PACKED = {**BINARY, "Content-Encoding": "gzip"}


@pytest.fixture(scope="module")
def served():
    with keyed_server(live_redacted=("user.*", "metadata.email", "error")) as served:
        served.key = made_key(served, "default", ("submit",)).key
        yield served


@pytest.fixture
def http(served):
    with caller(served, served.key) as http:
        yield http


def make_spans(exporter):
    """The spans of a request by the conventions of OpenInference, sent; returns its trace id."""
    provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    about = {"input.value": "When?", "output.value": "At two.", "user.id": "u1", "tags": ["a", "b"]}
    about["metadata"] = json.dumps({"email": "a@b.example", "team": "red"})
    with tracer.start_as_current_span("answer", attributes=about) as root:
        with tracer.start_as_current_span("search", attributes={"openinference.span.kind": "RETRIEVER"}) as inner:
            inner.set_attribute("retrieval.documents.0.document.content", "It is at two.")
        root.set_status(Status(StatusCode.ERROR, "for a@b.example"))
    return f"{root.context.trace_id:032x}"


def encoded():
    """The same as a message."""
    exporter = InMemorySpanExporter()
    make_spans(exporter)
    return encode_spans(exporter.get_finished_spans())


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_send_takes_what_the_exporter_of_the_sdk_sends(served, compression):
    headers = {"Authorization": f"Bearer {served.key}"}
    trace = make_spans(OTLPSpanExporter(f"{served.url}/v1/traces", headers=headers, compression=compression))
    due = _due(served)[trace]
    assert (due.stream, sorted(span.name for span in due.spans())) == ("shop", ["answer", "search"])


def _due(served):
    traffic = LiveTraffic(served.jobs.of("default"), served.settings)
    waiting = traffic.store.key("waiting")
    traffic.store.redis.zadd(waiting, dict.fromkeys(traffic.store.redis.zrange(waiting, 0, -1), 1))
    return dict(traffic.store.due(100))


@pytest.mark.parametrize("form", ["protobuf", "json"])
def test_read_is_the_same_in_each_form_and_without_what_is_redacted(form):
    message = encoded()
    body = message.SerializeToString()
    if form == "json":
        body = json.dumps(in_hex(MessageToDict(message, use_integers_for_enums=True))).encode()
    patterns = ["user.*", "metadata.email", "error"]
    received, unplaced = otlp.read(gzip.compress(body), form, gzipped=True, limit=10**6, redacted=patterns)
    assert unplaced == 0
    spans = {one.span.name: one.span for one in received}
    assert {one.stream for one in received} == {"shop"}
    root = spans["answer"]
    assert (root.parent, root.error) == (None, "the span has an error")
    kept = {"input.value": "When?", "output.value": "At two.", "tags": ["a", "b"], "metadata": {"team": "red"}}
    assert root.attributes == kept
    assert otlp.restored(otlp.stored(root)) == root
    assert spans["search"].parent == root.id
    assert root.ms > 0


def test_redaction_reaches_into_what_is_nested():
    attributes = {
        "gen_ai.input.messages.0.parts.0.content": "secret",
        "user": "secret",
        "user.email": "secret",
        "metadata": json.dumps({"user": {"email": "secret", "team": "red"}, "list": [{"key": "secret"}]}),
        "output.value": {"user": {"email": "secret"}, "answer": "x"},
    }
    span = TraceSpan("a", "b", None, "CHAIN", 1.0, 2.0, attributes)
    patterns = ["gen_ai.input.messages", "user", "metadata.user.email", "metadata.list.*.key", "output.value.user"]
    kept = otlp.Redaction(patterns)(span).attributes
    assert kept == {"metadata": {"user": {"team": "red"}, "list": [{}]}, "output.value": {"answer": "x"}}


def test_read_a_long_name_is_not_repeated_for_each_entry():
    entries = {"arrayValue": {"values": [{"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}]}}] * 9}}
    body = json.dumps(hostile(**{"n" * 2000: entries, "short": entries})).encode()
    [one] = otlp.read(body, "json", gzipped=False, limit=10**6).received
    assert sorted(one.span.attributes) == [f"short.{n}.k" for n in range(9)]


def test_redaction_cuts_what_is_larger_than_the_limits():
    deep = value = {}
    for _ in range(5000):
        value["a"] = value = {}
    attributes = {"n" * 300: "x" * 300_000, "tags": ["x" * 300_000], "input.value": deep}
    span = TraceSpan("a", "b", "p" * 99, "K" * 99, 1.0, 2.0, attributes, "e" * 3000, "s" * 300)
    kept = otlp.Redaction([])(span)
    assert [len(part) for part in (kept.parent, kept.kind, kept.error, kept.name)] == [64, 50, 2000, 200]
    assert kept.attributes.keys() == {"n" * 200, "input.value"}
    assert len(otlp.stored(kept)) < 210_000
    assert otlp.restored(otlp.stored(span)).attributes == {}


def test_send_answers_partial_success_for_spans_that_are_not_taken(http, monkeypatch):
    message = encoded()
    monkeypatch.setattr(store, "MAX_SPANS", 1)
    message.resource_spans[0].scope_spans[0].spans.add(name="without ids")
    answer = http.post("/v1/traces", content=message.SerializeToString(), headers=BINARY)
    assert (answer.status_code, answer.headers["content-type"]) == (200, PROTOBUF)
    partial = trace_service_pb2.ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_spans == 2
    assert "1 spans have no trace id or no span id; 1 spans are beyond the most spans or bytes" in partial.error_message
    document = in_hex(MessageToDict(message, use_integers_for_enums=True))
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].append({"traceId": "a b\ud800", "spanId": "1"})
    answer = http.post("/v1/traces", content=json.dumps(document), headers=JSON)
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "4"


def _message(spans):
    """An ExportTraceServiceRequest of spans in protobuf."""
    for field in (b"\x12", b"\x0a"):  # scope_spans of a resource, and resource_spans
        spans = field + _VarintBytes(len(spans)) + spans
    return spans


@pytest.mark.parametrize(
    ("content", "headers", "status", "message"),
    [
        (b"\xff\xff", BINARY, 400, "no ExportTraceServiceRequest"),
        (b"[1", JSON, 400, "not JSON"),
        (b"[]", JSON, 400, "no export request"),
        (b'{"resourceSpans": [7, {"scopeSpans": 7}, {"resource": 3}]}', JSON, 200, ""),
        (b'{"resourceSpans": [{"resource": {"attributes": 7}}, {"resource": {"attributes": [7]}}]}', JSON, 200, ""),
        (b"x", PACKED, 400, "not gzip"),
        (gzip.compress(bytes(20_000_000)), PACKED, 413, "unpacked"),
        (gzip.compress(b"x" * 99, mtime=0)[:10] + b"\xff" * 40, PACKED, 400, "not gzip"),
        (b"[" + b"{}," * 200_000 + b"{}]", JSON, 413, "200,000 parts"),
        (_message(b"\x12\x00" * 10_001), BINARY, 413, "10,000 spans"),
        (_message(b"\x12\x00" * 500_001), BINARY, 413, "500,000 parts"),
        (b"x", {**BINARY, "Content-Encoding": "br"}, 415, "identity or gzip"),
        (b"x", {"Content-Type": "text/plain"}, 415, "text/plain"),
    ],
)
def test_send_refuses_with_a_status_of_otlp(http, content, headers, status, message):
    answer = http.post("/v1/traces", content=content, headers=headers)
    assert answer.status_code == status
    if answer.headers["content-type"] == PROTOBUF:
        assert message in trace_service_pb2.ExportTracePartialSuccess.FromString(answer.content).error_message
    else:
        assert message in answer.json().get("message", "")


def hostile(**attributes):
    """A body in JSON with one span and these attributes."""
    span = {"traceId": "f" * 32, "spanId": "e" * 16, "startTimeUnixNano": "9" * 400, "endTimeUnixNano": "2"}
    listed = [{"key": key, "value": value} for key, value in attributes.items()]
    return {"resourceSpans": [{"scopeSpans": [{"spans": [{**span, "attributes": listed}]}]}]}


@pytest.mark.parametrize(
    "value",
    [
        {"stringValue": "half a pair \ud800"},
        {"intValue": str(2**70)},
        {"doubleValue": "NaN"},
        {"kvlistValue": {"values": [{"key": "\udfff", "value": {"intValue": 1}}]}},
        {"arrayValue": {"values": [{"arrayValue": {"values": [{}]}}]}},
        {"bytesValue": "AAAA"},
        {"stringValue": None},
        7,
    ],
)
def test_send_keeps_whatever_an_attribute_holds(served, http, value):
    names = ("input.value", "metadata", "retrieval.documents.0.document.content", "llm.output_messages.0.message.role")
    answer = http.post("/v1/traces", content=json.dumps(hostile(**dict.fromkeys(names, value))), headers=JSON)
    assert (answer.status_code, answer.content) == (200, b"{}")
    traffic = LiveTraffic(served.jobs.of("default"), served.settings)
    assert "f" * 32 in _due(served)
    traffic.tick()
    assert traffic.store.request("f" * 32).status in ("no_answer", "not_sampled")
    traffic.store.redis.delete(traffic.store.key("request", "f" * 32))


def test_send_asks_to_come_again_while_too_many_requests_wait(http, monkeypatch):
    monkeypatch.setattr(store, "MAX_WAITING", 0)
    answer = http.post("/v1/traces", content=encoded().SerializeToString(), headers=BINARY)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")


def test_send_needs_the_scope_submit(served):
    with caller(served, made_key(served, "default", ("read",)).key) as http:
        assert http.post("/v1/traces", json={"resourceSpans": []}).status_code == 403
    with caller(served) as http:
        assert http.post("/v1/traces", json={"resourceSpans": []}).status_code == 401


def test_put_stream_checks_the_job(served):
    path = "/v1/live/streams/s1"
    with caller(served, BOOTSTRAP) as http:
        for bad in ({"job": {"metrics": ["faithfullness"]}}, {"job": {"gates": [{"mrr": ">= 0.5"}]}}, {"rate": 2}):
            assert http.put(path, json=bad).status_code == 422
        put = http.put(path, json={"rate": 0.25, "budget_usd": 3, "job": {"metrics": ["mrr"]}}).json()
        assert (put["rule"]["rate"], http.get(path).json()) == (0.25, put)
        for part in ("windows", "requests"):
            assert http.get(f"{path}/{part}").json() == {part: [], "next": None}
        assert http.delete(path).json() == put
        assert http.get(path).status_code == 404


@pytest.mark.parametrize(
    ("service", "stream"),
    [("shop", "shop"), (None, "default"), ("unknown_service:python", "default"), ("a b/ü", "a-b"), ("-", "default")],
)
def test_stream_of_a_service(service, stream):
    assert otlp.stream_of(service) == stream
