"""The only way to a language model: calls, retries, usage and price."""

from ragassay.llm.capabilities import Capabilities, Messages
from ragassay.llm.chat import ChatModel
from ragassay.llm.client import LLM
from ragassay.llm.prices import Prices
from ragassay.llm.rate_limit import LocalSpacing, Pace, RateLimit, together
from ragassay.llm.resolve import missing_keys, warm_up
from ragassay.llm.text import readable

__all__ = [
    "LLM",
    "Capabilities",
    "ChatModel",
    "LocalSpacing",
    "Messages",
    "Pace",
    "Prices",
    "RateLimit",
    "missing_keys",
    "readable",
    "together",
    "warm_up",
]
