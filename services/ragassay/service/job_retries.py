"""Failed rows of a job that has ended are tried again, and its report is made anew."""

from __future__ import annotations

import numpy as np

from ragassay.core.errors import Conflict
from ragassay.core.jobs import Job
from ragassay.service.job_results import JobRows
from ragassay.service.job_rows import check_rows
from ragassay.service.job_state import JobState, not_under_way
from ragassay.service.jobs import Jobs
from ragassay.service.redis import RedisStore
from ragassay.storage.columns import FAILED, label_column, label_value
from ragassay.storage.protocol import ChunkId

_RESPONSE_FAILED = label_value("response_failed")


def retry(jobs: Jobs, job: str) -> Job:
    """Have the failed rows of a job evaluated again, and of one that failed as a whole what has no results.

    A job that is at it stays as it is. Raises NotFound where there is no such job or its rows are gone, Conflict where it
    has not ended or was cancelled, has a stop rule, or has no row that can be tried again.
    """
    store, state = jobs.store, jobs.store.state(job)
    if not (state.retries and state.status in ("running", "finalizing")):
        _check(job, state)
        failed, recorded = _failed_rows(store, job, state)
        done = set(store.done(job))
        chunks = [chunk for chunk in state.record.chunks() if chunk in failed or str(chunk) not in done]
        if not chunks and state.status == "finished":
            raise _nothing(job, recorded)
        check_rows(store, state.record, chunks, done)
        chunks.sort(key=lambda chunk: chunk.number)
        rows = sum(count for chunk, count in failed.items() if str(chunk) in done)
        if store.retry(job, state.record, chunks, rows=rows, ended_ms=state.changed_ms) == "stale":
            return retry(jobs, job)
    jobs.wake(job)
    return jobs.get(job)


def _check(job: str, state: JobState) -> None:
    if state.status in ("paused", "cancelled"):
        raise not_under_way(state)
    if not state.ended:
        raise Conflict(f"job {job} is {state.status}", hint="its failed rows can be tried again once it has ended")


def _failed_rows(store: RedisStore, job: str, state: JobState) -> tuple[dict[ChunkId, int], int]:
    """How many rows of each chunk can be tried again; and how many can't, since their responses came with an error."""
    record = state.record
    found: dict[ChunkId, int] = {}
    recorded = 0
    for system, source in record.systems.items():
        rows = JobRows(store, job, record).columns(system)
        failed = rows.there() & (rows.column(FAILED) > 0)
        if not (source.called or source.built):
            given = failed & (rows.column(label_column("failure")) == _RESPONSE_FAILED)
            recorded += int(given.sum())
            failed &= ~given
        numbers, counts = np.unique(np.flatnonzero(failed) // record.chunk_size, return_counts=True)
        found |= {ChunkId(system, int(n)): int(count) for n, count in zip(numbers, counts, strict=True)}
    return found, recorded


def _nothing(job: str, recorded: int) -> Conflict:
    if recorded:
        what = f"job {job}: the responses of {recorded} rows were submitted with an error; nothing else failed"
        return Conflict(what, hint="submit it with other responses")
    return Conflict(f"no row of job {job} failed", hint="there is nothing to try again")
