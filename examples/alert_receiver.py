"""A receiver of alerts: prints each notice whose signature is right, and refuses the others with 401.

pip install standardwebhooks
curl http://127.0.0.1:8400/v1/webhooks -H 'Content-Type: application/json' -d '{"url": "http://127.0.0.1:9000/"}' -o webhook.json
python alert_receiver.py --port 9000 webhook.json
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from standardwebhooks import Webhook, WebhookVerificationError


class Handler(BaseHTTPRequestHandler):
    """Takes one notice after another; a notice may come twice, so each is printed once."""

    def do_POST(self):
        """Verify, answer at once, then say what happened."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            notice = self.server.webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.send_response(401)
            self.end_headers()
            return
        self.send_response(204)
        self.end_headers()
        if notice["data"]["id"] not in self.server.seen:
            self.server.seen.add(notice["data"]["id"])
            print(json.dumps(notice), flush=True)

    def log_message(self, *_):
        """Not on the terminal."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("webhook", type=Path, help="the answer of POST /v1/webhooks")
    parser.add_argument("--port", type=int, default=9000)
    chosen = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", chosen.port), Handler)
    server.webhook, server.seen = Webhook(json.loads(chosen.webhook.read_text())["secret"]), set()
    server.serve_forever()
