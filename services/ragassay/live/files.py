"""Requests in files of spans: JSON Lines of OTLP, as the other formats of traces, and OTLP in protobuf; once or as they grow."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadData, NotFound
from ragassay.datasets.traces import TraceSpan, are_spans, spans_in
from ragassay.live.decide import Decision, decide, has_root
from ragassay.live.models import LiveRule, hour_of
from ragassay.live.otlp import DEFAULT_STREAM, Redaction, spans_of_protobuf, spans_of_resources

# One request, or several, each after its length in four bytes, as the Collector writes.
PROTOBUF = (".pb", ".binpb", ".bin")
JSON = (".json", ".jsonl", ".ndjson")
MAX_COMPLETE = 100_000  # requests, the newest, whose further spans are known to be late
_FIRST_FIELD = b"\n"  # with it begins a request without its length; a request after its length would have 167 MB
_Spans = list[tuple[str, TraceSpan | None]]


@dataclass
class OpenRequest:
    """A request in files: its stream, its spans, and in which round its last span was read."""

    trace: str
    stream: str
    spans: list[TraceSpan] = field(default_factory=list)
    round: int = 0

    @property
    def hour(self) -> str:
        """The window that it is in, by when it began; spans without a start do not say it."""
        return hour_of(min((span.began_ms for span in self.spans if span.began_ms), default=0.0))

    def decide(self, rule: LiveRule) -> Decision:
        """What becomes of it."""
        return decide(self.spans, rule, self.stream)


class SpanFiles:
    """The requests of a file, or of the files in a folder. ``redacted``: attributes that are not read."""

    def __init__(self, path: Path, redacted: Sequence[str]) -> None:
        if not path.exists():
            raise NotFound("there is no such file or folder", where=str(path))
        self._path, self._redact = path, Redaction(redacted)
        self._offsets: dict[Path, int] = {}
        self._open: dict[str, OpenRequest] = {}
        self._round, self.late, self.unplaced = 0, 0, 0
        self._complete: dict[str, None] = {}

    def complete(self, *, silent_rounds: int | None = None) -> list[OpenRequest]:
        """Read what is new, and take the requests that are complete: by their root or after so many rounds without a span;
        without ``silent_rounds`` all of them. Raises BadData for a line that can't be read, or a file that breaks off.
        """
        self._round += 1
        for path in self._files():
            for stream, span in self._new(path):
                self._add(stream, span)
            if silent_rounds is None and self._offsets[path] < path.stat().st_size:
                form = "OTLP in protobuf" if path.suffix in PROTOBUF else "JSON"
                raise BadData([f"{path}: is no {form} from byte {self._offsets[path]:,} on"])
        ready = [one for one in self._open.values() if silent_rounds is None or self._is_ready(one, silent_rounds)]
        for one in ready:
            del self._open[one.trace]
            self._complete[one.trace] = None
        for trace in list(islice(self._complete, max(len(self._complete) - MAX_COMPLETE, 0))):
            del self._complete[trace]
        return ready

    @property
    def waiting(self) -> int:
        """How many requests are not complete."""
        return len(self._open)

    def _is_ready(self, one: OpenRequest, silent_rounds: int) -> bool:
        rounds = self._round - one.round
        return rounds >= (1 if has_root(one.spans) else silent_rounds)

    def _add(self, stream: str, span: TraceSpan | None) -> None:
        if span is None:
            self.unplaced += 1
        elif span.trace in self._complete:
            self.late += 1
        else:
            request = self._open.setdefault(span.trace, OpenRequest(span.trace, stream))
            request.spans.append(self._redact(span))
            request.round = self._round
            if span.parent is None:
                request.stream = stream

    def _files(self) -> list[Path]:
        if self._path.is_file():
            return [self._path]
        return sorted(path for path in self._path.iterdir() if path.suffix in (*PROTOBUF, *JSON) and path.is_file())

    def _new(self, path: Path) -> _Spans:
        """The spans that were added to a file since it was read last: whole lines, or whole requests."""
        offset = self._offsets.get(path, 0)
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < offset:  # another file has the name now, as after a rotation
                offset = 0
            file.seek(offset)
            content = file.read()
        is_protobuf = path.suffix in PROTOBUF
        used, spans = _spans_of_protobuf(content, offset) if is_protobuf else _spans_of_json(path, content, offset)
        self._offsets[path] = offset + used
        return spans


def _spans_of_json(path: Path, content: bytes, offset: int) -> tuple[int, _Spans]:
    """How many bytes are whole JSON documents, a single one or one a line, and their spans."""
    try:
        used, documents = len(content), [json.loads(content)]
    except (ValueError, RecursionError):
        used, documents = _lines(path, content, offset)
    listed = (document if isinstance(document, list) else [document] for document in documents)
    return used, [span for each in listed for document in each for span in _spans_of_document(document)]


def _lines(path: Path, content: bytes, offset: int) -> tuple[int, list[Any]]:
    """How many bytes are whole lines, and the documents in them; a last line may lack its end. Raises BadData."""
    used, documents = content.rfind(b"\n") + 1, list[Any]()
    for number, line in enumerate(content[:used].splitlines(), 1):
        try:
            documents += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError):
            number += path.read_bytes()[:offset].count(b"\n")
            raise BadData([f"{path}:{number}: is not JSON"], hint="write one OTLP document a line") from None
    with suppress(ValueError, RecursionError):
        documents += [json.loads(content[used:])] if content[used:].strip() else []
        used = len(content)
    return used, documents


def _spans_of_document(document: Any) -> Iterator[tuple[str, TraceSpan | None]]:
    if isinstance(document, dict) and isinstance(document.get("resourceSpans"), list):
        yield from spans_of_resources(document["resourceSpans"])
    elif are_spans(document):
        for span in spans_in(document):
            yield DEFAULT_STREAM, span


def _spans_of_protobuf(content: bytes, offset: int) -> tuple[int, _Spans]:
    """How many bytes are whole requests, and their spans. Raises BadInput."""
    if offset == 0 and content.startswith(_FIRST_FIELD):
        return len(content), _Spans(spans_of_protobuf(content))
    used, spans = 0, _Spans()
    while used + 4 <= len(content):
        begin = used + 4
        end = begin + int.from_bytes(content[used:begin])
        if end > len(content):
            break
        spans += spans_of_protobuf(content[begin:end])
        used = end
    return used, spans
