"""Systems under test that the service's operator registered by name: a job may name them, and never bring one.

The API reads the file for names, workers for use. What a job's record and report have of a system leaves out its
headers, the options of a plug-in's and the folders of its files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragassay import config
from ragassay.core.errors import AssayError, BadSettings, UnknownName
from ragassay.core.jobs import PROJECT
from ragassay.core.plugins import import_plugin, imported
from ragassay.core.protocols import digest
from ragassay.core.report import Called, Source
from ragassay.evaluation.inputs import SystemInput, called_source
from ragassay.storage.protocol import system_name
from ragassay.systems.builtin import planned_source
from ragassay.systems.functions import FunctionConfig, RegisteredConfig
from ragassay.systems.http import HttpConfig
from ragassay.systems.options import SystemConfig

logger = logging.getLogger("ragassay")
VARIABLE = "RAGASSAY_SYSTEMS"
_KEYS = ("systems", "corpus")
_OURS = ("description", "projects")  # of a system, beside what asks it
_LONGEST_CHUNK_S = 600.0  # that a worker may ask a system for one chunk; Celery breaks it off some minutes later


@dataclass(frozen=True)
class RegisteredSystem:
    """A system as the operator's file has it. ``projects``: whose jobs may name it; None for all."""

    name: str
    config: HttpConfig | FunctionConfig | RegisteredConfig | SystemConfig
    corpus: Path | None = None
    description: str | None = None
    projects: tuple[str, ...] | None = None

    def source(self, rows: int) -> Source:
        """Where its responses come from, with all that it takes to get them."""
        if isinstance(self.config, SystemConfig):
            return planned_source(self.name, self.config, self.corpus, rows)
        source = called_source(self.name, self.config, rows)
        return source.model_copy(update={"digest": _digest(self.config.model_dump(mode="json"))})

    @property
    def max_rows(self) -> int | None:
        """How many queries it surely answers or fails in the time that a worker has for a chunk; None for any number."""
        if isinstance(self.config, SystemConfig):
            return None
        a_second = self.config.concurrency / self.config.timeout_s
        return max(1, int(_LONGEST_CHUNK_S * min(a_second, self.config.rate or a_second)))


