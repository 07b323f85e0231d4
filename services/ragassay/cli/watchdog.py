"""Ends what ``ragassay up`` started when ``up`` itself was killed. Run as a file of its own: standard library only.

Standard input is a pipe that only ``up`` holds. A line ``+GROUP`` or ``-GROUP`` says that a process group began or
ended; ``+GROUP last`` marks Redis, which the others need until they have ended. When the pipe ends without ``bye``,
``up`` is dead: the groups are asked to end, and what does not listen is killed. On Linux the kernel has asked all but
Redis already, and Celery would take a second signal for impatience.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

PATIENCE_S = 6.0


def watch(lines: Iterable[str]) -> tuple[list[int], list[int]]:
    """The groups that are left when the lines end, and those of them that go last; none after ``bye``."""
    groups: dict[int, bool] = {}
    for line in lines:
        word, _, last = line.strip().partition(" ")
        if word == "bye":
            return [], []
        if word.startswith("+"):
            groups[int(word[1:])] = bool(last)
        else:
            groups.pop(int(word[1:]), None)
    return [group for group, last in groups.items() if not last], [group for group, last in groups.items() if last]


def end(groups: list[int], *, asked: bool = False) -> None:
    """Ask the groups' leaders to end, unless they have been, and kill what is left after a while."""
    for group in groups:
        with suppress(ProcessLookupError):
            os.kill(group, 0 if asked else signal.SIGTERM)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and any(map(lives, groups)):
        time.sleep(0.05)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def lives(group: int) -> bool:
    """Is anything left of a process group?"""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # macOS denies permission for a group of zombies
        return False
    return True


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    first, last = watch(sys.stdin)
    end(first, asked=sys.platform == "linux")
    end(last)
