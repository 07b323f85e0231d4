"""Settings -> real things plugged in; the only such place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragassay import embeddings as embedding_models
from ragassay import llm as language_models
from ragassay.core.errors import BadSettings
from ragassay.core.plugins import import_plugin
from ragassay.core.protocols import Embedder, Judge, Ledger, Spacing
from ragassay.core.report import Built, Source
from ragassay.core.settings import Settings
from ragassay.core.specification import JobSpec
from ragassay.datasets.corpus import Corpus
from ragassay.embeddings import LocalEmbedder, unavailable
from ragassay.evaluation.engine import Tools
from ragassay.judges.jury import JuryJudge, check_jury, check_keys
from ragassay.judges.local import LocalJudge
from ragassay.judges.registered import JUDGES, OwnJudge
from ragassay.judges.repeating import RepeatingJudge, repeated
from ragassay.judges.sharing import SharingJudge, check_share
from ragassay.llm import LLM, Capabilities, LocalSpacing, Prices, RateLimit
from ragassay.llm.journal import ScopedLedger
from ragassay.systems.answering import Extractive, Generative
from ragassay.systems.builtin import Answerer, BuiltIn
from ragassay.systems.http import HttpAsks, HttpConfig
from ragassay.systems.live import (
    Asks,
    Function,
    FunctionAsks,
    FunctionConfig,
    LiveOptions,
    LiveSystem,
    function_of,
)
from ragassay.systems.options import SystemConfig
from ragassay.systems.registered import RegisteredConfig, asks_of
from ragassay.systems.retrieval import Pipeline, build
from ragassay.systems.timing import Schedule
from ragassay.testset.model import QuestionWriter

if TYPE_CHECKING:
    from ragassay.evaluation.datasets import GenerateOptions, Written
    from ragassay.judges.preference import PreferenceJudge
    from ragassay.service.jobs import Jobs
    from ragassay.service.schedules import Schedules


def embedder(settings: Settings, threads: int | None = None) -> tuple[Embedder | None, str]:
    """The embedding model, or None and why there is none."""
    missing = unavailable(settings.embeddings)
    return (None, missing) if missing else (LocalEmbedder(settings.embeddings, threads=threads), "")


@dataclass(frozen=True)
class Shared:
    """What the jobs of a process share about providers: rate limits, and what each provider takes of a request."""

    spacing: Spacing = field(default_factory=LocalSpacing)
    known: dict[tuple[str, str | None], Capabilities] = field(default_factory=dict)

    def capabilities(self, model: str, address: str | None) -> Capabilities:
        """Those of a model at an address."""
        return self.known.setdefault((model, address), Capabilities(model))


def judge(spec: JobSpec, settings: Settings, embeddings: Embedder | None, shared: Shared | None = None) -> Judge:
    """The judge that the specification names: ``local``, a plug-in's, a model that LiteLLM can reach, or a jury of these.

    With ``judge_share`` it judges a share, beside the local one; with ``repeat`` it judges each sample so often. Raises
    BadSettings where that makes no sense. ``shared`` is what its requests share with those of other jobs.
    """
    check_share(spec)
    shared = shared or Shared()
    if spec.judge_share is None:
        return _judge(spec, settings, embeddings, shared)
    return SharingJudge(LocalJudge(embeddings), _judge(spec, settings, embeddings, shared), spec.judge_share, spec.seed)


def _judge(spec: JobSpec, settings: Settings, embeddings: Embedder | None, shared: Shared) -> Judge:
    check_jury(spec)
    if not spec.jury:
        return _member(spec, settings, embeddings, shared)
    check_keys(spec, settings)
    at_once = max(1, spec.concurrency // len(spec.judges))
    alone = [one.model_copy(update={"concurrency": at_once}) for one in spec.for_members()]
    return JuryJudge([_member(one, settings, embeddings, shared) for one in alone])


def _member(spec: JobSpec, settings: Settings, embeddings: Embedder | None, shared: Shared) -> Judge:
    if spec.judge_mode != "verdict" and (spec.judge == "local" or spec.judge in JUDGES):
        raise BadSettings(f"{spec.judge} can't be asked so: {spec.judge_mode} is for models", where="judge_mode")
    if spec.judge == "local":
        return LocalJudge(embeddings)
    if spec.judge in JUDGES:
        own = OwnJudge(
            JUDGES.get(spec.judge), criteria=spec.criteria, at_once=spec.concurrency, timeout_s=spec.timeout_s
        )
        return own if spec.repeat == 1 else RepeatingJudge([own] * spec.repeat)
    from ragassay.judges.llm import LLMJudge
    from ragassay.judges.probe import ProbeJudge

    llm = _judging(spec, settings, shared)
    if spec.judge_mode == "probe":
        if spec.judge_prompt is not None:
            raise BadSettings("probes have their own questions: leave judge_prompt out", where="judge_mode")
        given: dict[str, Any] = {"criteria": spec.criteria, "timeout_s": spec.sample_timeout_s}
        return repeated(lambda one: ProbeJudge(one, **given), llm, spec.repeat)
    users: dict[str, Any] = {"criteria": spec.criteria, "prompt": spec.judge_prompt}
    users |= {"max_tokens": spec.parameters.max_tokens, "timeout_s": spec.sample_timeout_s}
    return repeated(lambda one: LLMJudge(one, **users), llm, spec.repeat)


def preference_judge(spec: JobSpec, settings: Settings) -> PreferenceJudge:
    """What says which of two answers is better; raises BadSettings unless the judge is a model that LiteLLM can reach."""
    if spec.judge == "local" or spec.judge in JUDGES:
        what = "the local judge" if spec.judge == "local" else f"the judge {spec.judge}"
        raise BadSettings(f"{what} can't compare two answers: a model can", where="--judge", hint="--judge MODEL")
    from ragassay.judges.preference import PreferenceJudge

    return PreferenceJudge(_judging(spec, settings, Shared()))


def _judging(spec: JobSpec, settings: Settings, shared: Shared) -> LLM:
    """The judge's model, as the specification would have it asked."""
    model = spec.judge.removeprefix("llm:")
    return _llm(
        model,
        spec.api_base,
        settings,
        timeout_s=spec.timeout_s,
        attempts=spec.attempts,
        concurrency=spec.concurrency,
        limit=RateLimit(
            spec.requests_per_minute or settings.requests_per_minute,
            spec.tokens_per_minute or settings.tokens_per_minute,
            shared.spacing,
        ),
        capabilities=shared.capabilities(model, spec.api_base or settings.api_base),
        seed=spec.seed,
        parameters=spec.parameters.model_dump(exclude={"max_tokens"}, exclude_defaults=True),
        context_window=spec.context_window,
        prices=Prices(spec.prices),
    )


