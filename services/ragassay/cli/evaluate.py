"""``ragassay evaluate`` and ``ragassay demo``: from files to a report."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragassay.errors import BadSettings, BudgetReached, Unscored

if TYPE_CHECKING:
    from collections.abc import Mapping as Map

    from ragassay.config import Configuration
    from ragassay.documents import Report, Source
    from ragassay.models import Budget, JobSpec, Response, Sample
    from ragassay.settings import Settings
    from ragassay.stopping import Scores
    from ragassay.store.folder import Run

    Samples = tuple[Sample, ...]
    Recordings = dict[str, tuple[Source, Map[str, Response]]]
    Loaded = tuple[Source, Samples, Recordings]

Data = Annotated[Path | None, typer.Argument(metavar="[DATA]", help="Queries, with or without responses.")]
Systems = Annotated[
    list[str] | None, typer.Option("--system", metavar="NAME=FILE", help="Responses of a system; repeatable.")
]
Metrics = Annotated[
    str | None, typer.Option("--metrics", metavar="A,B", help="Metrics to compute; see: ragassay metrics.")
]
JudgeName = Annotated[
    str | None, typer.Option("--judge", metavar="local|MODEL", help="Judge: local, or a LiteLLM model.")
]
ApiBase = Annotated[
    str | None, typer.Option("--api-base", metavar="URL", help="Address of an OpenAI-compatible provider.")
]
Concurrency = Annotated[int | None, typer.Option("-j", "--concurrency", metavar="N", help="Judge calls at once. [8]")]
Outputs = Annotated[
    list[Path] | None, typer.Option("-o", "--output", metavar="FILE", help="Also write .json, .csv, .md.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Only the first N rows.")]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed of judge and bootstrap. [0]")]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration. [without DATA: ./ragassay.yaml]")
]
Format = Annotated[str, typer.Option("--format", metavar="F", help="auto, json, jsonl, csv, tsv, parquet, trec.")]
FormatOver = Annotated[
    str | None, typer.Option("--format", metavar="F", help="auto, json, jsonl, csv, tsv, parquet, trec. [auto]")
]
Mapping = Annotated[list[str] | None, typer.Option("--map", metavar="OURS=THEIRS", help="Name a column; repeatable.")]
Duplicates = Annotated[Literal["error", "keep_first"], typer.Option("--duplicates", help="A document listed twice.")]
DuplicatesOver = Annotated[
    Literal["error", "keep_first"] | None, typer.Option("--duplicates", help="A document listed twice. [error]")
]
Accurate = Annotated[str | None, typer.Option("--accurate", metavar="RULE", help="When an answer counts as accurate.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Ask the judge again, whatever earlier runs know.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print calls, tokens and the most it can cost; call nobody.")]
BudgetUsd = Annotated[
    float | None, typer.Option("--budget-usd", metavar="USD", help="The most that judge calls may cost.")
]
BudgetTokens = Annotated[
    int | None, typer.Option("--budget-tokens", metavar="N", help="The most tokens that judge calls may take.")
]
StopWhen = Annotated[
    str | None,
    typer.Option(
        "--stop-when", metavar="RULE", help="End judging early: '[METRIC] width <= 0.1', 'decided against baseline'."
    ),
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="SYSTEM|RUN", help="What --stop-when decides against.")
]
Resume = Annotated[
    str | None, typer.Option("--resume", metavar="RUN", help="Go on with an interrupted run; 'last' works.")
]
MaxMissing = Annotated[
    float | None, typer.Option("--max-missing", metavar="X", help="Share of failed rows allowed. [0.05]")
]

Plugins = Annotated[
    list[Path] | None, typer.Option("--import", metavar="FILE.py", help="Run a file that registers metrics.")
]


def evaluate(
    data: Data = None,
    system: Systems = None,
    metrics: Metrics = None,
    judge: JudgeName = None,
    api_base: ApiBase = None,
    concurrency: Concurrency = None,
    output: Outputs = None,
    as_json: AsJson = False,
    limit: Limit = None,
    seed: Seed = None,
    format: FormatOver = None,  # noqa: A002 - the option's name
    mapping: Mapping = None,
    duplicates: DuplicatesOver = None,
    accurate: Accurate = None,
    no_cache: NoCache = False,
    dry_run: DryRun = False,
    resume: Resume = None,
    max_missing: MaxMissing = None,
    budget_usd: BudgetUsd = None,
    budget_tokens: BudgetTokens = None,
    stop_when: StopWhen = None,
    baseline: Baseline = None,
    config: Config = None,
    plugin: Plugins = None,
) -> None:
    """Evaluate recorded responses and print a report."""
    from ragassay.cli.configured import configured
    from ragassay.cli.estimate import estimate
    from ragassay.cli.plugins import run_plugin
    from ragassay.exporters import exporter_for
    from ragassay.settings import Settings

    for path in plugin or ():
        run_plugin(path)
    settings = Settings()
    if resume is not None:
        asked = {
            "DATA": data,
            "--config": config,
            "--system": system,
            "--metrics": metrics,
            "--judge": judge,
            "--limit": limit,
            "--seed": seed,
            "--stop-when": stop_when,
            "--baseline": baseline,
            "--api-base": api_base,
            "--concurrency": concurrency,
            "--accurate": accurate,
            "--max-missing": max_missing,
            "--map": mapping,
            "--format": format,
            "--duplicates": duplicates,
            "--no-cache": no_cache or None,
        }
        if given := [name for name, value in asked.items() if value is not None]:
            raise BadSettings(f"--resume takes everything from the run, so {', '.join(given)} can't be given with it")
        outputs = output or []
        for path in outputs:
            exporter_for(path)
        run, budget = _open(settings, resume), _budget(budget_usd, budget_tokens)
    else:
        configuration = configured(
            config,
            {
                "data": data,
                "systems": pairs(system, "--system", "NAME=FILE"),
                "format": format,
                "map": pairs(mapping, "--map", "OURS=THEIRS"),
                "duplicates": duplicates,
                "limit": limit,
                "output": output,
                "metrics": names(metrics),
                "judge": judge,
                "api_base": api_base,
                "seed": seed,
                "accurate": accurate,
                "max_missing": max_missing,
                "usd": budget_usd,
                "tokens": budget_tokens,
                "stop_when": stop_when,
                "baseline": baseline,
                "concurrency": concurrency,
                "cache": False if no_cache else None,
            },
        )
        outputs = list(configuration.output)
        for path in outputs:
            exporter_for(path)
        spec, loaded, budget = configuration.to_job_spec(), read(configuration), None
        if dry_run:
            estimate(settings, spec, *loaded)
            return
        if spec.budget != type(spec.budget)():
            estimate(settings, spec, *loaded, err=True)
        run = start(settings, spec, *loaded)
    report = work(run, settings, quiet=as_json, budget=budget)
    show(report, str(run.folder / "report.json"), outputs, as_json=as_json)


def demo() -> None:
    """Evaluate the two recorded systems of the quickstart dataset; needs no key, no network and no server."""
    from ragassay import benchmark
    from ragassay.models import JobSpec
    from ragassay.settings import Settings
    from ragassay.shipped import folder

    quickstart = folder("datasets") / "quickstart"
    settings = Settings()
    systems = {path.stem: path for path in sorted((quickstart / "responses").glob("*.jsonl"))}
    loaded = benchmark.load(quickstart / "queries.jsonl", systems, name="quickstart")
    run = start(settings, JobSpec(), *loaded)
    report = work(run, settings, quiet=False)
    show(report, str(run.folder / "report.json"), [], as_json=False)
    command = "ragassay" if shutil.which("ragassay") else sys.argv[0]  # make demo's environment is not on the PATH
    typer.echo(
        "\nNext, your own file (JSON, JSONL, CSV, TSV or Parquet):\n"
        f"  {command} data check YOUR_FILE      what is in it, and which metrics it allows\n"
        f"  {command} evaluate YOUR_FILE        the same report for your system"
    )


def names(given: str | None) -> list[str] | None:
    """What an option was given that takes several names with commas between them."""
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def pairs(given: list[str] | None, option: str, form: str) -> dict[str, str]:
    """What a repeatable NAME=VALUE option was given; raises BadSettings."""
    pairs: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise BadSettings(f"{option} {text!r} is not of the form {form}")
        if name.strip() in pairs:
            raise BadSettings(f"{option} names {name.strip()!r} twice")
        pairs[name.strip()] = value.strip()
    return pairs


def read(configuration: Configuration) -> Loaded:
    """Read everything before anything is written; raises BadSettings when no data is named."""
    from ragassay import benchmark

    if configuration.data is None:
        raise BadSettings(
            "DATA is missing", hint="name a file: ragassay evaluate DATA, or 'data:' in the configuration"
        )
    return benchmark.load(
        configuration.data,
        configuration.systems,
        corpus=configuration.corpus,
        format=configuration.format,
        mapping=configuration.map,
        duplicates=configuration.duplicates,
        limit=configuration.limit,
    )


def start(settings: Settings, spec: JobSpec, dataset: Source, samples: Samples, systems: Recordings) -> Run:
    """Write the new run down."""
    from ragassay import benchmark, wiring
    from ragassay.ledger import MemoryLedger
    from ragassay.store.folder import FolderStore

    tools = wiring.tools(spec, settings, MemoryLedger())
    made = wiring.built({name: source for name, (source, _) in systems.items()}, settings, tools)
    systems = {
        name: (wiring.described(source, made.get(name)), responses) for name, (source, responses) in systems.items()
    }
    baseline = _stored_baseline(spec, list(systems))
    store = FolderStore(settings.home)
    return benchmark.prepare(store, spec, dataset, samples, systems, tools, baseline=baseline)


def _stored_baseline(spec: JobSpec, systems: list[str]) -> Scores | None:
    """The scores of a baseline that is a stored run or report; None where it is a system of the run, or not needed."""
    if spec.stop_when is None or spec.baseline is None or spec.baseline in systems:
        return None
    from ragassay.cli.reports import chosen
    from ragassay.stopping import baseline_scores

    return baseline_scores(*chosen(spec.baseline))


def _open(settings: Settings, reference: str) -> Run:
    from ragassay.store.folder import FolderStore

    return FolderStore(settings.home).open(reference)


def _budget(usd: float | None, tokens: int | None) -> Budget | None:
    """The budget that takes the place of the run's own when it is resumed; None where no option gives one."""
    if usd is None and tokens is None:
        return None
    from ragassay.models import Budget

    if not (usd is None or 0 < usd < float("inf")) or not (tokens is None or 0 < tokens <= 10**15):
        raise BadSettings("a budget should be above 0", where="--budget-usd" if tokens is None else "--budget-tokens")
    return Budget(usd=usd, tokens=tokens)


