"""A collector that takes spans over OTLP/HTTP, as protobuf, and keeps them."""

import base64
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from loopback import LoopbackServer, Quiet


@dataclass(frozen=True)
class Received:
    service: str
    name: str
    kind: int
    trace: str
    span: str
    parent: str
    attributes: dict
    failed: bool
    seconds: float

    @property
    def traceparent(self):
        return f"00-{self.trace}-{self.span}"


def in_hex(value):
    """OTLP/JSON has ids in hexadecimal where JSON of protobuf has base64."""
    ids = ("traceId", "spanId", "parentSpanId")
    if isinstance(value, dict):
        return {k: base64.b64decode(v).hex() if k in ids else in_hex(v) for k, v in value.items()}
    return [in_hex(each) for each in value] if isinstance(value, list) else value


class _Sent(Quiet, BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/traces":
            self.server.spans.extend(_spans(ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())


class OtlpReceiver(LoopbackServer):
    """Use as a context manager; ``spans`` are those that arrived."""

    def __init__(self):
        self.spans = []
        super().__init__(_Sent)

    def named(self, name):
        return [span for span in self.spans if span.name == name]


def _spans(request):
    for resource in request.resource_spans:
        about = {each.key: each.value.string_value for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
                attributes = {each.key: _value(each.value) for each in span.attributes}
                seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
                failed = span.status.code == 2
                yield Received(about["service.name"], span.name, span.kind, *ids, attributes, failed, seconds)


def _value(value):
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
