"""Requests of the service to addresses that somebody typed in: to public addresses only, and nowhere else by a redirect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragassay.core.http_guard.targets import Allowed, check_url

if TYPE_CHECKING:
    import httpx

__all__ = ["LARGEST_ANSWER", "Allowed", "check_url", "outgoing_client"]
LARGEST_ANSWER = 1_000_000  # bytes on the wire, headers included


def outgoing_client(
    *,
    allowed: Allowed = Allowed(),  # noqa: B008 - frozen
    timeout_s: float = 10.0,
) -> httpx.Client:
    """A client that connects to public addresses, and to what is ``allowed``; it follows no redirect.

    ``timeout_s`` is for a whole request: name, connection, answer. What is refused, too slow or too long is an
    httpx.TransportError.
    """
    from ragassay.core.http_guard.transport import client

    return client(allowed, timeout_s, LARGEST_ANSWER)