def work(run: Run, settings: Settings, *, quiet: bool, budget: Budget | None = None) -> Report:
    """Do what is left of a run, under ``budget`` instead of the run's own if given, and write its report."""
    from ragassay import benchmark, wiring

    logging.getLogger("ragassay").addHandler(
        logging.NullHandler()
    )  # what it warns of stands in the report; -v shows it
    spec = run.manifest.spec
    if budget is not None:
        spec = spec.model_copy(update={"budget": budget})
    with run.locked(), wiring.folder_ledger(run.folder, settings, spec) as ledger:
        tools = wiring.tools(spec, settings, ledger)
        built = wiring.built(run.manifest.systems, settings, tools) if run.pending() else {}
        systems = {name: wiring.described(run.manifest.systems[name], system) for name, system in built.items()}
        benchmark.check_unchanged(run, tools, systems)
        baseline = _stored_baseline(spec, list(run.manifest.systems))
        total = len(run.chunks()) and sum(len(run.chunk(n)) for _, n in run.chunks())
        left = sum(len(run.chunk(n)) for _, n in run.pending())
        try:
            with progress(total, total - left, quiet) as done:
                asyncio.run(benchmark.work(run, tools, done, baseline=baseline, built=built))
        except KeyboardInterrupt:
            typer.echo(f"interrupted; go on with: ragassay evaluate --resume {run.manifest.id}", err=True)
            raise
        except BudgetReached as reached:
            option = "--budget-usd" if " USD " in str(reached) else "--budget-tokens"
            reached.hint = f"what is finished is kept: ragassay evaluate --resume {run.manifest.id} {option} MORE"
            raise
        return benchmark.finish(run, baseline=baseline)


