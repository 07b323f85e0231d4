"""The only importer of Celery on the sending side. A message says that there may be work; what work, Redis knows."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

CHUNKS = "ragassay.chunks"


class Doorbell(Protocol):
    """Rings for a job."""

    def ring(self, job: str, bell: int, nonce: str) -> None:
        """There may be a chunk to work on."""

    def finalize(self, job: str) -> None:
        """All chunks are done; the report can be made."""


class CeleryDoorbell:
    """Rings through a Celery broker. ``url`` as redis-py writes it; ``unix://`` is turned into Celery's form."""

    def __init__(self, url: str) -> None:
        self._url = broker_url(url)

    def ring(self, job: str, bell: int, nonce: str) -> None:
        """Send a message to the workers' queue."""
        self._celery.send_task("ragassay.pump", (job, bell, nonce), queue=CHUNKS, ignore_result=True)

    def finalize(self, job: str) -> None:
        """Send the message for the report."""
        self._celery.send_task("ragassay.finalize", (job,), queue=CHUNKS, ignore_result=True)

    @cached_property
    def _celery(self) -> Any:
        from celery import Celery

        app = Celery("ragassay", broker=self._url, set_as_current=False)
        app.conf.update(
            task_serializer="json",
            task_ignore_result=True,
            broker_transport_options=TRANSPORT,
            broker_connection_retry_on_startup=True,
        )
        return app


TRANSPORT = {
    "visibility_timeout": 2000,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "socket_timeout": 10,
    "socket_connect_timeout": 3,
    "health_check_interval": 15,
}


def broker_url(url: str) -> str:
    """Celery's spelling of a Redis address."""
    return f"redis+socket://{url.removeprefix('unix://')}" if url.startswith("unix://") else url
