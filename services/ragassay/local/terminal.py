"""Messages for a terminal that may block or be closed: the thread that reports them never waits for it."""

from __future__ import annotations

import os
import queue
import select
import sys
import threading
from contextlib import suppress
from typing import TextIO

MOST_WAITING = 1000
CLOSES_WITHIN_S = 1.0


class Terminal:
    """Writes lines to stdout and stderr from a thread of its own; drops them while nobody reads."""

    def __init__(self) -> None:
        self._lines: queue.Queue[tuple[int, bytes] | None] = queue.Queue(MOST_WAITING)
        self._out, self._err = _descriptor(sys.stdout), _descriptor(sys.stderr)
        self._thread = threading.Thread(target=self._write, daemon=True, name="terminal")
        self._thread.start()

    def info(self, line: str) -> None:
        """A line for stdout."""
        self._put(self._out, line)

    def warn(self, line: str) -> None:
        """A line for stderr."""
        self._put(self._err, line)

    def close(self) -> None:
        """Write what waits, unless that takes longer than a second."""
        with suppress(queue.Full):
            self._lines.put_nowait(None)
            self._thread.join(CLOSES_WITHIN_S)

    def _put(self, descriptor: int | None, line: str) -> None:
        if descriptor is not None:
            with suppress(queue.Full):
                self._lines.put_nowait((descriptor, f"{line}\n".encode(errors="replace")))

    def _write(self) -> None:
        while item := self._lines.get():
            descriptor, text = item
            while text:
                try:  # not through sys.stdout: a lock that this thread held while blocked would stop the interpreter's exit
                    text = text[os.write(descriptor, text) :]
                except BlockingIOError:
                    select.select([], [descriptor], [])
                except OSError:  # closed
                    break


def _descriptor(stream: TextIO | None) -> int | None:
    """The stream's file descriptor; None where the command was started without one."""
    return None if stream is None else stream.fileno()
