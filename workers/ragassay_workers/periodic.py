"""The heartbeat of a worker, and what the loops of worker and scheduler share."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable

from redis.exceptions import RedisError

from ragassay.service.redis import RedisStore

HEARTBEAT_EVERY_S, HEARTBEAT_LASTS_S = 5, 30

logger = logging.getLogger(__name__)


class Heartbeat(threading.Thread):
    """Records in Redis every few seconds that this worker runs, with so many processes for chunks, and when it stops."""

    def __init__(self, store: RedisStore, processes: int) -> None:
        self._store, self._worker, self._stopped = store, process_name(processes), threading.Event()
        super().__init__(daemon=True, name=f"heartbeat of worker {self._worker}")

    def run(self) -> None:
        """Send heartbeats until it is stopped."""
        while not self._stopped.is_set():
            attempt(self.name, lambda: self._store.heartbeat("worker", self._worker, for_s=HEARTBEAT_LASTS_S))
            self._stopped.wait(HEARTBEAT_EVERY_S)
        attempt(self.name, lambda: self._store.deregister("worker", self._worker))

    def stop(self) -> None:
        """Send no further one. The thread deregisters the worker, so a signal handler need not wait."""
        self._stopped.set()


def attempt(what: str, action: Callable[[], object]) -> bool:
    """Call ``action``, and log an error that it raises; was it completed?"""
    try:
        action()
    except Exception as error:  # the outermost handler: Redis may be away, and a bug must not end the loop
        logger.warning("%s failed: %s", what, error, exc_info=not isinstance(error, RedisError))
        return False
    return True


def process_name(processes: int = 1) -> str:
    """Under which name this process sends heartbeats, as the parent of so many processes."""
    return f"{socket.gethostname()}:{os.getpid()}:{processes}"
