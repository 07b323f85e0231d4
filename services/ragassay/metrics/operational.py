"""What an answer took: latency, tokens and money of the system under test, as it reported them."""

from __future__ import annotations

from ragassay.metrics.base import metric
from ragassay.models import Sample, Score


def _reported(sample: Sample, field: str) -> Score:
    value = getattr(sample.response, field)
    return Score.absent(f"the response has no {field}", "no_input") if value is None else Score(value=value)


@metric(better="lower", kind="performance", bounds=None)
def latency_ms(sample: Sample) -> Score:
    """End-to-end latency in ms."""
    return _reported(sample, "latency_ms")


@metric(better="lower", kind="performance", bounds=None)
def retrieval_latency_ms(sample: Sample) -> Score:
    """Latency of retrieval in ms."""
    return _reported(sample, "retrieval_latency_ms")


@metric(better="lower", kind="performance", bounds=None)
def generation_latency_ms(sample: Sample) -> Score:
    """Latency of generation in ms."""
    return _reported(sample, "generation_latency_ms")


@metric(better="lower", kind="cost", bounds=None)
def input_tokens(sample: Sample) -> Score:
    """Tokens that the system sent to its model."""
    return _reported(sample, "input_tokens")


@metric(better="lower", kind="cost", bounds=None)
def output_tokens(sample: Sample) -> Score:
    """Tokens that the system's model wrote."""
    return _reported(sample, "output_tokens")


@metric(better="lower", kind="cost", bounds=None)
def cost_usd(sample: Sample) -> Score:
    """Cost of the answer in USD; unknown where the response neither gives it nor names a priced model and tokens."""
    return _reported(sample, "cost_usd")
