"""``ragassay evaluate`` and ``ragassay demo``: from files to a report, here or in a service."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ragassay import config
from ragassay.cli.estimate import estimate
from ragassay.cli.options import (
    AsJson,
    AtServer,
    Config,
    configured,
    import_plugins,
    overrides,
    takes_options,
    used,
)
from ragassay.cli.terminal import (
    Terminal,
    print_document,
    print_json,
    refuse_unscored,
    show_report,
    warnings_shown,
    write,
)
from ragassay.config import ProjectConfig
from ragassay.core.errors import BadSettings, DiskFull
from ragassay.core.eval_config import Budget, EvalConfig
from ragassay.core.package_data import folder
from ragassay.core.settings import Settings
from ragassay.evaluation import local
from ragassay.evaluation.inputs import load
from ragassay.evaluation.runtime import Runtime
from ragassay.reporting import EXPORTERS
from ragassay.reporting.comparison import of_comparison
from ragassay.reporting.report import of_report
from ragassay.sdk import benchmark, evaluation
from ragassay.sdk.benchmark import Begun, benchmark_of, check_outputs, inputs_by_dataset, resumed, started
from ragassay.sdk.evaluation import read_inputs, runtime_for
from ragassay.sdk.loop import finished
from ragassay.storage.folder import FolderRun

_ON_RESUME = ("plugins", "output", "budget_usd", "settings")  # options that a resumed run takes
_LIMITS = ("budget", "performance.provider_outage_timeout_s")  # keys that --set may change then
Data = Annotated[
    Path | None,
    typer.Argument(metavar="[DATA]", help="Queries, with or without responses: a file, or a stored dataset."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print calls, tokens and the most it can cost; make no call.")]
Resume = Annotated[
    str | None, typer.Option("--resume", metavar="RUN", help="Go on with an interrupted run; 'last' works.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="With --server: print the job's id and don't wait.")]


@takes_options()
def evaluate(
    data: Data = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    resume: Resume = None,
    config: Config = None,
    server: AtServer = None,
    no_wait: NoWait = False,
    **options: Any,
) -> None:
    """Evaluate systems on a dataset and print a report; with several datasets, also compare the systems on each.

    With --server a service evaluates recorded responses, and with --system NAME the systems that its operator registered.
    """
    if server is None and no_wait:
        raise BadSettings("--no-wait is about a service", hint="add --server URL")
    if resume is not None:
        others = {"DATA": data, "--config": config, "--dry-run": dry_run or None, "--server": server}
        fixed = [name for name, value in others.items() if value is not None]
        if fixed := [*fixed, *used({key: value for key, value in options.items() if key not in _ON_RESUME})]:
            raise BadSettings(f"--resume takes everything from the run, so {', '.join(fixed)} can't be given with it")
        _resume(resume, options, as_json=as_json)
    elif server is None:
        _evaluate(configured(config, options, data=data), dry_run=dry_run, as_json=as_json)
    elif dry_run:
        raise BadSettings("--dry-run is about an evaluation here", hint="leave out --server")
    elif options["output"] and no_wait:
        raise BadSettings("-o needs a report", hint="leave out --no-wait; or later: ragassay show JOB -o FILE")
    else:
        from ragassay.cli import jobs

        systems = options["system"] or []
        recorded = {**options, "system": [text for text in systems if "=" in text]}
        configuration = configured(config, recorded, data=data, remote=True)
        registered = [text for text in systems if "=" not in text]
        jobs.evaluate_at(server, configuration, registered, wait=not no_wait, as_json=as_json)


def _evaluate(configuration: ProjectConfig, *, dry_run: bool, as_json: bool) -> None:
    """Evaluate on the dataset of a configuration, or on each of its datasets."""
    reporter, outputs, spec = Terminal(quiet=as_json), list(configuration.output), configuration.evaluation
    several = bool(configuration.datasets)
    runtime = runtime_for(settings=Settings().of_dry_run if dry_run else Settings())
    if several:
        check_outputs(outputs)
        inputs = inputs_by_dataset(configuration, reporter)
    else:
        EXPORTERS.check(outputs)
        read = read_inputs(configuration, reporter)
        inputs = {read.dataset.name: read}
    if dry_run or spec.budget != Budget():
        with warnings_shown():
            estimate(runtime, spec, inputs, err=not dry_run)
    if dry_run:
        return
    if several:
        begun = started(runtime, configuration, inputs)
        _complete_benchmark(runtime, begun, reporter, outputs, as_json=as_json)
    else:
        run = local.start(runtime, spec, read)
        _complete(runtime, run, reporter, outputs, as_json=as_json)


def _resume(reference: str, options: Mapping[str, Any], *, as_json: bool) -> None:
    settings, outputs, limits = Settings(), options["output"] or [], limits_of(options)
    runtime, reporter = runtime_for(settings=settings), Terminal(quiet=as_json)
    import_plugins(options["plugins"])
    if name := benchmark_of(settings, reference):
        check_outputs(outputs)
        _complete_benchmark(runtime, resumed(settings, name), reporter, outputs, as_json=as_json, **limits)
        return
    EXPORTERS.check(outputs)
    run = local.resume(settings, reference)
    if not run.pending() and run.report_file.exists():
        ended = run.report().run.finished_at[:16].replace("T", " ")
        what = f"run {run.record.id} on {run.record.dataset.name} was finished at {ended} UTC"
        typer.echo(f"{what}; nothing is left to do", err=True)
    _complete(runtime, run, reporter, outputs, as_json=as_json, **limits)


def _complete(
    runtime: Runtime, run: FolderRun, reporter: Terminal, outputs: list[Path], *, as_json: bool, **limits: Any
) -> None:
    report = finished(partial(evaluation.completed, runtime, run, reporter, **limits))
    try:
        show_report(report, str(run.report_file), outputs, as_json=as_json)
    except DiskFull as full:
        full.hint = f"the report is kept; make room, then: ragassay evaluate --resume {run.record.id} -o FILE"
        raise


def _complete_benchmark(
    runtime: Runtime, begun: Begun, reporter: Terminal, outputs: list[Path], *, as_json: bool, **limits: Any
) -> None:
    result = finished(partial(benchmark.completed, runtime, begun, reporter, **limits))
    for path in outputs:
        result.save(path)
    places = [f"report of {dataset}: {run.report_file}" for dataset, run in begun.runs.items()]
    also = [f"also: {output}" for output in outputs]
    if as_json:
        print_json(result.figures)
    elif result.comparison is not None:
        print_document(of_comparison(result.comparison), f"\nbenchmark {result.id}", *places, *also)
    else:
        for report, place in zip(result.values(), places, strict=True):
            print_document(of_report(report), place)
        for line in also:
            write(line)
    for report in result.values():
        refuse_unscored(report)


def demo() -> None:
    """Evaluate the two recorded systems of the quickstart dataset; needs no key, no network and no server."""
    quickstart, runtime = folder("datasets") / "quickstart", runtime_for()
    systems = {path.stem: path for path in sorted((quickstart / "responses").glob("*.jsonl"))}
    inputs = load(quickstart / "queries.jsonl", systems, name="quickstart")
    run = local.start(runtime, EvalConfig(), inputs)
    _complete(runtime, run, Terminal(quiet=False), [], as_json=False)
    command = "ragassay" if shutil.which("ragassay") else sys.argv[0]  # make demo's environment is not on the PATH
    typer.echo(
        "\nNext, your own file (JSON, JSONL, CSV, TSV or Parquet):\n"
        f"  {command} data show YOUR_FILE   what is in it, and which metrics it allows\n"
        f"  {command} evaluate YOUR_FILE    the same report for your system\n"
        f"In the browser: {command} view last"
    )


def limits_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The budget and the time that take the place of a run's own when it is resumed; raises BadSettings for other keys."""
    given = overrides({key: options[key] for key in ("budget_usd", "settings")})
    for override in given:
        if not any(f"{'.'.join(override.location)}.".startswith(f"{key}.") for key in _LIMITS):
            raise BadSettings("a resumed run takes this from its start", where=override.source)
    configuration, sections = config.load(None, given), {override.location[0] for override in given}
    limits: dict[str, Any] = {"budget": configuration.budget} if "budget" in sections else {}
    return limits | (
        {"outage_timeout_s": configuration.performance.provider_outage_timeout_s} if "performance" in sections else {}
    )
