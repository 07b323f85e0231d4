"""From a configuration and rows to a run and its report: the one way of ``evaluate``, ``compare``, ``gate`` and the commands."""

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
from ragassay.core.formatting import split_names
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.core.validation import shown, suggestion
from ragassay.evaluation import local
from ragassay.evaluation.aggregate import beyond
from ragassay.evaluation.inputs import Inputs, load
from ragassay.evaluation.labels import with_labels
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.custom import judge_name
from ragassay.metrics.metric import name_of
from ragassay.reporting import EXPORTERS
from ragassay.sdk.options import EvalOptions
from ragassay.sdk.progress import Reporter, resume_command, resume_hints
from ragassay.storage.datasets import FolderDatasets, open_data
from ragassay.storage.folder import FolderRun

_NO_OUTPUT = logging.NullHandler()
_NAMED = ("metrics", "judge", "systems", "datasets", "baseline", "gates", "config")  # keywords of their own


class Given(NamedTuple):
    """What is given as an argument: data in memory, and all systems and datasets in their order; None: the configuration's."""

    data: Any = None
    systems: Mapping[str, Any] | None = None
    datasets: Mapping[str, Any] | None = None


def notice_unscored(report: ReportWithResults, reporter: Reporter, about: str = "") -> None:
    """Warn if more rows failed than the configuration of the report allows; ``about`` begins the line."""
    if what := beyond(report, report.provenance.configuration.max_failed_share):
        reporter.notice(f"{about}{what}; print the report for the reasons")


def runtime_for(*inputs: Inputs, settings: Settings | None = None) -> Runtime:
    """What an evaluation runs with; it knows the functions among the systems of ``inputs``."""
    # Without a handler, Python prints each logged warning, such as one for each query without a relevant result.
    logging.getLogger("ragassay").addHandler(_NO_OUTPUT)
    systems = (system for one in inputs for system in one.systems.items())
    functions = {name: system.function for name, system in systems if system.function is not None}
    return Runtime(settings or Settings(), functions)


async def evaluated(
    runtime: Runtime,
    spec: EvalConfig,
    inputs: Inputs,
    reporter: Reporter,
    kind: Literal["evaluation", "agreement"] = "evaluation",
) -> tuple[FolderRun, ReportWithResults]:
    """A new run and its report; raises what ``local.start`` and ``local.complete`` raise."""
    run = local.start(runtime, spec, inputs, kind)
    return run, await completed(runtime, run, reporter)


async def evaluated_and_written(configuration: ProjectConfig, inputs: Inputs, reporter: Reporter) -> ReportWithResults:
    """The report of a new run, in the files that the configuration names too."""
    EXPORTERS.check(configuration.output)
    _, report = await evaluated(runtime_for(inputs), configuration.evaluation, inputs, reporter)
    for path in configuration.output:
        EXPORTERS.write(report, path)
    return report


async def completed(runtime: Runtime, run: FolderRun, reporter: Reporter, **limits: Any) -> ReportWithResults:
    """The report of a run after the rest of it is evaluated; ``limits`` as ``local.complete`` has them."""
    command = resume_command(run.record.id)
    with reporter.watch([run], command) as done, resume_hints(command):
        return await local.complete(runtime, run, done=done, notice=reporter.notice, **limits)


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
    systems, datasets = given.get("systems"), given.get("datasets")
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
    if data is None and needs_data and not (configuration.data or configuration.datasets or datasets):
        raise BadSettings("data is missing", hint="give rows or a path: evaluate(data)")
    return configuration, Given(
        None if isinstance(data, str | Path) else data,
        _with_files(systems, configuration.systems),
        _with_files(datasets, configuration.datasets),
    )


def _with_files(given: Mapping[str, Any] | None, read: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is given by name, as it was read where it lies in a file."""
    return None if given is None else {name: read.get(name, one) for name, one in given.items()}


def _overrides(given: Mapping[str, Any]) -> Iterator[Override]:
    """A section is merged with that of the file, key by key."""
    for key, value in given.items():
        plain = _plain(key, value)
        if key in sections() and isinstance(plain, dict):
            yield from (Override((key, inner), one, "evaluate") for inner, one in plain.items())
        else:
            yield Override((key,), plain, "evaluate")


def read_inputs(configuration: ProjectConfig, reporter: Reporter, given: Given = Given()) -> Inputs:  # noqa: B008 - a tuple
    """Everything that is evaluated on one dataset, read, with a warning for each doubtful row.

    Raises what ``evaluation.inputs.load`` raises.
    """
    if configuration.datasets:
        raise BadSettings("datasets: here one dataset is evaluated", hint="name it: data")
    systems = configuration.systems if given.systems is None else given.systems
    data = given.data if given.data is not None else configuration.data
    if data is not None:
        store = FolderDatasets(Settings().home)
        data = open_data(store, data, **configuration.reading, other_files=bool(configuration.systems))
    read = load(data, systems, corpus=configuration.corpus, **configuration.reading)
    if configuration.labels is not None:
        read = with_labels(read, configuration.labels, configuration.metrics)
    for line in read.warnings:
        reporter.warn(line)
    return read


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
