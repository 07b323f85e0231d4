"""The command line: each command calls the packages below in a few lines. Text from data never acts on the terminal."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO, cast

from ragassay.core.formatting import printable

__all__ = ["main"]


class _Printable:
    """A text stream that shows control characters; its buffer takes bytes as they are."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # where rich writes, whose own control codes are meant

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def printable_streams() -> Iterator[None]:
    """Within the block, ``sys.stdout`` and ``sys.stderr`` show control characters instead of sending them."""
    streams = sys.stdout, sys.stderr  # either is None in a process that was started without it
    sys.stdout, sys.stderr = (stream and cast("TextIO", _Printable(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def main() -> NoReturn:
    """Run the command line."""
    gc.set_threshold(100_000)  # of the objects that are made at the start, nearly all stay
    from ragassay.cli.app import main as run

    with printable_streams():
        run()
