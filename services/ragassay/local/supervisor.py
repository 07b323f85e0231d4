"""Keeps processes running: starts them, restarts them with back-off when they exit, and leaves none behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragassay.errors import Unavailable
from ragassay.local import watchdog

FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 30.0
MOST_FAILED_STARTS = 5
LAST_PARTS_STOP_WITHIN_S = 1.5
TAIL_LINES = 5
FULL_BELOW_BYTES = 1 << 20
_LOGGED_ERROR = re.compile(r"\b(ERROR|CRITICAL)\b")
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")


@dataclass(frozen=True)
class Part:
    """One process to keep running.

    ``ready`` is asked, with the process id, until it is true; ``may_start`` before each start. Both must return soon.
    ``fds`` are inherited by the process; ``last``: it is stopped after the others.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    ready: Callable[[int], bool] = lambda _: True
    may_start: Callable[[], bool] = lambda: True
    fds: tuple[int, ...] = ()
    last: bool = False


class _Child:
    """A part's process. ``wait_s`` is the last pause before a restart."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_at: float | None = None
        self.was_ready = False
        self.failed_starts = 0
        self.wait_s = FIRST_WAIT_S / 2
        self.due = 0.0
        self.log_position = part.log.stat().st_size if part.log.exists() else 0


class Supervisor:
    """``warn`` gets a line about everything that goes wrong; it must not block.

    Each part is the leader of a process group, so that a signal reaches what it started too. Should this process be
    killed, a watchdog process kills the groups.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._children: list[_Child] = []
        self._watchdog: subprocess.Popen[bytes] | None = None

    def add(self, part: Part) -> None:
        """Keep a part running from now on."""
        child = _Child(part)
        self._children.append(child)
        self._check(child)

    def check(self) -> None:
        """Check all parts once, and restart what has exited.

        Raises Unavailable when a part exits again and again and never was ready since it was added.
        """
        for child in self._children:
            self._check(child)

    def is_ready(self, name: str) -> bool:
        """Is this part's present process ready?"""
        return any(child.part.name == name and child.ready_at is not None for child in self._children)

    def stop(self, *, within_s: float, hurry: Callable[[], bool] = lambda: False) -> None:
        """Stop everything, the parts marked ``last`` at the end; kill what has not ended in time, or in a hurry."""
        limit = time.monotonic() + within_s
        self._stop([child for child in self._children if not child.part.last], limit, hurry)
        self._stop([child for child in self._children if child.part.last], limit + LAST_PARTS_STOP_WITHIN_S, hurry)
        self._children.clear()
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
            self._watchdog.wait()
            self._watchdog = None

    def _check(self, child: _Child) -> None:
        self._warn_of_logged_errors(child)
        if self._watchdog is None or self._watchdog.poll() is not None:
            self._start_watchdog()
        now, process = time.monotonic(), child.process
        if process is None:
            if now >= child.due and child.part.may_start():
                self._start(child)
        elif process.poll() is not None:
            self._kill_group(process)
            code = process.returncode
            self._restart_later(child, f"signal {-code}" if code < 0 else f"exit code {code}")
        elif child.ready_at is None and child.part.ready(process.pid):
            child.ready_at, child.was_ready = time.monotonic(), True

    def _start(self, child: _Child) -> None:
        part = child.part
        try:
            with part.log.open("ab") as log:
                child.process = subprocess.Popen(  # noqa: S603 - commands of our own
                    part.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=dict(part.environment),
                    pass_fds=part.fds,
                    start_new_session=True,
                )
        except OSError as error:  # no memory, no process, no space for the log
            self._restart_later(child, f"could not be started: {error.strerror}")
        else:
            self._tell_watchdog("+", child.process)

    def _restart_later(self, child: _Child, reason: str) -> None:
        """Restart a part after a pause, which doubles while the part is not ready for at least as long as the last."""
        part, now = child.part, time.monotonic()
        stayed_ready = child.ready_at is not None and now - child.ready_at >= child.wait_s
        child.wait_s = FIRST_WAIT_S if stayed_ready else min(2 * child.wait_s, LONGEST_WAIT_S)
        child.process, child.ready_at, child.due = None, None, now + child.wait_s
        tail = _tail(part.log)
        if _is_full(part.log.parent) or any(map(_DISK_FULL.search, tail)):
            reason += f", no space left on the disk of {part.log.parent}"
        if not child.was_ready and part.may_start():  # where what it needs is away, the part is not to blame
            child.failed_starts += 1
        if child.failed_starts >= MOST_FAILED_STARTS:
            for line in tail:
                self._warn(f"{part.name}: {line}")
            raise Unavailable(
                f"{part.name} exited {child.failed_starts} times before it was ready ({reason})",
                hint=f"see its log: {part.log}",
            )
        self._warn(f"{part.name} stopped unexpectedly ({reason}); restarting in {child.wait_s:g} s; log: {part.log}")

    def _stop(self, children: Iterable[_Child], limit: float, hurry: Callable[[], bool]) -> None:
        running = [child.process for child in children if child.process is not None]
        for process in running:
            process.terminate()
        while any(process.poll() is None for process in running) and time.monotonic() < limit and not hurry():
            time.sleep(0.05)
        for process in running:
            self._kill_group(process)
            process.wait()

    def _kill_group(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS denies permission for a group of zombies
            os.killpg(process.pid, signal.SIGKILL)
        self._tell_watchdog("-", process)

    def _warn_of_logged_errors(self, child: _Child) -> None:
        with suppress(OSError), child.part.log.open("rb") as log:
            log.seek(child.log_position)
            text = log.read(1 << 20)
            text = text[: text.rfind(b"\n") + 1]
            child.log_position += len(text)
            for line in text.decode(errors="replace").splitlines():
                if _LOGGED_ERROR.search(line):
                    self._warn(f"{child.part.name}: {line[:500]}")

    def _start_watchdog(self) -> None:
        with suppress(OSError):  # tried again in the next round
            self._watchdog = subprocess.Popen(  # noqa: S603 - our own file
                [sys.executable, "-I", "-S", watchdog.__file__],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        for child in self._children:
            if child.process is not None:
                self._tell_watchdog("+", child.process)

    def _tell_watchdog(self, sign: str, process: subprocess.Popen[bytes]) -> None:
        if self._watchdog is not None and self._watchdog.stdin is not None:
            with suppress(BrokenPipeError):  # it was killed; the next round starts another
                self._watchdog.stdin.write(f"{sign}{process.pid}\n".encode())


def _tail(log: Path) -> list[str]:
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 10_000))
        return file.read().decode(errors="replace").splitlines()[-TAIL_LINES:]
    return []


def _is_full(folder: Path) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(folder).free < FULL_BELOW_BYTES
    return False
