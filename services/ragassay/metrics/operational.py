"""What an answer took: latency, tokens and money of the system under test, as it reported them."""

from __future__ import annotations

from ragassay.core.models import Sample, Score
from ragassay.metrics.base import metric


@metric(better="lower", kind="performance", needs="latency_ms")
def latency_ms(sample: Sample) -> float | None:
    """End-to-end latency in ms."""
    return sample.response.latency_ms if sample.response else None


@metric(better="lower", kind="performance", needs="first_token_ms")
def first_token_ms(sample: Sample) -> float | None:
    """Time to the first token of an answer that is streamed, in ms."""
    return sample.response.first_token_ms if sample.response else None


@metric(better="lower", kind="performance", needs="retrieval_latency_ms")
def retrieval_latency_ms(sample: Sample) -> float | None:
    """Latency of retrieval in ms."""
    return sample.response.retrieval_latency_ms if sample.response else None


@metric(better="lower", kind="performance", needs="generation_latency_ms")
def generation_latency_ms(sample: Sample) -> float | None:
    """Latency of generation in ms."""
    return sample.response.generation_latency_ms if sample.response else None


@metric(better="lower", kind="cost", needs="input_tokens")
def input_tokens(sample: Sample) -> float | None:
    """Tokens that the system sent to its model."""
    return sample.response.input_tokens if sample.response else None


@metric(better="lower", kind="cost", needs="output_tokens")
def output_tokens(sample: Sample) -> float | None:
    """Tokens that the system's model wrote."""
    return sample.response.output_tokens if sample.response else None


@metric(better="lower", kind="cost", needs="cost")
def cost_usd(sample: Sample) -> Score:
    """Cost of the answer in USD; unknown where the response neither gives it nor names a priced model and tokens."""
    response = sample.response
    if response is None or response.cost_usd is None:
        return Score.absent(f"the model {response.model if response else None!r} has no known price", "no_input")
    return Score(value=response.cost_usd)
