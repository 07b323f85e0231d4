"""How far an evaluation is, shown on stderr while it goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PROGRESS_S = 5.0


@contextmanager
def progress(total: int, already: int, quiet: bool) -> Iterator[Callable[[int], object]]:
    """A bar on stderr where it is a terminal; elsewhere a line every few seconds, at the end of a row."""
    if quiet or not sys.stderr.isatty():
        yield int if quiet else _lines(total, already)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("evaluating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # While it is shown, what goes to sys.stderr is printed above it; the bar itself needs the terminal's own stream.
    terminal = Console(file=getattr(sys.stderr, "rich_proxied_file", sys.stderr))
    with Progress(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("rows", total=total, completed=already)
        yield lambda rows: bar.advance(task, rows)


def _lines(total: int, already: int) -> Callable[[int], object]:
    """Says how far it is, and how long it will take, once ``PROGRESS_S`` have passed since it was last said."""
    began = said = time.monotonic()
    now_done = already

    def done(rows: int) -> None:
        nonlocal said, now_done
        now_done += rows
        now = time.monotonic()
        if now - said < PROGRESS_S or now_done == already:
            return
        said = now
        left_s = (total - now_done) * (now - began) / (now_done - already)
        sys.stderr.write(f"evaluating: {now_done} of {total} rows, about {left_s:.0f} s left\n")

    return done
