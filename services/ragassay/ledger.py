"""Ledgers without a store: one in memory, one that lets no call through, and one that keeps systems apart."""

from __future__ import annotations

from ragassay.models import Call, Ledger, Reply, Usage


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


class DryLedger:
    """Lets no call through, and adds up what the calls would have taken."""

    def __init__(self) -> None:
        self.estimates: list[Usage] = []

    async def reserve(self, call: Call, estimate: Usage) -> Reply:  # noqa: ARG002 - every call is answered alike
        """An empty reply, so that nothing is asked again."""
        self.estimates.append(estimate)
        return Reply(text="", finish_reason="content_filter")

    async def settle(self, call: Call, reply: Reply) -> None:
        """Nothing is ever settled."""

    async def release(self, call: Call, spent: Usage) -> None:
        """Nothing is ever open."""


class ScopedLedger:
    """Another ledger, for the calls of one system: two systems may give the same answer to the same query."""

    def __init__(self, ledger: Ledger, scope: str) -> None:
        self._ledger, self._scope = ledger, scope

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        """As the ledger below."""
        return await self._ledger.reserve(self._scoped(call), estimate)

    async def settle(self, call: Call, reply: Reply) -> None:
        """As the ledger below."""
        await self._ledger.settle(self._scoped(call), reply)

    async def release(self, call: Call, spent: Usage) -> None:
        """As the ledger below."""
        await self._ledger.release(self._scoped(call), spent)

    def _scoped(self, call: Call) -> Call:
        return call.model_copy(update={"id": f"{self._scope}/{call.id}"})
