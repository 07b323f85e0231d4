"""The only importer of Celery on the sending side. A message means that there may be work; Redis holds what work."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from redis.exceptions import RedisError

from ragassay.service.connection import connect

# Workers take from the queues in turn, so that a report, or a run that is due, does not wait behind the chunks of jobs.
CHUNKS, REPORTS, SCHEDULES = "ragassay.chunks", "ragassay.reports", "ragassay.schedules"
QUEUES = (CHUNKS, REPORTS, SCHEDULES)
logger = logging.getLogger(__name__)


class Queue:
    """Sends wake-ups to the workers through a Celery broker; ``url`` as redis-py writes it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def enqueue(self, job: str) -> None:
        """Send a message to the workers' queue. Where the broker does not take it, the scheduler sends it again."""
        self._send(CHUNKS, "ragassay.work", job, about=f"job {job}")

    def finalize(self, job: str) -> None:
        """Send the message for the report. Where the broker does not take it, the scheduler sends it again."""
        self._send(REPORTS, "ragassay.finalize", job, about=f"job {job}")

    def start(self, project: str, schedule: str, slot_ms: int) -> None:
        """Send the message for a run that is due. Where the broker does not take it, the scheduler sends it again."""
        self._send(SCHEDULES, "ragassay.start", project, schedule, slot_ms, about=f"schedule {schedule}")

    def waiting(self, queue: str) -> bytes:
        """The messages of a queue that no worker has taken, which name their jobs; raises redis's errors."""
        return b"".join(self._redis.lrange(queue, 0, -1))

    def has_waiting(self) -> bool:
        """Are there messages about chunks that no worker has taken? Not if the broker does not answer."""
        try:
            return bool(self._redis.llen(CHUNKS))
        except RedisError:
            return False

    def _send(self, queue: str, task: str, *arguments: object, about: str) -> None:
        from kombu.exceptions import OperationalError

        try:
            self._celery.send_task(task, arguments, queue=queue, ignore_result=True)
        except OperationalError as error:
            logger.warning("the broker does not take %s for %s: %s", task, about, error)

    @cached_property
    def _redis(self) -> Any:
        return connect(self._url, patient=False)

    @cached_property
    def _celery(self) -> Any:
        from celery import Celery

        app = Celery("ragassay", broker=broker_url(self._url), set_as_current=False)
        app.conf.update(
            task_serializer="json",
            task_ignore_result=True,
            broker_transport_options={**TRANSPORT, "socket_timeout": 1, "socket_connect_timeout": 1},
            broker_connection_retry_on_startup=True,
            task_publish_retry_policy={"max_retries": 1, "interval_start": 0.3},  # else the scheduler sends it again
        )
        return app


def depths(broker: Any) -> tuple[dict[str, int], int]:
    """By queue, the messages that no worker has taken, and how many are taken and not done; of a Redis connection.

    Each is the length of one key: the list of the queue's name, and the hash ``unacked``.
    """
    pipe = broker.pipeline(transaction=False)
    for queue in QUEUES:
        pipe.llen(queue)
    pipe.hlen("unacked")
    *waiting, taken = pipe.execute()
    return dict(zip(QUEUES, waiting, strict=True)), taken


TRANSPORT = {
    "visibility_timeout": 2000,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "socket_timeout": 10,
    "socket_connect_timeout": 3,
    "health_check_interval": 15,
}


def broker_url(url: str) -> str:
    """Celery's spelling of a Redis address: it names the database of a socket differently."""
    if not url.startswith("unix://"):
        return url
    return "redis+socket://" + url.removeprefix("unix://").replace("?db=", "?virtual_host=").replace(
        "&db=", "&virtual_host="
    )
