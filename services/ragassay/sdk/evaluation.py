"""From rows or files to a report in one call, with or without an event loop around it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import textwrap
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from ragassay import config as configurations
from ragassay.config import Configuration, Layer
from ragassay.config.document import SECTIONS, options
from ragassay.core.errors import BadSettings
from ragassay.core.options import ParameterOptions
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.core.specification import JobSpec
from ragassay.core.validation import shown, suggestion
from ragassay.datasets.dataset import Dataset
from ragassay.evaluation import local
from ragassay.evaluation.aggregate import beyond
from ragassay.evaluation.inputs import Inputs, load
from ragassay.evaluation.labels import with_labels
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.registered import judge_name
from ragassay.metrics.metric import name_of
from ragassay.metrics.names import split_names
from ragassay.reporting import EXPORTERS
from ragassay.reporting.objects import Report
from ragassay.sdk.progress import Reporter, resume_command, resume_hints
from ragassay.sdk.warn import caller, on_behalf_of
from ragassay.storage.datasets import FolderDatasets, open_data
from ragassay.storage.folder import FolderRun
from ragassay.systems.functions import Function

T = TypeVar("T")
_NO_OUTPUT = logging.NullHandler()
_OF_GATES = ("gates", "alpha", "correction")


class Given(NamedTuple):
    """What is evaluated and lies in no file: the data, and all systems and datasets, as they were given, in their order."""

    data: Any = None
    systems: Mapping[str, Any] | None = None
    datasets: Mapping[str, Any] | None = None


def evaluate(
    data: Any = None,
    *,
    metrics: Any = None,
    judge: Any = None,
    systems: Mapping[str, Any] | None = None,
    config: str | Path | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Report:
    """Evaluate recorded responses and return the report.

    data: a path, a list of dicts, a pandas, polars or Arrow table, a Hugging Face Dataset, or a list of Samples; a row
    has a query and, without ``systems``, the response to it. NaN counts as missing.
    metrics: names, functions made with @ragassay.metric, objects with ``compute``; default: every usual one that the rows allow.
    judge: "local" (no key, no network), a model that LiteLLM supports, or a function or class made with @ragassay.judge.
    systems: {name: responses}, each a path or rows as in ``data`` with query_id or query, or {name: {"kind": "bm25"}}
    for a built-in one.
    config: a ragassay.yaml that the other options change. progress: called with rows done and rows in all.
    The run is kept under .ragassay/runs, as that of the command line is. Raises AssayError: BadInput for rows and
    options that don't fit, NothingToEvaluate, BudgetReached, Unavailable. Warns where too many rows could not be scored.
    """
    named = {"metrics": metrics, "judge": judge, "systems": systems, "config": config}
    given = {**{key: value for key, value in named.items() if value is not None}, **options}
    return finished(partial(_evaluated, data, given, progress))


async def aevaluate(
    data: Any = None, *, progress: Callable[[int, int], object] | None = None, **options: Any
) -> Report:
    """``evaluate`` for programs with an event loop, which goes on meanwhile. Cancelled, it makes no further call."""
    return await awaited(partial(_evaluated, data, options, progress))


def finished(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a coroutine; where an event loop runs, which has to wait for it, it gets another one."""
    if not _in_event_loop():
        return asyncio.run(work())
    thread = _Thread(work)
    try:
        result: T = thread.future.result()
    except BaseException:  # Ctrl-C in a notebook
        thread.cancel()
        raise
    return result


