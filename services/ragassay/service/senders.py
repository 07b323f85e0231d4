"""Senders of notifications: signed JSON as Standard Webhooks has it, or a text in Slack's format."""

from __future__ import annotations

import base64
import secrets
from datetime import UTC, datetime

import orjson
from standardwebhooks import Webhook

from ragassay.core import http_guard
from ragassay.core.errors import BadInput, Unavailable, reason_from
from ragassay.core.http_guard import Allowed
from ragassay.service.notifications import Notification

TIMEOUT_S = 10.0
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Refusal(Unavailable):
    """A receiver did not take a notification. ``answered``: its HTTP status; None if it gave none."""

    def __init__(self, message: str, *, answered: int | None = None) -> None:
        super().__init__(message)
        self.answered = answered


def new_secret() -> str:
    """A secret to sign with: 256 bits."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def post(notification: Notification, delivery: str, url: str, secret: str | None, *, allowed: Allowed) -> int:
    """Send a notification to a webhook; without a ``secret`` in Slack's format. Returns the HTTP status; raises Refusal."""
    headers: dict[str | bytes, str | bytes] = {"Content-Type": "application/json", "User-Agent": "ragassay"}
    if secret is None:
        body = orjson.dumps({"text": notification.text.translate(_SLACK)})
    else:
        data = notification.model_dump(mode="json", exclude_none=True, exclude={"kind", "at"})
        body = orjson.dumps({"type": notification.kind, "timestamp": notification.at, "data": data})
        now = datetime.now(UTC)
        signed = Webhook(secret).sign(delivery, now, body.decode())
        headers |= {"webhook-id": delivery, "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signed}
    try:
        status = http_guard.post(url, body, headers, allowed=allowed, timeout_s=TIMEOUT_S)
    except (BadInput, Unavailable) as error:
        raise Refusal(reason_from(str(error))) from None
    if not 200 <= status < 300:
        raise Refusal(f"it answered {status}", answered=status)
    return status
