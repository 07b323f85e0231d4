"""Waits for what another thread, process or server does, instead of sleeping for as long as it might take."""

import time


def until(there, within_s=60, what="it did not happen"):
    """What ``there`` gives as soon as it is true; fails loudly, with ``what``, when that takes too long."""
    limit = time.monotonic() + within_s
    while True:
        if value := there():
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"{what}: not within {within_s:g} s")
        time.sleep(0.01)
