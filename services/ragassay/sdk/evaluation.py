"""From a configuration and rows to runs and their reports: the one way of ``evaluate``, ``compare``, ``gate`` and the commands."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError

from ragassay import config as configurations
from ragassay.config import Override, ProjectConfig, sections
from ragassay.core.errors import BadSettings, Conflict, UnknownName
from ragassay.core.eval_config import RunConfig
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.core.validation import shown
from ragassay.datasets.versions import DatasetStore, open_data
from ragassay.evaluation import local
from ragassay.evaluation.aggregate import beyond
from ragassay.evaluation.inputs import Inputs, has_recorded, load
from ragassay.evaluation.labels import with_labels
from ragassay.evaluation.prepare import prepare
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.custom import judge_name
from ragassay.metrics.metric import names_of
from ragassay.reporting import comparison
from ragassay.reporting.files import EXPORTERS
from ragassay.reporting.objects import Report
from ragassay.sdk.benchmark import PLACE, Benchmark, no_comparison
from ragassay.sdk.progress import Reporter, resume_command
from ragassay.storage.benchmarks import BenchmarkRecord, FolderBenchmarks
from ragassay.storage.folder import LAST, FolderRun, FolderStore, new_run_id
from ragassay.storage.protocol import system_name
from ragassay.systems.functions import by_name, is_function

_NO_OUTPUT = logging.NullHandler()
_OPTION = TypeAdapter(Any)


class Begun(NamedTuple):
    """Runs that are written down, by dataset; ``benchmark``: the record that joins those of several datasets."""

    runs: Mapping[str, FolderRun]
    benchmark: BenchmarkRecord | None = None

    @property
    def id(self) -> str:
        """The id that ``--resume`` takes."""
        return self.benchmark.id if self.benchmark else next(iter(self.runs.values())).record.id


def configured(data: Any, options: Mapping[str, Any], *, needs_data: bool = True) -> ProjectConfig:
    """The configuration that keywords give, over the environment and the file ``config``.

    Its ``data``, ``systems`` and ``datasets`` are what is given, files and what is in memory. Raises BadSettings, UnknownName.
    """
    values = {key: value for key, value in options.items() if value is not None}
    path = values.pop("config", None)
    if "judge" in values and "judges" in values:
        raise BadSettings("judge is short for judges=[...]", hint="give one of the two")
    if isinstance(data, str | Path):
        values["data"], data = str(data), None
    named = {key: values[key] for key in ("systems", "datasets") if key in values}
    for key, choices in named.items():
        if not isinstance(choices, Mapping):
            raise BadSettings(f"should be {{name: ...}}, is {shown(choices)}", where=key)
        values[key] = {name: one for name, one in choices.items() if _is_in_files(one)}
    if "metrics" in values:
        values["metrics"] = names_of(values["metrics"])
    if "judge" in values and not isinstance(values["judge"], Mapping):
        values["judge"] = judge_name(values["judge"])
    if isinstance(values.get("judges"), list | tuple):
        values["judges"] = [
            one if isinstance(one, Mapping | BaseModel) else judge_name(one) for one in values["judges"]
        ]
    if isinstance(values.get("output"), str | Path):
        values["output"] = [values["output"]]
    configuration = configurations.load(None if path is None else Path(path), _overrides(values))
    if data is None and needs_data and not (configuration.data or configuration.datasets or named.get("datasets")):
        raise BadSettings("data is missing", hint="give rows or a path: evaluate(data)")
    in_memory: dict[str, Any] = {} if data is None else {"data": data}
    for key, choices in named.items():
        in_files = getattr(configuration, key)
        in_memory[key] = {name: in_files.get(name, one) for name, one in choices.items()}
    return configuration.model_copy(update=in_memory)


def _overrides(values: Mapping[str, Any]) -> Iterator[Override]:
    """A section is merged with that of the file, key by key; of a model, the keys that were set."""
    for key, value in values.items():
        try:
            plain = _OPTION.dump_python(value, mode="json", exclude_unset=True, fallback=lambda array: array.tolist())
        except (PydanticSerializationError, AttributeError):
            raise BadSettings("has a value of a type that no option has", where=key) from None
        if key in sections() and isinstance(plain, dict):
            yield from (Override((key, inner), one, "evaluate") for inner, one in plain.items())
        else:
            yield Override((key,), plain, "evaluate")


def _is_in_files(one: Any) -> bool:
    """Is it a path, or the configuration of a system? Rows, functions and responses by dataset are in memory."""
    if isinstance(one, Mapping):
        return "kind" in one or any(isinstance(one.get(key), str) for key in ("url", "function"))
    return isinstance(one, str | Path)


def read_inputs(configuration: ProjectConfig, reporter: Reporter) -> Inputs:
    """Everything that is evaluated on one dataset, read, with a warning for each doubtful row.

    Raises what ``evaluation.inputs.load`` raises.
    """
    if configuration.datasets:
        raise BadSettings("datasets: here one dataset is evaluated", hint="name it: data")
    data: Any = configuration.data
    systems = configuration.systems
    if data is not None:
        store = DatasetStore.of_folder(Settings().home)
        data = open_data(store, data, **configuration.reading, other_files=has_recorded(systems))
    read = load(data, systems, corpus=configuration.corpus, **configuration.reading)
    if configuration.labels is not None:
        read = with_labels(read, configuration.labels, configuration.metrics)
    for line in read.warnings:
        reporter.warn(line)
    return read


def check_outputs(paths: Sequence[Path], *, several: bool) -> None:
    """Raise UnknownName, MissingExtra or BadSettings for a file that can't be written."""
    for path in paths:
        (comparison.EXPORTERS if several and PLACE not in str(path) else EXPORTERS).check([path])


