"""``ragassay evaluate`` and ``ragassay demo``: from files to a report, here or in a service."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ragassay.cli.options import AsJson, AtServer, Config, configured, import_plugins, overrides, takes_options, used
from ragassay.cli.terminal import Terminal, print_json, refuse_unscored, show_report, warnings_shown, write
from ragassay.core.errors import BadSettings, DiskFull

if TYPE_CHECKING:
    from ragassay.evaluation.runtime import Runtime
    from ragassay.reporting.objects import Report
    from ragassay.sdk.benchmark import Benchmark
    from ragassay.sdk.evaluation import Begun

_ON_RESUME = ("plugins", "output", "budget_usd", "settings")  # options that a resumed run takes
_LIMITS = ("budget.", "performance.provider_outage_timeout_s.")  # keys that --set may change then
Data = Annotated[
    Path | None, Argument(metavar="[DATA]", help="Queries, with or without responses: a file, or a stored dataset.")
]
DryRun = Annotated[bool, Option("--dry-run", help="Print calls, tokens and the most it can cost; make no call.")]
Resume = Annotated[str | None, Option("--resume", metavar="RUN", help="Go on with an interrupted run; 'last' works.")]
NoWait = Annotated[bool, Option("--no-wait", help="With --server: print the job's id and don't wait.")]


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
    """Evaluate systems on a dataset and print a report.

    With several datasets, the systems are also compared on each.
    With --server a service evaluates recorded responses, and with --system NAME the systems that its operator registered.
    """
    from ragassay.core.settings import Settings
    from ragassay.sdk.evaluation import begin, check_baseline, check_outputs, inputs_by_dataset, resumed, runtime_for

    if no_wait and server is None:
        raise BadSettings("--no-wait is about a service", hint="add --server URL")
    if dry_run and server is not None:
        raise BadSettings("--dry-run is about an evaluation here", hint="leave out --server")
    reporter, outputs = Terminal(quiet=as_json), options["output"] or []
    if no_wait and outputs:
        raise BadSettings("-o needs a report", hint="leave out --no-wait; or later: ragassay show JOB -o FILE")
    if resume is not None:
        others = {"DATA": data, "--config": config, "--dry-run": dry_run or None, "--server": server}
        fixed = [name for name, value in others.items() if value is not None]
        if fixed := [*fixed, *used({key: value for key, value in options.items() if key not in _ON_RESUME})]:
            raise BadSettings(f"--resume takes everything from the run, so {', '.join(fixed)} can't be given with it")
        limits = _limits({key: options[key] for key in ("budget_usd", "settings")})
        import_plugins(options["plugins"])
        begun = resumed(Settings(), resume)
        check_outputs(outputs, several=begun.benchmark is not None)
        if not any(run.pending() or not run.report_file.exists() for run in begun.runs.values()):
            typer.echo(f"{begun.id} was finished; nothing is left to do", err=True)
        _complete(runtime_for(), begun, reporter, outputs, as_json=as_json, **limits)
    elif server is not None:
        from ragassay.cli.jobs import evaluate_at

        named = options["system"] or []
        recorded = {**options, "system": [text for text in named if "=" in text]}
        configuration = configured(config, recorded, data=data, remote=True)
        registered = [text for text in named if "=" not in text]
        evaluate_at(server, configuration, registered, wait=not no_wait, as_json=as_json)
    else:
        from ragassay.cli.estimate import estimate
        from ragassay.core.eval_config import Budget

        configuration = configured(config, options, data=data)
        check_baseline(options["baseline"], configuration)
        inputs, spec = inputs_by_dataset(configuration, reporter), configuration.evaluation
        runtime = runtime_for(settings=Settings().of_dry_run if dry_run else Settings())
        if dry_run or spec.budget != Budget():
            with warnings_shown():
                estimate(runtime, spec, inputs, err=not dry_run)
        if not dry_run:
            begun = begin(runtime, configuration, inputs)
            _complete(runtime, begun, reporter, [*configuration.output], as_json=as_json)


def _complete(
    runtime: Runtime, begun: Begun, reporter: Terminal, outputs: list[Path], *, as_json: bool, **limits: Any
) -> None:
    """Evaluate what is left of the runs, print the result, and write it to files."""
    from ragassay.sdk.evaluation import completed
    from ragassay.sdk.loop import finished
    from ragassay.sdk.progress import resume_command

    result = finished(partial(completed, runtime, begun, reporter, **limits))
    try:
        _show(result, begun, outputs, as_json=as_json)
    except DiskFull as full:
        full.hint = f"the results are kept; make room, then: {resume_command(begun.id)} -o FILE"
        raise


def _show(result: Report | Benchmark, begun: Begun, outputs: list[Path], *, as_json: bool) -> None:
    """Write the files and print the result, and fail if too much could not be scored."""
    from ragassay.sdk.benchmark import Benchmark

    if not isinstance(result, Benchmark):
        [run] = begun.runs.values()
        show_report(result, str(run.report_file), outputs, as_json=as_json)
        return
    for path in outputs:
        result.save(path)
    if as_json:
        print_json(result.figures)
    else:
        places = [f"report of {dataset}: {run.report_file}" for dataset, run in begun.runs.items()]
        for line in (str(result), f"\nbenchmark {result.id}", *places, *(f"also: {path}" for path in outputs)):
            write(line)
    for report in result.values():
        refuse_unscored(report)


def _limits(options: dict[str, Any]) -> dict[str, Any]:
    """The budget and the time that take the place of a run's own when it is resumed; raises BadSettings for other keys."""
    from ragassay.config import load

    given = overrides(options)
    for override in given:
        if not f"{'.'.join(override.location)}.".startswith(_LIMITS):
            raise BadSettings("a resumed run takes this from its start", where=override.source)
    configuration, sections = load(None, given), {override.location[0] for override in given}
    timeout = configuration.performance.provider_outage_timeout_s
    return {
        "budget": configuration.budget if "budget" in sections else None,
        "outage_timeout_s": timeout if "performance" in sections else None,
    }


def demo() -> None:
    """Evaluate the systems of the quickstart dataset; needs no key."""
    from ragassay.core.eval_config import RunConfig
    from ragassay.core.package_data import folder
    from ragassay.evaluation import local
    from ragassay.evaluation.inputs import load
    from ragassay.sdk.evaluation import Begun, runtime_for

    quickstart, runtime = folder("datasets") / "quickstart", runtime_for()
    systems = {path.stem: path for path in sorted((quickstart / "responses").glob("*.jsonl"))}
    inputs = load(quickstart / "queries.jsonl", systems, name="quickstart")
    run = local.start(runtime, RunConfig(), inputs)
    _complete(runtime, Begun({"quickstart": run}), Terminal(quiet=False), [], as_json=False)
    command = "ragassay" if shutil.which("ragassay") else sys.argv[0]  # make demo's environment is not on the PATH
    typer.echo(
        "\nNext, your own file (JSON, JSONL, CSV, TSV or Parquet):\n"
        f"  {command} data show YOUR_FILE   what is in it, and which metrics it allows\n"
        f"  {command} evaluate YOUR_FILE    the same report for your system\n"
        f"In the browser: {command} view last"
    )
