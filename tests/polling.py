"""Waits for what another thread, process or server does, instead of sleeping for as long as it might take."""

import os
import time

BUSY = 4  # times as long that something may take where more processes want the processor than it has cores


def until(there, within_s=60, what="it did not happen"):
    """What ``there`` gives as soon as it is true; fails loudly, with ``what``, when that takes too long."""
    limit = time.monotonic() + within_s
    while True:
        if value := there():
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"{what}: not within {within_s:g} s")
        time.sleep(0.01)


def patience(limit_s):
    """Seconds that something may take which takes less than ``limit_s`` on a machine that has nothing else to do."""
    return limit_s * BUSY if os.getloadavg()[0] > os.cpu_count() else limit_s
