"""``/healthz`` and ``/readyz``: does the process live, and would a job be worked on?"""

from __future__ import annotations

from importlib import metadata
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import ConfigDict

from ragassay.api.problems import documented
from ragassay.errors import Unavailable
from ragassay.jobs import Jobs
from ragassay.models import Noun

router = APIRouter(tags=["health"])


class Health(Noun):
    """The process answers."""

    model_config = ConfigDict(json_schema_extra={"example": {"status": "ok", "version": "0.1.0"}})

    status: Literal["ok"] = "ok"
    version: str


class Readiness(Noun):
    """Redis answers and somebody works. ``warnings`` says what of Redis's configuration could lose jobs."""

    model_config = ConfigDict(json_schema_extra={"example": {"status": "ready", "workers": 2, "warnings": []}})

    status: Literal["ready"] = "ready"
    workers: int
    warnings: tuple[str, ...]


@router.get("/healthz", operation_id="health", summary="Does the server live?", responses=documented(421, 500))
async def health() -> Health:
    """Answers as long as the process does; asks nobody else."""
    return Health(version=metadata.version("ragassay"))


@router.get("/readyz", operation_id="readiness", summary="Are jobs worked on?", responses=documented(421, 500, 503))
def readiness(request: Request) -> Readiness:
    """Redis answers and at least one worker lives."""
    jobs: Jobs = request.app.state.jobs
    warnings = jobs.store.check()
    workers = jobs.store.alive("worker")
    if not workers:
        listed = f"; also: {'; '.join(warnings)}" if warnings else ""
        raise Unavailable(f"no worker lives{listed}", hint="start one: ragassay worker")
    return Readiness(workers=workers, warnings=tuple(warnings))
