"""The Celery application. A message only says that there may be work, so a lost one costs time and nothing else.

Importing this reads no environment and opens no connection; the settings are read when Celery asks for its own.
"""

from __future__ import annotations

from typing import Any

from celery import Celery

from ragassay.core.settings import Settings
from ragassay.service.queue import CHUNKS, TRANSPORT, broker_url

SOFT_LIMIT_S, HARD_LIMIT_S = 840, 900


def configuration() -> dict[str, Any]:
    """Celery's settings; the comments say what goes wrong without them."""
    settings = Settings()
    return {
        "broker_url": broker_url(settings.broker),
        "broker_transport_options": TRANSPORT,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,  # a worker outlives any outage of Redis
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_default_queue": CHUNKS,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_retry_on_worker_lost": True,
        "task_soft_time_limit": SOFT_LIMIT_S,
        "task_time_limit": HARD_LIMIT_S,
        "worker_prefetch_multiplier": 1,  # else a small job's queue waits behind those of a large one
        "worker_cancel_long_running_tasks_on_connection_loss": False,  # True loses tasks for good
        "worker_soft_shutdown_timeout": settings.shutdown_s,
        "worker_max_tasks_per_child": 500,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_redirect_stdouts": False,
        "worker_log_format": "%(asctime)s %(levelname)s %(processName)s %(message)s",
        "worker_task_log_format": "%(asctime)s %(levelname)s %(processName)s %(task_name)s %(message)s",
    }


app = Celery("ragassay", include=["ragassay_workers.tasks"])
app.add_defaults(configuration)