async def awaited(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a coroutine that goes on in a thread of its own; cancelled, it makes no further call."""
    thread = _Thread(work)
    try:
        result: T = await asyncio.wrap_future(thread.future)
    except asyncio.CancelledError:
        thread.cancel()
        raise
    return result


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Thread:
    """A coroutine in an event loop and a thread of its own."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._began: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
        self._caller = caller()
        pool = ThreadPoolExecutor(1, thread_name_prefix="ragassay")
        self.future: Future[Any] = pool.submit(asyncio.run, self._main(work))
        pool.shutdown(wait=False)

    async def _main(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        on_behalf_of(self._caller)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs is a task
        self._began.set_result((asyncio.get_running_loop(), task))
        return await work()

    def cancel(self) -> None:
        """Stop at the next point where it waits; calls in flight are given up."""
        loop, task = self._began.result()
        if not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)


async def _evaluated(data: Any, options: Mapping[str, Any], progress: Callable[[int, int], object] | None) -> Report:
    """The work itself."""
    configuration, given = configured(data, options)
    EXPORTERS.check(configuration.output)
    settings, reporter = Settings(), Reporter(progress)
    read = read_inputs(configuration, reporter, given)
    _, document = await evaluated(runtime_with(settings, read), settings, configuration.to_job_spec(), read, reporter)
    notice_unscored(document, reporter)
    report = Report.of(document, document.results)
    for path in configuration.output:
        report.save(path)
    return report


def notice_unscored(report: ReportWithResults, reporter: Reporter, about: str = "") -> None:
    """Warn if more rows failed than the configuration of the report allows; ``about`` begins the line."""
    if what := beyond(report, report.provenance.configuration.max_missing):
        reporter.notice(f"{about}{what}; print the report for the reasons")


def runtime_of(settings: Settings, functions: Mapping[str, Function] | None = None) -> Runtime:
    """The runtime of one command or call: what it evaluates with, made once. ``functions``: systems of the caller's."""
    # Without a handler, Python prints each logged warning, such as one for each query without a relevant result.
    logging.getLogger("ragassay").addHandler(_NO_OUTPUT)
    return Runtime(settings, functions)


def runtime_with(settings: Settings, *read: Inputs) -> Runtime:
    """A runtime that knows the functions among the systems of ``read``."""
    systems = [system for one in read for system in one.systems.items()]
    return runtime_of(settings, {name: system.function for name, system in systems if system.function is not None})


def read_inputs(configuration: Configuration, reporter: Reporter, given: Given = Given()) -> Inputs:  # noqa: B008 - a tuple
    """``inputs``, with a warning for each doubtful row."""
    read = inputs(configuration, given)
    for line in read.warnings:
        reporter.warn(line)
    return read


async def evaluated(
    runtime: Runtime,
    settings: Settings,
    spec: JobSpec,
    read: Inputs,
    reporter: Reporter,
    kind: Literal["evaluation", "agreement"] = "evaluation",
) -> tuple[FolderRun, ReportWithResults]:
    """A new run and its report; raises what ``local.start`` and ``local.complete`` raise."""
    run = local.start(runtime, settings, spec, read, kind)
    return run, await completed(runtime, settings, run, reporter)


async def completed(
    runtime: Runtime, settings: Settings, run: FolderRun, reporter: Reporter, **limits: Any
) -> ReportWithResults:
    """The report of a run after the rest of it is evaluated; ``limits`` as ``local.complete`` has them."""
    command = resume_command(run.record.id)
    with reporter.watch([run], command) as done, resume_hints(command):
        return await local.complete(runtime, settings, run, done=done, notice=reporter.notice, **limits)


def configured(
    data: Any, options: Mapping[str, Any], *, remote: bool = False, many: bool = False
) -> tuple[Configuration, Given]:
    """The configuration that keywords give, over the environment and the file ``config``; and what is in memory.

    ``remote``: a service does the work, so RAGASSAY_API_BASE is not its business. ``many``: there may be datasets in the
    place of data. Raises BadSettings, UnknownName.
    """
    given = dict(options)
    path = given.pop("config", None)
    for key in given:
        _check_key(key, many=many)
    in_memory = Given(None if isinstance(data, str | Path) else data, given.get("systems"), given.get("datasets"))
    if isinstance(data, str | Path):
        given["data"] = str(data)
    if in_memory.systems is not None:
        if not isinstance(in_memory.systems, Mapping):
            raise BadSettings(f"should be {{name: responses}}, is {shown(in_memory.systems)}", where="systems")
        given["systems"] = {
            name: one for name, one in in_memory.systems.items() if isinstance(one, str | Path | Mapping)
        }
    if in_memory.datasets is not None:
        if not isinstance(in_memory.datasets, Mapping):
            raise BadSettings(f"should be {{name: data}}, is {shown(in_memory.datasets)}", where="datasets")
        given["datasets"] = {name: str(one) for name, one in in_memory.datasets.items() if isinstance(one, str | Path)}
    if given.get("metrics") is not None:
        given["metrics"] = _metrics(given["metrics"])
    if given.get("judge") is not None:
        given["judge"] = judge_name(given["judge"])
    if isinstance(given.get("judges"), list | tuple):
        given["judges"] = [one if isinstance(one, Mapping | BaseModel) else judge_name(one) for one in given["judges"]]
    if isinstance(given.get("output"), str | Path):
        given["output"] = [given["output"]]
    flat = {key: _plain(key, value) for key, value in given.items()}
    layers = [configurations.environment(named=path is not None, remote=remote)]
    layers += [Layer.of_options(flat, "evaluate", dict.fromkeys(flat, "evaluate"))]
    if path is not None:
        layers.insert(0, configurations.read(Path(path)))
    configurations.import_plugins(layers)
    configuration = configurations.resolve(layers)
    if data is None and configuration.data is None and not many:
        raise BadSettings("data is missing", hint="give rows or a path: evaluate(data)")
    return configuration, in_memory


def inputs(configuration: Configuration, given: Given = Given()) -> Inputs:  # noqa: B008 - a tuple
    """Everything that is evaluated on one dataset, read; raises what ``load`` raises."""
    if configuration.datasets:
        raise BadSettings("datasets: several are evaluated by ragassay.run", hint="here 'data' names one")
    systems: Mapping[str, Any] = configuration.systems
    if given.systems is not None:
        systems = {name: configuration.systems.get(name, rows) for name, rows in given.systems.items()}
    data = given.data if given.data is not None else configuration.data
    read = load(
        None if data is None else dataset(configuration, given),
        systems,
        corpus=configuration.corpus,
        format=configuration.format,
        mapping=configuration.map,
        duplicates=configuration.duplicates,
        limit=configuration.limit,
        max_grade=configuration.highest_grade,
    )
    return read if configuration.labels is None else with_labels(read, configuration.labels, configuration.metrics)


def dataset(configuration: Configuration, given: Given = Given()) -> Dataset:  # noqa: B008 - a tuple
    """The rows of the dataset: given, in a file, or stored."""
    return open_data(
        FolderDatasets(Settings().home),
        configuration.data if given.data is None else given.data,
        format=configuration.format,
        mapping=configuration.map,
        duplicates=configuration.duplicates,
        limit=configuration.limit,
        max_grade=configuration.highest_grade,
        other_files=bool(configuration.systems),
    )


@cache
def keywords() -> dict[str, inspect.Parameter]:
    """The options as a signature has them: each key of the configuration alone, without its section."""
    first = ("metrics", "judge", "systems", "name")
    left_out = {"data", "datasets", *SECTIONS, *_OF_GATES}
    names = [*first, *(key for key in options() if key not in (*first, *left_out))]
    declared = {key: options()[key][0] for key in names}
    own = {key: inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None) for key in ("config", "progress")}
    return {
        **{
            key: inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, default=field.get_default(call_default_factory=True)
            )
            for key, field in declared.items()
        },
        **own,
    }


