"""The only way to a language model: calls, retries, usage and price."""

from ragassay.llm.capabilities import Messages, ReplyForm
from ragassay.llm.client import LLM
from ragassay.llm.rate_limit import LocalSpacing, RateLimit, Spacing
from ragassay.llm.replies import readable
from ragassay.llm.resolve import Prices, missing_keys, warm_up

__all__ = [
    "LLM",
    "LocalSpacing",
    "Messages",
    "Prices",
    "RateLimit",
    "ReplyForm",
    "Spacing",
    "missing_keys",
    "readable",
    "warm_up",
]
