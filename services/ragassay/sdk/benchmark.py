"""Many systems on many datasets: a run for each dataset, and each system compared with a baseline."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from ragassay import config as configurations
from ragassay.analysis.benchmark import Benchmark as BenchmarkDocument
from ragassay.analysis.benchmark import benchmark, compared
from ragassay.analysis.models import Comparison as ComparisonDocument
from ragassay.config import ProjectConfig
from ragassay.config.load import rebased_paths
from ragassay.core.errors import AssayError, BadSettings, UnknownName
from ragassay.core.formatting import json_document
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.core.validation import shown
from ragassay.evaluation import local
from ragassay.evaluation.inputs import Inputs
from ragassay.evaluation.prepare import prepare
from ragassay.evaluation.runtime import Runtime
from ragassay.reporting.benchmark import EXPORTERS, of_benchmark
from ragassay.reporting.document import Document
from ragassay.reporting.objects import Comparison, Printable, Report
from ragassay.sdk.evaluation import Given, inputs, notice_unscored, runtime_with
from ragassay.sdk.progress import Reporter, resume_command, resume_hints
from ragassay.storage.benchmarks import BenchmarkRecord, FolderBenchmark, FolderBenchmarks
from ragassay.storage.folder import LAST, FolderRun, FolderStore
from ragassay.storage.protocol import system_name
from ragassay.storage.run_ids import new_run_id
from ragassay.systems.functions import by_name

PLACE = "{dataset}"


class Begun(NamedTuple):
    """A benchmark that is written down, with the run of each dataset."""

    benchmark: FolderBenchmark
    runs: Mapping[str, FolderRun]


class Benchmarked(NamedTuple):
    """The end of a benchmark: its document, and by dataset the whole report and the comparison, where there is one."""

    document: BenchmarkDocument
    reports: Mapping[str, ReportWithResults]
    comparisons: Mapping[str, ComparisonDocument]


class Benchmark(Printable):
    """Systems on datasets.

    reports: by dataset, the report of all systems. comparisons: by dataset, each other system against the baseline;
    empty with one system. document: what ``save`` writes as JSON. It prints as tables, the summary last.
    """

    def __init__(self, benchmarked: Benchmarked) -> None:
        self.document: BenchmarkDocument = benchmarked.document
        self.reports = {name: Report.of(one, one.results) for name, one in benchmarked.reports.items()}
        self.comparisons = {name: Comparison(**dict(one)) for name, one in benchmarked.comparisons.items()}

    @property
    def baseline(self) -> str:
        """What the other systems are compared with."""
        return self.document.baseline

    def save(self, path: str | Path, *, fields: Sequence[str] = (), format: str | None = None) -> None:  # noqa: A002
        """Write a file; its extension, or ``format``, picks json or md. Raises UnknownName, BadSettings, DiskFull.

        ``fields`` is refused: neither format has columns of rows.
        """
        EXPORTERS.write(self.document, Path(path), form=format, fields=fields)

    def _in_short(self) -> Document:
        return of_benchmark(self.document)

    def __repr__(self) -> str:
        systems, datasets = ", ".join(self.document.systems), ", ".join(self.reports)
        return f"<Benchmark {self.document.id}: {systems} on {datasets}, baseline {self.baseline}>"


async def evaluate_all(configuration: ProjectConfig, given: Given, settings: Settings, reporter: Reporter) -> Benchmark:
    """A new benchmark: the systems on each dataset, compared with the baseline. Raises what ``started`` and ``completed`` raise."""
    EXPORTERS.check(configuration.output)
    if given.systems is not None:
        given = given._replace(systems={name: _by_dataset(one) for name, one in given.systems.items()})
    read = read_all(configuration, reporter, given)
    runtime = runtime_with(settings, next(iter(read.values())))
    begun = started(runtime, settings, configuration, read, in_files=_is_in_files(given, configuration))
    benchmarked = await completed(runtime, settings, begun, reporter)
    for dataset, report in benchmarked.reports.items():
        notice_unscored(report, reporter, f"{dataset}: ")
    result = Benchmark(benchmarked)
    for path in configuration.output:
        result.save(path)
    return result


def read_all(configuration: ProjectConfig, reporter: Reporter, given: Given = Given()) -> dict[str, Inputs]:  # noqa: B008 - a tuple
    """``inputs_by_dataset``, with a warning for each doubtful row."""
    read = inputs_by_dataset(configuration, given)
    for line in dict.fromkeys(line for each in read.values() for line in each.warnings):
        reporter.warn(line)
    return read


def started(
    runtime: Runtime,
    settings: Settings,
    configuration: ProjectConfig,
    inputs: Mapping[str, Inputs],
    *,
    in_files: bool = True,
) -> Begun:
    """A new benchmark and its runs, written down and not begun; ``inputs`` by dataset, with the same systems.

    ``in_files``: a resume can read all data again, and make a run that a kill kept from being made. Raises what
    ``local.start`` raises, and UnknownName for a baseline that is no system.
    """
    spec, baseline = configuration.evaluation, configuration.baseline
    systems = list(next(iter(inputs.values())).systems)
    if baseline is not None and baseline not in systems:
        raise UnknownName("baseline", baseline, systems)
    runs = {dataset: new_run_id(spec.name or dataset) for dataset in inputs}
    # what can't be evaluated is refused before anything is written
    prepared = {dataset: prepare(spec, read, runs[dataset]) for dataset, read in inputs.items()}
    document = configuration.model_dump(mode="json", exclude_unset=True, exclude={"output", "plugins", "gates"})
    record = BenchmarkRecord(
        id=new_run_id(spec.name or "benchmark"),
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        name=spec.name,
        baseline=baseline or systems[0],
        alpha=configuration.statistics.alpha,
        correction=configuration.statistics.correction,
        runs=runs,
        folder=str(Path.cwd()),
        configuration=document if in_files else None,
    )
    kept = FolderBenchmarks(settings.home).create(record)
    try:
        with kept.locked():
            made = {name: local.create(runtime, settings, prepared[name], read) for name, read in inputs.items()}
            return Begun(kept, made)
    except AssayError:
        kept.discard()
        raise


def benchmark_of(settings: Settings, reference: str) -> str | None:
    """The id of the benchmark that ``reference``, a benchmark, a run or ``last``, means; None for a run on its own."""
    benchmarks, runs = FolderBenchmarks(settings.home), FolderStore(settings.home).ids()
    known = benchmarks.ids()
    if reference in known:
        return reference
    run = max(known[-1:] + runs[-1:], default=reference) if reference == LAST else reference  # ids begin with the time
    return run if run in known else benchmarks.of_runs().get(run)


def resumed(runtime: Runtime, settings: Settings, reference: str) -> Begun:
    """An earlier benchmark with its runs; those that a kill kept from being made are made from its configuration.

    Raises NotFound, BadData, BadSettings, Conflict.
    """
    kept = FolderBenchmarks(settings.home).open(reference)
    record, store = kept.record, FolderStore(settings.home)
    with kept.locked():
        missing = [dataset for dataset, run in record.runs.items() if store.made(run) is None]
        if missing and record.configuration is None:
            what = f"benchmark {record.id} was interrupted before its data were written down ({', '.join(missing)})"
            raise BadSettings(what, hint="nothing was evaluated yet: start it again")
        if missing and record.configuration is not None:
            document = rebased_paths(record.configuration, Path(os.path.relpath(record.folder)))
            configuration = configurations.check(configurations.Document(document, "the benchmark's configuration"))
            inputs = inputs_by_dataset(configuration)
            for dataset in missing:
                prepared = prepare(configuration.evaluation, inputs[dataset], record.runs[dataset])
                local.create(runtime, settings, prepared, inputs[dataset])
    return Begun(kept, {dataset: local.resume(settings, run) for dataset, run in record.runs.items()})


async def completed(
    runtime: Runtime, settings: Settings, begun: Begun, reporter: Reporter, **limits: Any
) -> Benchmarked:
    """A benchmark after all runs are evaluated and the systems compared; ``limits`` as ``local.complete`` has them.

    A budget is that of all runs together. Raises what ``local.complete`` raises.
    """
    record, command = begun.benchmark.record, resume_command(begun.benchmark.folder.name)
    with reporter.watch(begun.runs.values(), command) as done, resume_hints(command), begun.benchmark.locked():
        reports: dict[str, ReportWithResults] = {}
        for dataset, run in begun.runs.items():
            others = [other for other in begun.runs.values() if other is not run]
            reports[dataset] = await local.complete(
                runtime, settings, run, done=done, notice=reporter.notice, others=others, **limits
            )
        comparisons = compared(reports, record.baseline, alpha=record.alpha, correction=record.correction)
        document = benchmark(
            reports,
            comparisons,
            **record.model_dump(include={"id", "name", "created_at", "baseline", "alpha", "correction"}),
        )
        begun.benchmark.save_result(json_document(document))
    return Benchmarked(document, reports, comparisons)


class ByDataset(NamedTuple):
    """The responses of a system, by dataset."""

    parts: Mapping[str, Any]


def _by_dataset(system: Any) -> Any:
    return ByDataset(system) if isinstance(system, Mapping) and "kind" not in system else system


def _is_in_files(given: Given, configuration: ProjectConfig) -> bool:
    """Is everything that is evaluated read from where the configuration says?"""
    datasets = set(given.datasets or {}) <= set(configuration.datasets)
    return given.data is None and datasets and set(given.systems or {}) <= set(configuration.systems)


def inputs_by_dataset(configuration: ProjectConfig, given: Given = Given()) -> dict[str, Inputs]:  # noqa: B008 - a tuple
    """Everything that is evaluated, read, by dataset. Raises what ``inputs`` raises, and BadSettings for what is missing."""
    datasets: Mapping[str, Any] = configuration.datasets
    if given.datasets is not None:
        datasets = {name: configuration.datasets.get(name, rows) for name, rows in given.datasets.items()}
    systems: Mapping[str, Any] = configuration.systems
    if given.systems is not None:
        systems = {name: configuration.systems.get(name, one) for name, one in given.systems.items()}
    if given.data is not None or configuration.data is not None:
        hint = "give one of them: datasets: {faq: faq.jsonl}, or data: faq.jsonl"
        raise BadSettings("data and datasets are both given", hint=hint)
    if not systems:
        raise BadSettings("no system is named", hint="for example systems: {ours: responses.jsonl, bm25: {kind: bm25}}")
    read_all = {}
    for dataset, place in datasets.items():
        try:
            system_name(dataset)
        except ValueError as error:
            raise BadSettings(str(error).replace("system", "dataset", 1), where="datasets") from None
        update = {
            "datasets": {},
            "data": place if isinstance(place, Path) else None,
            "corpus": configuration.corpus and _named(configuration.corpus, dataset),
            "systems": {name: _part(name, one, dataset, len(datasets)) for name, one in systems.items()},
        }
        rows = None if isinstance(place, Path) else place
        read = inputs(configuration.model_copy(update=update), Given(rows))
        read_all[dataset] = replace(read, dataset=read.dataset.model_copy(update={"name": dataset}))
    return read_all


def _part(name: str, system: Any, dataset: str, of: int) -> Any:
    """A system, or its responses to one dataset; raises BadSettings where it can't be told which they are."""
    if isinstance(system, ByDataset):
        if dataset not in system.parts:
            raise BadSettings(f"has no responses to the dataset {dataset}", where=f"systems.{name}")
        part = system.parts[dataset]
        return Path(part) if isinstance(part, str) else part
    system = by_name(system)
    if isinstance(system, Path):
        if of > 1 and PLACE not in str(system):
            hint = f"write {PLACE} into the path, such as responses/{name}/{PLACE}.jsonl, which becomes each one's name"
            raise BadSettings(f"{system} is one file for {of} datasets", where=f"systems.{name}", hint=hint)
        return _named(system, dataset)
    if of > 1 and not callable(system) and not isinstance(system, BaseModel):
        what = f"{shown(system)} are responses to one of {of} datasets"
        raise BadSettings(what, where=f"systems.{name}", hint="give them by dataset: {dataset: rows}")
    return system


def _named(path: Path, dataset: str) -> Path:
    return Path(str(path).replace(PLACE, dataset))
