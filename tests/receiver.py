"""A real HTTP server on loopback that is told of alerts.

with Receiver() as receiver:
    receiver.url, receiver.got         # where it listens; what it got, in order of arrival
    receiver.answers.append(503)       # a status, (status, headers), or what is called before 204 is answered
"""

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from standardwebhooks import Webhook

from loopback import LoopbackServer, Quiet


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


class _Told(Quiet, BaseHTTPRequestHandler):
    def do_POST(self):
        receiver, body = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        with receiver.lock:
            receiver.at_once += 1
            receiver.max_at_once = max(receiver.max_at_once, receiver.at_once)
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.got.append(Got(self.path, headers, body))
            answer = receiver.answers.pop(0) if receiver.answers else 204
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
            with receiver.lock:
                receiver.at_once -= 1


class Receiver(LoopbackServer):
    def __init__(self, *answers):
        self.answers, self.got, self.at_once, self.max_at_once = list(answers), [], 0, 0
        self.lock = threading.Lock()
        super().__init__(_Told)
        self.url += "/hook"
