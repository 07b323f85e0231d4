"""``/v1/metrics``: what can be asked for."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Depends
from pydantic import ConfigDict

from ragassay.api.security import by_method
from ragassay.core.models import FrozenModel
from ragassay.metrics.metric import METRICS, Kind, Metric

router = APIRouter(prefix="/v1/metrics", tags=["metrics"], dependencies=[Depends(by_method)])


_EXAMPLE: dict[str, Any] = {
    "name": "recall@k",
    "kind": "retrieval",
    "better": "higher",
    "needs": ["judgments"],
    "description": "Share of the relevant documents that are among the first k.",
}


class MetricInfo(FrozenModel):
    """A metric as a job may name it. ``name`` shows its parameter; ``ndcg@k`` is asked for as ``ndcg@10``."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    name: str
    kind: Kind
    better: Literal["higher", "lower"]
    needs: tuple[str, ...]
    description: str


class MetricList(FrozenModel):
    """All metrics, plug-ins included."""

    metrics: tuple[MetricInfo, ...]


@router.get("", operation_id="listMetrics", summary="List the metrics")
def list_metrics() -> MetricList:
    """The metrics that a job may name, what each needs and what it says."""
    return MetricList(metrics=tuple(map(_info, METRICS)))


def _info(metric: Metric) -> MetricInfo:
    return MetricInfo(
        name=metric.form,
        kind=metric.kind,
        better=metric.better,
        needs=metric.needs,
        description=metric.description,
    )
