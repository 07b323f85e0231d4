"""Many systems on many datasets in one call, with or without an event loop around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from ragassay.analysis.benchmark import Benchmark
from ragassay.config import Configuration
from ragassay.core.errors import BadSettings
from ragassay.core.settings import Settings
from ragassay.core.validation import shown
from ragassay.evaluation.plan import Inputs
from ragassay.evaluation.runtime import Runtime
from ragassay.reporting.benchmark import EXPORTERS, of_benchmark
from ragassay.sdk import benchmark_runs as benchmark
from ragassay.sdk.comparing import ComparisonReport
from ragassay.sdk.evaluation import Given, awaited, configured, finished, inputs, notice_unscored, runtime_with
from ragassay.sdk.progress import Reporter
from ragassay.sdk.report import EvaluationReport
from ragassay.sdk.show import as_html, as_text
from ragassay.storage.protocol import system_name
from ragassay.systems.functions import by_name

PLACE = "{dataset}"


class BenchmarkReport:
    """Systems on datasets: ``ragassay.Benchmark``.

    reports: by dataset, the report of all systems. comparisons: by dataset, each other system against the baseline;
    empty with one system. document: what ``save`` writes as JSON. It prints as tables, the summary last.
    """

    def __init__(self, benchmarked: benchmark.Benchmarked) -> None:
        self.document: Benchmark = benchmarked.document
        self.reports = {name: EvaluationReport.of(one, one.results) for name, one in benchmarked.reports.items()}
        self.comparisons = {name: ComparisonReport(**dict(one)) for name, one in benchmarked.comparisons.items()}

    @property
    def baseline(self) -> str:
        """What the other systems are compared with."""
        return self.document.baseline

    def save(self, path: str | Path) -> None:
        """Write a file; the extension picks the format: .json or .md. Raises UnknownName, BadSettings, DiskFull."""
        EXPORTERS.write(self.document, Path(path))

    def __repr__(self) -> str:
        systems, datasets = ", ".join(self.document.systems), ", ".join(self.reports)
        return f"<Benchmark {self.document.id}: {systems} on {datasets}, baseline {self.baseline}>"

    def __str__(self) -> str:
        return as_text(of_benchmark(self.document))

    def _repr_html_(self) -> str:
        return as_html(of_benchmark(self.document))


def run(
    *,
    systems: Mapping[str, Any] | None = None,
    datasets: Mapping[str, Any] | None = None,
    data: Any = None,
    baseline: str | None = None,
    progress: bool | Callable[[int, int], object] = False,
    **options: Any,
) -> BenchmarkReport:
    """Evaluate systems on datasets, and compare each with the baseline on each dataset.

    systems: {name: system} as ``evaluate`` takes them: a path or rows of responses, {"kind": "bm25"}, a function. With
    several datasets, recorded responses are {dataset: path or rows}, or a path with {dataset} in it.
    datasets: {name: dataset}, each a path, NAME@VERSION, or rows; or data: one of them.
    baseline: the name of a system; the first by default. progress: True shows a bar, or a function that is called with
    rows done and rows in all. The other options are those of ``evaluate``; config names a ragassay.yaml.
    Everything is kept under .ragassay, so that ``ragassay run --resume`` goes on after an interruption. Raises and warns as
    ``evaluate`` does.
    """
    named = {"systems": systems, "baseline": baseline, "datasets": datasets}
    given = {**{key: value for key, value in named.items() if value is not None}, **options}
    return finished(partial(_run, data, given, progress))


async def arun(
    *, data: Any = None, progress: bool | Callable[[int, int], object] = False, **options: Any
) -> BenchmarkReport:
    """``run`` for programs with an event loop, which goes on meanwhile. Cancelled, it makes no further call."""
    return await awaited(partial(_run, data, options, progress))


async def _run(data: Any, options: Mapping[str, Any], progress: bool | Callable[[int, int], object]) -> BenchmarkReport:
    """The work itself."""
    given = dict(options)
    if isinstance(given.get("systems"), Mapping):
        given["systems"] = {name: _by_dataset(one) for name, one in given["systems"].items()}
    configuration, in_memory = configured(data, given, many=True)
    EXPORTERS.check(configuration.output)
    settings = Settings()
    reporter = Reporter(progress if callable(progress) else None, bar=progress is True)
    read = read_all(configuration, reporter, in_memory)
    runtime = runtime_with(settings, next(iter(read.values())))
    begun = started(runtime, settings, configuration, read, in_files=_is_in_files(in_memory, configuration))
    benchmarked = await completed(runtime, settings, begun, reporter)
    for dataset, report in benchmarked.reports.items():
        notice_unscored(report, reporter, f"{dataset}: ")
    result = BenchmarkReport(benchmarked)
    for path in configuration.output:
        result.save(path)
    return result


def read_all(configuration: Configuration, reporter: Reporter, given: Given = Given()) -> dict[str, Inputs]:  # noqa: B008 - a tuple
    """``inputs_by_dataset``, with a warning for each doubtful row."""
    read = inputs_by_dataset(configuration, given)
    for line in dict.fromkeys(line for each in read.values() for line in each.warnings):
        reporter.warn(line)
    return read


def started(
    runtime: Runtime,
    settings: Settings,
    configuration: Configuration,
    read: Mapping[str, Inputs],
    *,
    in_files: bool = True,
) -> benchmark.Begun:
    """A new benchmark, kept and not begun. ``in_files``: a resume can read all data again."""
    document = configuration.model_dump(mode="json", exclude_unset=True, exclude={"output", "plugins", "gates"})
    return benchmark.start(
        runtime,
        settings,
        configuration.to_job_spec(),
        read,
        baseline=configuration.baseline,
        alpha=configuration.statistics.alpha,
        correction=configuration.statistics.correction,
        configuration=document if in_files else None,
    )


async def completed(
    runtime: Runtime, settings: Settings, begun: benchmark.Begun, reporter: Reporter, **limits: Any
) -> benchmark.Benchmarked:
    """A benchmark after the rest of it is evaluated; ``limits`` as ``foreground.complete`` has them."""
    with reporter.watch(begun.runs.values(), benchmark.resume_command(begun)) as done:
        return await benchmark.complete(runtime, settings, begun, done=done, notice=reporter.notice, **limits)


class ByDataset(NamedTuple):
    """The responses of a system, by dataset."""

    parts: Mapping[str, Any]


def _by_dataset(system: Any) -> Any:
    return ByDataset(system) if isinstance(system, Mapping) and "kind" not in system else system


def _is_in_files(given: Given, configuration: Configuration) -> bool:
    """Is everything that is evaluated read from where the configuration says?"""
    datasets = set(given.datasets or {}) <= set(configuration.datasets)
    return given.data is None and datasets and set(given.systems or {}) <= set(configuration.systems)


def inputs_by_dataset(configuration: Configuration, given: Given = Given()) -> dict[str, Inputs]:  # noqa: B008 - a tuple
    """Everything that is evaluated, read, by dataset. Raises what ``inputs`` raises, and BadSettings for what is missing."""
    datasets: Mapping[str, Any] = configuration.datasets
    if given.datasets is not None:
        datasets = {name: configuration.datasets.get(name, rows) for name, rows in given.datasets.items()}
    systems: Mapping[str, Any] = configuration.systems
    if given.systems is not None:
        systems = {name: configuration.systems.get(name, one) for name, one in given.systems.items()}
    if bool(datasets) == (given.data is not None or configuration.data is not None):
        what = "data and datasets are both given" if datasets else "data is missing"
        raise BadSettings(what, hint="give one of them: datasets: {faq: faq.jsonl}, or data: faq.jsonl")
    if not systems:
        raise BadSettings("no system is named", hint="for example systems: {ours: responses.jsonl, bm25: {kind: bm25}}")
    if not datasets:
        if by_dataset := next((name for name, one in systems.items() if isinstance(one, ByDataset)), None):
            raise BadSettings("has responses by dataset, and there is only data", where=f"systems.{by_dataset}")
        read = inputs(configuration.model_copy(update={"systems": systems}), Given(given.data))
        return {read.dataset.name: read}
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
