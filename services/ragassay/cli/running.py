"""What commands that evaluate share: progress and warnings on stderr, the report at the end, and when it is not enough."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragassay.core.errors import Unscored
from ragassay.sdk.progress import Reporter, progress

if TYPE_CHECKING:
    from ragassay.core.report import Report, ReportWithResults
    from ragassay.storage.folder import FolderRun


class Terminal(Reporter):
    """Lines and a progress bar on stderr; a last line says how to resume what is left. ``quiet``: no bar."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet

    def warn(self, line: str) -> None:
        """Print a warning."""
        typer.echo(f"warning: {line}", err=True)

    def notice(self, line: str) -> None:
        """Print a line above the bar."""
        print_notice(line)

    @contextmanager
    def watch(self, runs: Collection[FolderRun], resume_command: str) -> Iterator[Callable[[int], object]]:
        """Within the block, show a bar that the function it returns moves."""
        from asyncio import CancelledError

        total = sum(run.record.rows_in(chunk) for run in runs for chunk in run.record.chunks())
        left = sum(run.record.rows_in(chunk) for run in runs for chunk in run.pending())
        try:
            with progress(total, total - left, self._quiet) as done, warnings_shown():
                yield done
        except (KeyboardInterrupt, CancelledError):  # Ctrl-C; an event loop cancels its task
            typer.echo(f"interrupted; go on with: {resume_command}", err=True)
            raise
        if rows := sum(run.failed_rows for run in runs):
            typer.echo(f"{rows} rows failed; to evaluate them again: {resume_command}", err=True)


@contextmanager
def warnings_shown(about: str = "ragassay.llm") -> Iterator[None]:
    """Show what is logged ``about`` the judge's provider, or what writes files, as it comes; with -v it is shown anyway."""
    if logging.getLogger("ragassay").level:
        yield
        return
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger(about)
    handler.emit = lambda record: print_notice(f"warning: {record.getMessage()}")  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def print_notice(line: str) -> None:
    """A line on stderr, above the bar where there is one."""
    from ragassay.core.formatting import printable

    sys.stderr.write(f"{printable(line)}\n")  # the parser's echo would write into the bar


def show_report(
    report: ReportWithResults,
    place: str,
    outputs: list[Path],
    *,
    as_json: bool,
    server: str | None = None,
    **written: Any,
) -> None:
    """Write the files, print the report and the place where it lies, and fail when too much could not be scored.

    ``server``: the service that has the rows, where it was named. ``written``: the form and fields of the files.
    """
    from ragassay.reporting import EXPORTERS
    from ragassay.reporting.rows import printable_json

    with warnings_shown("ragassay.exporters"):
        for path in outputs:
            EXPORTERS.write(report, path, **written)
    if as_json:
        for part in printable_json(report):
            typer.echo(part, nl=False)
    else:
        from ragassay.cli.terminal import print_report

        print_report(report, place, outputs, server)
    refuse_unscored(report, report.provenance.configuration.max_missing)


def refuse_unscored(report: Report, limit: float) -> None:
    """Raise Unscored when more than a share ``limit`` of a metric's rows failed."""
    from ragassay.evaluation.aggregate import beyond

    if what := beyond(report, limit):
        raise Unscored(f"{what}; allowed: {limit:.0%} (max_missing)")
