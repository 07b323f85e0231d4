"""How a system that was called was asked, over all rows: what a report says of it beside the latencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragassay.core.models import Result
from ragassay.core.report import Load


class LoadStats:
    """Counts over the rows of one system, each added once."""

    def __init__(self) -> None:
        self._finished = self._warmed = self._waited = self._attempts = self._retried = 0
        self._wall_ms = self._longest_ms = 0.0

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

    def load(self, configuration: Mapping[str, Any]) -> Load | None:
        """What was counted of a system so configured; None where nothing was asked."""
        if not self._attempts:
            return None
        return Load(
            concurrency=configuration["concurrency"],
            rate=configuration["rate"],
            finished=self._finished,
            wall_s=self._wall_ms / 1000,
            warm_up=self._warmed,
            waited=self._waited,
            longest_wait_ms=self._longest_ms,
            attempts=self._attempts,
            retried=self._retried,
        )


def cautions(system: str, load: Load) -> Iterator[str]:
    """What limits the figures of a system that was so loaded, in a sentence each."""
    if load.waited:
        yield (
            f"{system}: {load.waited:,} queries were due while {load.concurrency} were under way, the most at once, and waited "
            f"up to {load.longest_wait_ms:,.0f} ms, which is in their latency; a larger concurrency would ask them in time"
        )
