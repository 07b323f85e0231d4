"""Leases with a heartbeat: what a worker has stays its own while it works on it, and no longer than a lease after it died."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from redis.exceptions import LockNotOwnedError, RedisError

from ragassay.service.job_state import Claim
from ragassay.service.redis import RedisStore


@contextmanager
def lease_kept(store: RedisStore, claim: Claim, lost: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Renew the lease each second in a thread, and call ``lost`` once the work is not wanted any more."""
    with _renewed(store, lambda: store.renew(claim), lost):
        yield


@contextmanager
def report_claimed(store: RedisStore, job: str) -> Iterator[bool]:
    """Hold the lock of a job's report for the block; False if another worker makes the report, or it is not wanted."""
    lock = store.report_lock(job)
    if not lock.acquire():
        yield False
        return

    def renew() -> bool:
        try:
            lock.reacquire()
        except LockNotOwnedError:
            return False
        except RedisError:  # no other worker can take it either
            return True
        return True

    try:
        with _renewed(store, renew, lambda: None):
            yield store.status(job) == "finalizing"
    finally:
        with suppress(RedisError):  # the lease ends by itself
            lock.release()


@contextmanager
def _renewed(store: RedisStore, renew: Callable[[], bool], lost: Callable[[], object]) -> Iterator[None]:
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(min(store.lease_ms / 4000, 1.0)):
            if not renew():
                lost()
                return

    thread = threading.Thread(target=go_on, daemon=True, name="lease")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
