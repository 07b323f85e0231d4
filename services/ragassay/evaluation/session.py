"""What is expensive and used again - judges, embedding model, indexes - made once in a process."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from ragassay.core.protocols import Ledger
from ragassay.core.report import Source
from ragassay.core.specification import JobSpec
from ragassay.evaluation.engine import Tools
from ragassay.systems.builtin import BuiltIn
from ragassay.systems.live import LiveSystem
from ragassay.systems.retrieval import Pipeline

K = TypeVar("K")
V = TypeVar("V")
_TOOLS_FIELDS = {
    *("judge", "jury", "judge_mode", "judge_share", "repeat", "api_base", "parameters", "context_window"),
    *("criteria", "judge_prompt"),
    *("concurrency", "timeout_s", "sample_timeout_s", "attempts", "seed", "prices"),
    *("requests_per_minute", "tokens_per_minute"),
}
_MOST_KEPT = 16  # of each kind: judges of different jobs, indexes


class Factory(Protocol):
    """Makes the real things; see ``wiring``."""

    def tools(self, spec: JobSpec, ledger: Ledger) -> Tools:
        """Judge, prices and embedding model for a specification."""

    def retriever(self, source: Source, tools: Tools) -> Pipeline:
        """The retriever of a built-in system, with its index."""

    def live(self, name: str, source: Source, tools: Tools) -> LiveSystem:
        """The system that is called while it is evaluated."""

    def built_in(self, name: str, source: Source, retriever: Pipeline, tools: Tools) -> BuiltIn:
        """The built-in system around its retriever."""


class Session:
    """Hands out tools and built-in systems; whatever takes long to make is made once and kept."""

    def __init__(self, factory: Factory) -> None:
        self._factory, self._job = factory, ""
        self._tools: OrderedDict[str, Tools] = OrderedDict()
        self._retrievers: OrderedDict[str, Pipeline] = OrderedDict()

    def for_job(self, job: str) -> Session:
        """The same session for one job: a judge learns what a provider refuses or bills from that job's calls alone."""
        session = copy.copy(self)
        session._job = job
        return session

    def tools(self, spec: JobSpec, ledger: Ledger) -> Tools:
        """Judge, prices and embedding model for a specification, with its own ledger."""
        key = self._job + spec.model_dump_json(include=_TOOLS_FIELDS)
        return replace(_kept(self._tools, key, lambda: self._factory.tools(spec, ledger)), ledger=ledger)

    def systems(self, sources: Mapping[str, Source], tools: Tools) -> dict[str, BuiltIn | LiveSystem]:
        """The systems among these that answer now: those that ragassay runs itself, and those that it calls.

        Raises NotFound and BadData on a corpus that can't be read, BadSettings on one that changed.
        """
        live: dict[str, BuiltIn | LiveSystem] = {}
        for name, source in sources.items():
            if source.built is not None:
                retriever = _kept(self._retrievers, source.digest, partial(self._factory.retriever, source, tools))
                live[name] = self._factory.built_in(name, source, retriever, tools)
            elif source.called is not None:
                live[name] = self._factory.live(name, source, tools)
        return live


def _kept(kept: OrderedDict[K, V], key: K, make: Callable[[], V]) -> V:
    thing = kept[key] = kept.pop(key) if key in kept else make()
    if len(kept) > _MOST_KEPT:
        kept.popitem(last=False)
    return thing
