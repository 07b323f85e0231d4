"""From a configuration and rows to a run and its report: what ``evaluate``, ``compare`` and the commands share."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from ragassay import config as configurations
from ragassay.config import Override, ProjectConfig, sections
from ragassay.config.model import section_of
from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import EvalConfig
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.core.validation import shown, suggestion
from ragassay.datasets.dataset import Dataset
from ragassay.evaluation import local
from ragassay.evaluation.aggregate import beyond
from ragassay.evaluation.inputs import Inputs, load
from ragassay.evaluation.labels import with_labels
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.custom import judge_name
from ragassay.metrics.metric import name_of
from ragassay.metrics.names import split_names
from ragassay.sdk.options import EvalOptions
from ragassay.sdk.progress import Reporter, resume_command, resume_hints
from ragassay.storage.datasets import FolderDatasets, open_data
from ragassay.storage.folder import FolderRun
from ragassay.systems.functions import Function

_NO_OUTPUT = logging.NullHandler()
_NAMED = ("metrics", "judge", "systems", "datasets", "baseline", "gates", "config")  # keywords of their own


class Given(NamedTuple):
    """What is evaluated and lies in no file: the data, and all systems and datasets, as they were given, in their order."""

    data: Any = None
    systems: Mapping[str, Any] | None = None
    datasets: Mapping[str, Any] | None = None


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


def read_inputs(configuration: ProjectConfig, reporter: Reporter, given: Given = Given()) -> Inputs:  # noqa: B008 - a tuple
    """``inputs``, with a warning for each doubtful row."""
    read = inputs(configuration, given)
    for line in read.warnings:
        reporter.warn(line)
    return read


async def evaluated(
    runtime: Runtime,
    settings: Settings,
    spec: EvalConfig,
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


def configured(data: Any, options: Mapping[str, Any], *, needs_data: bool = True) -> tuple[ProjectConfig, Given]:
    """The configuration that keywords give, over the environment and the file ``config``; and what is in memory.

    Raises BadSettings, UnknownName.
    """
    given = {key: value for key, value in options.items() if value is not None}
    path = given.pop("config", None)
    for key in given:
        _check_key(key)
    if "judge" in given and "judges" in given:
        raise BadSettings("judge is short for judges=[...]", hint="give one of the two")
    in_memory = Given(None if isinstance(data, str | Path) else data, given.get("systems"), given.get("datasets"))
    if isinstance(data, str | Path):
        given["data"] = str(data)
    for key, form in (("systems", "{name: responses}"), ("datasets", "{name: data}")):
        if key in given:
            if not isinstance(given[key], Mapping):
                raise BadSettings(f"should be {form}, is {shown(given[key])}", where=key)
            given[key] = {name: one for name, one in given[key].items() if _is_in_files(one)}
    if "metrics" in given:
        given["metrics"] = _metrics(given["metrics"])
    if "judge" in given and not isinstance(given["judge"], Mapping):
        given["judge"] = judge_name(given["judge"])
    if isinstance(given.get("judges"), list | tuple):
        given["judges"] = [one if isinstance(one, Mapping | BaseModel) else judge_name(one) for one in given["judges"]]
    if isinstance(given.get("output"), str | Path):
        given["output"] = [given["output"]]
    configuration = configurations.load(None if path is None else Path(path), _overrides(given))
    is_named = configuration.data or configuration.datasets or in_memory.datasets
    if data is None and needs_data and not is_named:
        raise BadSettings("data is missing", hint="give rows or a path: evaluate(data)")
    return configuration, in_memory


def _overrides(given: Mapping[str, Any]) -> Iterator[Override]:
    """A section is merged with that of the file, key by key."""
    for key, value in given.items():
        plain = _plain(key, value)
        if key in sections() and isinstance(plain, dict):
            yield from (Override((key, inner), one, "evaluate") for inner, one in plain.items())
        else:
            yield Override((key,), plain, "evaluate")


def inputs(configuration: ProjectConfig, given: Given = Given()) -> Inputs:  # noqa: B008 - a tuple
    """Everything that is evaluated on one dataset, read; raises what ``evaluation.inputs.load`` raises."""
    if configuration.datasets:
        raise BadSettings("datasets: here one dataset is evaluated", hint="name it: data")
    systems: Mapping[str, Any] = configuration.systems
    if given.systems is not None:
        systems = {name: configuration.systems.get(name, rows) for name, rows in given.systems.items()}
    data = given.data if given.data is not None else configuration.data
    read = load(
        None if data is None else dataset(configuration, given),
        systems,
        corpus=configuration.corpus,
        **configuration.reading,
    )
    return read if configuration.labels is None else with_labels(read, configuration.labels, configuration.metrics)


def dataset(configuration: ProjectConfig, given: Given = Given()) -> Dataset:  # noqa: B008 - a tuple
    """The rows of the dataset: given, in a file, or stored."""
    return open_data(
        FolderDatasets(Settings().home),
        configuration.data if given.data is None else given.data,
        **configuration.reading,
        other_files=bool(configuration.systems),
    )


def _check_key(key: str) -> None:
    known = {*EvalOptions.__annotations__, *_NAMED}
    if key in known:
        return
    section = section_of(key)
    hint = suggestion(key, known) if section is None else f"it belongs in {section}: {section}={{'{key}': ...}}"
    raise BadSettings(f"unknown option {key}", hint=hint)


def _is_in_files(one: Any) -> bool:
    """Is it a path, or the configuration of a system? Rows, functions and responses by dataset are in memory."""
    return isinstance(one, str | Path) or (isinstance(one, Mapping) and "kind" in one)


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
