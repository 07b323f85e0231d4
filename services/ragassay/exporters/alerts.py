"""What there is to say of webhooks, and of what they were sent."""

from __future__ import annotations

from ragassay.notices import Delivery, Webhook


def state(one: Webhook) -> str:
    """``enabled``, or why it is not."""
    return "enabled" if one.enabled else f"disabled ({one.disabled_because or 'by hand'})"


def last_try(one: Webhook) -> str:
    """When a webhook was last sent something, and what came of it."""
    return f"last try {one.last_at[:19]}: {_answer(one)}" if one.last_at else "nothing was sent yet"


def outcome(one: Delivery) -> str:
    """``failed after 2 tries: it answered 500, next try at 2026-11-23T08:00:00``."""
    after = f", next try at {one.next_at[:19]}" if one.next_at and one.tries else ""
    tries = f"{one.tries} {'try' if one.tries == 1 else 'tries'}"
    return ": ".join(filter(None, (f"{one.status} after {tries}", _answer(one)))) + after


def _answer(one: Webhook | Delivery) -> str:
    return one.last_error or (f"it answered {one.last_status}" if one.last_status else "")
