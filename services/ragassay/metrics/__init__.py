"""Metrics: each a few lines on a chunk's ranked gains, on a verdict, or on a sample.

A name that is imported from here comes with all metrics registered. ``metrics.retrieval``, imported for itself, does
without pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragassay.metrics.base import METRICS, Metric, metric, parse
    from ragassay.metrics.chunk import Chunk

_REGISTERING = ("decisions", "diversity", "judged", "operational", "retrieval", "semantic", "text")

__all__ = ["METRICS", "Chunk", "Metric", "metric", "parse"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ragassay.metrics' has no attribute {name!r}")
    for module in _REGISTERING:
        import_module(f"ragassay.metrics.{module}")
    return getattr(import_module("ragassay.metrics.chunk" if name == "Chunk" else "ragassay.metrics.base"), name)
