"""Keeps processes running: starts them, starts them again when they die, and leaves nothing behind."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ragassay.cli import watchdog
from ragassay.errors import Unavailable

QUICK_S, MOST_QUICK_DEATHS = 10.0, 5
LONGEST_WAIT_S = 5.0
TAIL_LINES = 5
_TROUBLE = re.compile(r"\b(ERROR|CRITICAL)\b")


@dataclass(frozen=True)
class Part:
    """One process to keep running. ``last``: it is ended after the others; ``fds`` are handed to it.

    ``needs_redis``: it is started only while Redis answers, since it would die without.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    last: bool = False
    needs_redis: bool = False
    fds: tuple[int, ...] = ()


@dataclass
class _Child:
    part: Part
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    quick_deaths: int = 0
    due: float = field(default_factory=time.monotonic)
    read: int = 0


class Supervisor:
    """``tell`` gets a line about everything that goes wrong; ``redis_answers`` is asked for the parts that need it.

    ``held`` are open files that stay open until everything has ended, whoever ends it: a lock, for example.

    Each part runs in a session of its own, so that a signal reaches what it started too. Should this process be killed,
    a watchdog process ends them all; on Linux the kernel tells them as well.
    """

    def __init__(
        self, tell: Callable[[str], None], redis_answers: Callable[[], bool] = lambda: True, held: Sequence[int] = ()
    ) -> None:
        self._tell, self._redis_answers, self._held = tell, redis_answers, tuple(held)
        self._children: list[_Child] = []
        self._redis_fell = 0.0
        self._watchdog: subprocess.Popen[str] | None = None

    def add(self, part: Part) -> None:
        """Keep a part running from now on."""
        child = _Child(part, read=part.log.stat().st_size if part.log.exists() else 0)
        self._children.append(child)
        if self._may_start(part):
            self._start(child)

    def tend(self) -> None:
        """Look after all parts once; raises Unavailable when one keeps dying."""
        if self._watchdog is None or self._watchdog.poll() is not None:
            self._watch()
        for child in self._children:
            self._echo(child)
            if child.process is None:
                if time.monotonic() >= child.due and self._may_start(child.part):
                    self._start(child)
            elif child.process.poll() is not None:
                self._bury(child)

    def stop(self, *, within_s: float, hurry: Callable[[], bool] = lambda: False) -> None:
        """End everything, those marked ``last`` at the end; what has not ended in time, or in a hurry, is killed."""
        until = time.monotonic() + within_s
        self._end([child for child in self._children if not child.part.last], until, hurry)
        self._end([child for child in self._children if child.part.last], until + 1.5, hurry)
        self._children.clear()
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._say("bye")
            with suppress(BrokenPipeError):
                self._watchdog.stdin.close()
            self._watchdog.wait()
            self._watchdog = None

    def _may_start(self, part: Part) -> bool:
        return not part.needs_redis or self._redis_answers()

    def _start(self, child: _Child) -> None:
        if self._watchdog is None:
            self._watch()
        part, parent, libc = child.part, os.getpid(), ctypes.CDLL(None)
        with part.log.open("ab") as log:
            child.process = subprocess.Popen(  # noqa: S603 - commands of our own
                part.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(part.environment),
                pass_fds=part.fds,
                start_new_session=True,
                preexec_fn=None if part.last else lambda: _die_with(parent, libc),  # this process has no threads
            )
        child.began = time.monotonic()
        self._register(child)

    def _bury(self, child: _Child) -> None:
        """A part has died: end what is left of it, and see when it is started again."""
        process, part, now = child.process, child.part, time.monotonic()
        if process is None:
            return
        _kill(process.pid)
        self._say(f"-{process.pid}")
        child.process = None
        if part.last:
            self._redis_fell = now
        if part.needs_redis and (self._redis_fell > child.began or not self._redis_answers()):
            child.quick_deaths = max(child.quick_deaths, 1)  # Redis was away, so this one is not to blame
        else:
            child.quick_deaths = child.quick_deaths + 1 if now - child.began < QUICK_S else 1
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
        if child.quick_deaths >= MOST_QUICK_DEATHS:
            for line in _tail(part.log):
                self._tell(f"{part.name}: {line}")
            raise Unavailable(
                f"{part.name} died {child.quick_deaths} times within seconds, the last time with {how}",
                hint=f"see its log: {part.log}",
            )
        wait = min(0.25 * 2 ** (child.quick_deaths - 1), LONGEST_WAIT_S)
        child.due = now + wait
        self._tell(f"{part.name} died ({how}); it is started again in {wait:g} s; its log: {part.log}")

    def _end(self, children: list[_Child], until: float, hurry: Callable[[], bool]) -> None:
        running = [child.process for child in children if child.process is not None]
        for process in running:
            process.terminate()
        while any(process.poll() is None for process in running) and time.monotonic() < until and not hurry():
            time.sleep(0.05)
        for process in running:
            _kill(process.pid)
            process.wait()
            self._say(f"-{process.pid}")

    def _echo(self, child: _Child) -> None:
        """Tell about the lines of a part's log that speak of trouble."""
        with suppress(FileNotFoundError):
            with child.part.log.open("rb") as log:
                log.seek(child.read)
                text = log.read(1 << 20)
            whole = text[: text.rfind(b"\n") + 1]
            child.read += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                if _TROUBLE.search(line):
                    self._tell(f"{child.part.name}: {line[:500]}")

    def _watch(self) -> None:
        self._watchdog = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", watchdog.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            pass_fds=self._held,
            start_new_session=True,
        )
        for child in self._children:
            self._register(child)

    def _register(self, child: _Child) -> None:
        if child.process is not None:
            self._say(f"+{child.process.pid}{' last' if child.part.last else ''}")

    def _say(self, line: str) -> None:
        if self._watchdog is not None and self._watchdog.stdin is not None:
            with suppress(BrokenPipeError):  # it was killed; the next round starts another
                self._watchdog.stdin.write(line + "\n")
                self._watchdog.stdin.flush()


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _die_with(parent: int, libc: ctypes.CDLL) -> None:
    """Between fork and exec: let the kernel end this process when its parent dies (Linux; elsewhere the watchdog does)."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        libc.prctl(pr_set_pdeathsig, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)


def _tail(log: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    return []
