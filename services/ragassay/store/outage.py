"""Tells an outage of Redis, which passes, from a mistake of ours, which does not."""

from __future__ import annotations

from ragassay.errors import Unavailable

_PASSES = ("OOM ", "MISCONF ", "READONLY ", "BUSY ", "MASTERDOWN ", "CLUSTERDOWN ", "NOREPLICAS ", "TRYAGAIN ")


def outage(error: BaseException) -> Unavailable | None:
    """What a caller should hear when Redis could not do its work now; None for any other error.

    Scripts hand Redis's own words on behind theirs, so the words are looked for anywhere in the message.
    """
    from redis import exceptions

    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return Unavailable(f"Redis lets us not in ({error})", hint="check the password in RAGASSAY_STATE_URL")
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return Unavailable(f"Redis does not answer ({error})", hint="check RAGASSAY_STATE_URL, then ask again")
    said = str(error)
    refuses = isinstance(error, exceptions.ResponseError) and any(word in f"{said} " for word in _PASSES)
    if refuses or isinstance(error, exceptions.OutOfMemoryError | exceptions.ReadOnlyError):
        return Unavailable(f"Redis takes nothing now ({said[:200]})", hint="see what it lacks: GET /readyz")
    return None
