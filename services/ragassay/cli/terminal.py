"""What commands print: progress and warnings on stderr, documents on stdout; text from data never acts on the terminal.

What a command's help does not need is imported when the command runs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, cast

import typer

from ragassay.core.errors import Unscored
from ragassay.core.formatting import json_document, printable
from ragassay.sdk.progress import Reporter

if TYPE_CHECKING:
    from ragassay.core.report import Report, ReportWithResults
    from ragassay.reporting.document import Document
    from ragassay.reporting.exporters import Exporters
    from ragassay.storage.folder import FolderRun


def print_json(document: object) -> None:
    """A document on stdout as ``json_document`` writes it; a report with its rows, one after the other."""
    if not hasattr(document, "json_parts"):  # asked for without an import, which other documents need not wait for
        typer.echo(json_document(document), nl=False)
        return
    from ragassay.reporting.tabular import printable_json

    for part in printable_json(cast("ReportWithResults", document)):
        typer.echo(part, nl=False)


def print_result(document: object, text: str, *, as_json: bool) -> None:
    """A document as JSON, or the line that is said of it."""
    if as_json:
        print_json(document)
    else:
        typer.echo(text)


def write(line: str = "", *, bold: bool = False) -> None:
    """A line of text from data on stdout, however long; bold on a terminal."""
    stream = getattr(sys.stdout, "rich_proxied_file", sys.stdout)
    bold = bold and stream.isatty() and not os.environ.get("NO_COLOR")
    stream.write(f"\033[1m{printable(line)}\033[0m\n" if bold else f"{printable(line)}\n")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, least: Sequence[str] = (), empty: str = ""
) -> None:
    """A table that fits the terminal, or the line ``empty`` if it has no row; ``least``: columns that may be left out."""
    from ragassay.reporting.text import table

    typer.echo("\n".join(table(columns, rows, least=least)) if rows else empty)


def print_list(
    documents: Collection[Any], columns: Mapping[str, Callable[[Any], str]], *, as_json: bool, **table: Any
) -> None:
    """Documents as JSON, or as a ``table`` with a cell of each in each of the columns."""
    if as_json:
        print_json(list(documents))
    else:
        rows = [tuple(cell(one) for cell in columns.values()) for one in documents]
        print_table(tuple(columns), rows, **table)


def print_facts(facts: Mapping[str, object], column: int = 17) -> None:
    """A line for each label and what is known of it; None is left out."""
    for label, value in facts.items():
        if value is not None:
            typer.echo(f"{label + ': ':{column}}{value}")


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """A line for each label and text, indented; a text that is longer than the terminal is wide stays in its column."""
    from ragassay.reporting.text import width

    pairs = list(fields)
    column = max(len(label) for label, _ in pairs) + 6
    for label, text in pairs:
        first, *more = wrap(text, max(30, width() - column)) or [""]
        write(f"    {label}".ljust(column) + first)
        for line in more:
            write(" " * column + line)


def print_document(document: Document, *places: str) -> None:
    """The document, then where all of it lies."""
    from ragassay.reporting.text import text_lines

    for line, is_title in text_lines(document):
        write(line, bold=is_title)
    for place in places:
        write(place)


def show(
    document: Any,
    of: Callable[[Any], Document],
    exporters: Exporters[Any] | None = None,
    outputs: Sequence[Path] = (),
    *,
    as_json: bool,
    places: Sequence[str] = (),
    **written: Any,
) -> None:
    """Write the files and print the document: as JSON, or as ``of`` says it and then where all of it lies.

    ``written``: the form and fields of the files.
    """
    if exporters is not None:
        with warnings_shown("ragassay.exporters"):
            for path in outputs:
                exporters.write(document, path, **written)
    if as_json:
        print_json(document)
    else:
        print_document(of(document), *places, *(f"also: {path}" for path in outputs))


def show_report(
    report: ReportWithResults,
    place: str,
    outputs: Sequence[Path],
    *,
    as_json: bool,
    server: str | None = None,
    **written: Any,
) -> None:
    """Write the files, print the report and the place where it lies, and fail when too much could not be scored.

    ``server``: the service that has the rows, where it was named. ``written``: the form and fields of the files.
    """
    from ragassay.reporting.files import EXPORTERS
    from ragassay.reporting.report import of_report

    failed = any(system.fix_first or system.failed_responses for system in report.systems.values())
    rows = f"ragassay show {report.run.id} {'--wrong' if failed else '--worst 10'}"
    places = ["", f"report: {place}", f"rows: {rows}{f' --server {server}' if server else ''}"]
    show(report, of_report, EXPORTERS, outputs, as_json=as_json, places=places, **written)
    refuse_unscored(report)


def refuse_unscored(report: Report, limit: float | None = None) -> None:
    """Raise Unscored when more than a share ``limit``, by default that of the report, of a metric's rows failed."""
    from ragassay.evaluation.aggregate import beyond

    limit = report.provenance.configuration.max_failed_share if limit is None else limit
    if what := beyond(report, limit):
        raise Unscored(f"{what}; allowed: {limit:.0%} (max_failed_share)")


class Terminal(Reporter):
    """Lines and a progress bar on stderr; a last line says how to resume what is left. ``quiet``: no bar."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(bar=not quiet)

    def warn(self, line: str) -> None:
        """Print a warning."""
        typer.echo(f"warning: {line}", err=True)

    def notice(self, line: str) -> None:
        """Print a warning above the bar."""
        _print_notice(f"warning: {line}")

    def waiting(self, why: str) -> None:
        """Print above the bar what is waited for."""
        _print_notice(f"waiting: {why}")

    @contextmanager
    def watch(self, runs: Collection[FolderRun], resume: str) -> Iterator[Callable[[int], object]]:
        """Within the block, show a bar that the function it returns moves."""
        from asyncio import CancelledError

        try:
            with super().watch(runs, resume) as done, warnings_shown(), warnings_shown("ragassay.systems"):
                yield done
        except (KeyboardInterrupt, CancelledError):  # Ctrl-C; an event loop cancels its task
            typer.echo(f"interrupted; go on with: {resume}", err=True)
            raise
        if rows := sum(run.failed_rows for run in runs):
            what = "1 row failed; to evaluate it" if rows == 1 else f"{rows} rows failed; to evaluate them"
            typer.echo(f"{what} again: {resume}", err=True)


@contextmanager
def warnings_shown(about: str = "ragassay.llm") -> Iterator[None]:
    """Show what is logged ``about`` the judge's provider, or what writes files, as it comes; with -v it is shown anyway."""
    if logging.getLogger("ragassay").level:
        yield
        return
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger(about)
    handler.emit = lambda record: _print_notice(f"warning: {record.getMessage()}")  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _print_notice(line: str) -> None:
    """A line on stderr, above the bar where there is one."""
    sys.stderr.write(f"{printable(line)}\n")  # the parser's echo would write into the bar
