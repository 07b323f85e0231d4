"""How a system that was called was asked, over all rows: what a report says of it beside the latencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ragassay.core.formatting import listed
from ragassay.core.models import Result
from ragassay.core.report import Load
from ragassay.systems.base import USUAL_REPLY

FEWEST_REPLIES = 3  # from which on it is the path, rather than the reply, that is wrong


class LoadStats:
    """Counts over the rows of one system, each added once."""

    def __init__(self) -> None:
        self._finished = self._warmed = self._waited = self._attempts = self._retried = self._replies = 0
        self._wall_ms = self._longest_ms = 0.0
        self._unmatched: Counter[str] = Counter()
        self._keys: tuple[str, ...] = ()

    def add(self, row: Result) -> None:
        """The next row's; one that was recorded counts nothing."""
        if (timing := row.timing) is None:
            return
        self._finished += row.error is None and not timing.warm_up
        self._warmed += timing.warm_up
        self._waited += timing.queue_ms > 0
        self._longest_ms = max(self._longest_ms, timing.queue_ms)
        self._wall_ms += timing.wall_ms
        self._attempts += timing.attempts
        self._retried += timing.attempts > 1
        self._replies += row.error is None or bool(timing.unmatched)
        self._unmatched.update(timing.unmatched)
        self._keys = timing.reply_keys or self._keys

    def load(self, configuration: Mapping[str, Any]) -> Load | None:
        """What was counted of a system so configured; None where nothing was asked."""
        if not self._attempts:
            return None
        never = [field for field, n in self._unmatched.items() if n == self._replies >= FEWEST_REPLIES]
        return Load(
            in_flight=configuration["in_flight"],
            rate=configuration["rate"],
            finished=self._finished,
            wall_s=self._wall_ms / 1000,
            warm_up=self._warmed,
            waited=self._waited,
            longest_wait_ms=self._longest_ms,
            attempts=self._attempts,
            retried=self._retried,
            replies=self._replies,
            never_matched=tuple(sorted(never)),
            reply_keys=self._keys if never else (),
        )


def cautions(system: str, load: Load, configuration: Mapping[str, Any]) -> Iterator[str]:
    """What limits the figures of a system that was so loaded, in a sentence each."""
    usual = configuration.get("reply") == USUAL_REPLY and USUAL_REPLY.keys() >= set(load.reply_keys) >= {"answer"}
    for field in () if usual else load.never_matched:
        path = configuration["reply"][field]
        keys = f"; the last one has {listed(load.reply_keys)}" if load.reply_keys else ""
        yield f"{system}: reply.{field}: {path} matches nothing in any of the {load.replies:,} replies{keys}"
    if load.waited:
        yield (
            f"{system}: {load.waited:,} queries were due while all {load.in_flight} in flight were busy, and waited up to "
            f"{load.longest_wait_ms:,.0f} ms, which is in their latency; more in_flight would ask them in time"
        )
