"""Ledgers without a store: in memory, one that lets no call through, and such as keep budgets or tell how far it is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from ragassay.core.errors import AssayError, BadSettings, BudgetReached, ProviderDown, Unavailable
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Ledger, Purpose, Reply, digest
from ragassay.core.specification import Budget

RAISE_IT = "what is finished is kept; go on with a higher one"
# Calls of a run with these purposes and the same content are paid once, whichever of its systems they are about.
SHARED: tuple[Purpose, ...] = ("judge", "repair")


def of_unknown_price(model: str = "MODEL") -> BadSettings:
    """The error if USD are capped and a call's cost can't be known."""
    price = f'prices: {{"{model}": {{input_per_1m: 0.15, output_per_1m: 0.60}}}}'
    return BadSettings(
        "a budget in USD can't be kept: the model has no price",
        hint=f"give it one in the configuration, {price}, or set a budget in tokens, --budget-tokens N",
    )


def paid(reply: Reply, estimate: Usage, *, lost: int = 0) -> Usage:
    """What a call is held to have spent: its bills, and its estimate where no bill came - a price, a lost attempt.

    ``lost``: attempts of it that are booked already.
    """
    bills = (reply.usage, reply.waste)
    known = [b if b.cost_usd is not None else b.model_copy(update={"cost_usd": estimate.cost_usd}) for b in bills]
    return Usage.total([*known, *[estimate] * max(reply.waste.uncertain_calls - lost, 0)])


def ends(spent: Usage) -> bool:
    """Whether a call that is released has ended; else it may be made again, and attempts before are told of at its end."""
    return bool(spent.retries or spent.uncertain_calls)


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

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:  # noqa: ARG002 - one sum is enough here
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

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:
        """Nothing is ever open."""


class BudgetLedger:
    """Another ledger under a budget: a call is let through only if what it may take at the most still fits.

    Where it would fit if the calls in flight took less than they may, it waits for them. ``spent`` is what the run has
    spent before. ``reserve`` raises BudgetReached, and BadSettings where a cap on USD meets a model without a price.
    """

    def __init__(self, ledger: Ledger, budget: Budget, spent: Usage) -> None:
        self._ledger, self._budget, self.spent = ledger, budget, spent
        self._open: dict[str, Usage] = {}
        self._lost: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        """As the ledger below, within the budget. Asked again for an open call, the attempt before counts as paid."""
        if known := await self._ledger.reserve(call, estimate):
            return known
        try:
            await self._open_call(call, estimate)
        except AssayError:
            if not self._lost[call.id]:  # else its earlier attempt is still to be released
                await self._ledger.release(call, Usage())
            raise
        return None

    async def _open_call(self, call: Call, estimate: Usage) -> None:
        if self._budget.usd is not None and estimate.cost_usd is None:
            raise of_unknown_price()
        async with self._changed:
            if before := self._open.pop(call.id, None):
                self.spent += before
                self._lost[call.id] += 1
                self._changed.notify_all()
            while over := self._budget.over(Usage.total([self.spent, *self._open.values()]), estimate):
                if not self._open:
                    raise BudgetReached(over, hint=RAISE_IT)
                await self._changed.wait()
            self._open[call.id] = estimate

    async def settle(self, call: Call, reply: Reply) -> None:
        """As the ledger below; the bill takes the place of the estimate."""
        await self._ledger.settle(call, reply)
        await self._close(call, reply)

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:
        """As the ledger below; an attempt that may have been paid counts with its estimate."""
        await self._ledger.release(call, spent, answered=answered)
        await self._close(call, Reply(text="", waste=spent), untold=not ends(spent))

    async def _close(self, call: Call, reply: Reply, *, untold: bool = False) -> None:
        async with self._changed:
            lost = self._lost[call.id] if untold else self._lost.pop(call.id, 0)
            if estimate := self._open.pop(call.id, None):
                self.spent += paid(reply, estimate, lost=lost)
            self._changed.notify_all()


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

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:
        """As the ledger below."""
        await self._ledger.release(self._scoped(call), spent, answered=answered)

    def _scoped(self, call: Call) -> Call:
        return call.model_copy(update={"id": f"{self._scope}/{call.id}"})


class ReplicateLedger(ScopedLedger):
    """Another ledger, for the judging of that ``number`` of the same samples: no other judging's replies answer it."""

    def __init__(self, ledger: Ledger, number: int) -> None:
        super().__init__(ledger, f"judging {number}")

    def _scoped(self, call: Call) -> Call:
        content = digest([self._scope, call.content])
        return super()._scoped(call).model_copy(update={"content": content})


