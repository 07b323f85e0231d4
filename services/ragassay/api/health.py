"""``/healthz`` and ``/readyz``: is the server up, and would a job be processed?"""

from __future__ import annotations

from importlib import metadata
from typing import Literal

from fastapi import APIRouter, Request

from ragassay.core.errors import Unavailable
from ragassay.core.models import FrozenModel
from ragassay.service.health import health as service_health

router = APIRouter(tags=["health"])


class Health(FrozenModel):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Readiness(FrozenModel):
    """Redis answers and workers are running. ``warnings``: the problems of ``ragassay admin health`` that name no job."""

    status: Literal["ready"] = "ready"
    workers: int
    beats: int
    warnings: tuple[str, ...]


@router.get("/healthz")
async def health() -> Health:
    """Answers as long as the process does; depends on nothing else."""
    return Health(version=metadata.version("ragassay"))


@router.get("/readyz")
def readiness(request: Request) -> Readiness:
    """Redis answers, the broker's too, and at least one worker is running. Looks at no job that has ended."""
    now = service_health(request.app.state.jobs.store, request.app.state.settings.redis_servers.get("broker"))
    if not now.ready:
        raise Unavailable("; ".join(now.problems), hint="see docs/operations.md")
    return Readiness(workers=now.workers, beats=now.beats, warnings=now.problems)
