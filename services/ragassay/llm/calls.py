"""A call while it is made: what is asked, and the requests for it so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
class Tries:
    """The requests of a call so far. ``wasted``: bills of replies that were of no use; ``variant``: how the next is made.

    ``outages``: how many outages of the provider there had been when the call began. ``kept``: the reply has the waste.
    """

    outages: int
    begun: int = 0
    uncertain: int = 0
    wasted: Usage = field(default_factory=Usage)
    variant: Variant | None = None
    kept: bool = False

    @property
    def waste(self) -> Usage:
        """What came to nothing."""
        return self.wasted + Usage(retries=max(self.begun - 1, 0), uncertain_calls=self.uncertain)
