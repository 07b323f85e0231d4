"""What other packages need of a language model; ``LLM`` implements it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ragassay.core.protocols import Call, CallAccount, Journal, Reply
from ragassay.llm.capabilities import Messages


class ChatModel(Protocol):
    """What judges and answerers need of a model; ``LLM`` implements it."""

    @property
    def model(self) -> str:
        """The model's name, as the user gave it."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What determines a reply, apart from messages and endpoint. JSON-ready, without addresses and keys."""

    @property
    def endpoint(self) -> str:
        """The address that requests go to, for the name of a call alone: no report shows it."""

    @property
    def context_window(self) -> int | None:
        """Tokens that the model reads; None where that is not known."""

    def warm_up(self) -> None:
        """Import what the first call needs, which is no part of its time; asks nobody."""

    async def complete(
        self,
        messages: Messages,
        *,
        schema: Mapping[str, Any] | None,
        schema_name: str,
        max_tokens: int,
        call: Call,
        journal: Journal,
        account: CallAccount | None = None,
        alternatives: int = 0,
        seed_shift: int = 0,
        read: Callable[[Reply], object] | None = None,
    ) -> Reply:
        """The reply; from the journal if the call is settled, else from the provider and then settled.

        ``account`` receives what a call without a reply has spent. ``alternatives``: how many of the likeliest tokens are
        wanted with their probabilities, wherever it hesitates.
        ``seed_shift`` is added to the seed, where the provider takes one; the call has to tell such replies apart.
        A reply in which ``read`` finds None is ``unreadable``: no later run takes it from a cache.
        """
