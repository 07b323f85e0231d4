"""A call while it is made: what is asked, and what was spent on it for nothing so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragassay.core.models import Usage
from ragassay.core.protocols import Reply
from ragassay.llm.capabilities import Messages, Variant


@dataclass(frozen=True)
class Request:
    """What is asked of the model.

    ``seed_shift``: added to the seed, so that the same question is drawn again. ``read``: what the caller finds in a reply;
    None where it can't be read.
    """

    messages: Messages
    schema: Mapping[str, Any] | None
    schema_name: str
    max_tokens: int
    alternatives: int = 0
    seed_shift: int = 0
    read: Callable[[Reply], object] | None = None


@dataclass(eq=False)
class Bill:
    """What a call has spent so far for nothing. ``open``: a reservation stands; ``lost``: it may be spent already;
    ``variant``: how the call is made next."""

    retries: int = 0
    uncertain: int = 0
    open: bool = False
    lost: bool = False
    outages: int = 0
    variant: Variant | None = None

    @property
    def waste(self) -> Usage:
        """What came to nothing."""
        return Usage(retries=self.retries, uncertain_calls=self.uncertain)
