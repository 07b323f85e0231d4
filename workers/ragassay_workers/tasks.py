"""The tasks: each one call into ``ragassay.jobs``. What Redis or a provider can't answer now is rung for again later."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError

from ragassay.errors import AssayError
from ragassay.jobs import Jobs
from ragassay_workers import process
from ragassay_workers.app import app

logger = logging.getLogger(__name__)


@app.task(name="ragassay.pump", max_retries=5, default_retry_delay=5)
def pump(job: str, bell: int, nonce: str) -> None:
    """Run one chunk of a job. Delivered at least once, so it claims before it works."""
    with _answered(job) as jobs:
        jobs.pump(job, bell, nonce)


@app.task(name="ragassay.finalize", max_retries=5, default_retry_delay=5)
def finalize(job: str) -> None:
    """Make the report of a job whose chunks are all done."""
    with _answered(job) as jobs:
        jobs.finalize(job)


@contextmanager
def _answered(job: str) -> Iterator[Jobs]:
    """The use cases of this process; an outage is one line in the log, and the sweeper rings again.

    Anything else that is raised is a bug: Celery logs it, and the chunk's lease sees to the rest.
    """
    jobs = process.jobs()
    # Celery's soft time limit would raise somewhere inside the event loop, where a library may swallow it. Set here,
    # because Celery sets its own handler after a child's initialisation.
    signal.signal(signal.SIGUSR1, lambda *_: jobs.break_off(stopping=False))
    try:
        yield jobs
    except (AssayError, RedisError) as error:
        logger.warning("job %s: %s", job, error)
