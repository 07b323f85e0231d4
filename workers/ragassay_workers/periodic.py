"""What a worker does every few seconds beside its work: its heartbeat."""

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


class Periodic:
    """A thread that calls ``action`` at once and then every ``every_s`` seconds, and ``at_end`` when it is stopped."""

    def __init__(self, name: str, every_s: float, action: Callable[[], object], at_end: Callable[[], object]) -> None:
        self._name, self._every_s, self._action, self._at_end = name, every_s, action, at_end
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no further call. ``at_end`` runs in the thread: a signal handler need not wait for it."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            attempt(self._name, self._action)
            self._stopped.wait(self._every_s)
        attempt(self._name, self._at_end)


def attempt(what: str, action: Callable[[], object]) -> bool:
    """Call ``action``, and log an error that it raises; was it completed?"""
    try:
        action()
    except Exception as error:  # an outer door: Redis may be away, and a bug must not end the rounds
        logger.warning("%s failed: %s", what, error, exc_info=not isinstance(error, RedisError))
        return False
    return True


def process_name(processes: int = 1) -> str:
    """Under which name this process sends heartbeats, as the parent of so many processes."""
    return f"{socket.gethostname()}:{os.getpid()}:{processes}"


def heartbeat(store: RedisStore, processes: int) -> Periodic:
    """Tells Redis every few seconds that this worker runs, with so many processes for chunks, and when it stops."""
    name = process_name(processes)
    return Periodic(
        f"heartbeat of worker {name}",
        HEARTBEAT_EVERY_S,
        lambda: store.heartbeat("worker", name, for_s=HEARTBEAT_LASTS_S),
        at_end=lambda: store.deregister("worker", name),
    )
