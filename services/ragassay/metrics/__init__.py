"""Metrics: each a few lines on a chunk's ranked gains, on a verdict, or on a sample."""

from ragassay.metrics import accuracy, decisions, diversity, judged, operational, retrieval, semantic, text
from ragassay.metrics.base import METRICS, Chunk, Metric, metric, parse

__all__ = [
    "METRICS",
    "Chunk",
    "Metric",
    "accuracy",
    "decisions",
    "diversity",
    "judged",
    "metric",
    "operational",
    "parse",
    "retrieval",
    "semantic",
    "text",
]
