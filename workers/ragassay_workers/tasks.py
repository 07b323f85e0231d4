"""The tasks: each one call into a use case. What fails because Redis or a provider is away is tried again later."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from redis.exceptions import RedisError

from ragassay import observability
from ragassay.core.errors import AssayError
from ragassay.core.settings import Settings
from ragassay.service.cron import iso
from ragassay.service.jobs import Jobs
from ragassay_workers import process
from ragassay_workers.app import app

logger = logging.getLogger(__name__)


@app.task(name="ragassay.work", max_retries=5, default_retry_delay=5)
def work(job: str) -> None:
    """Run one chunk of a job. Delivered at least once, so it claims before it works."""
    with _jobs(job) as jobs:
        jobs.work(job)


@app.task(name="ragassay.finalize", max_retries=5, default_retry_delay=5)
def finalize(job: str) -> None:
    """Make the report of a job whose chunks are all done."""
    with _jobs(job) as jobs:
        jobs.finalize(job)


@app.task(name="ragassay.start", max_retries=5, default_retry_delay=5)
def start(project: str, schedule: str, slot_ms: int) -> None:
    """Make the job of a scheduled run. Delivered at least once; a run that has its job is left alone."""
    # As the API reads it; no other task needs these imports.
    from ragassay.api.submission import read_scheduled

    with observability.about(project=project, schedule=schedule, slot=iso(slot_ms)), _one_line(f"schedule {schedule}"):
        schedules = process.schedules().of(project)
        read = partial(read_scheduled, settings=Settings(), jobs=schedules.jobs)
        schedules.start(schedule, slot_ms, read)


@contextmanager
def _one_line(about: str) -> Iterator[None]:
    """An outage is one line in the log, and the scheduler sends the next wake-up. Anything else that is raised is a bug: Celery
    logs it.
    """
    try:
        yield
    except (AssayError, RedisError) as error:
        logger.warning("%s: %s", about, error)


@contextmanager
def _jobs(job: str) -> Iterator[Jobs]:
    """The use cases of this process. Where there is a bug, a chunk is tried again when its lease has run out."""
    jobs = process.jobs()
    # Celery's soft time limit would raise somewhere inside the event loop, where a library may swallow it. Set here,
    # because Celery sets its own handler after a child's initialisation.
    signal.signal(signal.SIGUSR1, lambda *_: jobs.break_off(stopping=False))
    with observability.about(job=job), _one_line(f"job {job}"):
        yield jobs
