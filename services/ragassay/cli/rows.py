"""What was evaluated, run by run and row by row: ``runs``, ``show``, ``report``, ``results``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.benchmark import show_benchmark
from ragassay.cli.configured import AsJson, Plugins, import_plugins, option
from ragassay.cli.terminal import print_json
from ragassay.core.errors import BadSettings, UnknownName

if TYPE_CHECKING:
    from ragassay.core.models import Result
    from ragassay.core.report import ReportWithResults
    from ragassay.storage.folder import FolderRun

Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Run id or its beginning, 'last', run folder, report file, or a job's id."),
]
RunOrSystem = Annotated[
    str, typer.Argument(metavar="RUN[#SYSTEM]", help="Run id, 'last', run folder, report file, or a job's id.")
]
Server = Annotated[str | None, typer.Option("--server", metavar="URL", help="The service. [http://127.0.0.1:8400]")]
Outputs = Annotated[list[Path] | None, option("output")]
Last = Annotated[int, typer.Option("--last", metavar="N", help="Only the newest N runs.")]
Wrong = Annotated[
    bool, typer.Option("--wrong", help="Only rows whose answer is not accurate, or whose response or scoring failed.")
]
Worst = Annotated[
    int | None, typer.Option("--worst", metavar="N", help="The N worst rows of each system, worst first.")
]
Query = Annotated[str | None, typer.Option("--query", metavar="ID", help="Only the query of that id.")]
Category = Annotated[str | None, typer.Option("--category", metavar="NAME", help="Only rows of that category.")]
Sort = Annotated[
    str | None, typer.Option("--sort", metavar="METRIC", help="Worst first by this metric, or such as latency_ms.")
]
SystemName = Annotated[str | None, typer.Option("--system", metavar="NAME", help="Only this system.")]
MOST_SHOWN = 20


def runs(last: Last = 20, as_json: AsJson = False) -> None:
    """List the runs, newest first: when, on what, how far, and how good the answers are."""
    from ragassay.core.settings import Settings
    from ragassay.reporting.listing import summary
    from ragassay.storage.benchmarks import FolderBenchmarks
    from ragassay.storage.folder import FolderStore

    if last < 1:
        raise BadSettings(f"should be at least 1, is {last}", where="--last")
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
    go_on = f"ragassay run --resume {run['benchmark']}" if of_benchmark else f"ragassay evaluate --resume {run['id']}"
    imports = "".join(f" --import {shlex.quote(name)}" for name in run["plugins"])
    resume = f"; go on: {go_on}{imports}" if run["status"] == "unfinished" else ""
    systems = f"{len(run['systems'])} systems" if len(run["systems"]) > 1 else run["systems"][0]
    when = run["created_at"][:16].replace("T", " ")
    what = f"{name}{run['dataset']}, {run['queries']} queries, {systems}, judge {run['judge']}"
    return f"{run['id']}  {when}  {what}, {run['status']}{far}{of_benchmark}{resume}"


def report(
    run: Run, server: Server = None, output: Outputs = None, plugin: Plugins = None, as_json: AsJson = False
) -> None:
    """Print the report of a run or of a finished job, or the result of a benchmark."""
    from ragassay.cli import evaluate
    from ragassay.core.settings import Settings
    from ragassay.reporting import EXPORTERS
    from ragassay.sdk.stored import open_report, stored_benchmark, stored_run

    import_plugins(plugin)
    if benchmark := stored_benchmark(run):
        show_benchmark(benchmark, output or [], as_json=as_json)
        return
    EXPORTERS.check(output or ())
    document = open_report(run, server)
    local = run if Path(run).exists() else None
    stored = stored_run(run)
    place = str(stored.report_file) if stored else local or f"{server or Settings().server}/v1/jobs/{run}/report"
    evaluate.show(document, place, output or [], as_json=as_json, server=None if stored or local else server)


def results(
    run: Run,
    server: Server = None,
    system: SystemName = None,
    category: Category = None,
    difficulty: Annotated[
        str | None, typer.Option("--difficulty", metavar="NAME", help="Only rows of that difficulty.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only rows whose response or scoring failed.")] = False,
    failure: Annotated[
        str | None, typer.Option("--failure", metavar="KIND", help="Only rows that failed so, such as retrieval_miss.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="BOUND", help="Only rows within it, such as 'mrr<0.5'; repeatable."),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Only rows with this in id, query, answer or truth.")
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="FIGURE", help="By this metric or figure; -FIGURE: the largest first."),
    ] = None,
) -> None:
    """Print the results that are there, one JSON document a line, in the dataset's order; of a job the service selects."""
    from ragassay.sdk.stored import open_results

    asked = {
        "system": system,
        "category": category,
        "difficulty": difficulty,
        "text": text,
        "sort": sort,
        "failure": failure,
    }
    more = {"failed": failed or None, "where": tuple(where or ()) or None}
    selection = {key: value for key, value in {**asked, **more}.items() if value is not None}
    for result in open_results(run, server, **selection):
        sys.stdout.write(result.model_dump_json() + "\n")


