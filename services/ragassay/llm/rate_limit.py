"""When calls are sent: how many in a minute, and how long after a failure."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

LONGEST_WAIT_S = 60.0
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.5, 30.0
_dice = random.SystemRandom()


class Spacing(Protocol):
    """Keeps calls to a model apart, whoever makes them: hands out moments, one line of them for each model."""

    def wait_s(self, line: str, request_s: float, tokens_s: float) -> float:
        """Take the line's next moment; the seconds until then. The one after it comes at the later of the two."""

    def correct(self, line: str, tokens_s: float) -> None:
        """The tokens of a call take so much longer than was thought when it took its moment; below 0: less."""


class LocalSpacing:
    """Moments for the calls of one process, whichever thread sends them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[str, list[float]] = {}  # by line, when its requests and its tokens allow the next call

    def wait_s(self, line: str, request_s: float, tokens_s: float) -> float:
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
            await asyncio.sleep(self.spacing.wait_s(line, request_s, self._seconds(tokens)))

    def correct(self, line: str, tokens: int) -> None:
        """A call that waited took so many tokens more than it said; below 0: fewer."""
        if self.tokens and tokens:
            self.spacing.correct(line, self._seconds(tokens))

    def _seconds(self, tokens: int) -> float:
        return 60 * tokens / self.tokens if self.tokens else 0.0


def backoff(tries: int) -> float:
    """Seconds before the next attempt, after ``tries`` of them: full jitter, so that calls don't come back together."""
    return _dice.uniform(0.0, min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(tries, 16)))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait (``Retry-After``: seconds or an HTTP date); None where it doesn't say.

    ``retry-after-ms`` is what some providers add for finer steps. Names of ``headers`` are in lower case.
    """
    seconds: float | None = None
    try:
        if milliseconds := headers.get("retry-after-ms"):
            seconds = float(milliseconds) / 1000
        elif text := headers.get("retry-after"):
            seconds = float(text) if text.strip()[:1].isdigit() else _until(text)
    except ValueError:
        return None
    return max(seconds, 0.0) if seconds is not None and math.isfinite(seconds) else None


def _until(date: str) -> float:
    moment = parsedate_to_datetime(date)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
