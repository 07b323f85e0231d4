"""OTLP/HTTP: the spans in the body of an export request, protobuf or JSON, and the answers that exporters understand."""

from __future__ import annotations

import fnmatch
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, Literal, NamedTuple

import orjson

from ragassay.core.errors import BadInput, TooLarge
from ragassay.datasets.traces import FAILED_SPAN, TraceSpan, decoded, make_span, pairs, spans_in
from ragassay.live.models import TRACE

Form = Literal["protobuf", "json"]
MEDIA_TYPES: dict[str, Form] = {"application/x-protobuf": "protobuf", "application/json": "json"}
DEFAULT_STREAM = "default"
MAX_BYTES, MAX_SPANS = 16_000_000, 10_000  # of a body that is sent, unpacked
MAX_FIELDS, MAX_CONTAINERS = 500_000, 200_000  # of a body in protobuf, in JSON: each is an object while it is read
MAX_TEXT = 200_000  # characters of an attribute
MAX_NAME, MAX_ERROR, MAX_KIND, MAX_ID = 200, 2000, 50, 64  # characters
MAX_DEPTH, MAX_PATH = 32, 1000  # objects and lists inside an attribute, and characters of the names to them
_NEVER_READ = ("embedding.embeddings.*", "llm.tools.*", "llm.invocation_parameters")  # vectors and the like
_NO_PROTOBUF = "the body is no ExportTraceServiceRequest in protobuf"
_FIXED = {1: 8, 5: 4}  # bytes of a value, by its wire type
_FEWER = "send fewer spans at once"
_ID = re.compile(TRACE)
_KEPT = re.compile(r"[^A-Za-z0-9_.-]+")


class Received(NamedTuple):
    """A span, and the stream that its service is."""

    stream: str
    span: TraceSpan


class Spans(NamedTuple):
    """The spans of an export request; ``unplaced`` further ones have no trace id or no id of their own."""

    received: list[Received]
    unplaced: int


def read(body: bytes, form: Form, *, gzipped: bool, limit: int, redacted: Iterable[str] = ()) -> Spans:
    """The spans of an export request, without attributes whose names match a pattern of ``redacted``.

    ``limit``: bytes of the unpacked body. Raises TooLarge, also for too many spans or parts of them, and BadInput for what is
    no such request.
    """
    if gzipped:
        body = _unpacked(body, limit)
    _check_parts(body, form)
    redact = Redaction(redacted)
    received, unplaced = list[Received](), 0
    for stream, span in spans_of_protobuf(body) if form == "protobuf" else _spans_of_json(body):
        if span is None or not (_ID.fullmatch(span.trace) and _ID.fullmatch(span.id)):
            unplaced += 1
        else:
            received.append(Received(stream, redact(span)))
        if len(received) + unplaced > MAX_SPANS:
            raise TooLarge(f"the body has more than {MAX_SPANS:,} spans", hint=_FEWER)
    return Spans(received, unplaced)


def response(form: Form, rejected: int = 0, why: str = "") -> bytes:
    """The answer to an accepted request; ``rejected`` spans were not taken, and must not be sent again."""
    if form == "json":
        return orjson.dumps({"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": why}} if why else {})
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

    partial = service.ExportTracePartialSuccess(rejected_spans=rejected, error_message=why) if why else None
    return bytes(service.ExportTraceServiceResponse(partial_success=partial).SerializeToString())


def status(form: Form, message: str) -> bytes:
    """The ``google.rpc.Status`` that says why a request was refused."""
    if form == "json":
        return orjson.dumps({"message": message})
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess

    # Status and PartialSuccess have their text in the same field, number 2, so that no further package is needed
    return bytes(ExportTracePartialSuccess(error_message=message).SerializeToString())


class Redaction:
    """Takes out what is never stored: attributes by name, with ``*``, and all below it; ``error`` is the text of a failure.

    A name reaches into objects, and into the JSON of ``metadata``: ``metadata.user.email``. What is larger than the limits of a
    span is cut, or taken out.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        names = (*_NEVER_READ, *patterns)
        parts = [fnmatch.translate(pattern) for name in names for pattern in (name, f"{name}.*")]
        self._matches = re.compile("|".join(parts)).match

    def __call__(self, span: TraceSpan) -> TraceSpan:
        """The span as it may be stored."""
        attributes = {
            name[:MAX_NAME]: limited
            for name, value in span.attributes.items()
            if not self._matches(name) and (limited := _within_limit(self._value(name, value))) is not None
        }
        error = FAILED_SPAN if span.error and self._matches("error") else span.error
        return replace(
            span,
            parent=span.parent and span.parent[:MAX_ID],
            kind=span.kind[:MAX_KIND],
            attributes=attributes,
            error=str(error)[:MAX_ERROR] if error else None,
            name=span.name[:MAX_NAME],
        )

    def _value(self, name: str, value: Any) -> Any:
        if name.endswith("metadata") and isinstance(entries := decoded(value), Mapping | list):
            value = entries
        return self._inside(name, value)

    def _inside(self, name: str, value: Any, depth: int = 0) -> Any:
        if not isinstance(value, Mapping | list):
            return value
        if depth >= MAX_DEPTH or len(name) > MAX_PATH:
            return None
        if isinstance(value, list):
            return [self._inside(f"{name}.{n}", entry, depth + 1) for n, entry in enumerate(value)]
        inner = ((f"{name}.{key}", key, entry) for key, entry in value.items())
        return {key: self._inside(path, entry, depth + 1) for path, key, entry in inner if not self._matches(path)}


def _within_limit(value: Any) -> Any:
    """The value, a text cut to the limit; None if it is larger."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    return value if len(_dumped(value)) <= MAX_TEXT else None


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # half surrogate pairs, or numbers beyond 64 bits
        return json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace")


