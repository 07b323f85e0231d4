"""Kills what ``ragassay up`` started when ``up`` itself was killed. Run as a file of its own: standard library only.

Standard input is a pipe whose other end only ``up`` holds. A line ``+GROUP`` or ``-GROUP`` tells that a process group was
started or has ended; when the pipe closes, the groups that are left are killed.
"""

import os
import signal
import sys
from contextlib import suppress

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
