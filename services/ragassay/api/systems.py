"""``/v1/systems``: which systems a job may name."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from pydantic import ConfigDict

from ragassay.api.jobs import Service
from ragassay.api.security import by_method
from ragassay.core.models import FrozenModel

router = APIRouter(prefix="/v1/systems", tags=["systems"], dependencies=[Depends(by_method)])
_EXAMPLE: dict[str, Any] = {"systems": [{"name": "v2", "kind": "http", "description": "the assistant as it is online"}]}


class SystemInfo(FrozenModel):
    """A system that the operator registered. ``kind``: how it answers, such as ``http`` or ``bm25``."""

    name: str
    kind: str
    description: str | None = None


class SystemList(FrozenModel):
    """All of them, by name."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    systems: tuple[SystemInfo, ...]


@router.get("", operation_id="listSystems", summary="List the systems")
def list_systems(jobs: Service) -> SystemList:
    """The registered systems that a job may name in ``systems``."""
    listed = (SystemInfo(name=one.name, kind=one.config.kind, description=one.description) for one in jobs.registered)
    return SystemList(systems=tuple(listed))