def question_writer(
    model: str, settings: Settings, ledger: Ledger, *, api_base: str | None = None, concurrency: int, seed: int
) -> QuestionWriter:
    """What writes questions about passages, with a model that LiteLLM can reach."""
    return QuestionWriter(_llm(model, api_base, settings, concurrency=concurrency, seed=seed), ledger)


def questions_of_model(
    model: str,
    settings: Settings,
    name: str,
    corpus: Corpus,
    options: GenerateOptions,
    *,
    api_base: str | None = None,
    usd: float | None = None,
    concurrency: int = 8,
) -> Written:
    """Questions that a model writes for the dataset ``name``. What is answered once is not paid again.

    Raises BudgetReached; what is answered then is kept.
    """
    import asyncio
    from contextlib import ExitStack

    from ragassay.core.errors import BudgetReached, ProviderDown
    from ragassay.core.protocols import digest
    from ragassay.core.specification import Budget
    from ragassay.evaluation.datasets import Written, calls_text
    from ragassay.storage.ledger import CallCache, FolderLedger

    of_call = {**dict(options), "corpus": corpus.digest}
    calls = settings.home / "datasets" / "calls" / f"{name}-{digest([model, of_call])[:12]}.jsonl"
    with ExitStack() as opened:
        cache = CallCache(settings.home / "cache" / "calls.sqlite")
        opened.callback(cache.close)
        ledger = FolderLedger(calls, run=calls.stem, cache=cache, budget=Budget(usd=usd))
        opened.callback(ledger.close)
        writer = question_writer(model, settings, ledger, api_base=api_base, concurrency=concurrency, seed=options.seed)
        writing = writer.write(corpus, options.count, seed=options.seed, unanswerable=options.unanswerable)
        try:
            found = asyncio.run(writing)
        except BudgetReached as reached:
            reached.hint = "what is answered is kept: give the same command a higher --budget-usd"
            raise
        except ProviderDown as down:
            down.hint = f"what is answered is kept ({calls_text(writer.spent)}): give the same command later"
            raise
    return Written(f"model {model}", found, writer.spent, writer.settings)


