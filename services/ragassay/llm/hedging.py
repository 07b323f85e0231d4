"""A second attempt beside one that takes far longer than its peers; the first that is answered counts."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from ragassay.llm.failures import Failure
from ragassay.protocols import Reply

Attempt = Callable[[], Coroutine[Any, Any, Reply | Failure]]
FEWEST_REPLIES, MOST_REPLIES = 20, 100  # that tell how long a reply takes
TIMES_SLOW, SHORTEST_S = 2.0, 0.75
SHARE = 20  # of so many calls one may be hedged, and one more
FEWEST_LATER, LONGER_TOGETHER = 3, 3  # so many later calls are answered, or it is late after so many times as long
_LOOK_AGAIN_S = 0.1


class Hedging:
    """How long replies take, and what is done about a call that takes longer.

    A call is late when it takes twice as long as nineteen in twenty of the last hundred replies did, and 0.75 s at the
    least. One call in twenty is hedged at the most, so that a provider that gets slow is not asked twice as much. A call is
    late alone: where calls that began after it are not answered either, all wait, for the provider or for this machine.
    """

    def __init__(self) -> None:
        self._took_s: deque[float] = deque(maxlen=MOST_REPLIES)
        self._answered: deque[int] = deque(maxlen=MOST_REPLIES)  # numbers of calls
        self._replies = self._hedged = self._begun = self._in_flight = 0

    async def answered(self, attempt: Attempt, another: Attempt, lost: Callable[[], None]) -> Reply | Failure:
        """What ``attempt`` comes to, or ``another``, begun beside it when it is late, where only that is answered.

        The one that is not waited for any more is cancelled. ``lost`` is called for a reply that nobody takes: both came
        at once, or whoever waits was cancelled at that moment.
        """
        began, first = time.monotonic(), asyncio.create_task(attempt())
        running, every, reply, look_s = {first}, [first], None, SHORTEST_S  # nothing is late before
        self._begun, self._in_flight = self._begun + 1, self._in_flight + 1
        number = self._begun
        try:
            while running and reply is None:
                done, running = await asyncio.wait(running, timeout=look_s, return_when=asyncio.FIRST_COMPLETED)
                look_s = _LOOK_AGAIN_S
                reply = next(filter(None, map(_reply_of, done)), None)
                if len(every) == 1 and running and self._is_late(number, time.monotonic() - began):
                    self._hedged += 1
                    every.append(asyncio.create_task(another()))
                    running.add(every[-1])
            if reply is None:
                return first.result()
            self._replies += 1
            self._took_s.append(reply.usage.latency_ms / 1000)
            self._answered.append(number)
            return reply
        finally:
            self._in_flight -= 1
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            for task in every:
                if (found := _reply_of(task)) and found is not reply:
                    lost()

    def _is_late(self, number: int, took_s: float) -> bool:
        if self._replies < FEWEST_REPLIES or self._hedged * SHARE > self._replies:
            return False
        late_s = max(TIMES_SLOW * sorted(self._took_s)[len(self._took_s) * 19 // 20], SHORTEST_S)
        alone = self._in_flight == 1 or sum(one > number for one in self._answered) >= FEWEST_LATER
        return took_s > late_s * (1 if alone else LONGER_TOGETHER)


def _reply_of(task: asyncio.Task[Reply | Failure]) -> Reply | None:
    """The reply of a task that has ended with one."""
    if not task.done() or task.cancelled() or task.exception():
        return None
    outcome = task.result()
    return outcome if isinstance(outcome, Reply) else None
