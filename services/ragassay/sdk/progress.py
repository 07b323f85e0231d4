"""What a caller learns of an evaluation while it runs: warnings at the user's line, and the rows that are done."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ragassay.core.errors import BudgetReached, DiskFull
from ragassay.core.plugins import imported

if TYPE_CHECKING:
    from ragassay.storage.folder import FolderRun

_BETWEEN = ("ragassay", "asyncio", "contextlib")  # packages between the user's line and ours


def warner() -> Callable[[str, type[Warning]], None]:
    """``warnings.warn`` at the innermost line on the stack that is the user's, to be called from any thread."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    return partial(
        warnings.warn_explicit,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__", "__main__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


class Reporter:
    """Python warnings, and calls of ``progress`` with the rows done and the rows in all, over all runs it watches.

    Its warnings name the line that made it. ``total``: the rows in all; default: those of the runs being watched.
    ``bar``: show a progress bar on stderr.
    """

    def __init__(
        self, progress: Callable[[int, int], object] | None = None, *, total: int | None = None, bar: bool = False
    ) -> None:
        self._warn, self._progress, self._total, self._bar, self._done = warner(), progress, total, bar, 0

    def warn(self, line: str) -> None:
        """Warn about the rows that were read."""
        self._warn(line, UserWarning)

    def notice(self, line: str) -> None:
        """Warn about what happens during or after a run."""
        self._warn(line, RuntimeWarning)

    def waiting(self, why: str) -> None:
        """Warn that a run waits for its provider."""
        self.notice(f"waiting: {why}")

    @contextmanager
    def watch(self, runs: Collection[FolderRun], resume: str) -> Iterator[Callable[[int], object]]:
        """Within the block, the function it returns counts further rows as done; an error names the command ``resume``."""
        rows = sum(run.record.rows_in(chunk) for run in runs for chunk in run.record.chunks())
        left = sum(run.record.rows_in(chunk) for run in runs for chunk in run.pending())
        with _resume_hints(resume), progress_bar(rows, rows - left, quiet=not self._bar) as bar:

            def count(further: int) -> None:
                self._done += further
                bar(further)
                if self._progress is not None:
                    self._progress(self._done, self._total or rows)

            yield count


def resume_command(run: str) -> str:
    """The command line that resumes a run, or a benchmark, by its id."""
    plugins = [f" --import {shlex.quote(name)}" for name in imported()]
    return f"ragassay evaluate --resume {run}{''.join(plugins)}"


@contextmanager
def _resume_hints(command: str) -> Iterator[None]:
    try:
        yield
    except BudgetReached as reached:
        is_cost = " USD " in reached.message
        if reached.unknown and (count := reached.unknown.uncertain_calls):
            tokens = reached.unknown.input_tokens + reached.unknown.output_tokens
            held = f"{reached.unknown.cost_usd or 0:.4f} USD" if is_cost else f"{tokens:,}"
            calls = "call" if count == 1 else "calls"
            reached.message += f", {held} of it an estimate of {count} {calls} with an unknown outcome"
        cap = "--budget-usd MORE" if is_cost else "--set budget.tokens=MORE"
        reached.hint = f"what is finished is kept: {command} {cap}"
        raise
    except DiskFull as full:
        full.hint = f"what is finished is kept; make room, then: {command}"
        raise


@contextmanager
def progress_bar(total: int, already: int, quiet: bool) -> Iterator[Callable[[int], object]]:
    """A bar on stderr if it is a terminal; the function it returns adds rows."""
    if quiet or not sys.stderr.isatty():
        yield int
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("evaluating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # While it is shown, what goes to sys.stderr is printed above it; the bar itself needs the terminal's own stream.
    terminal = Console(file=getattr(sys.stderr, "rich_proxied_file", sys.stderr))
    with Progress(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("rows", total=total, completed=already)
        yield lambda rows: bar.advance(task, rows)
