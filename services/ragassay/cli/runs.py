"""What was evaluated, run by run and row by row: ``ragassay runs`` and ``ragassay show``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ragassay.cli.options import AsJson, Last, Outputs, Plugins, Server, given, import_plugins
from ragassay.cli.terminal import print_document, print_json, show_report, warnings_shown, write
from ragassay.cli.terminal import show as show_document
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.formatting import minute, split_names

if TYPE_CHECKING:
    from ragassay.core.models import Result, Sample
    from ragassay.reporting.listing import RunSummary
    from ragassay.sdk.references import Reference
    from ragassay.storage.folder import FolderRun

Run = Annotated[
    str,
    Argument(
        metavar="RUN[#SYSTEM]|FILE",
        help="Run id or its beginning, 'last', run folder, a job's id, or the JSON of a report or a comparison.",
    ),
]
Fields = Annotated[
    str | None, Option("--fields", metavar="NAME,...", help="Only these columns of the rows, in this order.")
]
FormatName = Annotated[
    str | None,
    Option("--format", metavar="FORMAT", help="Format of the files if the extension is not it; without -o: print it."),
]
Rows = Annotated[bool, Option("--rows", help="Show the rows, not the report; each of the next options does too.")]
Wrong = Annotated[
    bool, Option("--wrong", help="Only rows whose answer is not accurate, or whose response or scoring failed.")
]
Worst = Annotated[
    int | None, Option("--worst", metavar="N", min=1, help="The N worst rows of each system, worst first.")
]
Query = Annotated[str | None, Option("--query", metavar="ID", help="Only the query of that id.")]
Where = Annotated[
    list[str] | None,
    Option(
        "--where",
        metavar="COND",
        help="Only such rows: 'mrr<0.5', category=NAME, difficulty=NAME, failure=retrieval_miss, failed=true, text=TEXT. "
        "Repeatable.",
    ),
]
Sort = Annotated[
    str | None, Option("--sort", metavar="FIGURE", help="By this metric or figure; -FIGURE: the largest first.")
]
SystemName = Annotated[str | None, Option("--system", metavar="NAME", help="Only this system.")]
ReportOrRowsAsJson = Annotated[bool, Option("--json", help="Print JSON; of rows, all of them, one a line.")]
_LABELS = ("category", "difficulty", "failure", "failed", "text")  # what --where compares with a text
MAX_SHOWN = 20


def runs(last: Last = 20, as_json: AsJson = False) -> None:
    """List the runs, newest first.

    When, on what, how far, and how good the answers are.
    """
    from ragassay.core.settings import Settings
    from ragassay.dashboard.folder import FolderLibrary
    from ragassay.storage.benchmarks import FolderBenchmarks
    from ragassay.storage.folder import FolderStore

    store = FolderStore(Settings().home)
    ids, benchmarks = store.ids(), FolderBenchmarks(store.root).of_runs()
    listed = [(run, benchmarks.get(run.id)) for run in islice(FolderLibrary(store).runs(), last)]
    if as_json:
        dumped = ((run.model_dump(mode="json", exclude_unset=True), benchmark) for run, benchmark in listed)
        print_json([{**run, "benchmark": benchmark} for run, benchmark in dumped])
        return
    if not ids:
        typer.echo(f"no run in {store.root / 'runs'}; make one: ragassay evaluate DATA, or ragassay demo", err=True)
    for run, benchmark in listed:
        typer.echo(" ".join(_line(run, benchmark).split("\n")))
        for system, headline in run.headline.items():
            typer.echo(f"  {system}: {headline}")
    if len(ids) > last:
        typer.echo(f"and {len(ids) - last} older: --last {len(ids)} lists all", err=True)


def _line(run: RunSummary, benchmark: str | None) -> str:
    if run.status == "unreadable":
        return f"{run.id}  unreadable: {run.error}"
    systems = f"{len(run.systems)} systems" if len(run.systems) > 1 else run.systems[0]
    parts = [f"{run.name}: {run.dataset}" if run.name else run.dataset, f"{run.queries} queries", systems]
    parts += [f"judge {run.judge}", run.status]
    if run.status != "finished":
        parts.append(run.progress)
    if benchmark:
        parts.append(f"of benchmark {benchmark}")
    resume = ""
    if run.status == "unfinished":
        imports = "".join(f" --import {shlex.quote(name)}" for name in run.plugins)
        resume = f"; go on: ragassay evaluate --resume {benchmark or run.id}{imports}"
    return f"{run.id}  {minute(run.created_at)}  {', '.join(parts)}{resume}"


def show(
    run: Run,
    output: Outputs = None,
    form: FormatName = None,
    fields: Fields = None,
    rows: Rows = False,
    wrong: Wrong = False,
    worst: Worst = None,
    query: Query = None,
    system: SystemName = None,
    where: Where = None,
    sort: Sort = None,
    server: Server = None,
    plugin: Plugins = None,
    as_json: ReportOrRowsAsJson = False,
) -> None:
    """Show a report or a comparison, or its rows, or write it with -o.

    The id of a benchmark means its comparison. With --rows or a choice of rows, those are shown: query, answer, ground
    truth, and each sentence and fact with its verdict, evidence and reason.
    """
    from ragassay.sdk.references import resolve

    import_plugins(plugin)
    selection = given({"system": system, "sort": sort, **_conditions(where or [])})
    if not (rows or wrong or worst or query or selection):
        _show_report(run, output or [], form, fields, server, as_json=as_json)
        return
    if output or form or fields:
        raise BadSettings("files have all rows", hint="leave out the choice of rows, or -o, --format and --fields")
    named = resolve(run, server)
    chosen = _chosen(named, selection, query, wrong=wrong, worst=worst)
    if as_json:
        _print_lines(chosen, named.run)
    else:
        _print(list(chosen), named.run, None if worst else MAX_SHOWN)


def _conditions(where: Sequence[str]) -> dict[str, Any]:
    """Conditions as arguments of ``Reference.results``."""
    labels, bounds = dict[str, str](), list[str]()
    for text in where:
        name, equals, value = (part.strip() for part in text.partition("="))
        if equals and name in _LABELS:
            labels[name] = value
        else:
            bounds.append(text)
    return {**labels, "where": tuple(bounds) or None}


def _show_report(
    run: str, outputs: list[Path], form: str | None, fields: str | None, server: str | None, *, as_json: bool
) -> None:
    from ragassay.reporting import comparison
    from ragassay.reporting.files import BINARY, EXPORTERS
    from ragassay.sdk.references import open_comparison, resolve

    compared = open_comparison(run)
    exporters: Any = EXPORTERS if compared is None else comparison.EXPORTERS
    for path in outputs:
        exporters.for_file(path, form)
    named = None if compared else resolve(run, server)
    document: Any = named.report() if named else compared
    written: dict[str, Any] = {"form": form, "fields": split_names(fields) if fields else ()}
    if form is not None and not outputs:
        if form in BINARY and sys.stdout.isatty():
            raise BadSettings(f"a terminal can't show {form}", where="--format", hint=f"name a file: -o report.{form}")
        with warnings_shown("ragassay.exporters"):
            content = exporters.make(document, **written)
            sys.stdout.buffer.writelines((content,) if isinstance(content, bytes) else content)
    elif named is None:
        show_document(document, comparison.of_comparison, exporters, outputs, as_json=as_json, **written)
    else:
        at = None if named.run or named.file else server
        show_report(document, named.place, outputs, as_json=as_json, server=at, **written)


def _chosen(
    named: Reference, selection: dict[str, Any], query: str | None, *, wrong: bool, worst: int | None
) -> Iterable[Result]:
    """The rows that are asked for; raises UnknownName for a query that there is not."""
    from ragassay.metrics.failures import attribute
    from ragassay.reporting.failing import worst_first

    rows: Iterable[Result] = named.results(**selection)
    if query is not None:
        every = list(rows)
        rows = [row for row in every if row.query_id == query]
        if not rows:
            raise UnknownName("query", query, dict.fromkeys(row.query_id for row in every))
    if wrong:
        every = list(rows)
        rows = [row for row in every if row.failed or attribute(row)]
        if not any("accurate" in row.scores for row in every):
            typer.echo("accurate was not computed, so only rows whose response or scoring failed are shown", err=True)
    if worst is None:
        return rows
    every, systems = list(rows), named.report().systems
    ranked = {name: worst_first(one, [row for row in every if row.system == name]) for name, one in systems.items()}
    return [row for rows in ranked.values() for row in list(rows)[:worst]]


def _print_lines(rows: Iterable[Result], run: FolderRun | None) -> None:
    """A line of JSON for each row, with why it failed and the text of its evidence."""
    import orjson

    from ragassay.metrics.failures import attribute
    from ragassay.reporting.row import evidence

    for row in rows:
        failure = attribute(row)
        more = {"failure": failure and failure.model_dump(mode="json"), "evidence": evidence(row, _sample(row, run))}
        sys.stdout.write(orjson.dumps({**row.model_dump(mode="json"), **more}).decode() + "\n")


def _sample(row: Result, run: FolderRun | None) -> Sample | None:
    return run.sample(row.query_id, row.system) if run else None


def _print(rows: list[Result], run: FolderRun | None, max_rows: int | None) -> None:
    from ragassay.reporting.row import of_row

    write(f"{len(rows)} rows" if len(rows) != 1 else "1 row")
    for row in rows[:max_rows]:
        document = of_row(row, _sample(row, run))
        write()
        write(document.title, bold=True)
        print_document(document)
    if left := len(rows[max_rows:]) if max_rows else 0:
        write(f"\nand {left} more: --worst N shows the N worst of each system, --json prints all")
