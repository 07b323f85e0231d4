"""From a configuration and rows to the JSON body of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ragassay.core.errors import BadInput, BadSettings, NothingToEvaluate
from ragassay.core.settings import Settings

if TYPE_CHECKING:
    from ragassay.config import Configuration
    from ragassay.datasets.versions import DatasetVersion
    from ragassay.sdk.evaluation import Given


def configured(data: Any, options: Mapping[str, Any]) -> tuple[Configuration, Given, list[str]]:
    """The configuration of keywords, the data and systems in memory, and the names of the service's systems to ask."""
    from ragassay.sdk.evaluation import Given, configured

    systems, registered = options.get("systems"), list[str]()
    if isinstance(systems, list | tuple):
        registered, systems = list(systems), None
    elif isinstance(systems, Mapping):
        registered = [name for name, given in systems.items() if given is None]
        systems = {name: given for name, given in systems.items() if given is not None} or None
    rest = {key: value for key, value in options.items() if key != "systems"}
    configuration, given = configured(data, rest if systems is None else {**rest, "systems": systems}, remote=True)
    return configuration, Given(given.data, systems), registered


def stored_dataset(configuration: Configuration, given: Given | None) -> tuple[DatasetVersion, Path] | None:
    """The stored dataset, with its file, that a job can name; None if rows have to be sent instead."""
    from ragassay.datasets.versions import file_or_version
    from ragassay.storage.datasets import FolderDatasets

    in_memory = given is not None and (given.data is not None or given.systems is not None)
    changed = configuration.limit is not None or configuration.labels is not None
    if configuration.data is None or changed or in_memory or configuration.systems:
        return None
    store = FolderDatasets(Settings().home)
    version = file_or_version(store, configuration.data)
    return None if version is None else (version, store.rows_file(version))


def rows_body(
    configuration: Configuration, given: Given | None, registered: Sequence[str], warn: Callable[[str], object]
) -> bytes:
    """A job: the keys of the configuration, and rows instead of its keys about files, which are read here.

    ``registered``: the service's own systems to ask. ``warn`` gets a line about each doubtful row.
    """
    from ragassay.datasets.load import load_rows
    from ragassay.sdk.evaluation import Given, inputs

    read = inputs(configuration, given or Given())
    for warning in read.warnings:
        warn(warning)
    where = str(configuration.data or "data")
    if local := next((name for name, one in read.systems.items() if one.source.called or one.source.built), None):
        what = f"the service asks no system of a caller's, such as {local!r}"
        raise BadSettings(what, where="systems", hint="name one that its operator registered: --system NAME")
    if not registered and not any(system.responses for system in read.systems.values()):
        raise NothingToEvaluate("no row has a response", where=where, hint="name a system: --system NAME=FILE")
    named = {name: system.responses for name, system in read.systems.items()}
    of_rows = named.pop("default", {}) if named.keys() == {"default"} else {}
    samples = [sample.model_copy(update={"response": of_rows.get(sample.query_id)}) for sample in read.samples]
    rows = [sample.model_dump(mode="json", exclude_defaults=True) for sample in samples]
    if (configuration.limit or configuration.map) and load_rows(rows).samples != tuple(samples):
        raise BadInput(
            "with this --map and --limit the service would read the rows differently",
            where=where,
            hint="name the columns as we do (ragassay info schema sample), or use: ragassay evaluate",
        )
    for row, sample in zip(rows, samples, strict=True):
        responses = {name: by_id.get(sample.query_id) for name, by_id in named.items()}
        answered = {name: one.model_dump(mode="json", exclude_defaults=True) for name, one in responses.items() if one}
        row |= {"query_id": sample.query_id, "responses": answered} if named else {}
    return orjson.dumps({**settings_body(configuration, registered), "dataset": read.dataset.name, "samples": rows})


def settings_body(configuration: Configuration, registered: Sequence[str] = ()) -> dict[str, Any]:
    """The keys of a configuration that a job may set; raises BadSettings for the judge's prompt, which it may not."""
    from ragassay.config.document import options

    if configuration.judge_prompt:
        what = "the service's operator sets the judge's prompt, so 'judge_prompt' can't be sent"
        raise BadSettings(what, hint="leave it out, or use: ragassay evaluate")
    read_here = {key for key, (_, option) in options().items() if option.set_by == "files"}
    sent = configuration.model_dump(mode="json", exclude_unset=True, exclude=read_here)
    return {**sent, **({"systems": list(registered)} if registered else {})}
