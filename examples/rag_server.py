"""A RAG server to be evaluated, of the standard library alone: the first lines are all that such an endpoint needs.

    python rag_server.py --port 8000 [--log asked.jsonl] [--latency-ms 100 --jitter-ms 50 --stall-s 2 --stall-every 50]
                         [--wrong-from 5]

A POST of ``{"query": ...}`` to any path has the reply ``{"answer", "contexts", "retrieved_doc_ids", "cost_usd"}``. It can
be as slow as one likes; ``--log`` says when each query came and left, in seconds of ``time.perf_counter``. From the query
``--wrong-from`` on it answers with the worst passage, as if a bad version had been deployed.
"""

import argparse
import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PASSAGES = {"refunds": "Orders can be refunded within 30 days.", "shipping": "Shipping within Europe takes 4 days."}


class Handler(BaseHTTPRequestHandler):
    """Answers one query after another of a connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        """Answer with the passage that has most words of the query."""
        came, query = time.perf_counter(), json.loads(self.rfile.read(int(self.headers["Content-Length"])))["query"]
        words = set(query.lower().split())
        ranked = sorted(PASSAGES, key=lambda name: -len(words & set(PASSAGES[name].lower().split())))
        if self.server.slow_down():
            ranked.reverse()
        found = PASSAGES[ranked[0]]
        reply = {"answer": found, "contexts": [found], "retrieved_doc_ids": ranked, "cost_usd": 0.0002}
        self.send(json.dumps(reply).encode())
        self.server.write_down(query, came)

    def send(self, body):
        """Head and body in one piece: in two, the system waits 40 ms between them."""
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def log_message(self, *_):
        """Not on the terminal."""


class Server(ThreadingHTTPServer):
    """As slow as ``options`` say: while it stalls, whatever comes waits until the stall has ended."""

    daemon_threads, request_queue_size = True, 256

    def __init__(self, options):
        super().__init__(("127.0.0.1", options.port), Handler)
        self.options, self.lock, self.dice = options, threading.Lock(), random.Random(options.seed)  # noqa: S311 - no secret
        self.came, self.stalled_until = 0, 0.0

    def slow_down(self):
        """Wait as long as this query has to; is it one of those that are answered wrongly?"""
        o = self.options
        with self.lock:
            self.came += 1
            wrong = 0 < o.wrong_from <= self.came
            took_s = max(0.0, self.dice.uniform(o.latency_ms - o.jitter_ms, o.latency_ms + o.jitter_ms) / 1000)
            if o.stall_every and self.came % o.stall_every == 0:
                self.stalled_until = time.perf_counter() + o.stall_s
            wait_s = max(0.0, self.stalled_until - time.perf_counter())
        time.sleep(wait_s + took_s)
        return wrong

    def write_down(self, query, came):
        """Add a line to the log."""
        if self.options.log:
            with self.lock, Path(self.options.log).open("a", encoding="utf-8") as log:
                log.write(json.dumps({"query": query, "came": came, "left": time.perf_counter()}) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, kind, default in (
        *(("port", int, 8000), ("log", str, None), ("latency-ms", float, 0.0), ("jitter-ms", float, 0.0)),
        *(("stall-s", float, 0.0), ("stall-every", int, 0), ("seed", int, 0)),
        ("wrong-from", int, 0),
    ):
        parser.add_argument(f"--{name}", type=kind, default=default)
    server = Server(parser.parse_args())
    print(f"http://127.0.0.1:{server.server_address[1]}/", flush=True)
    server.serve_forever()
