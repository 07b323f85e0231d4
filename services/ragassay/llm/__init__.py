"""The only way to a language model: calls, retries, usage and price."""

from ragassay.llm.chat import ChatModel
from ragassay.llm.library import missing_keys, warm_up
from ragassay.llm.model import LLM
from ragassay.llm.negotiation import Messages
from ragassay.llm.pacing import LocalSpacing, Pace, RateLimit, together

__all__ = [
    "LLM",
    "ChatModel",
    "LocalSpacing",
    "Messages",
    "Pace",
    "RateLimit",
    "missing_keys",
    "together",
    "warm_up",
]