def _llm(model: str, api_base: str | None, settings: Settings, **options: Any) -> LLM:
    """A model at that address, else at the one of the settings, with the key that may be sent there."""
    address = api_base or settings.api_base
    return LLM(model, api_base=address, api_key=api_key(model, address, settings), **options)


def api_key(model: str, api_base: str | None, settings: Settings) -> str | None:
    """``RAGASSAY_API_KEY`` where it may be sent; else None, and LiteLLM reads the provider's own variable.

    It belongs to ``RAGASSAY_API_BASE``, and where that is not set, to the address that the job names. Without any
    address it stands in for the missing key of a hosted provider; a server that LiteLLM looks for on this machine
    never gets it.
    """
    if not settings.api_key:
        return None
    if not api_base:
        return settings.api_key if language_models.missing_keys(model) else None
    return settings.api_key if api_base.rstrip("/") == (settings.api_base or api_base).rstrip("/") else None


class Wiring:
    """Makes what a session hands out: judges, embedding model, retrievers and answerers, as the settings say.

    ``functions``: systems under test that are functions of the caller's, by the system's name. ``threads``: how many
    cores the embedding model may use; default: all. ``spacing``: what keeps calls to a model apart; by default those of
    this object alone.
    """

    def __init__(
        self,
        settings: Settings,
        functions: Mapping[str, Function] | None = None,
        *,
        threads: int | None = None,
        spacing: Spacing | None = None,
    ) -> None:
        self._settings, self._functions, self._threads = settings, functions or {}, threads
        self._shared = Shared(spacing) if spacing else Shared()

    def tools(self, spec: JobSpec, ledger: Ledger) -> Tools:
        """Judge, prices and embedding model for a specification."""
        model, why_not = self._embedder
        return Tools(judge(spec, self._settings, model, self._shared), ledger, Prices(spec.prices), model, why_not)

    def retriever(self, source: Source, tools: Tools) -> Pipeline:
        """The retriever of a built-in system, its index made or taken from the cache.

        Raises NotFound and BadData on a corpus that can't be read, BadSettings on one that changed since ``source``.
        """
        built = _built(source)
        corpus = self._corpora.get(built.corpus)
        if corpus is None or corpus.digest != built.corpus_digest:  # it may have changed since another run
            corpus = self._corpora[built.corpus] = Corpus.read(Path(built.corpus))
        if corpus.digest != built.corpus_digest:
            raise BadSettings("the corpus changed since the run began", where=built.corpus, hint="start a new run")
        config = SystemConfig.model_validate(built.configuration)
        return build(config, corpus, cache=self._settings.home / "cache" / "indexes", embedder=tools.embedder)

    def live(self, name: str, source: Source, tools: Tools) -> LiveSystem:
        """The system that is called, with its calls in the tools' ledger; raises BadSettings where it can't be."""
        if source.called is None:
            raise BadSettings(f"{name} is not a live system")
        ledger, run = ScopedLedger(tools.ledger, name), source.called.run
        if name not in self._live or self._live[name][0] != source.called.configuration:
            config, asks = self._reached(name, source.called.configuration)
            self._live[name] = source.called.configuration, config, asks, Schedule(config)
        _, config, asks, schedule = self._live[name]
        return LiveSystem(name, config, asks, ledger, run=run, schedule=schedule)

    def _reached(self, name: str, given: Mapping[str, Any]) -> tuple[LiveOptions, Asks]:
        """How a system is asked, and what reaches it."""
        where = f"systems.{name}"
        if given.get("kind") == "http":
            http = HttpConfig.model_validate(given)
            return http, HttpAsks(http, where)
        if given.get("kind") != "python":
            registered = RegisteredConfig.model_validate(given)
            return registered, asks_of(registered, where)
        python = FunctionConfig.model_validate(given)
        return python, FunctionAsks(self._functions.get(name) or function_of(python, where))

    def built_in(self, name: str, source: Source, retriever: Pipeline, tools: Tools) -> BuiltIn:
        """The built-in system around its retriever, with the calls of its answerer in the tools' ledger."""
        config = SystemConfig.model_validate(_built(source).configuration)
        return BuiltIn(name, config, retriever, _answerer(name, config, self._settings, tools))

    @cached_property
    def _embedder(self) -> tuple[Embedder | None, str]:
        return embedder(self._settings, self._threads)

    @cached_property
    def _live(self) -> dict[str, tuple[Mapping[str, Any], LiveOptions, Asks, Schedule]]:
        """By name, what reaches a system; runs at the same time share it, and with it the cap on queries in flight."""
        return {}

    @cached_property
    def _corpora(self) -> dict[str, Corpus]:
        return {}


