"""A ledger in memory: for tests, notebooks and everything else that need not survive the process."""

from __future__ import annotations

from ragassay.models import Call, Reply, Usage


class MemoryLedger:
    """Remembers settled calls by their place in the job. ``lost`` adds up what released calls may have cost."""

    def __init__(self) -> None:
        self.settled: dict[str, Reply] = {}
        self.calls: list[Call] = []
        self.lost = Usage()

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:  # noqa: ARG002 - no budget in memory
        """The settled reply, or None and the right to make the call."""
        return self.settled.get(call.id)

    async def settle(self, call: Call, reply: Reply) -> None:
        """Keep the reply."""
        self.calls.append(call)
        self.settled[call.id] = reply

    async def release(self, call: Call, spent: Usage) -> None:  # noqa: ARG002 - one sum is enough here
        """Add to ``lost``."""
        self.lost += spent
