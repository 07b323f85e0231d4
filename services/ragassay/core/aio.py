"""Work of one event loop, side by side, and what it calls back by default."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


def ignore(*_: object) -> None:
    """A callback that does nothing."""


async def together(work: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """All results, in order; where some failed, the first error, once the others have ended: they may be paid calls."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


async def to_its_end(work: Awaitable[T]) -> T:
    """The outcome of work that is not broken off if its caller is cancelled; the cancellation is raised after it."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancelled = True
    outcome = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return outcome


class Slots:
    """So many tasks at once, in each event loop that uses them."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def slot(self) -> asyncio.Semaphore:
        """The running loop's semaphore: ``async with slots.slot():``."""
        return self._by_loop.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._number))
