"""OTLP/HTTP: the spans in the body of an export request, protobuf or JSON, and the answers that exporters understand."""

from __future__ import annotations

import fnmatch
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal, NamedTuple

import orjson

from ragassay.core.errors import BadInput, TooLarge
from ragassay.datasets.traces import FAILED_SPAN, TraceSpan, decoded, make_span, spans_in
from ragassay.live.models import TRACE

Form = Literal["protobuf", "json"]
MEDIA_TYPES: dict[str, Form] = {"application/x-protobuf": "protobuf", "application/json": "json"}
DEFAULT_STREAM = "default"
MAX_TEXT = 200_000  # characters of an attribute
_NEVER_READ = ("embedding.embeddings.*", "llm.tools.*", "llm.invocation_parameters")  # vectors and the like
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

    ``limit``: bytes of the unpacked body. Raises TooLarge, and BadInput for what is no such request.
    """
    if gzipped:
        body = _unpacked(body, limit)
    redact = Redaction(redacted)
    received, unplaced = list[Received](), 0
    for stream, span in _of_protobuf(body) if form == "protobuf" else _of_json(body):
        if span is None or not (_ID.fullmatch(span.trace) and _ID.fullmatch(span.id)):
            unplaced += 1
        else:
            received.append(Received(stream, redact(span)))
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
    """Takes out what is never stored: attributes by name, with ``*``; ``metadata.KEY`` reaches into JSON, ``error`` is its text."""

    def __init__(self, patterns: Iterable[str]) -> None:
        parts = [fnmatch.translate(pattern) for pattern in (*_NEVER_READ, *patterns)]
        self._matches = re.compile("|".join(parts)).match

    def __call__(self, span: TraceSpan) -> TraceSpan:
        """The span as it may be stored."""
        kept = {name: self._value(name, value) for name, value in span.attributes.items() if not self._matches(name)}
        error = FAILED_SPAN if span.error and self._matches("error") else span.error
        return replace(span, attributes=kept, error=error)

    def _value(self, name: str, value: Any) -> Any:
        if name == "metadata" and isinstance(entries := decoded(value), Mapping):
            return {key: entry for key, entry in entries.items() if not self._matches(f"metadata.{key}")}
        return value[:MAX_TEXT] if isinstance(value, str) else value


def stored(span: TraceSpan) -> bytes:
    """A span as Redis keeps it."""
    try:
        return orjson.dumps(span, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # half surrogate pairs, or numbers beyond 64 bits
        return json.dumps(asdict(span), default=str, ensure_ascii=False).encode("utf-8", "replace")


def restored(content: bytes) -> TraceSpan:
    """The span that ``stored`` wrote."""
    return TraceSpan(**json.loads(content))


def _unpacked(body: bytes, limit: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            content = file.read(limit + 1)
    except (OSError, EOFError):
        raise BadInput("the body is not gzip, as its Content-Encoding says") from None
    if len(content) > limit:
        raise TooLarge(f"the unpacked body is larger than {limit:,} bytes", hint="send fewer spans at once")
    return content


def _of_json(body: bytes) -> Iterator[tuple[str, TraceSpan | None]]:
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
        values = (one.get("value") for one in attributes or () if one.get("key") == "service.name")
        named = next((value for value in values if isinstance(value, Mapping)), {})
        stream = stream_of(named.get("stringValue") or named.get("string_value"))
        for span in spans_in({"resourceSpans": [resource]}):
            yield stream, span


def _of_protobuf(body: bytes) -> Iterator[tuple[str, TraceSpan | None]]:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        raise BadInput("the body is no ExportTraceServiceRequest in protobuf") from None
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
        (
            span.start_time_unix_nano / 1e6 if span.start_time_unix_nano else None,
            span.end_time_unix_nano / 1e6 if span.end_time_unix_nano else None,
        ),
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