def stored(span: TraceSpan) -> bytes:
    """A span as Redis keeps it; without its attributes if they are too deep for JSON."""
    try:
        return _dumped(asdict(span))
    except RecursionError:
        return _dumped(asdict(replace(span, attributes={})))


def restored(content: bytes) -> TraceSpan:
    """The span that ``stored`` wrote."""
    return TraceSpan(**json.loads(content))


def _unpacked(body: bytes, limit: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            content = file.read(limit + 1)
    except (OSError, EOFError, zlib.error):
        raise BadInput("the body is not gzip, as its Content-Encoding says") from None
    if len(content) > limit:
        raise TooLarge(f"the unpacked body is larger than {limit:,} bytes", hint=_FEWER)
    return content


def _check_parts(body: bytes, form: Form) -> None:
    """Raises TooLarge for a body of so many parts that reading it would take much more memory than its bytes."""
    if form == "json":
        max_parts, parts = MAX_CONTAINERS, body.count(b"{") + body.count(b"[")
    elif len(body) <= 2 * MAX_FIELDS:  # a field has two bytes at least
        return
    else:
        max_parts, parts = MAX_FIELDS, sum(1 for _ in islice(_fields(body), MAX_FIELDS + 1))
    if parts > max_parts:
        raise TooLarge(f"the body has more than {max_parts:,} parts", hint=_FEWER)


def _fields(body: bytes) -> Iterator[int]:
    """The place of each field of an export request and of the messages in it, by their tags alone. Raises BadInput."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    inside = [(0, len(body), ExportTraceServiceRequest.DESCRIPTOR)]
    while inside:
        at, end, kind = inside.pop()
        while at < end:
            tag, start = _varint(body, at)
            yield at
            wire = tag & 7
            if wire == 2:
                size, start = _varint(body, start)
                field = kind.fields_by_number.get(tag >> 3)
                if field is not None and field.message_type is not None:
                    inside.append((start, min(start + size, end), field.message_type))
                at = start + size
            elif wire == 0:
                _, at = _varint(body, start)
            elif wire in _FIXED:
                at = start + _FIXED[wire]
            else:
                raise BadInput(_NO_PROTOBUF)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A whole number of 7 bits a byte, and the place after it."""
    value = 0
    for n, byte in enumerate(body[at : at + 10]):
        value |= (byte & 127) << 7 * n
        if byte < 128:
            return value, at + n + 1
    raise BadInput(_NO_PROTOBUF)


def _spans_of_json(body: bytes) -> Iterator[tuple[str, TraceSpan | None]]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise BadInput("the body is not JSON") from None
    resources = document.get("resourceSpans", []) if isinstance(document, Mapping) else None
    if not isinstance(resources, list):
        raise BadInput("the body is no export request", hint="send {'resourceSpans': [...]}")
    yield from spans_of_resources(resources)


def spans_of_resources(resources: Iterable[Any]) -> Iterator[tuple[str, TraceSpan | None]]:
    """The spans of ``resourceSpans`` in JSON, each with its stream."""
    for resource in resources:
        listed = resource.get("resource", {}) if isinstance(resource, Mapping) else None
        attributes = listed.get("attributes") if isinstance(listed, Mapping) else None
        stream = stream_of(pairs(attributes).get("service.name"))
        for span in spans_in({"resourceSpans": [resource]}):
            yield stream, span


def spans_of_protobuf(body: bytes) -> Iterator[tuple[str, TraceSpan | None]]:
    """The spans of an ExportTraceServiceRequest, each with its stream. Raises BadInput."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        raise BadInput(_NO_PROTOBUF) from None
    for resource in request.resource_spans:
        named = (one.value.string_value for one in resource.resource.attributes if one.key == "service.name")
        stream = stream_of(next(named, None))
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield stream, _span(span)


def _span(span: Any) -> TraceSpan | None:
    failed = span.status.code == 2
    return make_span(
        (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()),
        {one.key: _any_value(one.value) for one in span.attributes},
        (span.start_time_unix_nano / 1e6, span.end_time_unix_nano / 1e6),
        (span.status.message or FAILED_SPAN) if failed else None,
        span.name,
    )


def _any_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_any_value(entry) for entry in value.array_value.values]
    if kind == "kvlist_value":
        return {one.key: _any_value(one.value) for one in value.kvlist_value.values}
    return None if kind in (None, "bytes_value") else getattr(value, kind)


def stream_of(service: object) -> str:
    """The stream of a service by its ``service.name``."""
    name = _KEPT.sub("-", str(service)).strip("-.")[:100] if service else ""
    return DEFAULT_STREAM if not name or name.startswith("unknown_service") else name