def check_baseline(asked: str | None, configuration: ProjectConfig) -> None:
    """Raise BadSettings if a baseline is asked for with one dataset; that of a file is then of its gates."""
    if asked is not None and not configuration.datasets:
        hint = "compare(report) takes one"
        raise BadSettings(f"baseline {asked!r} is about several datasets, or gates", hint=hint, option="baseline")


def inputs_by_dataset(configuration: ProjectConfig, reporter: Reporter) -> dict[str, Inputs]:
    """Everything that is evaluated, read, by dataset; the files to write are checked first.

    Raises what ``read_inputs`` and ``check_outputs`` raise, and BadSettings for what is missing.
    """
    datasets, systems = configuration.datasets, configuration.systems
    check_outputs(configuration.output, several=bool(datasets))
    if not datasets:
        read = read_inputs(configuration, reporter)
        return {read.dataset.name: read}
    if configuration.data is not None:
        hint = "give one of them: datasets: {faq: faq.jsonl}, or data: faq.jsonl"
        raise BadSettings("data and datasets are both given", hint=hint)
    if not systems:
        raise BadSettings("no system is named", hint="for example systems: {ours: responses.jsonl, bm25: {kind: bm25}}")
    every = {}
    for dataset, place in datasets.items():
        try:
            system_name(dataset)
        except ValueError as error:
            raise BadSettings(str(error).replace("system", "dataset", 1), where="datasets") from None
        update = {
            "data": place,
            "datasets": {},
            "corpus": configuration.corpus and _named(configuration.corpus, dataset),
            "systems": {name: _part(name, one, dataset, len(datasets)) for name, one in systems.items()},
        }
        read = read_inputs(configuration.model_copy(update=update), reporter)
        every[dataset] = replace(read, dataset=read.dataset.model_copy(update={"name": dataset}))
    return every


def _part(name: str, system: Any, dataset: str, of: int) -> Any:
    """A system, or its responses to one dataset; raises BadSettings where it can't be told which they are."""
    if isinstance(system, Mapping):
        if dataset not in system:
            raise BadSettings(f"has no responses to the dataset {dataset}", where=f"systems.{name}")
        part = system[dataset]
        return Path(part) if isinstance(part, str) else part
    system = by_name(system)
    is_file = isinstance(system, Path)
    ambiguous = PLACE not in str(system) if is_file else not (is_function(system) or isinstance(system, BaseModel))
    if of > 1 and ambiguous:
        hint = f"give them by dataset, {{dataset: rows}}, or write {PLACE} into the path"
        raise BadSettings(f"are responses to one of {of} datasets", where=f"systems.{name}", hint=hint)
    return _named(system, dataset) if is_file else system


def _named(path: Path, dataset: str) -> Path:
    return Path(str(path).replace(PLACE, dataset))


def runtime_for(*inputs: Inputs, settings: Settings | None = None) -> Runtime:
    """What an evaluation runs with; it knows the functions among the systems of ``inputs``."""
    # Without a handler, Python prints each logged warning, such as one for each query without a relevant result.
    logging.getLogger("ragassay").addHandler(_NO_OUTPUT)
    systems = (system for one in inputs for system in one.systems.items())
    functions = {name: system.function for name, system in systems if system.function is not None}
    return Runtime(settings or Settings(), functions)


