"""Waits for what another thread, process or server does, instead of sleeping for as long as it might take."""

import os
import resource
import subprocess
import sys
import time
from functools import cache

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
    """Seconds that something may take which takes less than ``limit_s`` on an idle machine; more on a busy or slow one."""
    return limit_s * (BUSY if os.getloadavg()[0] > os.cpu_count() else slowness())


@cache
def slowness():
    """How many times as long as on the machine of the marks it takes to import typer, which we start with; at least 1."""
    return max(1.0, fastest([sys.executable, "-c", "import typer"], times=5) / 0.05)


def fastest(command, times, cwd=None):
    left_out = ("COVERAGE", "PYTHONDONTWRITEBYTECODE")  # compiled code is kept, as it is where the package is installed
    untraced = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}

    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=untraced, cwd=cwd, capture_output=True, check=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(times))
