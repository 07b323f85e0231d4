"""What a caller learns of an evaluation while it runs: warnings, notices and the rows that are done."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ragassay.core.errors import BudgetReached, DiskFull
from ragassay.core.plugins import imported
from ragassay.sdk.warn import warn

if TYPE_CHECKING:
    from ragassay.storage.folder import FolderRun

PROGRESS_S = 5.0


class Reporter:
    """Python warnings, and calls of ``progress`` with the rows done and the rows in all, over all runs it watches.

    ``total``: the rows in all; default: those of the runs being watched. ``bar``: show a progress bar on stderr.
    """

    def __init__(
        self, progress: Callable[[int, int], object] | None = None, *, total: int | None = None, bar: bool = False
    ) -> None:
        self._progress, self._total, self._bar, self._done = progress, total, bar, 0

    def warn(self, line: str) -> None:
        """Warn about the rows that were read."""
        warn(line)

    def notice(self, line: str) -> None:
        """Warn about what happens during or after a run."""
        warn(line, RuntimeWarning)

    @contextmanager
    def watch(self, runs: Collection[FolderRun], resume_command: str) -> Iterator[Callable[[int], object]]:  # noqa: ARG002 - a terminal prints it
        """Within the block, the function it returns counts further rows as done."""
        of_runs = sum(run.record.rows_in(chunk) for run in runs for chunk in run.record.chunks())
        total = self._total or of_runs
        with progress(of_runs, 0, quiet=not self._bar) as bar:

            def count(rows: int) -> None:
                self._done += rows
                bar(rows)
                if self._progress is not None:
                    self._progress(self._done, total)

            yield count


def resume_command(run: str) -> str:
    """The command line that resumes a run, or a benchmark, by its id."""
    plugins = [f" --import {shlex.quote(name)}" for name in imported()]
    return f"ragassay evaluate --resume {run}{''.join(plugins)}"


@contextmanager
def resume_hints(command: str) -> Iterator[None]:
    """Within the block, an error that stops a run says how to go on with it: by ``command``."""
    try:
        yield
    except BudgetReached as reached:
        is_cost = " USD " in reached.message
        if reached.unknown and (count := reached.unknown.uncertain_calls):
            tokens = reached.unknown.input_tokens + reached.unknown.output_tokens
            held = f"{reached.unknown.cost_usd or 0:.4f} USD" if is_cost else f"{tokens:,}"
            calls = "call" if count == 1 else "calls"
            reached.message += f", {held} of it an estimate of {count} {calls} with an unknown outcome"
        reached.hint = (
            f"what is finished is kept: {command} {'--budget-usd ' if is_cost else '--set budget.tokens='}MORE"
        )
        raise
    except DiskFull as full:
        full.hint = f"what is finished is kept; make room, then: {command}"
        raise


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