class Registered:
    """The systems of the operator's file, by name. Reading them imports no code and opens no connection."""

    def __init__(self, systems: Iterable[RegisteredSystem] = ()) -> None:
        self._systems = {system.name: system for system in systems}
        self._known: dict[tuple[str, int | None, int | None], Source] = {}

    @classmethod
    def read(cls, path: Path | None) -> Registered:
        """The systems in a file of the form of ragassay.yaml; raises BadSettings and NotFound."""
        if path is None:
            return cls()
        document = config.read(path)
        for key in document.values.keys() - set(_KEYS):
            raise BadSettings(
                f"{key} is no key of registered systems", where=document.where((key,)), hint="known: systems, corpus"
            )
        given = document.values.get("systems")
        if not isinstance(given, dict) or not given:
            raise BadSettings("names no system", where=str(path), hint="write systems: {NAME: {kind: http, url: ...}}")
        described: dict[str, str] = {}
        projects: dict[str, tuple[str, ...]] = {}
        systems: dict[str, Any] = {}
        for name, system in given.items():
            where = document.where(("systems", name))
            if not isinstance(system, dict):
                what = f"{name}: a registered system answers queries, so it is no file of responses"
                raise BadSettings(what, where=where, hint="give its kind: http, python, bm25, dense or hybrid")
            try:
                system_name(name)
            except ValueError as error:
                raise BadSettings(str(error), where=where) from None
            systems[name] = {key: value for key, value in system.items() if key not in _OURS}
            if (description := system.get("description")) is not None:
                if not isinstance(description, str):
                    raise BadSettings(f"{name}.description should be text", where=where)
                described[name] = description
            if (among := system.get("projects")) is not None:
                if not isinstance(among, list) or not all(re.fullmatch(PROJECT, str(each)) for each in among):
                    what = f"{name}.projects should be a list of names of projects"
                    raise BadSettings(what, where=where, hint="leave it out for all: projects: [docs, search]")
                projects[name] = tuple(map(str, among))
        document.values["systems"] = systems
        read = config.check(document)
        return cls(
            RegisteredSystem(name, system, read.corpus, described.get(name), projects.get(name))
            for name, system in read.systems.items()
            if isinstance(system, HttpConfig | FunctionConfig | RegisteredConfig | SystemConfig)
        )

    def of(self, project: str) -> Registered:
        """Those that a project's jobs may name."""
        scoped = Registered(s for s in self._systems.values() if s.projects is None or project in s.projects)
        scoped._known = self._known
        return scoped

    def import_functions(self) -> None:
        """Import the modules of systems that are Python functions; raises BadSettings where one can't be."""
        for name, system in self._systems.items():
            if isinstance(system.config, FunctionConfig) and system.config.module not in imported():
                import_plugin(system.config.module, f"{VARIABLE}: systems.{name}.function")

    def __iter__(self) -> Iterator[RegisteredSystem]:
        return (self._systems[name] for name in sorted(self._systems))

    def inputs(self, names: Iterable[str], rows: int) -> dict[str, SystemInput]:
        """The systems of these names for a job of so many rows; raises UnknownName, and what a corpus raises."""
        return {name: SystemInput(self._public(self._named(name), rows), {}) for name in names}

    def max_rows(self, names: Iterable[str]) -> int | None:
        """The most rows that a chunk of a job with these systems may have; None for any number."""
        known = [self._systems[name].max_rows for name in names if name in self._systems]
        return min((max_rows for max_rows in known if max_rows is not None), default=None)

    def own(self, name: str, source: Source) -> Source:
        """The whole source of a registered system, from this process's file and not from a job's record.

        Raises BadSettings where it is not registered here as it was when the job was submitted.
        """
        system = self._systems.get(name)
        if system is None:
            what = f"system {name!r} is not registered with this worker"
            raise BadSettings(what, hint=f"its {VARIABLE} has to name the systems that the API's names")
        configuration = system.config.model_dump(mode="json")
        if source.called is not None and _digest(configuration) == source.digest:
            called = source.called.model_copy(update={"configuration": configuration})
            return source.model_copy(update={"called": called})
        if source.built is not None and source.built.configuration == configuration:
            return source.model_copy(update={"built": source.built.model_copy(update={"corpus": str(system.corpus)})})
        raise BadSettings(f"system {name!r} has changed since the job was submitted", hint="submit the job again")

    def _named(self, name: str) -> RegisteredSystem:
        if name not in self._systems:
            raise UnknownName("registered system", name[:100], self._systems, where="systems")
        return self._systems[name]

    def _public(self, system: RegisteredSystem, rows: int) -> Source:
        """The source as a job's record has it."""
        try:
            source = self._described(system).model_copy(update={"rows": rows})
        except AssayError as error:  # about the operator's files, which are not the caller's business
            logger.error("the registered system %s can't be used: %s", system.name, error)  # noqa: TRY400 - no bug
            what = f"system {system.name!r} can't be used: its corpus can't be read"
            raise BadSettings(what, where="systems", hint="tell the operator; the server's log says why") from None
        if source.built is not None:
            built = source.built.model_copy(update={"corpus": Path(source.built.corpus).name})
            return source.model_copy(update={"built": built})
        shown = _without_folder(source.called.configuration) if source.called else {}
        shown |= {key: {} for key in ("headers", "options") if key in shown}
        called = Called(configuration=shown)
        return source.model_copy(update={"called": called})

    def _described(self, system: RegisteredSystem) -> Source:
        """Where its responses come from. A corpus is read when it is there first, and when it has changed."""
        try:
            now = system.corpus.stat() if system.corpus and isinstance(system.config, SystemConfig) else None
        except OSError:
            now = None  # reading it says what is wrong
        key = system.name, now and now.st_mtime_ns, now and now.st_size
        if key not in self._known:
            self._known[key] = system.source(0)
        return self._known[key]


def _digest(configuration: Mapping[str, Any]) -> str:
    """The digest of the configuration of a system that is called, wherever a Python file of it lies."""
    return digest(_without_folder(configuration))


def _without_folder(configuration: Mapping[str, Any]) -> dict[str, Any]:
    function = configuration.get("function")
    return {**configuration, **({"function": Path(function).name} if function else {})}
