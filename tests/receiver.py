"""A real HTTP server on loopback that is told of alerts.

with Receiver() as receiver:
    receiver.url, receiver.got         # where it listens; what it got, in order of arrival
    receiver.answers.append(503)       # a status, (status, headers), or what is called before 204 is answered
"""

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook


@dataclass
class Got:
    """One request."""

    path: str
    headers: dict
    body: bytes

    @property
    def id(self):
        return self.headers.get("webhook-id")

    @property
    def document(self):
        return json.loads(self.body)

    def verified(self, secret):
        """The document; raises where the signature does not fit the secret."""
        return Webhook(secret).verify(self.body, self.headers)


class Receiver:
    def __init__(self, *answers):
        self.answers, self.got, self.at_once, self.most_at_once = list(answers), [], 0, 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer.lock:
                    outer.at_once += 1
                    outer.most_at_once = max(outer.most_at_once, outer.at_once)
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    outer.got.append(Got(self.path, headers, body))
                    answer = outer.answers.pop(0) if outer.answers else 204
                try:
                    if callable(answer):
                        answer()
                        answer = 204
                    status, headers = answer if isinstance(answer, tuple) else (answer, {})
                    self.send_response(status)
                    for name, value in {"Content-Length": "0", **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                except OSError:  # the sender was killed
                    pass
                finally:
                    with outer.lock:
                        outer.at_once -= 1

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
