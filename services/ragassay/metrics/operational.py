"""Time, tokens and money of the system under test, as it reported them."""

from __future__ import annotations

from collections.abc import Callable

from ragassay.core.models import Sample, Score
from ragassay.metrics.metric import Kind, metric

REPORTED: dict[str, tuple[Kind, str]] = {
    "latency_ms": ("performance", "End-to-end latency in ms."),
    "first_token_ms": ("performance", "Time to the first token of an answer that is streamed, in ms."),
    "retrieval_latency_ms": ("performance", "Latency of retrieval in ms."),
    "generation_latency_ms": ("performance", "Latency of generation in ms."),
    "input_tokens": ("cost", "Tokens that the system sent to its model."),
    "output_tokens": ("cost", "Tokens that the system's model wrote."),
}


def _reported(name: str) -> Callable[[Sample], float | None]:
    def reported(sample: Sample) -> float | None:
        value: float | None = getattr(sample.response, name, None)
        return value

    return reported


for _name, (_kind, _description) in REPORTED.items():
    metric(better="lower", name=_name, kind=_kind, needs=_name, description=_description)(_reported(_name))


@metric(better="lower", kind="cost", needs="cost")
def cost_usd(sample: Sample) -> Score:
    """Cost of the answer in USD; unknown where the response neither gives it nor names a priced model and tokens."""
    response = sample.response
    if response is None or response.cost_usd is None:
        return Score.absent(f"the model {response.model if response else None!r} has no known price", "no_input")
    return Score(value=response.cost_usd)
