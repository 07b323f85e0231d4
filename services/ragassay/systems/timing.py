"""When the queries of a system that is called begin, and what happened when while one was asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from ragassay.core.models import LiveResponse, Response

if TYPE_CHECKING:
    from ragassay.systems.live import LiveOptions


class Clock:
    """What happened when while one query was asked, in ms since it began, or was due. A way of asking notes it here."""

    def __init__(self, began: float, ends: float) -> None:
        self._began, self._ends = began, ends
        self.attempts = 1
        self.retrieved_ms: float | None = None
        self.first_token_ms: float | None = None
        self._ended_ms: float | None = None
        self._arrived: float | None = None
        self.unmatched: tuple[str, ...] = ()
        self.reply_keys: tuple[str, ...] = ()

    @property
    def now_ms(self) -> float:
        """Ms from when the query began to now, or to when the bytes arrived that are looked at now."""
        return ((self._arrived or time.perf_counter()) - self._began) * 1000

    def arrived(self) -> None:
        """Bytes are here, which are looked at later."""
        self._arrived = time.perf_counter()

    @property
    def left_s(self) -> float:
        """Seconds until its time is over."""
        return self._ends - time.perf_counter()

    def retrieved(self) -> None:
        """What the answer is made from is here, and no part of the answer yet."""
        if self.retrieved_ms is None and self.first_token_ms is None:
            self.retrieved_ms = self.now_ms

    def answering(self) -> None:
        """A part of the answer is here."""
        if self.first_token_ms is None:
            self.first_token_ms = self.now_ms

    def ended(self) -> None:
        """The reply is whole."""
        if self._ended_ms is None:
            self._ended_ms = self.now_ms

    def measured(self, response: Response) -> dict[str, float]:
        """What was measured, now that the response is here: total latency, and the parts that are known."""
        took_ms = self.now_ms if self._ended_ms is None else self._ended_ms
        times = {"latency_ms": took_ms}
        if self.first_token_ms is not None:
            times["first_token_ms"] = self.first_token_ms
        if self.retrieved_ms is not None and response.retrieval_latency_ms is None:
            times["retrieval_latency_ms"] = self.retrieved_ms
            if response.generation_latency_ms is None:
                times["generation_latency_ms"] = took_ms - self.retrieved_ms
        return times


class Schedule:
    """When the queries of one system begin, in however many runs it is asked: so many at once, and each when it is due.

    ``users`` are the runs that have begun to ask: connections are closed when the last of them has ended. ``failed`` are
    responses with an error by run and query: a row that is worked on again, since its judge failed, takes it again.
    """

    def __init__(self, options: LiveOptions) -> None:
        self.options, self.users = options, 0
        self.in_flight = asyncio.Semaphore(options.in_flight)
        self.failed: dict[tuple[str, str], LiveResponse] = {}
        self._warming = asyncio.Lock()
        self._warmed = self._asking = 0
        self._next_due = self._last = 0.0

    def begin(self) -> None:
        """One run more asks."""
        if not self.users:  # perhaps in another event loop than before
            self.in_flight, self._warming = asyncio.Semaphore(self.options.in_flight), asyncio.Lock()
        self.users += 1

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While something is asked: a section in which wall time counts, and at whose beginning the next query is due."""
        if not self._asking:
            self._restart()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1

    async def turn(self) -> float | None:
        """Wait until the next query is due, and say when; None where no rate is asked for. Never later for a slow system."""
        if self.options.rate is None:
            return None
        due, self._next_due = self._next_due, self._next_due + 1 / self.options.rate
        await asyncio.sleep(due - time.perf_counter())
        return due

    def share_ms(self) -> float:
        """The wall time since it was taken for last, while something was asked."""
        now = time.perf_counter()
        share, self._last = now - self._last, now
        return share * 1000

    @asynccontextmanager
    async def warming(self) -> AsyncIterator[int | None]:
        """How many queries have warmed the system up before this one, which is alone; None where it is warm."""
        if self._warmed >= self.options.warm_up:
            yield None
            return
        await self._warming.acquire()
        if self._warmed >= self.options.warm_up:
            self._warming.release()
            yield None
            return
        try:
            yield self._warmed
        finally:
            self._warmed += 1
            self._restart()
            self._warming.release()

    def _restart(self) -> None:
        self._last = time.perf_counter()
        self._next_due = max(self._next_due, self._last)