def _built(source: Source) -> Built:
    if source.built is None:
        raise BadSettings(f"{source.name} is not a built-in system")
    return source.built


def _answerer(name: str, config: SystemConfig, settings: Settings, tools: Tools) -> Answerer | None:
    if config.answer is None:
        return None
    if config.answer == "extractive":
        return Extractive()
    llm = _llm(
        config.answer.model,
        config.answer.api_base,
        settings,
        timeout_s=config.timeout_s,
        concurrency=config.in_flight,
        parameters=config.answer.parameters,
        prices=tools.prices,
    )
    return Generative(llm, ScopedLedger(tools.ledger, name), config.answer.max_tokens)


def jobs_for(settings: Settings, *, patient: bool = True) -> Jobs:
    """The use cases of the service. Opens no connection yet; to be made after a fork, not before.

    A process takes one core for its arithmetic: there are as many workers as cores.
    """
    from ragassay.service.jobs import Jobs
    from ragassay.service.notifier import Notifier
    from ragassay.service.queue import Queue
    from ragassay.service.redis import RedisStore
    from ragassay.service.redis_spacing import RedisSpacing
    from ragassay.service.registered import Registered
    from ragassay.service.retention import Retention

    for name in settings.plugin_names:
        import_plugin(name, "RAGASSAY_PLUGINS")
    registered = Registered.read(settings.systems)
    if patient:  # the API knows their names, and runs nothing
        registered.import_functions()
    retention = Retention.of_days(settings.keep_results_days, settings.keep_reports_days)
    store = RedisStore(settings.state, lease_s=settings.lease_s, patient=patient, retention=retention)
    queue = Queue(settings.broker)
    notifier = Notifier(store, allowed=settings.outgoing)
    return Jobs(store, queue, Wiring(settings, threads=1, spacing=RedisSpacing(store)), registered, notifier)


def schedules_for(settings: Settings, jobs: Jobs) -> Schedules:
    """The schedules over these jobs."""
    from ragassay.service.queue import Queue
    from ragassay.service.schedules import Schedules

    return Schedules(jobs, Queue(settings.broker), jobs.notifier, again_s=settings.lease_s)


def warm_up(settings: Settings) -> None:
    """Import the libraries behind judges and embeddings. Runs no model, so a worker may fork after it.

    LiteLLM takes seconds: by default it waits for the first job that needs it where nothing is set up for a model.
    """
    if settings.preload == "llm" or (settings.preload == "all" and settings.expects_models):
        language_models.warm_up()
    if settings.preload == "all" and unavailable(settings.embeddings) is None:
        embedding_models.warm_up(settings.embeddings)
