"""``ragassay evaluate`` on several datasets: many systems, each compared with a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragassay.cli.running import Terminal, refuse_unscored, warnings_shown

if TYPE_CHECKING:
    from ragassay.analysis.benchmark import Benchmark
    from ragassay.config import ProjectConfig
    from ragassay.core.eval_config import EvalConfig
    from ragassay.core.settings import Settings
    from ragassay.evaluation.inputs import Inputs
    from ragassay.evaluation.runtime import Runtime
    from ragassay.sdk.benchmark import Begun
    from ragassay.sdk.progress import Reporter
    from ragassay.storage.benchmarks import FolderBenchmark


def evaluate_all(configuration: ProjectConfig, *, dry_run: bool, as_json: bool) -> None:
    """Evaluate the systems on the datasets of a configuration, and compare each with the baseline."""
    from ragassay.core.settings import Settings
    from ragassay.reporting.benchmark import EXPORTERS
    from ragassay.sdk.benchmark import read_all, started
    from ragassay.sdk.evaluation import runtime_of

    reporter, outputs = Terminal(quiet=as_json), list(configuration.output)
    EXPORTERS.check(outputs)
    settings = Settings().of_dry_run if dry_run else Settings()
    runtime, spec, inputs = runtime_of(settings), configuration.evaluation, read_all(configuration, reporter)
    if dry_run or spec.budget != type(spec.budget)():
        _estimate(runtime, spec, inputs, err=not dry_run)
    if dry_run:
        return
    begun = started(runtime, settings, configuration, inputs)
    _complete_and_show(runtime, settings, begun, reporter, outputs, as_json=as_json)


def resume(reference: str, outputs: list[Path], limits: Mapping[str, Any], *, as_json: bool) -> None:
    """Go on with an interrupted benchmark."""
    from ragassay.core.settings import Settings
    from ragassay.reporting.benchmark import EXPORTERS
    from ragassay.sdk.benchmark import resumed
    from ragassay.sdk.evaluation import runtime_of

    EXPORTERS.check(outputs)
    settings = Settings()
    runtime = runtime_of(settings)
    begun = resumed(runtime, settings, reference)
    _complete_and_show(runtime, settings, begun, Terminal(quiet=as_json), outputs, as_json=as_json, **limits)


def _complete_and_show(
    runtime: Runtime,
    settings: Settings,
    begun: Begun,
    reporter: Reporter,
    outputs: list[Path],
    *,
    as_json: bool,
    **limits: Any,
) -> None:
    from ragassay.sdk.benchmark import completed
    from ragassay.sdk.loop import finished

    benchmarked = finished(partial(completed, runtime, settings, begun, reporter, **limits))
    show_benchmark(begun.benchmark, outputs, as_json=as_json)
    for report in benchmarked.reports.values():
        refuse_unscored(report, report.provenance.configuration.max_missing)


def _estimate(runtime: Runtime, spec: EvalConfig, inputs: Mapping[str, Inputs], *, err: bool) -> None:
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
    more = f"\nall metrics and why answers fail: ragassay show {first}, or -o FILE.md"
    print_document(of_benchmark(benchmark), more, f"benchmark: {place}", *(f"also: {output}" for output in outputs))