class ProbingLedger:
    """Another ledger after an outage of the provider: one call is let through, the others wait until it is answered.

    ``answered`` is called once when it is. Where it fails, every ``reserve`` raises ProviderDown, ``why`` its message.
    """

    def __init__(self, ledger: Ledger, why: str, answered: Callable[[], object] = int) -> None:
        self._ledger, self._why, self._answered = ledger, why, answered
        self._turn = asyncio.Lock()
        self._probe: str | None = None
        self._failed = False
        self.proved = False

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        """As the ledger below, one call at a time until a provider's reply is settled."""
        if self.proved:
            return await self._ledger.reserve(call, estimate)
        if self._probe == call.id:  # asked again: the attempt before came to nothing
            self._fail()
            raise ProviderDown(self._why)
        await self._turn.acquire()
        reply = None
        try:
            reply = None if self._failed else await self._ledger.reserve(call, estimate)
            if reply is None and not (self._failed or self.proved):
                self._probe = call.id
        finally:
            if self._probe is None:
                self._turn.release()
        if self._failed:
            raise ProviderDown(self._why)
        return reply

    async def settle(self, call: Call, reply: Reply) -> None:
        """As the ledger below; the provider answers again."""
        await self._ledger.settle(call, reply)
        if call.id == self._probe:
            self._prove()

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:
        """As the ledger below; the call that was let through has failed, unless its refusal was an answer."""
        await self._ledger.release(call, spent, answered=answered)
        if call.id == self._probe:
            self._prove() if answered else self._fail()

    def _prove(self) -> None:
        self._probe, self.proved = None, True
        self._turn.release()
        self._answered()

    def _fail(self) -> None:
        self._probe, self._failed = None, True
        self._turn.release()


class GivenUpLedger:
    """Another ledger when a provider is given up: what is settled is returned, any other call raises Unavailable."""

    def __init__(self, ledger: Ledger, why: str) -> None:
        self._ledger, self._why = ledger, why

    async def reserve(self, call: Call, estimate: Usage) -> Reply:  # noqa: ARG002 - no call is made
        """The settled reply; raises Unavailable where there is none."""
        if reply := await self._ledger.reserve(call, Usage()):  # it is not made, so it needs nothing of a budget
            return reply
        await self._ledger.release(call, Usage())
        raise Unavailable(self._why)

    async def settle(self, call: Call, reply: Reply) -> None:
        """Nothing is asked, so nothing is ever settled."""

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:
        """Nothing is asked, so nothing is ever open."""


class RowsLedger:
    """Another ledger that tells ``done`` of rows as calls about them are answered, ahead of the chunk they belong to.

    A row counts once ``calls`` calls of the ``purpose`` are answered. That is an estimate, since some take more; where a
    chunk is finished (``finished``), it is made good. ``done`` is told of ``rows`` in all and never of more.
    """

    def __init__(self, ledger: Ledger, done: Callable[[int], object], rows: int, purpose: Purpose, calls: int) -> None:
        self._ledger, self._done, self._left = ledger, done, rows
        self._purpose, self._calls = purpose, calls
        self._answered: set[str] = set()
        self._ahead = 0

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        """As the ledger below; a reply that is there counts as answered."""
        reply = await self._ledger.reserve(call, estimate)
        if reply is not None:
            self._count(call)
        return reply

    async def settle(self, call: Call, reply: Reply) -> None:
        """As the ledger below."""
        await self._ledger.settle(call, reply)
        self._count(call)

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:
        """As the ledger below."""
        await self._ledger.release(call, spent, answered=answered)

    def finished(self, rows: int) -> None:
        """A chunk of so many rows is done: tell what was not told yet."""
        told = min(self._ahead, rows)
        self._ahead -= told
        self._tell(rows - told)

    def _count(self, call: Call) -> None:
        if call.purpose != self._purpose or call.id in self._answered:
            return
        self._answered.add(call.id)
        if len(self._answered) % self._calls == 0:
            self._ahead += self._tell(1)

    def _tell(self, rows: int) -> int:
        rows = min(rows, self._left)
        self._left -= rows
        if rows:
            self._done(rows)
        return rows
