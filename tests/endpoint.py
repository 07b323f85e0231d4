"""A real HTTP server on loopback that plays a RAG system: what it does with a query is in the query's first word.

with Endpoint() as system:
    system.url, system.asked      # where it listens; (query, arrival in seconds, seconds it took) of each request

``FAULTY`` are the words that make it misbehave on the wire, ``STREAMS`` those that make it stream.
"""

import json
import socket
import struct
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

from loopback import LoopbackServer, Quiet

CAPITAL = {
    "answer": "Paris is the capital.",
    "contexts": ["Paris is the capital of France."],
    "retrieved_doc_ids": ["paris", "lyon"],
}


def sse(*events, end="[DONE]"):
    """A stream of server-sent events, one piece of bytes each."""
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + (
        [f"data: {end}\n\n".encode()] if end else []
    )


def delta(text):
    """A part of an answer, as OpenAI's chat completions send it."""
    return {"model": "m-1", "choices": [{"index": 0, "delta": {"content": text}}], "usage": None}


USAGE = {"model": "m-1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
CHAT = sse(
    {"model": "m-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    delta("Pa"),
    delta("ris."),
    USAGE,
)
OWN = [
    json.dumps(line).encode() + b"\n"
    for line in (
        {"sources": [{"id": "paris", "text": "Paris is the capital."}]},
        {"token": "Pa"},
        {"token": "ris."},
        {"done": True, "tokens": 3},
    )
]
STREAMS = {
    "chat": CHAT,
    "lines": OWN,
    "comments": [b": keep alive\n\n", b"event: token\r\nid: 1\r\n", *CHAT],
    "split": [bytes([byte]) for byte in b"".join(CHAT)],
    "cut-off": CHAT[:2],
    "malformed": [CHAT[1], b'data: {"choices": [\n\n'],
    "error-event": [CHAT[1], *sse({"error": {"message": "out of memory"}}, end="")],
    "numbers": sse(delta(7)),
    "no-text": sse({"choices": [{"delta": {"role": "assistant"}}]}),
    "nothing": [],
}

WHOLE = {
    "redirects": (307, b"", {"Location": "http://127.0.0.1:1/elsewhere"}),
    "fails": (500, b"<h1>broken</h1>", {}),
    "html": (200, b"<html>hello</html>", {}),  # it says that this is JSON
    "empty": (200, {}, {}),
    "other": (
        200,
        {"result": {"text": "Paris it is.", "sources": [{"content": "Paris is the capital.", "uri": "x"}]}},
        {},
    ),
    "chat-like": (200, {"message": "Paris it is.", "model": "m"}, {}),
    "choices": (200, {"choices": [{"message": {"content": "It is Paris."}}], "sources": ["Paris is the capital."]}, {}),
    "beside": (200, {"answer": "Paris.", "sources": ["Paris is the capital."]}, {}),
    "snippets": (200, {"answer": "Paris.", "contexts": [{"snippet": "Paris is the capital."}]}, {}),
    "unclear": (422, {"detail": [{"loc": ["body", "q"], "msg": "Field required"}]}, {}),
    "twice": (200, {**CAPITAL, "retrieved_doc_ids": ["a", "a"]}, {}),
    "cookie": (200, CAPITAL, {"Set-Cookie": "session=1"}),
    "null": (200, {"answer": "none", "contexts": None}, {}),
    "no-passages": (200, {"answer": "none", "groups": [{"a..b": []}, {"a..b": []}]}, {}),
    "no-texts": (200, {"answer": "none", "groups": [{"a..b": []}, {"a..b": [{"uri": "x"}]}]}, {}),
}


class _Asked(Quiet, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.server.answer(self)


class Endpoint(LoopbackServer):
    """``delay(n)``: seconds that the n-th request takes."""

    def __init__(self, delay=lambda _: 0.0, port=0):
        self.delay, self.asked, self.headers, self.refused = delay, [], [], 0
        self.lock = threading.Lock()
        super().__init__(_Asked, port)
        self.url += "/ask"

    def answer(self, request):
        arrived, body = time.perf_counter(), json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        with self.lock:
            number = len(self.asked)
            self.asked.append(None)
            self.headers.append(dict(request.headers))
        time.sleep(self.delay(number))
        self.asked[number] = (body, arrived, time.perf_counter() - arrived)  # who has the reply finds it there
        self.reply(request, body)

    def reply(self, request, body):
        what, *_ = str(body.get("query", "")).split() or [""]
        if what == "hangs":
            time.sleep(3)
        if what == "drops":
            request.close_connection = True
            return request.connection.close()
        if what == "busy":
            with self.lock:
                self.refused += 1
                first = self.refused == 1
            if first:
                _, status, wait, *packing = body["query"].split()
                packed = {"Content-Encoding": packing[0]} if packing else {}
                return self.send(request, int(status), b"later", **{"Retry-After": wait}, **packed)
        if what in STREAMS or what in ("slowly", "endless-events", "json-only"):
            return self.stream(request, what)
        if what in FAULTY:
            request.close_connection = True
            with suppress(OSError):
                FAULTY[what](request.connection, what)
                request.connection.shutdown(socket.SHUT_RDWR)
            return request.connection.close()
        status, content, headers = WHOLE.get(what, (200, CAPITAL, {}))
        return self.send(
            request, status, content if isinstance(content, bytes) else json.dumps(content).encode(), **headers
        )

    def send(self, request, status, body, **headers):
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        with suppress(OSError):  # the client had enough
            request.wfile.write(body)

    def stream(self, request, what):
        kinds = {"json-only": "application/json", "lines": "application/x-ndjson"}
        request.send_response(200)
        request.send_header("Content-Type", kinds.get(what, "text/event-stream"))
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        pieces = [json.dumps(CAPITAL).encode()] if what == "json-only" else STREAMS.get(what, CHAT)
        if what == "endless-events":
            pieces = (CHAT[1] for _ in iter(lambda: time.sleep(0.02), 1))
        with suppress(OSError):
            for n, piece in enumerate(pieces):
                time.sleep(0.3 if what == "slowly" and n else 0)
                request.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                request.wfile.flush()
            request.wfile.write(b"0\r\n\r\n")


def _drip(connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        connection.sendall(b" ")
        time.sleep(1)


def _endless_headers(connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: " + b"x" * 1000 + b"\r\n")


def _cut(connection, _):
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"answer": ')


def _reset(connection, what):
    if what == "resets-midway":
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"answer": ')
        time.sleep(0.05)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _whole(body, *headers):
    head = b"".join(line + b"\r\n" for line in (b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers))
    return lambda connection, _: connection.sendall(head + b"\r\n" + body)


def _hundred_megabytes(connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(100):
        connection.sendall(b"x" * 1_000_000)


FAULTY = {
    "drips": _drip,
    "endless-headers": _endless_headers,
    "cuts": _cut,
    "resets": _reset,
    "resets-midway": _reset,
    "not-utf-8": _whole(b'{"answer": "caf\xe9"}'),
    "half-a-character": _whole(b'{"answer": "\\ud800"}'),
    "brotli": _whole(b"x", b"Content-Encoding: br"),
    "no-http": lambda connection, _: connection.sendall(b"220 mail ready\r\n"),
    "bottomless": _whole(b"[" * 100_000),
    "100-mb": _hundred_megabytes,
}
