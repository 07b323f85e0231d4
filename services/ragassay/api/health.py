"""``/healthz`` and ``/readyz``: is the server up, and would a job be processed?"""

from __future__ import annotations

from importlib import metadata
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import ConfigDict
from redis.exceptions import RedisError

from ragassay.core.errors import Unavailable
from ragassay.core.models import FrozenModel
from ragassay.service.jobs import Jobs
from ragassay.service.liveness import troubles
from ragassay.service.redis_schedules import OVERDUE_S, overdue

router = APIRouter(tags=["health"])


class Health(FrozenModel):
    """The process answers."""

    model_config = ConfigDict(json_schema_extra={"example": {"status": "ok", "version": "0.1.0"}})

    status: Literal["ok"] = "ok"
    version: str


class Readiness(FrozenModel):
    """Redis answers and workers are running. ``warnings``: what could lose jobs, or leave them as they are, and schedules
    that are due and that no beat begins.
    """

    model_config = ConfigDict(
        json_schema_extra={"example": {"status": "ready", "workers": 2, "beats": 2, "warnings": []}}
    )

    status: Literal["ready"] = "ready"
    workers: int
    beats: int
    warnings: tuple[str, ...]


@router.get("/healthz", operation_id="health", summary="Is the server up?")
async def health() -> Health:
    """Answers as long as the process does; depends on nothing else."""
    return Health(version=metadata.version("ragassay"))


@router.get("/readyz", operation_id="readiness", summary="Are jobs processed?")
def readiness(request: Request) -> Readiness:
    """Redis answers, the broker's too, and at least one worker is running. Looks at no job."""
    jobs: Jobs = request.app.state.jobs
    try:
        if (broker := request.app.state.broker) is not None:
            broker.ping()
    except RedisError as error:
        raise Unavailable(f"the broker does not answer ({error})", hint="check RAGASSAY_BROKER_URL") from None
    warnings = troubles(jobs.store)
    workers, beats = jobs.store.alive("worker"), jobs.store.alive("beat")
    if not beats:
        warnings.append("no beat is running: what a dead worker held is not given to another, and no schedule runs")
    if late := overdue(jobs.store, for_s=OVERDUE_S):
        warnings.append(f"schedules that are due and that no beat has noticed for {OVERDUE_S} s: {len(late)}")
    if not workers:
        listed = f"; also: {'; '.join(warnings)}" if warnings else ""
        raise Unavailable(f"no worker is running{listed}", hint="start one: ragassay worker")
    return Readiness(workers=workers, beats=beats, warnings=tuple(warnings))
