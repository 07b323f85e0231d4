"""What a worker's processes do besides tasks: log, import heavy libraries before the fork, heartbeat, stop in time.

Celery's parent starts, forks its children and waits; the children run tasks. A pipe made before the fork shows the
children that the parent stops: all of them read one end, and only the parent holds the other.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from functools import cache, partial
from types import FrameType
from typing import Any

from celery import signals
from kombu.transport import redis, virtual

from ragassay import observability
from ragassay.core.settings import Settings
from ragassay.service import wiring
from ragassay.service.health import log_redis
from ragassay.service.jobs import Jobs
from ragassay.service.queue import CHUNKS
from ragassay.service.redis import RedisStore
from ragassay.service.schedules import Schedules
from ragassay_workers.periodic import Heartbeat

VERBOSE_LIBRARIES = (
    *("LiteLLM", "httpx", "httpcore", "openai", "sentence_transformers", "transformers"),
    *("celery.worker.strategy", "celery.app.trace"),  # our own lines say what a job does
)
AHEAD_S = 2.0  # a child gives its chunk back this long before Celery would end it

_pipe: tuple[int, int] | None = None
_heartbeat: Heartbeat | None = None


@cache
def jobs() -> Jobs:
    """The use cases, with this process's own connections and event loop."""
    return wiring.jobs_for(Settings())


@cache
def schedules() -> Schedules:
    """The schedules over them."""
    return wiring.schedules_for(Settings(), jobs())


@signals.after_setup_logger.connect
@signals.after_setup_task_logger.connect
def _set_up_logs(logger: logging.Logger, **_: Any) -> None:
    """Celery makes the handlers, the settings say what they write: it holds text from data, such as names of systems."""
    for handler in logger.handlers:
        observability.prepare_handler(handler, Settings())
    if logger is logging.getLogger():
        observability.set_log_levels(Settings())
    for name in VERBOSE_LIBRARIES:  # which log every call or message
        logging.getLogger(name).setLevel(logging.WARNING)


class FreeingQoS(redis.QoS):  # type: ignore[misc]  # kombu has no types
    """Frees a message's place in a worker even if its acknowledgement does not reach the broker.

    kombu keeps the place of a message whose acknowledgement failed, and a worker without a free place asks for no message,
    so it would not notice that its connection is gone. The broker gives the message out again later, which does no harm.
    """

    def ack(self, delivery_tag: Any) -> None:
        """Acknowledge a message; raises what the broker's connection raises, with the place free."""
        try:
            super().ack(delivery_tag)
        except redis.get_redis_error_classes().connection_errors:
            virtual.QoS.ack(self, delivery_tag)
            raise


@signals.worker_init.connect
def _before_fork(**_: Any) -> None:
    """Import what is heavy once, in the parent; nothing is encoded before the fork, or the children would hang."""
    global _pipe
    _pipe = os.pipe()
    redis.Channel.QoS = FreeingQoS
    wiring.warm_up(Settings())


@signals.worker_process_init.connect
def _after_fork(**_: Any) -> None:
    jobs.cache_clear()  # connections and event loops do not survive a fork
    schedules.cache_clear()
    jobs()
    observability.start_tracing("worker")
    if _pipe is not None:
        reader, writer = _pipe
        os.close(writer)
        threading.Thread(target=_watch_parent, args=(reader, os.getppid()), daemon=True, name="parent").start()


def _watch_parent(reader: int, parent: int) -> None:
    """Wait until the parent closes the pipe. Either it stops, and so do we a little earlier; or it died."""
    os.read(reader, 1)
    if os.getppid() != parent:
        os._exit(1)
    threading.Event().wait(max(0.0, Settings().shutdown_s - AHEAD_S))
    jobs().break_off(stopping=True)


@signals.worker_ready.connect
def _ready(sender: Any, **_: Any) -> None:
    global _heartbeat
    settings = Settings()
    log_redis(settings.redis_servers)
    takes_chunks = CHUNKS in sender.app.amqp.queues.consume_from
    processes = sender.controller.concurrency if takes_chunks else 0
    _heartbeat = Heartbeat(RedisStore(settings.state), processes)
    _heartbeat.start()
    # Celery's own handlers first sleep for as long as chunks may still run, and only then send worker_shutting_down.
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, partial(_stop, signal.getsignal(number)))


def _stop(celerys_handler: Any, number: int, frame: FrameType | None) -> None:
    """Tell the children that the worker stops, and let Celery do the rest."""
    global _pipe
    if _pipe is not None:
        os.close(_pipe[1])
        _pipe = None
    if _heartbeat is not None:
        _heartbeat.stop()
    if callable(celerys_handler):
        celerys_handler(number, frame)


@signals.worker_process_shutdown.connect
def _child_ends(**_: Any) -> None:
    jobs().close()
    observability.stop_tracing()