def _check_key(key: str, *, many: bool) -> None:
    if many and key in ("datasets", "alpha", "correction"):
        return
    if key == "datasets":
        raise BadSettings("several datasets are evaluated by ragassay.run", hint="here data is one")
    if key in _OF_GATES:
        raise BadSettings(f"{key} is about gates", hint="they are checked by: ragassay gate")
    if key not in keywords() and key not in SECTIONS:
        raise BadSettings(f"unknown option {key}", hint=suggestion(key, [*keywords(), *SECTIONS]))


def _metrics(metrics: Any) -> list[str]:
    """The names of metrics, which may be given as names, functions or objects."""
    if isinstance(metrics, str):
        return split_names(metrics)
    if not isinstance(metrics, Iterable):
        raise BadSettings(f"should be a list, is {shown(metrics)}", where="metrics")
    return [name_of(one) for one in metrics]


def _plain(key: str, value: Any) -> Any:
    """An option's value as a file would have it."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return {str(name): _plain(key, one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(key, one) for one in value]
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    raise BadSettings(f"{shown(value)} can't be the value of an option", where=key)


def _declare_options() -> None:
    """Give ``evaluate`` the signature that the options make, and a line on each that its docstring does not explain."""
    data = inspect.Parameter("data", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
    vars(evaluate)["__signature__"] = inspect.Signature([data, *keywords().values()], return_annotation="Report")
    of_judges = ("judges", "labels")
    of_models = tuple(ParameterOptions.__annotations__)
    explained = ("metrics", "judge", "systems", "config", "progress", *of_judges, *of_models)
    lines = [f"{key}: {options()[key][1].about.replace('`', '')}" for key in keywords() if key not in explained]
    head = "The other options are the keys of the configuration; RAGASSAY_* variables count too:"
    lines.append(f"{', '.join(of_models)}: what the judge's model is sent beside the messages, docs/judges.md")
    lines.append(f"{', '.join(of_judges)}: how far a judge can be trusted, docs/judging.md")
    more = textwrap.indent("\n".join([head, *lines]), "    ")
    evaluate.__doc__ = f"{(evaluate.__doc__ or '').rstrip()}\n\n{more}\n"


_declare_options()
