"""Journals of calls: one reservation and one end for each request to a provider.

A store (memory, folder, Redis) implements ``reserve``, ``settle`` and ``end``. ``StoredJournal.attempt`` is the only
place that decides how a request ends: with a reply (settled), at a known cost (freed or wasted), or, if the caller was
cancelled, timed out or died, with an unknown outcome, for which the estimate counts as spent.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ragassay.core.aio import to_its_end
from ragassay.core.errors import ProviderDown, Unavailable
from ragassay.core.models import Usage
from ragassay.core.protocols import Attempt, Call, Journal, Purpose, Reply, digest
from ragassay.llm.budget import BudgetAccount

# Calls of a run with these purposes and the same content are paid once, whichever of its systems they are about.
SHARED: tuple[Purpose, ...] = ("judge", "repair")


@dataclass(frozen=True)
class Reservation:
    """The right to make the ``number``th request of a call; ``max_usage`` is reserved for it."""

    call: Call
    number: int
    max_usage: Usage

    @property
    def key(self) -> str:
        """Names the request: the second one of a call is ``call#2``."""
        return f"{self.call.id}#{self.number}"

    @property
    def unknown(self) -> Usage:
        """What the request counts with if its outcome is unknown."""
        return self.max_usage.model_copy(update={"calls": 0, "uncertain_calls": 1})

    def booked(self, spent: Usage) -> Usage:
        """``spent`` as the budget counts it: with the estimated cost if the bill has no price."""
        priced = spent == Usage() or spent.cost_usd is not None
        return spent if priced else spent.model_copy(update={"cost_usd": self.max_usage.cost_usd})


class StoredJournal(ABC):
    """A journal over a store."""

    @abstractmethod
    async def reserve(self, call: Call, max_usage: Usage) -> Reply | Reservation:
        """The settled reply, or the right to make one request; may wait for the budget. Raises BudgetReached."""

    @abstractmethod
    async def settle(self, reservation: Reservation, reply: Reply) -> None:
        """Keep the reply; what it cost takes the place of the reservation."""

    @abstractmethod
    async def end(self, reservation: Reservation, spent: Usage) -> None:
        """End a request without a reply; ``spent`` takes the place of the reservation."""

    @asynccontextmanager
    async def attempt(self, call: Call, max_usage: Usage) -> AsyncIterator[Attempt]:
        """One request: reserved at the start, ended once at the end, whatever happens in between."""
        reserved = await self.reserve(call, max_usage)
        if isinstance(reserved, Reply):
            yield Attempt(reserved)
            return
        attempt = Attempt()
        try:
            yield attempt
        finally:
            # Kept even if the task is cancelled at this very moment: what is paid is never lost.
            if attempt.reply is not None:
                await to_its_end(self.settle(reserved, attempt.reply))
            else:
                spent = reserved.unknown if attempt.spent is None else reserved.booked(attempt.spent)
                await to_its_end(self.end(reserved, spent))


def hit(call: Call, known: Reply) -> Reply:
    """A reply that is paid already, as this call's. An answer keeps its bill: what it takes of the system under test."""
    bill = known.usage if call.purpose == "answer" else Usage()
    usage = bill.model_copy(update={"calls": 0, "cache_hits": 1})
    return known.model_copy(update={"usage": usage, "waste": Usage()})


class MemoryJournal(StoredJournal):
    """Remembers settled calls by their place in the job, within a budget."""

    def __init__(self) -> None:
        self.account = BudgetAccount()
        self.settled: dict[str, Reply] = {}

    async def reserve(self, call: Call, max_usage: Usage) -> Reply | Reservation:
        """The settled reply, or the right to make one request."""
        if settled := self.settled.get(call.id):
            return settled
        await self.account.reserve(max_usage)
        return Reservation(call, 1, max_usage)

    async def settle(self, reservation: Reservation, reply: Reply) -> None:
        """Keep the reply."""
        self.settled[reservation.call.id] = reply
        await self.account.settle(reservation.max_usage, reservation.booked(reply.usage))

    async def end(self, reservation: Reservation, spent: Usage) -> None:
        """What the request spent counts."""
        await self.account.settle(reservation.max_usage, spent)


class CostEstimator:
    """A journal for a dry run: no request is made, and what each might take at the most is kept."""

    def __init__(self) -> None:
        self.estimates: list[Usage] = []

    @asynccontextmanager
    async def attempt(self, call: Call, max_usage: Usage) -> AsyncIterator[Attempt]:  # noqa: ARG002 - all alike
        """An empty reply of a kind that no caller asks for again."""
        self.estimates.append(max_usage)
        yield Attempt(Reply(text="", finish_reason="content_filter"))


class Circuit:
    """The circuit breaker of a provider that failed: half-open until one call is answered, or open for good.

    Half-open, one call is let through, the others wait for it; if it fails, every call raises ProviderDown. ``answered``
    is called once when it is answered. Open (``given_up``), every call raises Unavailable. Replies that are there pass.
    """

    def __init__(
        self, why: str, *, given_up: bool = False, answered: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self._why, self._answered = why, answered
        self._turn = asyncio.Lock()
        self._failed = False
        self.given_up, self.closed = given_up, False

    @asynccontextmanager
    async def attempt(self, journal: Journal, call: Call, max_usage: Usage) -> AsyncIterator[Attempt]:
        """One request through ``journal``, if the state of the provider allows it."""
        async with self._turn:
            if not self.closed:
                refused = self.given_up or self._failed
                async with journal.attempt(call, Usage() if refused else max_usage) as attempt:
                    if attempt.reply is not None:
                        yield attempt
                        return
                    if refused:
                        attempt.free()
                        raise (Unavailable if self.given_up else ProviderDown)(self._why)
                    try:
                        yield attempt
                    finally:
                        self._failed, self.closed = not attempt.answered, attempt.answered
                if self.closed and self._answered:
                    await self._answered()
                return
        async with journal.attempt(call, max_usage) as attempt:
            yield attempt


@dataclass(frozen=True)
class CallScope:
    """A journal for some of the calls of another: what sets them apart, and what holds for them.

    ``prefix``: of the ids, so that two systems may give the same answer to the same query. ``salt``: no reply to the same
    content with another salt answers them. ``circuit``: the state of their provider after an outage. ``answered`` is
    given each call that has a reply.
    """

    journal: Journal
    prefix: str = ""
    salt: str = ""
    circuit: Circuit | None = None
    answered: Callable[[Call], object] | None = None

    @asynccontextmanager
    async def attempt(self, call: Call, max_usage: Usage) -> AsyncIterator[Attempt]:
        """One request, as the journal below and the circuit allow it."""
        one = self._scoped(call)
        allowed = (
            self.circuit.attempt(self.journal, one, max_usage) if self.circuit else self.journal.attempt(one, max_usage)
        )
        async with allowed as attempt:
            yield attempt
        if self.answered and attempt.reply is not None:
            self.answered(call)

    def _scoped(self, call: Call) -> Call:
        if not self.prefix:
            return call
        content = digest([self.salt, call.content]) if self.salt else call.content
        return call.model_copy(update={"id": f"{self.prefix}/{call.id}", "content": content})


def draw_scope(journal: Journal, number: int) -> Journal:
    """The calls of a judge's ``number``th draw, its rating of the same rows again; the first has the judge's own."""
    name = f"sample {number}"
    return journal if number == 1 or isinstance(journal, CostEstimator) else CallScope(journal, name, name)


def refusing_journal(journal: Journal, why: str) -> CallScope:
    """The journal when a provider is given up: what is settled is returned, any other call raises Unavailable."""
    return CallScope(journal, circuit=Circuit(why, given_up=True))
