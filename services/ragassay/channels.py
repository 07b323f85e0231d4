"""How a notice leaves us: signed as Standard Webhooks has it, as a text for Slack, or as mail by SMTP."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import smtplib
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from typing import Literal

import httpx
import orjson

from ragassay.errors import BadInput, Unavailable, reason_from
from ragassay.llm.pacing import retry_after
from ragassay.notices import Notice
from ragassay.outgoing import Allowed, outgoing_client

TIMEOUT_S = 10.0
GONE = 410
_PREFIX = "whsec_"
_MAIL = SMTP.clone(max_line_length=990)  # else subjects are folded, which some show
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Refusal(Unavailable):
    """A receiver did not take a notice. ``answered``: its HTTP status; None where it gave none."""

    def __init__(self, message: str, *, answered: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.answered = answered


@dataclass(frozen=True)
class MailServer:
    """The operator's SMTP server, and who gets mail. ``tls``: by STARTTLS, from the first byte, or not at all."""

    host: str
    port: int
    sender: str
    receivers: tuple[str, ...]
    tls: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: str | None = field(default=None, repr=False)


def new_secret() -> str:
    """A secret to sign with: 256 bits."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signature(secret: str, delivery: str, timestamp: int, body: bytes) -> str:
    """``v1,`` and the base64 of HMAC-SHA256 over ``ID.TIMESTAMP.BODY``, by https://www.standardwebhooks.com."""
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = f"{delivery}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def post(notice: Notice, delivery: str, url: str, signed_by: Sequence[str] | None, *, allowed: Allowed) -> int:
    """Send a notice to a webhook; None for ``signed_by`` is Slack's form. Returns the HTTP status; raises Refusal."""
    headers = {"Content-Type": "application/json", "User-Agent": "ragassay"}
    if signed_by is None:
        body = orjson.dumps({"text": notice.text.translate(_SLACK)})
    else:
        data = notice.model_dump(mode="json", exclude_none=True, exclude={"kind", "at"})
        body = orjson.dumps({"type": notice.kind, "timestamp": notice.at, "data": data})
        now = int(time.time())
        signatures = " ".join(signature(secret, delivery, now, body) for secret in signed_by)
        headers |= {"webhook-id": delivery, "webhook-timestamp": str(now), "webhook-signature": signatures}
    try:
        with (
            outgoing_client(allowed=allowed, timeout_s=TIMEOUT_S) as client,
            client.stream("POST", url, content=body, headers=headers) as answer,  # nobody reads what it says
        ):
            status, wait = answer.status_code, retry_after(dict(answer.headers))
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, BadInput) as error:
        raise Refusal(reason_from(f"{type(error).__name__}: {error}".replace(url, "its address"))) from None
    if not 200 <= status < 300:
        raise Refusal(f"it answered {status}", answered=status, retry_after=wait)
    return status


def mail(notice: Notice, delivery: str, server: MailServer) -> None:
    """Send a notice by mail; raises Refusal. Mail that is sent twice has the same Message-ID."""
    message = EmailMessage(_MAIL)
    message["Subject"] = f"[ragassay] {notice.headline}"
    message["From"], message["To"] = server.sender, ", ".join(server.receivers)
    message["Message-ID"] = f"<{delivery}@ragassay>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(notice.text + "\n")
    try:
        trusted = ssl.create_default_context()
        connection = (
            smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT_S, context=trusted)
            if server.tls == "tls"
            else smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S)
        )
        with connection:
            if server.tls == "starttls":
                connection.starttls(context=trusted)
            if server.user is not None:
                connection.login(server.user, server.password or "")
            connection.send_message(message)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise Refusal(f"the mail server: {reason_from(error)}") from None
