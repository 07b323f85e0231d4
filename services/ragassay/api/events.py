"""Follow a job as server-sent events: the job as it is, whenever it has changed, until it has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from anyio import to_thread
from fastapi.sse import ServerSentEvent
from redis.exceptions import RedisError

from ragassay.core.errors import NotFound
from ragassay.core.jobs import ENDED, Job
from ragassay.service.jobs import Jobs

POLL_S = 1.0
_log = logging.getLogger("ragassay.api")


async def events(jobs: Jobs, job: Job) -> AsyncIterator[ServerSentEvent]:
    """An event with the job now, and one after each change; the last one has the job as it ended, or was deleted."""
    while True:
        yield ServerSentEvent(raw_data=job.model_dump_json())
        if job.status in ENDED:
            return
        known = job
        while job == known:
            await asyncio.sleep(POLL_S)
            try:
                job = await to_thread.run_sync(jobs.get, job.id)
            except NotFound:
                return
            except RedisError as error:
                _log.warning("job %s can't be followed now: %s", job.id, error)