def begin(runtime: Runtime, configuration: ProjectConfig, inputs: Mapping[str, Inputs]) -> Begun:
    """Write new runs down, one for each dataset; where ``datasets`` are named, as one benchmark.

    Its record is written first, so that no run that a kill leaves is taken for one on its own. Raises what ``local.start``
    raises, UnknownName for a baseline that is no system, and BadSettings for a file of the comparison if there is one system.
    """
    spec, baseline = configuration.evaluation, configuration.baseline
    # what can't be evaluated is refused before anything is written
    records = {name: prepare(spec, read, new_run_id(spec.name or name)) for name, read in inputs.items()}
    benchmark = None
    if configuration.datasets:
        systems = list(next(iter(inputs.values())).systems)
        if baseline is not None and baseline not in systems:
            raise UnknownName("baseline", baseline, systems)
        for path in configuration.output:
            if len(systems) == 1 and PLACE not in str(path):
                raise no_comparison(path)
        benchmark = BenchmarkRecord(
            id=new_run_id(spec.name or "benchmark"),
            baseline=baseline or systems[0],
            runs={name: record.id for name, record in records.items()},
        )
        FolderBenchmarks(runtime.settings.home).create(benchmark)
    return Begun({name: local.create(runtime, records[name], read) for name, read in inputs.items()}, benchmark)


def resumed(settings: Settings, reference: str) -> Begun:
    """The earlier run, or runs of a benchmark, that ``reference`` means: an id or ``last``; a run means its benchmark.

    Raises NotFound, BadData, and Conflict if a kill left runs unmade.
    """
    benchmarks, run_ids = FolderBenchmarks(settings.home), FolderStore(settings.home).ids()
    known = benchmarks.ids()
    latest = max([*known[-1:], *run_ids[-1:]], default=LAST)  # ids begin with the time
    newest = latest if reference == LAST else reference
    name = newest if newest in known else benchmarks.of_runs().get(newest)
    if name is None:
        run = local.resume(settings, reference)
        return Begun({run.record.dataset.name: run})
    record = benchmarks.open(name)
    if not all(run in run_ids for run in record.runs.values()):
        what = f"benchmark {name} lacks runs: it was interrupted before anything was evaluated, or they were removed"
        raise Conflict(what, hint="start it again")
    return Begun({dataset: local.resume(settings, run) for dataset, run in record.runs.items()}, record)


async def completed(runtime: Runtime, begun: Begun, reporter: Reporter, **limits: Any) -> Report | Benchmark:
    """The report of a run after the rest of it is evaluated, or those of several with the comparison of their systems.

    ``limits`` as ``local.complete`` has them; a budget is that of all runs together. Raises what ``local.complete`` raises.
    """
    reports = await _reports(runtime, begun, reporter, **limits)
    return next(iter(reports.values())) if begun.benchmark is None else Benchmark(begun.benchmark, reports)


async def _reports(
    runtime: Runtime, begun: Begun, reporter: Reporter, others: Sequence[FolderRun] = (), **limits: Any
) -> dict[str, Report]:
    reports, spending = {}, [*others, *begun.runs.values()]
    with reporter.watch(begun.runs.values(), resume_command(begun.id)) as done:
        for dataset, run in begun.runs.items():
            limits |= {"done": done, "warn": reporter.notice, "waiting": reporter.waiting}
            limits["others"] = [other for other in spending if other is not run]
            report = await local.complete(runtime, run, **limits)
            reports[dataset] = Report.of(report, report.results)
    return reports


async def evaluated(
    runtime: Runtime,
    spec: RunConfig,
    inputs: Inputs,
    reporter: Reporter,
    kind: Literal["evaluation", "agreement"] = "evaluation",
    others: Sequence[FolderRun] = (),
) -> tuple[FolderRun, Report]:
    """A new run on one dataset and its report; ``others``: runs that spend from the same budget.

    Raises what ``local.start`` and ``local.complete`` raise.
    """
    run = local.start(runtime, spec, inputs, kind)
    [report] = (await _reports(runtime, Begun({inputs.dataset.name: run}), reporter, others)).values()
    return run, report


def notice_unscored(report: ReportWithResults, reporter: Reporter, about: str = "") -> None:
    """Warn if more rows failed than the configuration of the report allows; ``about`` begins the line."""
    if what := beyond(report, report.provenance.configuration.max_failed_share):
        reporter.notice(f"{about}{what}; print the report for the reasons")