def show(
    run: RunOrSystem,
    wrong: Wrong = False,
    worst: Worst = None,
    query: Query = None,
    category: Category = None,
    sort: Sort = None,
    system: SystemName = None,
    as_json: AsJson = False,
    server: Server = None,
) -> None:
    """Show rows: query, answer, ground truth, and each sentence and fact with its verdict, evidence and why."""
    from ragassay.sdk.stored import chosen, stored_run

    if worst is not None and worst < 1:
        raise BadSettings(f"should be at least 1, is {worst}", where="--worst")
    document, named = chosen(run, server)
    stored = stored_run(run.removesuffix(f"#{named}") if named else run)
    selected = _selected(document, system or named, wrong=wrong, query=query, category=category)
    rows = list(_ordered(document, selected, sort, worst))
    if as_json:
        print_json([_document(row, stored) for row in rows])
        return
    _print(document, rows, stored, None if worst else MOST_SHOWN)


def _selected(
    report: ReportWithResults, system: str | None, *, wrong: bool, query: str | None, category: str | None
) -> dict[str, list[Result]]:
    """The rows that are asked for, by system; raises UnknownName for a system, query or category that is not there."""
    from ragassay.evaluation.groups import slice_value
    from ragassay.metrics.failures import attribute

    if system is not None and system not in report.systems:
        raise UnknownName("system", system, report.systems)
    found = {name: list(report.results_of(name)) for name in report.systems if system in (None, name)}
    wanted: list[tuple[str, str | None, Callable[[Result], str | None]]] = [
        ("query", query, lambda row: row.query_id),
        ("category", category, lambda row: slice_value(row, "category")),
    ]
    for what, value, of in wanted:
        if value is None:
            continue
        known = dict.fromkeys(of(row) or "" for rows in found.values() for row in rows)
        if value not in known:
            raise UnknownName(what, value, filter(None, known))
        found = {name: [row for row in rows if of(row) == value] for name, rows in found.items()}
    if wrong:
        found = {name: [row for row in rows if row.failed or attribute(row)] for name, rows in found.items()}
        if "accurate" not in report.provenance.metrics:
            typer.echo("accurate was not computed, so only rows whose response or scoring failed are shown", err=True)
    return found


def _ordered(
    report: ReportWithResults, selected: Mapping[str, list[Result]], sort: str | None, worst: int | None
) -> Iterator[Result]:
    """System by system in the dataset's order; where ``sort`` or ``worst`` is given, worst first."""
    from ragassay.metrics.metric import OPERATIONAL
    from ragassay.reporting.failing import worst_first

    metrics = {name.lower(): name for name in (*report.provenance.metrics, *OPERATIONAL)}
    if sort is not None and sort.lower() not in metrics:
        raise UnknownName("metric of the run", sort, metrics.values())
    for name, rows in selected.items():
        if sort is None and worst is None:
            yield from rows
        else:
            yield from islice(worst_first(report.systems[name], rows, sort and metrics[sort.lower()]), worst)


def _evidence(row: Result, run: FolderRun | None) -> dict[str, str]:
    """Labels such as ``C2.1`` and the sentences of contexts that they stand for, where the run keeps the contexts."""
    from ragassay.judges.verdict import number_units

    sample = run.sample(row.query_id, row.system) if run else None
    if sample is None or row.verdict is None:
        return {}
    contexts = number_units(sample).contexts
    cited = [s.evidence for s in row.verdict.sentences] + [f.evidence for f in row.verdict.facts]
    return {label: contexts[label] for labels in cited for label in labels if label in contexts}


def _document(row: Result, run: FolderRun | None) -> dict[str, Any]:
    from ragassay.metrics.failures import attribute

    failure = attribute(row)
    return {
        **row.model_dump(mode="json"),
        "failure": failure and failure.model_dump(mode="json"),
        "evidence": _evidence(row, run),
    }


def _print(report: ReportWithResults, rows: list[Result], run: FolderRun | None, most: int | None) -> None:
    from rich.markup import escape

    from ragassay.cli.terminal import console, print_fields

    out = console()
    total = sum(system.queries for system in report.systems.values())
    out.print(f"{escape(report.provenance.dataset.name)}: {len(rows)} of {total} rows")
    for row in rows[:most]:
        marks = ", ".join(filter(None, (row.category, row.difficulty)))
        out.print(
            f"\n[bold]{escape(row.system)} {escape(row.query_id)}[/bold]" + (f" ({escape(marks)})" if marks else "")
        )
        print_fields(out, _fields(row, _evidence(row, run)))
    if left := len(rows[most:]) if most else 0:
        out.print(f"\nand {left} more: --worst N shows the N worst of each system, --json prints all")


def _fields(row: Result, evidence: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What a row is, by label: texts, scores, and a line for each sentence and fact with its evidence."""
    from ragassay.judges.jury_agreement import divided
    from ragassay.reporting.failing import why

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
    for name, judgement in row.members.items():
        if judgement.verdict is None:
            yield "no vote", f"{name}: {judgement.reason}"
    for line in divided(row.members):
        yield "divided", line
    if row.relevant is not None and row.relevant_ranks is not None:
        at = f" at {', '.join(map(str, row.relevant_ranks))}" if row.relevant_ranks else ""
        yield (
            "retrieved",
            f"{row.number_of_results or 0} documents, {len(row.relevant_ranks)} of {row.relevant} relevant ones{at}",
        )


def _scores(row: Result) -> str:
    from ragassay.core.formatting import number

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
