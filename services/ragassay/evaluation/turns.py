"""Which work of a process goes on beside which, so that a measured latency is of the system alone (decision 21)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from ragassay.core.protocols import Strategy
from ragassay.systems.builtin import BuiltIn

_ASKING, _COMPUTING = "asking", "computing"


class Turns:
    """Lets work of one kind in at a time, in the order of asking; all that waits for the same kind goes in together.

    A built-in system answers alone, since it keeps all cores busy. Systems that are called answer beside each other, but
    beside no judging, scoring or counting, which would keep this process from noticing their replies. These go on beside
    each other.
    """

    def __init__(self) -> None:
        self._kind: object = None
        self._inside = 0
        self._waiting: deque[tuple[object, asyncio.Future[None]]] = deque()

    def answering(self, system: Strategy) -> AbstractAsyncContextManager[None]:
        """While ``system``, one that answers now, is asked and timed."""
        return self._turn(object() if isinstance(system, BuiltIn) else _ASKING)

    def computing(self) -> AbstractAsyncContextManager[None]:
        """While something is judged, scored or counted."""
        return self._turn(_COMPUTING)

    @asynccontextmanager
    async def _turn(self, kind: object) -> AsyncIterator[None]:
        if self._inside and (kind != self._kind or self._waiting):
            await self._wait(kind)
        else:
            self._kind = kind
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, kind: object) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((kind, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # let in and cancelled at the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        self._inside -= 1
        waiting = deque((kind, turn) for kind, turn in self._waiting if not turn.cancelled())
        if not self._inside and waiting:
            self._kind = waiting[0][0]
            for _, turn in (together := [one for one in waiting if one[0] == self._kind]):
                turn.set_result(None)
            self._inside = len(together)
            waiting = deque(one for one in waiting if one[0] != self._kind)
        self._waiting = waiting
