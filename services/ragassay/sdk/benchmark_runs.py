"""Many systems on many datasets: a run for each dataset, one after the other, compared with a baseline."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ragassay.analysis.benchmark import Benchmark, benchmark, compared
from ragassay.analysis.models import Comparison
from ragassay.config import rebased_paths
from ragassay.core.errors import AssayError, BadSettings, UnknownName
from ragassay.core.formatting import json_document
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.core.specification import Budget, JobSpec
from ragassay.evaluation import foreground
from ragassay.evaluation.foreground import create
from ragassay.evaluation.plan import Inputs
from ragassay.evaluation.runner import prepare
from ragassay.evaluation.runtime import Runtime
from ragassay.stats.tests import Correction
from ragassay.storage.benchmarks import BenchmarkRecord, FolderBenchmark, FolderBenchmarks
from ragassay.storage.folder import FolderRun, FolderStore
from ragassay.storage.run_ids import new_run_id

RESUME = "ragassay run --resume"


class Begun(NamedTuple):
    """A benchmark that is written down, with the run of each dataset."""

    benchmark: FolderBenchmark
    runs: Mapping[str, FolderRun]


class Benchmarked(NamedTuple):
    """The end of a benchmark: its document, and by dataset the whole report and the comparison, where there is one."""

    document: Benchmark
    reports: Mapping[str, ReportWithResults]
    comparisons: Mapping[str, Comparison]


def start(
    runtime: Runtime,
    settings: Settings,
    spec: JobSpec,
    inputs: Mapping[str, Inputs],
    *,
    baseline: str | None,
    alpha: float,
    correction: Correction,
    configuration: dict[str, Any] | None,
) -> Begun:
    """A new benchmark and its runs, written down and not begun.

    ``inputs`` by dataset, with the same systems; ``baseline`` is one of them, the first by default. ``configuration``: what
    a resume makes a run from that a kill kept from being made. Raises what ``foreground.start`` raises, and UnknownName.
    """
    systems = list(next(iter(inputs.values())).systems)
    if baseline is not None and baseline not in systems:
        raise UnknownName("baseline", baseline, systems)
    runs = {dataset: new_run_id(spec.name or dataset) for dataset in inputs}
    # what can't be evaluated is refused before anything is written
    prepared = {dataset: prepare(spec, read, runs[dataset]) for dataset, read in inputs.items()}
    record = BenchmarkRecord(
        id=new_run_id(spec.name or "benchmark"),
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        name=spec.name,
        baseline=baseline or systems[0],
        alpha=alpha,
        correction=correction,
        runs=runs,
        folder=str(Path.cwd()),
        configuration=configuration,
    )
    kept = FolderBenchmarks(settings.home).create(record)
    try:
        with kept.locked():
            made = {name: create(runtime, settings, prepared[name], read) for name, read in inputs.items()}
            return Begun(kept, made)
    except AssayError:
        kept.discard()
        raise


def resume(
    runtime: Runtime,
    settings: Settings,
    reference: str,
    read: Callable[[Mapping[str, Any]], tuple[JobSpec, Mapping[str, Inputs]]],
) -> Begun:
    """An earlier benchmark with its runs; those that a kill kept from being made are made, of what ``read`` gives.

    ``read`` is handed the configuration, with paths as seen from here. Raises NotFound, BadData, BadSettings, Conflict.
    """
    kept = FolderBenchmarks(settings.home).open(reference)
    record, store = kept.record, FolderStore(settings.home)
    with kept.locked():
        missing = [dataset for dataset, run in record.runs.items() if store.made(run) is None]
        if missing and record.configuration is None:
            what = f"benchmark {record.id} was interrupted before its data were written down ({', '.join(missing)})"
            raise BadSettings(what, hint="nothing was evaluated yet: start it again")
        if missing and record.configuration is not None:
            folder = Path(os.path.relpath(record.folder))
            spec, inputs = read(rebased_paths(record.configuration, folder))
            for dataset in missing:
                prepared = prepare(spec, inputs[dataset], record.runs[dataset])
                create(runtime, settings, prepared, inputs[dataset])
    return Begun(kept, {dataset: foreground.resume(settings, run) for dataset, run in record.runs.items()})


def resume_command(begun: Begun) -> str:
    """The command line that resumes the benchmark."""
    run = next(iter(begun.runs.values()))
    return foreground.resume_command(run, f"{RESUME} {begun.benchmark.folder.name}")


async def complete(
    runtime: Runtime,
    settings: Settings,
    begun: Begun,
    *,
    budget: Budget | None = None,
    give_up_s: float | None = None,
    done: Callable[[int], object] = int,
    notice: Callable[[str], object] = str,
) -> Benchmarked:
    """Do what is left of all runs, compare the systems and keep the result; options as ``foreground.complete`` has them.

    The budget is that of all runs together. Raises what ``foreground.complete`` raises.
    """
    record = begun.benchmark.record
    with begun.benchmark.locked():
        limits: dict[str, Any] = {"budget": budget, "give_up_s": give_up_s, "go_on": resume_command(begun)}
        reports: dict[str, ReportWithResults] = {}
        for dataset, run in begun.runs.items():
            others = [other for other in begun.runs.values() if other is not run]
            reports[dataset] = await foreground.complete(
                runtime, settings, run, done=done, notice=notice, others=others, **limits
            )
        comparisons = compared(reports, record.baseline, alpha=record.alpha, correction=record.correction)
        document = benchmark(
            reports,
            comparisons,
            **record.model_dump(include={"id", "name", "created_at", "baseline", "alpha", "correction"}),
        )
        begun.benchmark.save_result(json_document(document))
    return Benchmarked(document, reports, comparisons)
