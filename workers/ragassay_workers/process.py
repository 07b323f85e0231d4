"""What a worker's processes do besides tasks: import heavy things before they fork, say that they live, stop well.

Celery's parent starts, forks its children and waits; the children run tasks. A pipe made before the fork tells the
children that the parent stops: all of them read its end, and only the parent holds the other.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from celery import signals
from redis.exceptions import RedisError

from ragassay import wiring
from ragassay.jobs import Jobs
from ragassay.settings import Settings
from ragassay.store.redis import RedisStore

ALIVE_FOR_S, SAY_EVERY_S = 30, 5
CHATTY = ("LiteLLM", "httpx", "httpcore", "openai", "sentence_transformers", "transformers")
AHEAD_S = 2.0  # a child gives its chunk back this long before Celery would end it

logger = logging.getLogger(__name__)


class _Process:
    """What this process keeps; made anew after a fork, because connections and event loops do not survive it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.settings = Settings()
        self.jobs = wiring.jobs_for(self.settings)


_mine: _Process | None = None
_pipe: tuple[int, int] | None = None
_presence: Presence | None = None


def jobs() -> Jobs:
    """The use cases, with this process's own connections."""
    global _mine
    if _mine is None or _mine.pid != os.getpid():
        _mine = _Process()
    return _mine.jobs


class Presence:
    """A thread that says every few seconds that a worker or beat lives."""

    def __init__(self, store: RedisStore, kind: str) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._store, self._kind = store, kind
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="presence")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self, *, wait_s: float = 0.0) -> None:
        """Say that it is over. The thread does that, so that a signal handler need not wait for Redis."""
        self._ended.set()
        self._thread.join(wait_s)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._say(partial(self._store.here, self._kind, self.name, for_s=ALIVE_FOR_S))
            self._ended.wait(SAY_EVERY_S)
        self._say(partial(self._store.gone, self._kind, self.name))

    def _say(self, sign: Callable[[], None]) -> None:
        try:
            sign()
        except RedisError as error:
            logger.warning("%s %s can't say whether it lives: %s", self._kind, self.name, error)


@signals.after_setup_logger.connect
def _quiet(**_: Any) -> None:
    """Libraries that tell of every call at level INFO are heard from WARNING on."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


@signals.worker_init.connect
def _before_fork(**_: Any) -> None:
    """Import what is heavy once, in the parent; nothing is encoded before the fork, or the children would hang."""
    global _pipe
    _pipe = os.pipe()
    wiring.warm_up(Settings())


@signals.worker_process_init.connect
def _after_fork(**_: Any) -> None:
    if _pipe is None:
        return
    end, parent = _pipe
    os.close(parent)
    threading.Thread(target=_heed, args=(end, os.getppid()), daemon=True, name="heed").start()


def _heed(end: int, parent: int) -> None:
    """Wait until the parent closes the pipe: it stops, or it died."""
    os.read(end, 1)
    if os.getppid() != parent:
        os._exit(1)
    mine = _mine
    if mine is not None:
        threading.Event().wait(max(0.0, mine.settings.shutdown_s - AHEAD_S))
        mine.jobs.break_off(stopping=True)


@signals.worker_ready.connect
def _ready(**_: Any) -> None:
    global _presence
    settings = Settings()
    _presence = Presence(RedisStore(settings.state), "worker")
    _presence.start()
    # Celery's own handlers first sleep for as long as chunks may still run, and only then send worker_shutting_down.
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, partial(_tell_then, signal.getsignal(number)))


def _tell_then(celery: Any, number: int, frame: FrameType | None) -> None:
    """Tell the children that the worker stops, and let Celery do the rest."""
    global _pipe
    if _pipe is not None:
        os.close(_pipe[1])
        _pipe = None
    if _presence is not None:
        _presence.end()
    if callable(celery):
        celery(number, frame)


@signals.worker_process_shutdown.connect
def _child_ends(**_: Any) -> None:
    if _mine is not None and _mine.pid == os.getpid():
        _mine.jobs.close()