@contextmanager
def progress(total: int, already: int, quiet: bool) -> Iterator[Callable[[int], object]]:
    """A bar on stderr where it is a terminal; elsewhere nothing moves."""
    if quiet or not sys.stderr.isatty():
        yield int
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("evaluating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rows", total=total, completed=already)
        yield lambda rows: bar.advance(task, rows)


def show(report: Report, place: str, outputs: list[Path], *, as_json: bool) -> None:
    """Write the files, print the report and the place where it lies, and fail when too much could not be scored."""
    from ragassay import exporters

    for path in outputs:
        exporters.export(report, path)
    if as_json:
        sys.stdout.buffer.write(exporters.json.export(report))
        sys.stdout.buffer.flush()
    else:
        from ragassay.cli.table import print_report

        print_report(report, place, outputs)
    refuse_unscored(report, report.provenance.configuration.max_missing)


def refuse_unscored(report: Report, limit: float) -> None:
    """Raise Unscored when more than a share ``limit`` of a metric's rows failed."""
    from ragassay import reports

    beyond = {name: share for name, share in reports.unscored(report).items() if share > limit}
    if beyond:
        listed = ", ".join(f"{name} {share:.0%}" for name, share in sorted(beyond.items()))
        raise Unscored(f"rows without a score because something failed: {listed}; allowed: {limit:.0%} (--max-missing)")
