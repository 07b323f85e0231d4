"""Metrics: each a few lines on a chunk's ranked gains, on a verdict, or on a sample.

Whoever asks this package for a name gets it with all metrics registered; ``metrics.retrieval`` alone, imported for itself,
stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragassay.metrics.base import METRICS, Chunk, Metric, metric, parse

_ROOMS = ("accuracy", "decisions", "diversity", "judged", "operational", "retrieval", "semantic", "text")

__all__ = ["METRICS", "Chunk", "Metric", "metric", "parse"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ragassay.metrics' has no attribute {name!r}")
    for room in _ROOMS:
        import_module(f"ragassay.metrics.{room}")
    return getattr(import_module("ragassay.metrics.base"), name)
