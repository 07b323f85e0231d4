"""How Redis is connected to, and which of its errors are an outage, which passes, and no bug."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragassay.core.errors import Unavailable

_OF_PIPELINE = re.compile(r"^Command # \d+ \(.*\) of pipeline caused error: ", re.DOTALL)  # it quotes what was written
_PASSES = ("OOM ", "MISCONF ", "READONLY ", "BUSY ", "MASTERDOWN ", "NOREPLICAS ")


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


def unavailable(error: BaseException) -> Unavailable | None:
    """The error for callers when Redis could not do its work now; None for any other error.

    Errors inside a script carry Redis's own words further back, so they are looked for anywhere in the message.
    """
    from redis import exceptions

    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return Unavailable(f"Redis rejected our credentials ({error})", hint="check the password in RAGASSAY_STATE_URL")
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return Unavailable(f"Redis does not answer ({error})", hint="check RAGASSAY_STATE_URL, then ask again")
    if refuses_writes(error):
        why = _OF_PIPELINE.sub("", str(error))[:200]
        return Unavailable(f"Redis refuses writes now ({why})", hint="see what it lacks: GET /readyz")
    return None


def refuses_writes(error: BaseException) -> bool:
    """Did Redis answer, and refuse to write for now: its memory or its disk is full, say?"""
    from redis import exceptions

    if isinstance(error, exceptions.OutOfMemoryError | exceptions.ReadOnlyError):
        return True
    return isinstance(error, exceptions.ResponseError) and any(word in f"{error} " for word in _PASSES)


@contextmanager
def outages() -> Iterator[None]:
    """Within the block an outage of Redis is an Unavailable, for a command to show."""
    from redis.exceptions import RedisError

    try:
        yield
    except RedisError as error:
        raise unavailable(error) or error from None
