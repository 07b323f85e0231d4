"""The only way to a language model: calls, retries, usage and price; and a scripted model for tests beside it."""

from ragassay.llm.fake import FakeLLM
from ragassay.llm.library import warm_up
from ragassay.llm.model import LLM, Completes, Messages

__all__ = ["LLM", "Completes", "FakeLLM", "Messages", "warm_up"]
