"""Ends what ``ragassay up`` started when ``up`` itself was killed. Run as a file of its own: standard library only.

Standard input is a pipe that only ``up`` holds. Lines ``+GROUP`` and ``-GROUP`` say which process groups there are, in
the order in which they were started; the end of the pipe without ``bye`` says that ``up`` is dead. Then all groups but
the first (Redis, which the others still need) are asked to end, then it is; what does not listen is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

PATIENCE_S = 6.0


def watch() -> list[int]:
    """The groups that are left when the pipe ends; none after ``bye``."""
    groups: list[int] = []
    for line in sys.stdin:
        word = line.strip()
        if word == "bye":
            return []
        if word.startswith("+"):
            groups.append(int(word[1:]))
        elif word.startswith("-") and int(word[1:]) in groups:
            groups.remove(int(word[1:]))
    return groups


def end(groups: list[int]) -> None:
    """Ask the groups to end, then kill what is left of them."""
    for group in groups:
        _signal(group, signal.SIGTERM)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and any(map(_lives, groups)):
        time.sleep(0.05)
    for group in groups:
        _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so of a group of zombies
        return False
    return True


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    redis_first, *others = [*watch(), 0]
    left = [group for group in (redis_first, *others) if group]
    end(left[1:])
    end(left[:1])
