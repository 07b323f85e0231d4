"""What a worker has claimed stays its own for as long as it works on it, and no longer than a lease after it died."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from redis.exceptions import RedisError

from ragassay.service.job_state import Claim, ReportClaim
from ragassay.service.redis import RedisStore


@contextmanager
def lease_kept(
    store: RedisStore, claim: Claim | ReportClaim, lost: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Renew the lease each second in a thread, and call ``lost`` once the work is not wanted any more."""
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(min(store.lease_ms / 4000, 1.0)):
            if not store.renew(claim):
                lost()
                return

    thread = threading.Thread(target=renew, daemon=True, name="lease")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def report_claimed(store: RedisStore, job: str) -> Iterator[bool]:
    """Claim a job's report for the length of the block; False where another worker makes it, or it is not wanted."""
    claim = store.claim_report(job)
    if claim is None:
        yield False
        return
    try:
        with lease_kept(store, claim):
            yield True
    finally:
        with suppress(RedisError):  # the lease ends by itself
            store.give_back(claim)
