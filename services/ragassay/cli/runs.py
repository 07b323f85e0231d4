"""What was evaluated, run by run and row by row: ``ragassay runs`` and ``ragassay show``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from ragassay.cli.options import AsJson, Last, Outputs, Plugins, Server, import_plugins, without_none
from ragassay.cli.terminal import print_fields, print_json, show_report, warnings_shown, write
from ragassay.cli.terminal import show as show_document
from ragassay.core.errors import BadSettings, NotFound, UnknownName
from ragassay.core.formatting import number, split_names
from ragassay.core.models import Result
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.judges.combine import disagreements
from ragassay.judges.verdict import number_units
from ragassay.metrics.failures import attribute
from ragassay.reporting import BINARY, EXPORTERS, comparison
from ragassay.reporting.failing import why, worst_first
from ragassay.reporting.listing import summary
from ragassay.sdk.benchmark import Benchmark
from ragassay.sdk.references import Reference, open_comparison, resolve
from ragassay.storage.benchmarks import FolderBenchmarks
from ragassay.storage.folder import FolderRun, FolderStore

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN[#SYSTEM]|FILE",
        help="Run id or its beginning, 'last', run folder, a job's id, or the JSON of a report or a comparison.",
    ),
]
Fields = Annotated[
    str | None, typer.Option("--fields", metavar="NAME,...", help="Only these columns of the rows, in this order.")
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="FORMAT", help="Format of the files if the extension is not it; without -o: print it."
    ),
]
Rows = Annotated[bool, typer.Option("--rows", help="Show the rows, not the report; each of the next options does too.")]
Wrong = Annotated[
    bool, typer.Option("--wrong", help="Only rows whose answer is not accurate, or whose response or scoring failed.")
]
Worst = Annotated[
    int | None, typer.Option("--worst", metavar="N", min=1, help="The N worst rows of each system, worst first.")
]
Query = Annotated[str | None, typer.Option("--query", metavar="ID", help="Only the query of that id.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="COND",
        help="Only such rows: 'mrr<0.5', category=NAME, difficulty=NAME, failure=retrieval_miss, failed=true, text=TEXT. "
        "Repeatable.",
    ),
]
Sort = Annotated[
    str | None,
    typer.Option("--sort", metavar="FIGURE", help="By this metric or figure; -FIGURE: the largest first."),
]
SystemName = Annotated[str | None, typer.Option("--system", metavar="NAME", help="Only this system.")]
ReportOrRowsAsJson = Annotated[bool, typer.Option("--json", help="Print JSON; of rows, all of them, one a line.")]
_LABELS = ("category", "difficulty", "failure", "failed", "text")  # what --where compares with a text
MOST_SHOWN = 20


def runs(last: Last = 20, as_json: AsJson = False) -> None:
    """List the runs, newest first: when, on what, how far, and how good the answers are."""
    store = FolderStore(Settings().home)
    ids = store.ids()[::-1]
    of_benchmark = FolderBenchmarks(store.root).of_runs()
    summaries = [summary(store, run) for run in ids[:last]]
    listed = [
        {**one.model_dump(mode="json", exclude_unset=True), "benchmark": of_benchmark.get(one.id)} for one in summaries
    ]
    if as_json:
        print_json(listed)
        return
    if not ids:
        typer.echo(f"no run in {store.root / 'runs'}; make one: ragassay evaluate DATA, or ragassay demo", err=True)
    for run, one in zip(listed, summaries, strict=True):
        typer.echo(" ".join(_line(run, one.progress).split("\n")))
        for system, said in run.get("headline", {}).items():
            typer.echo(f"  {system}: {said}")
    if len(ids) > last:
        typer.echo(f"and {len(ids) - last} older: --last {len(ids)} lists all", err=True)


def _line(run: Mapping[str, Any], progress: str) -> str:
    if run["status"] == "unreadable":
        return f"{run['id']}  unreadable: {run['error']}"
    name = f"{run['name']}: " if run["name"] else ""
    far = "" if run["status"] == "finished" else f", {progress}"
    of_benchmark = f", of benchmark {run['benchmark']}" if run["benchmark"] else ""
    go_on = f"ragassay evaluate --resume {run['benchmark'] or run['id']}"
    imports = "".join(f" --import {shlex.quote(name)}" for name in run["plugins"])
    resume = f"; go on: {go_on}{imports}" if run["status"] == "unfinished" else ""
    systems = f"{len(run['systems'])} systems" if len(run["systems"]) > 1 else run["systems"][0]
    when = run["created_at"][:16].replace("T", " ")
    what = f"{name}{run['dataset']}, {run['queries']} queries, {systems}, judge {run['judge']}"
    return f"{run['id']}  {when}  {what}, {run['status']}{far}{of_benchmark}{resume}"


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
    """Show a report or a comparison, or with -o write it; with --rows or a choice of rows, show those.

    The id of a benchmark means its comparison.

    A row is shown with query, answer, ground truth, and each sentence and fact with its verdict, evidence and reason.
    """
    import_plugins(plugin)
    selection = _selection(where or [], system=system, sort=sort)
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
        _print(list(chosen), named.run, None if worst else MOST_SHOWN)


def _selection(where: Sequence[str], **named: str | None) -> dict[str, Any]:
    """The arguments of ``Reference.results``."""
    selection, bounds = without_none(named), []
    for text in where:
        name, equals, value = text.partition("=")
        if equals and name.strip() in _LABELS:
            selection[name.strip()] = value.strip()
        else:
            bounds.append(text)
    return selection | ({"where": tuple(bounds)} if bounds else {})


def _show_report(
    run: str, outputs: list[Path], form: str | None, fields: str | None, server: str | None, *, as_json: bool
) -> None:
    benchmark = Benchmark.kept(Settings(), run)
    if benchmark is not None and benchmark.comparison is None:
        raise NotFound(f"benchmark {run} has one system, and so no comparison", hint="ragassay runs lists its runs")
    compared = benchmark.comparison if benchmark else open_comparison(run)
    exporters: Any = EXPORTERS if compared is None else comparison.EXPORTERS
    for path in outputs:
        exporters.for_file(path, form)
    if not outputs and form in BINARY and sys.stdout.isatty():
        raise BadSettings(f"a terminal can't show {form}", where="--format", hint=f"name a file: -o report.{form}")
    named = None if compared else resolve(run, server)
    document: Any = named.report() if named else compared
    written: dict[str, Any] = {"form": form, "fields": split_names(fields) if fields else ()}
    if form is not None and not outputs:
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
    return rows if worst is None else _worst(named.report(), list(rows), worst)


def _print_lines(rows: Iterable[Result], run: FolderRun | None) -> None:
    """A line of JSON for each row, with why it failed and the text of its evidence."""

    for row in rows:
        failure = attribute(row)
        more = {"failure": failure and failure.model_dump(mode="json"), "evidence": _evidence(row, run)}
        sys.stdout.write(orjson.dumps({**row.model_dump(mode="json"), **more}).decode() + "\n")


def _worst(report: ReportWithResults, rows: list[Result], most: int) -> Iterator[Result]:
    """The worst of the rows of each system, as the report ranks them."""
    for name, system in report.systems.items():
        yield from islice(worst_first(system, [row for row in rows if row.system == name]), most)


def _evidence(row: Result, run: FolderRun | None) -> dict[str, str]:
    """Labels such as ``C2.1`` and ``H2``, and the sentences of contexts and earlier turns that they stand for.

    Empty where the run does not keep the contexts.
    """
    sample = run.sample(row.query_id, row.system) if run else None
    if sample is None or row.verdict is None:
        return {}
    units = number_units(sample)
    texts = {**units.history, **units.contexts}
    cited = [s.evidence for s in row.verdict.sentences] + [f.evidence for f in row.verdict.facts]
    return {label: texts[label] for labels in cited for label in labels if label in texts}


def _print(rows: list[Result], run: FolderRun | None, most: int | None) -> None:
    write(f"{len(rows)} rows" if len(rows) != 1 else "1 row")
    for row in rows[:most]:
        marks = ", ".join(filter(None, (row.category, row.difficulty)))
        write()
        write(f"{row.system} {row.query_id}" + (f" ({marks})" if marks else ""), bold=True)
        print_fields(_fields(row, _evidence(row, run)))
    if left := len(rows[most:]) if most else 0:
        write(f"\nand {left} more: --worst N shows the N worst of each system, --json prints all")


def _fields(row: Result, evidence: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What a row is, by label: texts, scores, and a line for each sentence and fact with its evidence."""
    if row.history:
        yield "history", " | ".join(f"{turn.role}: {turn.content}" for turn in row.history)
    yield "query", row.query
    yield "answer", row.answer if row.answer else "(empty)" if row.responded else "(no response)"
    if row.error:
        yield "error", row.error
    if row.ground_truth_answer:
        yield "expected", " | ".join(row.ground_truth_answer)
    yield "scores", _scores(row)
    if reason := why(row, judge=False):
        yield "failed", reason
    if row.verdict:
        for s in row.verdict.sentences:
            truth = f"ground truth {s.truth}" if s.truth else None
            yield from _unit(s.id, s.text, (s.support, truth), s.evidence, s.why, evidence)
        for f in row.verdict.facts:
            covered = f"covered: {f.covered}" if f.covered else None
            yield from _unit(f.id, f.text, (covered,), f.evidence, f.why, evidence)
        addressed = f"{row.verdict.relevance}; {row.verdict.why}" if row.verdict.why else row.verdict.relevance
        if addressed:
            yield "relevance", addressed
    for rating in row.ratings:
        if rating.role == "judge" and rating.verdict is None:
            yield "no vote", f"{rating.rater}: {rating.reason}"
    for line in disagreements(row.ratings):
        yield "divided", line
    if row.relevant is not None and row.relevant_ranks is not None:
        at = f" at {', '.join(map(str, row.relevant_ranks))}" if row.relevant_ranks else ""
        yield (
            "retrieved",
            f"{row.number_of_results or 0} documents, {len(row.relevant_ranks)} of {row.relevant} relevant ones{at}",
        )


def _scores(row: Result) -> str:
    known = [f"{name} {number(score.value)}" for name, score in row.scores.items() if score.value is not None]
    missing = [f"{name} none ({score.reason})" for name, score in row.scores.items() if score.value is None]
    return ", ".join([*known, *missing])


def _unit(
    label: str,
    text: str,
    verdicts: Iterable[str | None],
    cited: Iterable[str],
    why: str,
    evidence: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    said = [word.replace("_", " ") for word in verdicts if word] or ["not answered"]
    yield label, f"{text} [{', '.join(said)}]" + (f" {why}" if why else "")
    for one in cited:
        yield f"  {one}", evidence.get(one, "(the text is not kept here)")
