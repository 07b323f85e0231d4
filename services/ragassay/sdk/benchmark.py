"""Many systems on many datasets: a run for each dataset, and one comparison of each system with a baseline."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from ragassay.analysis.comparison import compare_datasets
from ragassay.config import ProjectConfig
from ragassay.core.errors import BadSettings, Conflict, UnknownName
from ragassay.core.files import write_whole
from ragassay.core.formatting import json_document
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.core.validation import shown
from ragassay.evaluation import local
from ragassay.evaluation.inputs import Inputs
from ragassay.evaluation.prepare import prepare
from ragassay.evaluation.runtime import Runtime
from ragassay.reporting import EXPORTERS, comparison
from ragassay.reporting.objects import Comparison, Report
from ragassay.sdk.evaluation import Given, notice_unscored, read_inputs, runtime_for
from ragassay.sdk.progress import Reporter, resume_command, resume_hints
from ragassay.storage.benchmarks import BenchmarkRecord, FolderBenchmarks
from ragassay.storage.folder import LAST, FolderRun, FolderStore, new_run_id
from ragassay.storage.protocol import system_name
from ragassay.systems.functions import by_name

PLACE = "{dataset}"


class Begun(NamedTuple):
    """A benchmark that is written down, with the run of each dataset."""

    record: BenchmarkRecord
    runs: Mapping[str, FolderRun]


class Benchmark(Mapping[str, Report]):
    """The report of each dataset by its name, and the ``comparison`` of the systems with the baseline, None with one system."""

    def __init__(self, record: BenchmarkRecord, reports: Mapping[str, ReportWithResults]) -> None:
        self.id, self.baseline = record.id, record.baseline
        self._reports = {name: Report.of(one, one.results) for name, one in reports.items()}
        made = compare_datasets(reports, record.baseline, alpha=record.alpha, correction=record.correction)
        self.comparison = None if made is None else Comparison(**dict(made))

    def __getitem__(self, dataset: str) -> Report:
        return self._reports[dataset]

    def __iter__(self) -> Iterator[str]:
        return iter(self._reports)

    def __len__(self) -> int:
        return len(self._reports)

    def save(self, path: str | Path) -> None:
        """Write the comparison (csv, json or md); or with {dataset} in the path the report of each, in its formats.

        Raises UnknownName, BadSettings, MissingExtra, DiskFull.
        """
        if PLACE in str(path):
            for dataset, report in self.items():
                report.save(_named(Path(path), dataset))
        elif self.comparison is None:
            raise _without_comparison(path)
        else:
            self.comparison.save(path)

    @property
    def figures(self) -> dict[str, Any]:
        """``reports`` without rows, by dataset, and the ``comparison``."""
        return {"reports": {name: one.figures for name, one in self.items()}, "comparison": self.comparison}

    def __str__(self) -> str:
        if self.comparison is not None:
            return str(self.comparison)
        return "\n\n".join(f"{dataset}\n{report}" for dataset, report in self.items())

    def _repr_html_(self) -> str:
        shown = [self.comparison] if self.comparison is not None else self.values()
        return "".join(one._repr_html_() for one in shown)

    def __repr__(self) -> str:
        return f"<Benchmark {self.id}: {', '.join(self)}, baseline {self.baseline}>"


def _without_comparison(path: str | Path) -> BadSettings:
    hint = f"write {PLACE} into the path for the report of each dataset"
    return BadSettings(f"{path}: there is one system, and so no comparison", hint=hint)


def check_outputs(paths: Sequence[Path]) -> None:
    """Raise UnknownName or MissingExtra for a path that ``Benchmark.save`` can't write."""
    for path in paths:
        (EXPORTERS if PLACE in str(path) else comparison.EXPORTERS).check([path])


async def evaluate_all(configuration: ProjectConfig, given: Given, reporter: Reporter) -> Benchmark:
    """A new benchmark: the systems on each dataset, compared with the baseline. Raises what ``started`` and ``completed`` raise."""
    check_outputs(configuration.output)
    inputs = inputs_by_dataset(configuration, reporter, given)
    runtime = runtime_for(next(iter(inputs.values())))
    result = await completed(runtime, started(runtime, configuration, inputs), reporter)
    for dataset, report in result.items():
        notice_unscored(report, reporter, f"{dataset}: ")
    for path in configuration.output:
        result.save(path)
    return result


