"""What a run does while a provider fails: it waits, asks with one call now and then, and gives up in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from ragassay.core.errors import ProviderDown
from ragassay.core.protocols import Journal
from ragassay.llm.journal import CallScope, Circuit, given_up, is_given_up

T = TypeVar("T")
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 60.0


def wait_s(probes: int, retry_after: float | None) -> float:
    """Seconds until the next probe, after ``probes`` that failed; longer where the provider asks for it."""
    return max(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(probes, 8)), retry_after or 0.0)


def waiting_text(why: str, since: float) -> str:
    """What is shown meanwhile; ``since`` in seconds since 1970."""
    return f"{why}; since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC"


def given_up_text(why: str, outage_timeout_s: float) -> str:
    """The reason of rows whose provider failed for too long."""
    return f"given up after {outage_timeout_s:g} s: {why}"


class Outage:
    """One outage as a process that stays with its run sees it."""

    def __init__(self, why: str) -> None:
        self.why, self.since, self.probes = why, time.time(), 0
        self._began = time.monotonic()

    def next_wait_s(self, outage_timeout_s: float, retry_after: float | None) -> float | None:
        """Seconds until the next probe; None when the provider has failed for ``outage_timeout_s``."""
        left = outage_timeout_s - (time.monotonic() - self._began)
        if left <= 0:
            return None
        wait, self.probes = wait_s(self.probes, retry_after), self.probes + 1
        return min(wait, left)


async def through_outages(
    work: Callable[[Journal], Awaitable[T]],
    journal: Journal,
    outage_timeout_s: float,
    waiting: Callable[[str], object],
) -> T:
    """What ``work`` returns, begun again with what is left of it whenever the provider is down.

    While a provider fails it waits, which ``waiting`` is told, and asks with one call now and then; after ``outage_timeout_s``
    calls that are not answered raise Unavailable with the provider's error.
    """
    outage: Outage | None = None
    circuit: Circuit | None = None
    used = journal
    while True:
        try:
            return await work(used)
        except ProviderDown as down:
            if is_given_up(used):
                raise
            if outage is None or (circuit is not None and circuit.closed):
                outage = Outage(str(down))
            wait = outage.next_wait_s(outage_timeout_s, down.retry_after)
            if wait is None:
                used = given_up(journal, given_up_text(str(down), outage_timeout_s))
                continue
            waiting(f"{waiting_text(outage.why, outage.since)}; asked again in {wait:.0f} s")
            await asyncio.sleep(wait)
            circuit = Circuit(outage.why)
            used = CallScope(journal, circuit=circuit)
