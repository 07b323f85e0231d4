"""Metrics: each a few lines on a chunk's ranked gains, on a verdict, or on a sample."""
