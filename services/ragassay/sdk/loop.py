"""Runs the coroutine of a call: also where an event loop runs already, as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

T = TypeVar("T")


def finished(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a coroutine; if an event loop runs, which has to wait for it, in a loop and a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with start_blocking_portal() as portal:  # which cancels the work on Ctrl-C
        result: T = portal.call(work)
        return result


async def awaited(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a coroutine that runs in a thread of its own; cancelled, it makes no further call and has ended."""
    with start_blocking_portal() as portal:
        return await asyncio.wrap_future(portal.start_task_soon(work))
