"""How Redis is connected to."""

from __future__ import annotations

from typing import Any


def connect(url: str, *, patient: bool) -> Any:  # its stubs mix sync and async answers
    """A connection. A call waits about ten seconds for a Redis that restarts, and some more for one that hangs.

    Not ``patient``, one second each: who asks over HTTP should soon get the answer that Redis is away.
    """
    from redis import Redis
    from redis.backoff import EqualJitterBackoff
    from redis.exceptions import BusyLoadingError, ConnectionError, TimeoutError  # noqa: A004 - redis's names
    from redis.retry import Retry

    passing = (ConnectionError, BusyLoadingError, *([TimeoutError] if patient else []))
    return Redis.from_url(
        url,
        socket_timeout=3 if patient else 1,
        socket_connect_timeout=3 if patient else 1,
        health_check_interval=15,
        retry=Retry(EqualJitterBackoff(cap=2, base=0.05), 9 if patient else 3, passing),
    )
