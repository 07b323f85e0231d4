"""What a run does while a provider fails: it waits, asks with one call now and then, and gives up in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from ragassay.core.errors import ProviderDown
from ragassay.core.protocols import Journal
from ragassay.llm.journal import CallScope, Circuit, refusing_journal

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


async def through_outages(
    work: Callable[[Journal], Awaitable[T]], journal: Journal, outage_timeout_s: float, waiting: Callable[[str], object]
) -> T:
    """What ``work`` returns, begun again with what is left of it whenever the provider is down.

    While a provider fails it waits, which ``waiting`` is told, and asks with one call now and then; after ``outage_timeout_s``
    calls that are not answered raise Unavailable with the provider's error.
    """
    why, since, ends, probes = "", 0.0, 0.0, 0
    circuit, used, given_up = None, journal, False
    while True:
        try:
            return await work(used)
        except ProviderDown as down:
            if given_up:
                raise
            if circuit is None or circuit.closed:  # it was answered in between: this is another outage
                why, since, ends, probes = str(down), time.time(), time.monotonic() + outage_timeout_s, 0
            if (left := ends - time.monotonic()) <= 0:
                used, given_up = refusing_journal(journal, given_up_text(str(down), outage_timeout_s)), True
                continue
            wait, probes = min(wait_s(probes, down.retry_after), left), probes + 1
            waiting(f"{waiting_text(why, since)}; asked again in {wait:.0f} s")
            await asyncio.sleep(wait)
            circuit = Circuit(why)
            used = CallScope(journal, circuit=circuit)
