"""What a client asks of a service about alerts and webhooks, apart from how it is sent; see ``exchanges``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from ragassay.notices import DeliveryPage, NoticePage, Replayed, Webhook, WebhookList, WebhookSecret
from ragassay.python.exchanges import JSON, MOST_A_PAGE, Exchange, HttpRequest, route


def alerts(kind: str | None, cursor: str | None) -> Exchange[NoticePage]:
    """A page of what was told: the first, or the one of a cursor."""
    return NoticePage.model_validate_json(
        (yield HttpRequest("GET", route("alerts", kind=kind, cursor=cursor, limit=MOST_A_PAGE)))
    )


def add(asked: Mapping[str, Any]) -> Exchange[WebhookSecret]:
    """Add a webhook."""
    return WebhookSecret.model_validate_json((yield HttpRequest("POST", route("webhooks"), _body(asked), JSON)))


def webhooks() -> Exchange[WebhookList]:
    """All webhooks."""
    return WebhookList.model_validate_json((yield HttpRequest("GET", route("webhooks"))))


def show(webhook: str) -> Exchange[Webhook]:
    """One webhook."""
    return Webhook.model_validate_json((yield HttpRequest("GET", route("webhooks", webhook))))


def change(webhook: str, changes: Mapping[str, Any]) -> Exchange[Webhook]:
    """Change what is given of a webhook."""
    return Webhook.model_validate_json((yield HttpRequest("PATCH", route("webhooks", webhook), _body(changes), JSON)))


def delete(webhook: str) -> Exchange[Webhook]:
    """Forget a webhook."""
    return Webhook.model_validate_json((yield HttpRequest("DELETE", route("webhooks", webhook))))


def rotate(webhook: str) -> Exchange[WebhookSecret]:
    """Replace its secret."""
    return WebhookSecret.model_validate_json((yield HttpRequest("POST", route("webhooks", webhook, "secret"))))


def test(webhook: str) -> Exchange[Replayed]:
    """Try it out."""
    return Replayed.model_validate_json((yield HttpRequest("POST", route("webhooks", webhook, "test"))))


def deliveries(webhook: str, cursor: str | None) -> Exchange[DeliveryPage]:
    """A page of its deliveries: the first, or the one of a cursor."""
    path = route("webhooks", webhook, "deliveries", cursor=cursor, limit=MOST_A_PAGE)
    return DeliveryPage.model_validate_json((yield HttpRequest("GET", path)))


def replay(webhook: str, delivery: str | None, failed_since: datetime | str | None) -> Exchange[Replayed]:
    """Send one delivery, or those that failed since then, again. A time without an offset is of this machine's zone."""
    since = failed_since.astimezone().isoformat() if isinstance(failed_since, datetime) else failed_since
    path = route("webhooks", webhook, "replay", delivery=delivery, failed_since=since)
    return Replayed.model_validate_json((yield HttpRequest("POST", path)))


def _body(asked: Mapping[str, Any]) -> bytes:
    return orjson.dumps({key: value for key, value in asked.items() if value is not None})
