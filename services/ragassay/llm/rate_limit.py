"""When calls are sent: how many in a minute, how long after a failure, and for how long a provider is left alone."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from copy import copy
from dataclasses import dataclass, field
from typing import Protocol

from ragassay import observability
from ragassay.core.errors import BadSettings, ProviderDown, RateLimited
from ragassay.llm.errors import Failure

LONGEST_WAIT_S = 60.0
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.5, 30.0
_REFUSED_FOR_S, _DOWN_FOR_S = 30.0, 4.0
_DOWN_AFTER, _DOWN_CALLS = 5, 3
_LIMITED_IN_A_ROW = 3
_LOOK_AGAIN_S = 0.25
_dice = random.SystemRandom()


class Spacing(Protocol):
    """Keeps calls to a model apart, whoever makes them: hands out moments, one line of them for each model."""

    async def wait_s(self, line: str, request_s: float, tokens_s: float) -> float:
        """Take the line's next moment; the seconds until then. The one after it comes at the later of the two."""

    def correct(self, line: str, tokens_s: float) -> None:
        """The tokens of a call take so much longer than was thought when it took its moment; below 0: less."""


class LocalSpacing:
    """Moments for the calls of one process, whichever thread sends them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[str, list[float]] = {}  # by line, when its requests and its tokens allow the next call

    async def wait_s(self, line: str, request_s: float, tokens_s: float) -> float:
        """Take the line's next moment; the seconds until then."""
        with self._lock:
            now = time.monotonic()
            at = max(now, *self._next.get(line, (now,)))
            self._next[line] = [at + request_s, at + tokens_s]
        return at - now

    def correct(self, line: str, tokens_s: float) -> None:
        """The tokens of a call take so much longer than was thought when it took its moment; below 0: less."""
        with self._lock:
            if line in self._next:
                self._next[line][1] += tokens_s


@dataclass(frozen=True)
class RateLimit:
    """The most requests and tokens in a minute that all who share ``spacing`` send to one model; None: any number.

    Calls are spaced evenly, without bursts: one that is begun keeps the next away for a minute divided by ``requests``,
    or as long as its tokens take at ``tokens`` a minute. Tokens are what a call may take, and once it is billed its bill.
    """

    requests: int | None = None
    tokens: int | None = None
    spacing: Spacing = field(default_factory=LocalSpacing)

    async def wait(self, line: str, tokens: int) -> None:
        """Wait until a call that may take so many tokens can be sent."""
        if self.requests or self.tokens:
            request_s = 60 / self.requests if self.requests else 0.0
            await asyncio.sleep(await self.spacing.wait_s(line, request_s, self._seconds(tokens)))

    def correct(self, line: str, tokens: int) -> None:
        """A call that waited took so many tokens more than it said; below 0: fewer."""
        if self.tokens and tokens:
            self.spacing.correct(line, self._seconds(tokens))

    def _seconds(self, tokens: int) -> float:
        return 60 * tokens / self.tokens if self.tokens else 0.0


def backoff(tries: int) -> float:
    """Seconds before the next attempt, after ``tries`` of them: full jitter, so that calls don't come back together."""
    return _dice.uniform(0.0, min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(tries, 16)))


class Provider:
    """The state that all calls to a provider share.

    * All calls wait for the ``Retry-After`` of a 5xx, and of the third 429 in a row.
    * A refusal that concerns every call is raised again for half a minute, without asking.
    * Five failures in a row of three calls or more, or a ``Retry-After`` of more than a minute, are an outage: ProviderDown,
      for all calls that were begun by then, and for some seconds without asking.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._opens = 0.0  # no request is sent before
        self._refused: tuple[float, BadSettings | ProviderDown] | None = None
        self._limited = 0  # how many outcomes in a row were 429s
        self._failing: list[str] = []  # ids of the calls that failed since the last reply
        self.replies = self.outages = 0

    async def opened(self) -> None:
        """Wait until requests may be sent; an outage ends the wait."""
        while (wait := self._opens - time.monotonic()) > 0:
            await asyncio.sleep(min(wait, _LOOK_AGAIN_S))

    def raise_if_refused(self, outages: int) -> None:
        """Raise what every call is refused with; ``outages``: how many there had been when the call began."""
        if self._refused and (time.monotonic() < self._refused[0] or outages < self.outages):
            raise copy(self._refused[1])

    def answered(self) -> None:
        """A reply came."""
        self.replies += 1
        self._limited = 0
        self._failing.clear()

    def refused(self, failure: Failure) -> Failure:
        """Note the failure of a request, and return it."""
        self._limited = self._limited + 1 if isinstance(failure.error, RateLimited) else 0
        if isinstance(failure.error, BadSettings):
            self._refused = (time.monotonic() + _REFUSED_FOR_S, failure.error)
        return failure

    def failed(self, call: str, failure: Failure) -> None:
        """Note that a call will be tried again; raises ProviderDown where that is of no use."""
        self._failing.append(call)
        in_a_row = len(self._failing) >= _DOWN_AFTER and len(set(self._failing)) >= _DOWN_CALLS
        if in_a_row or (failure.wait or 0.0) > LONGEST_WAIT_S:
            error = failure.error
            down = ProviderDown(error.message, where=error.where, hint=error.hint, retry_after=failure.wait)
            self._refused = (time.monotonic() + _DOWN_FOR_S, down)
            self.outages += 1
            self._opens = 0.0
            observability.count("provider_outages", self._model)
            raise down

    def hold(self, failure: Failure) -> None:
        """Let all calls wait as the provider asks, a minute at the most; one 429 is the affair of its call alone."""
        limited = isinstance(failure.error, RateLimited)
        if failure.wait and (not limited or self._limited >= _LIMITED_IN_A_ROW):
            self._opens = max(self._opens, time.monotonic() + min(failure.wait, LONGEST_WAIT_S))
