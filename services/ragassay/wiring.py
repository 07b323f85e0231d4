"""Settings -> real things plugged in; the only such place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ragassay import embeddings as embedding_models
from ragassay import llm as language_models
from ragassay.documents import Source
from ragassay.embeddings import LocalEmbedder
from ragassay.engine import Tools
from ragassay.errors import BadSettings
from ragassay.judges.local import LocalJudge
from ragassay.ledger import BudgetLedger, ScopedLedger
from ragassay.llm import LLM
from ragassay.models import Budget, JobSpec
from ragassay.prices import Prices
from ragassay.seams import Embedder, Judge, Ledger
from ragassay.settings import Settings
from ragassay.store.ledger import CallCache, FolderLedger
from ragassay.strategies.answering import Extractive, Generative
from ragassay.strategies.builtin import Answerer, BuiltIn
from ragassay.strategies.options import SystemConfig
from ragassay.strategies.retrieval import Corpus, build

if TYPE_CHECKING:
    from ragassay.jobs import Jobs


def embedder(settings: Settings) -> tuple[Embedder | None, str]:
    """The embedding model, or None and why there is none."""
    missing = LocalEmbedder.available(settings.embeddings)
    return (None, missing) if missing else (LocalEmbedder(settings.embeddings), "")


def judge(spec: JobSpec, settings: Settings, embeddings: Embedder | None) -> Judge:
    """The judge that the specification names: ``local``, or a model that LiteLLM can reach."""
    if spec.judge == "local":
        return LocalJudge(embeddings)
    from ragassay.judges.llm import LLMJudge

    llm = LLM(
        spec.judge.removeprefix("llm:"),
        api_base=spec.api_base or settings.api_base,
        api_key=settings.api_key,
        timeout_s=spec.timeout_s,
        concurrency=spec.concurrency,
        seed=spec.seed,
        prices=Prices(spec.prices),
    )
    return LLMJudge(llm, passes=spec.passes)


def tools(spec: JobSpec, settings: Settings, ledger: Ledger) -> Tools:
    """Everything that an evaluation is plugged into."""
    return Toolbox(settings)(spec, ledger)


class Toolbox:
    """Tools that are made once in a process: models stay loaded and connections open from one chunk to the next."""

    JUDGES = 8

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: OrderedDict[str, Tools] = OrderedDict()

    def __call__(self, spec: JobSpec, ledger: Ledger) -> Tools:
        """The tools for a specification, with its own ledger."""
        fields = {"judge", "api_base", "passes", "concurrency", "timeout_s", "seed", "prices"}
        key = spec.model_dump_json(include=fields)
        made = self._made.pop(key, None) or self._make(spec, ledger)
        self._made[key] = made
        if len(self._made) > self.JUDGES:
            self._made.popitem(last=False)
        return replace(made, ledger=ledger)

    def _make(self, spec: JobSpec, ledger: Ledger) -> Tools:
        model, why_not = self._embedder
        return Tools(judge(spec, self._settings, model), ledger, Prices(spec.prices), model, why_not)

    @cached_property
    def _embedder(self) -> tuple[Embedder | None, str]:
        return embedder(self._settings)


def built(systems: Mapping[str, Source], settings: Settings, tools: Tools) -> dict[str, BuiltIn]:
    """The systems among these that ragassay runs itself, with their indexes made or taken from the cache.

    Raises NotFound and BadData on a corpus that can't be read, BadSettings on one that is not what ``systems`` say.
    """
    corpora: dict[str, Corpus] = {}
    found: dict[str, BuiltIn] = {}
    for name, source in systems.items():
        if source.built is None:
            continue
        where = source.built.corpus
        if where not in corpora:
            corpora[where] = Corpus.read(Path(where))
        if corpora[where].digest != source.built.corpus_digest:
            raise BadSettings("the corpus changed since the run began", where=where, hint="start a new run")
        config = SystemConfig.model_validate(source.built.configuration)
        retriever = build(config, corpora[where], cache=settings.home / "cache" / "indexes", embedder=tools.embedder)
        found[name] = BuiltIn(name, config, retriever, _answerer(name, config, settings, tools))
    return found


def described(source: Source, system: BuiltIn | None) -> Source:
    """``source`` with what is known of a built-in system once it is made."""
    if source.built is None or system is None:
        return source
    known = {"models": system.models, "index_bytes": system.retriever.index_bytes}
    return source.model_copy(update={"built": source.built.model_copy(update=known)})


def _answerer(name: str, config: SystemConfig, settings: Settings, tools: Tools) -> Answerer | None:
    if config.answer is None:
        return None
    if config.answer == "extractive":
        return Extractive()
    llm = LLM(
        config.answer.model,
        api_base=config.answer.api_base or settings.api_base,
        api_key=settings.api_key,
        timeout_s=config.timeout_s,
        concurrency=config.in_flight,
        parameters=config.answer.parameters,
        prices=tools.prices,
    )
    return Generative(llm, ScopedLedger(tools.ledger, name), config.answer.max_tokens)


def jobs_for(settings: Settings, *, patient: bool = True) -> Jobs:
    """The use cases of the service. Opens no connection yet; to be made after a fork, not before."""
    from ragassay.doorbell import CeleryDoorbell
    from ragassay.jobs import Jobs
    from ragassay.store.redis import RedisStore

    store = RedisStore(settings.state, lease_s=settings.lease_s, patient=patient)
    return Jobs(store, CeleryDoorbell(settings.broker), Toolbox(settings))


def warm_up(settings: Settings) -> None:
    """Import the libraries behind judges and embeddings; takes seconds. Runs no model, so a worker may fork after it."""
    if settings.preload != "nothing":
        language_models.warm_up()
    if settings.preload == "all" and LocalEmbedder.available(settings.embeddings) is None:
        embedding_models.warm_up()


@contextmanager
def folder_ledger(run_folder: Path, settings: Settings, spec: JobSpec) -> Iterator[Ledger]:
    """The ledger of a run in a folder, with the cache of earlier runs' calls and the budget where they are wanted."""
    cache = CallCache(settings.home / "cache" / "calls.sqlite") if spec.cache else None
    ledger = FolderLedger(run_folder / "calls.jsonl", run=run_folder.name, cache=cache)
    try:
        yield ledger if spec.budget == Budget() else BudgetLedger(ledger, spec.budget, ledger.spent)
    finally:
        ledger.close()
        if cache:
            cache.close()
