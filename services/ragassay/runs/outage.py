"""What a run does while a provider fails: it waits, asks with one call now and then, and gives up in the end."""

from __future__ import annotations

import time
from datetime import UTC, datetime

FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 60.0


def wait_s(probes: int, retry_after: float | None) -> float:
    """Seconds until the next probe, after ``probes`` that failed; longer where the provider asks for it."""
    return max(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(probes, 8)), retry_after or 0.0)


def waiting_text(why: str, since: float) -> str:
    """What is shown meanwhile; ``since`` in seconds since 1970."""
    return f"{why}; since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC"


def given_up_text(why: str, give_up_s: float) -> str:
    """The reason of rows whose provider failed for too long."""
    return f"given up after {give_up_s:g} s: {why}"


class Outage:
    """One outage as a process that stays with its run sees it."""

    def __init__(self, why: str) -> None:
        self.why, self.since, self.probes = why, time.time(), 0
        self._began = time.monotonic()

    def next_wait_s(self, give_up_s: float, retry_after: float | None) -> float | None:
        """Seconds until the next probe; None when the provider has failed for ``give_up_s``."""
        left = give_up_s - (time.monotonic() - self._began)
        if left <= 0:
            return None
        wait, self.probes = wait_s(self.probes, retry_after), self.probes + 1
        return min(wait, left)
