"""Jobs as the service shows them: one, and pages of a project's."""

from __future__ import annotations

from ragassay.core.errors import Conflict, NotFound
from ragassay.core.jobs import Alert, Job, JobPage, JobStatus, Progress
from ragassay.evaluation.outage import waiting_text
from ragassay.service.job_reports import MOST_LOOKED_AT
from ragassay.service.job_state import JobState
from ragassay.service.projects import clock_time
from ragassay.service.redis import RedisStore


def shown(state: JobState) -> Job:
    """A job as it stands."""
    record = state.record
    return Job(
        id=record.id,
        name=record.spec.name,
        status=state.status,
        created_at=record.created_at,
        started_at=None if state.started_ms is None else clock_time(state.started_ms),
        ended_at=clock_time(state.changed_ms) if state.ended and state.changed_ms is not None else None,
        judge=record.spec.judged_by,
        metrics=record.metrics,
        progress=Progress(rows=state.rows, done=state.rows_done, failed=state.rows_failed),
        uncertain_calls=state.uncertain_calls,
        retries=state.retries,
        alerts=tuple(Alert(**alert) for alert in state.alerts) if state.ended else (),
        systems=tuple(record.systems),
        warnings=(*record.dataset.warnings, *(why for source in record.systems.values() for why in source.warnings)),
        waiting=_waiting(state),
        error=state.error or (state.given_up and f"rows were given up: {state.given_up}"),
        planned=state.planned,
    )


def page(store: RedisStore, *, cursor: str | None, limit: int, status: JobStatus | None = None) -> JobPage:
    """Jobs, newest first. With ``status`` a page looks at so many jobs at the most, so it may hold fewer."""
    most = limit if status is None else max(limit, MOST_LOOKED_AT)
    listed = store.jobs(before=cursor, limit=most + 1)
    jobs: list[Job] = []
    last = None
    for id_, after in listed[:most]:
        last = after
        try:
            job = shown(store.state(id_))
        except (NotFound, Conflict):  # the list outlives a job's record; another version's can't be read
            continue
        if status in (None, job.status):
            jobs.append(job)
        if len(jobs) == limit:
            break
    return JobPage(jobs=tuple(jobs), next=None if not listed or last == listed[-1][1] else last)


def _waiting(state: JobState) -> str | None:
    if state.ended or state.waiting is None or state.waiting_since_ms is None:
        return None
    return waiting_text(state.waiting, state.waiting_since_ms / 1000)
