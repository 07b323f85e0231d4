"""A real HTTP server on loopback that plays a RAG system: what it does with a query is in the query's first word.

with Endpoint() as system:
    system.url, system.asked      # where it listens; (query, arrival in seconds, seconds it took) of each request
"""

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CAPITAL = {
    "answer": "Paris is the capital.",
    "contexts": ["Paris is the capital of France."],
    "retrieved_doc_ids": ["paris", "lyon"],
}


class Endpoint:
    """``delay(n)``: seconds that the n-th request takes."""

    def __init__(self, delay=lambda _: 0.0):
        self.delay, self.asked, self.headers = delay, [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                arrived = time.perf_counter()
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    number = len(outer.asked)
                    outer.asked.append(None)
                    outer.headers.append(dict(self.headers))
                time.sleep(outer.delay(number))
                outer.reply(self, body)
                outer.asked[number] = (body, arrived, time.perf_counter() - arrived)

            def log_message(self, *_):
                pass

        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/ask"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def reply(self, request, body):
        what, *_ = str(body.get("query", "")).split() or [""]
        if what == "redirects":
            return self.send(request, 307, b"", Location="http://127.0.0.1:1/elsewhere")
        if what == "fails":
            return self.send(request, 500, b"<h1>broken</h1>")
        if what == "hangs":
            time.sleep(1.5)
        if what == "html":
            return self.send(request, 200, b"<html>hello</html>")  # it says that this is JSON
        if what == "huge":
            return self.send(request, 200, b'{"answer": "' + b"x" * 20_000_000 + b'"}')
        if what == "empty":
            return self.send(request, 200, b"{}")
        if what == "twice":
            return self.send(request, 200, json.dumps({**CAPITAL, "retrieved_doc_ids": ["a", "a"]}).encode())
        if what == "drops":
            request.close_connection = True
            return request.connection.close()
        return self.send(request, 200, json.dumps(CAPITAL).encode())

    def send(self, request, status, body, **headers):
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        with suppress(OSError):  # the client had enough
            request.wfile.write(body)
