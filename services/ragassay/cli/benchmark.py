"""``ragassay run``: many systems on many datasets, compared with a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.configured import configured, import_plugins, takes_options
from ragassay.cli.evaluate import (
    DryRun,
    Terminal,
    check_resume,
    limits_of,
    refuse_unscored,
    warnings_shown,
)
from ragassay.core.errors import NotFound
from ragassay.sdk.stored import runtime_of

if TYPE_CHECKING:
    from ragassay.analysis.benchmark import Benchmark
    from ragassay.config import Configuration
    from ragassay.core.specification import JobSpec
    from ragassay.evaluation.plan import Inputs
    from ragassay.evaluation.runtime import Runtime
    from ragassay.storage.benchmarks import FolderBenchmark

Config = Annotated[
    Path | None, typer.Argument(metavar="[CONFIG]", help="Configuration with datasets and systems. [./ragassay.yaml]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the benchmark as JSON.")]
Resume = Annotated[
    str | None, typer.Option("--resume", metavar="ID", help="Go on with an interrupted benchmark; 'last' works.")
]


@takes_options()
def run(
    config: Config = None, as_json: AsJson = False, dry_run: DryRun = False, resume: Resume = None, **options: Any
) -> None:
    """Evaluate systems on datasets, and compare each with the baseline."""
    from ragassay.core.settings import Settings
    from ragassay.reporting.benchmark import EXPORTERS
    from ragassay.sdk.benchmark import completed, read_all, resumed, started
    from ragassay.sdk.evaluation import finished

    settings, reporter = Settings(), Terminal(quiet=as_json)
    if resume is not None:
        check_resume(options, {"CONFIG": config, "--dry-run": dry_run or None})
        outputs, limits = list(options["output"] or []), limits_of(options)
        EXPORTERS.check(outputs)
        import_plugins(options["plugins"])
        runtime = runtime_of(settings)
        begun = resumed(runtime, settings, resume)
    else:
        configuration = _configuration(config, options)
        outputs, limits = list(configuration.output), {}
        EXPORTERS.check(outputs)
        settings = settings.of_dry_run if dry_run else settings
        runtime, spec, inputs = runtime_of(settings), configuration.to_job_spec(), read_all(configuration, reporter)
        if dry_run or spec.budget != type(spec.budget)():
            _estimate(runtime, spec, inputs, err=not dry_run)
        if dry_run:
            return
        begun = started(runtime, settings, configuration, inputs)
    benchmarked = finished(partial(completed, runtime, settings, begun, reporter, **limits))
    show_benchmark(begun.benchmark, outputs, as_json=as_json)
    for report in benchmarked.reports.values():
        refuse_unscored(report, report.provenance.configuration.max_missing)


def _configuration(config: Path | None, options: Mapping[str, Any]) -> Configuration:
    from ragassay import config as configurations

    if config is None and not options["datasets"] and configurations.find(Path()) is None:
        what = f"there is no {configurations.FILE_NAME} in this folder"
        raise NotFound(what, hint="name one: ragassay run FILE; or the data: --dataset NAME=FILE --system NAME=FILE")
    return configured(config, options)


def _estimate(runtime: Runtime, spec: JobSpec, inputs: Mapping[str, Inputs], *, err: bool) -> None:
    """What each dataset would take, and what all of them would."""
    from ragassay.cli.estimate import estimate
    from ragassay.core.models import Usage

    with warnings_shown():
        whole = Usage.total([estimate(runtime, spec, read, err=err) for read in inputs.values()])
    cost = "of unknown cost" if whole.cost_usd is None else f"at most about {whole.cost_usd:.4f} USD"
    typer.echo(f"all {len(inputs)} datasets: {whole.calls} judge calls, {cost}", err=err)


def show_benchmark(kept: FolderBenchmark, outputs: list[Path], *, as_json: bool) -> None:
    """Write the files and print the result; raises NotFound where there is none yet."""
    from ragassay.analysis.benchmark import Benchmark
    from ragassay.reporting.benchmark import EXPORTERS

    EXPORTERS.check(outputs)
    document = Benchmark.model_validate_json(kept.result())
    for path in outputs:
        EXPORTERS.write(document, path)
    if as_json:
        typer.echo(kept.result(), nl=False)
    else:
        _print(document, kept.result_file, outputs)


def _print(benchmark: Benchmark, place: Path, outputs: list[Path]) -> None:
    """Each dataset, the summary over all of them, and the place where all of it lies."""
    from ragassay.cli.terminal import print_document
    from ragassay.reporting.benchmark import of_benchmark

    first = next(iter(benchmark.datasets.values())).report.run.id
    more = f"\nall metrics and why answers fail: ragassay report {first}, or -o FILE.md"
    print_document(of_benchmark(benchmark), more, f"benchmark: {place}", *(f"also: {output}" for output in outputs))
