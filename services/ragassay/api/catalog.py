"""``/v1/metrics`` and ``/v1/systems``: what a job may name."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter

from ragassay.api.dependencies import Reads
from ragassay.api.security import Reader
from ragassay.core.models import FrozenModel
from ragassay.metrics.metric import METRICS, Kind

router = APIRouter(prefix="/v1", tags=["catalog"])


class MetricInfo(FrozenModel):
    """A metric as a job may name it. ``name`` shows its parameter; ``ndcg@k`` is asked for as ``ndcg@10``."""

    name: str
    kind: Kind
    better: Literal["higher", "lower"]
    needs: tuple[str, ...]
    description: str


class MetricList(FrozenModel):
    """All metrics, plug-ins included."""

    metrics: tuple[MetricInfo, ...]


@router.get("/metrics")
def list_metrics(_: Reader) -> MetricList:
    """The metrics that a job may name, what each needs and what it says."""
    listed = (
        MetricInfo(name=one.signature, kind=one.kind, better=one.better, needs=one.needs, description=one.description)
        for one in METRICS
    )
    return MetricList(metrics=tuple(listed))


class SystemInfo(FrozenModel):
    """A system that the operator registered. ``kind``: how it answers, such as ``http`` or ``bm25``."""

    name: str
    kind: str
    description: str | None = None


class SystemList(FrozenModel):
    """All of them, by name."""

    systems: tuple[SystemInfo, ...]


@router.get("/systems")
def list_systems(jobs: Reads) -> SystemList:
    """The registered systems that a job may name in ``systems``."""
    listed = (SystemInfo(name=one.name, kind=one.config.kind, description=one.description) for one in jobs.registered)
    return SystemList(systems=tuple(listed))