def started(runtime: Runtime, configuration: ProjectConfig, inputs: Mapping[str, Inputs]) -> Begun:
    """A new benchmark and its runs, written down and not begun; ``inputs`` by dataset, with the same systems.

    An error leaves none of it; a kill leaves the record, so that no run of it is taken for one on its own.

    Raises what ``local.start`` raises, UnknownName for a baseline that is no system, and BadSettings for a file of the
    comparison if there is one system.
    """
    spec, baseline = configuration.evaluation, configuration.baseline
    systems = list(next(iter(inputs.values())).systems)
    if baseline is not None and baseline not in systems:
        raise UnknownName("baseline", baseline, systems)
    for path in configuration.output:
        if len(systems) == 1 and PLACE not in str(path):
            raise _without_comparison(path)
    # what can't be evaluated is refused before anything is written
    prepared = {name: prepare(spec, read, new_run_id(spec.name or name)) for name, read in inputs.items()}
    record = BenchmarkRecord(
        id=new_run_id(spec.name or "benchmark"),
        baseline=baseline or systems[0],
        alpha=configuration.statistics.alpha,
        correction=configuration.statistics.correction,
        runs={name: one.id for name, one in prepared.items()},
    )
    benchmarks, runs = FolderBenchmarks(runtime.settings.home), dict[str, FolderRun]()
    benchmarks.create(record)
    try:
        for name, read in inputs.items():
            runs[name] = local.create(runtime, prepared[name], read)
    except BaseException:
        for run in runs.values():
            shutil.rmtree(run.folder, ignore_errors=True)
        benchmarks.remove(record.id)
        raise
    return Begun(record, runs)


def benchmark_of(settings: Settings, reference: str) -> str | None:
    """The id of the benchmark that ``reference``, a benchmark, a run or ``last``, means; None for a run on its own."""
    benchmarks, runs = FolderBenchmarks(settings.home), FolderStore(settings.home).ids()
    known = benchmarks.ids()
    if reference in known:
        return reference
    run = max(known[-1:] + runs[-1:], default=reference) if reference == LAST else reference  # ids begin with the time
    return run if run in known else benchmarks.of_runs().get(run)


def resumed(settings: Settings, name: str) -> Begun:
    """An earlier benchmark with its runs. Raises UnknownName, NotFound, BadData, and Conflict if a kill left runs unmade."""
    record, made = FolderBenchmarks(settings.home).open(name), FolderStore(settings.home).ids()
    if not all(run in made for run in record.runs.values()):
        what = f"benchmark {name} lacks runs: it was interrupted before anything was evaluated, or they were removed"
        raise Conflict(what, hint="start it again")
    return Begun(record, {dataset: local.resume(settings, run) for dataset, run in record.runs.items()})


async def completed(runtime: Runtime, begun: Begun, reporter: Reporter, **limits: Any) -> Benchmark:
    """A benchmark after all runs are evaluated and the systems compared; ``limits`` as ``local.complete`` has them.

    A budget is that of all runs together. Raises what ``local.complete`` raises.
    """
    command = resume_command(begun.record.id)
    with reporter.watch(begun.runs.values(), command) as done, resume_hints(command):
        reports: dict[str, ReportWithResults] = {}
        for dataset, run in begun.runs.items():
            others = [other for other in begun.runs.values() if other is not run]
            reports[dataset] = await local.complete(
                runtime, run, done=done, notice=reporter.notice, others=others, **limits
            )
        result = Benchmark(begun.record, reports)
        if result.comparison is not None:
            place = FolderBenchmarks(runtime.settings.home).comparison_file(begun.record.id)
            write_whole(place, json_document(result.comparison), private=True)
    return result


def inputs_by_dataset(
    configuration: ProjectConfig,
    reporter: Reporter,
    given: Given = Given(),  # noqa: B008 - a tuple
) -> dict[str, Inputs]:
    """Everything that is evaluated, read, by dataset. Raises what ``read_inputs`` raises, and BadSettings for what is missing."""
    datasets = configuration.datasets if given.datasets is None else given.datasets
    systems = configuration.systems if given.systems is None else given.systems
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
        read = read_inputs(configuration.model_copy(update=update), reporter, Given(rows))
        read_all[dataset] = replace(read, dataset=read.dataset.model_copy(update={"name": dataset}))
    return read_all


def _part(name: str, system: Any, dataset: str, of: int) -> Any:
    """A system, or its responses to one dataset; raises BadSettings where it can't be told which they are."""
    if isinstance(system, Mapping):
        if dataset not in system:
            raise BadSettings(f"has no responses to the dataset {dataset}", where=f"systems.{name}")
        part = system[dataset]
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
