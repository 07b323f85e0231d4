"""What the outcomes of requests say of their provider: for how long it is left alone, and why."""

from __future__ import annotations

import asyncio
import time
from copy import copy

from ragassay import observability
from ragassay.core.errors import BadSettings, ProviderDown, RateLimited
from ragassay.llm.errors import Failure
from ragassay.llm.rate_limit import LONGEST_WAIT_S

_REFUSED_FOR_S, _DOWN_FOR_S = 30.0, 4.0
_DOWN_AFTER, _DOWN_CALLS = 5, 3
_LIMITED_IN_A_ROW = 3
_LOOK_AGAIN_S = 0.25


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
