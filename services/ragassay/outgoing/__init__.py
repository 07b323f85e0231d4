"""Requests of the service to addresses that somebody typed in: to public addresses only, and nowhere else by a redirect."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ragassay.outgoing.targets import Allowed, check_url

if TYPE_CHECKING:
    import httpx

__all__ = ["LARGEST_ANSWER", "check_url", "outgoing_client"]
LARGEST_ANSWER = 1_000_000  # bytes on the wire, headers included


def outgoing_client(*, allowed: Collection[str] = (), timeout_s: float = 10.0) -> httpx.Client:
    """A client that connects to public addresses, and to what ``allowed`` names; it follows no redirect.

    ``allowed``: hosts, ``host:port`` or networks (10.0.0.0/8) that the operator lets the service reach. ``timeout_s`` is
    for a whole request: name, connection, answer. What is refused, too slow or too long is an httpx.TransportError.
    Raises BadSettings for an ``allowed`` that can't be read.
    """
    from ragassay.outgoing.transport import client

    return client(Allowed.read(allowed), timeout_s, LARGEST_ANSWER)
