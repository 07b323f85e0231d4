"""What an evaluation runs with, built from the settings: judges, prices, embedding model, systems under test."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ragassay import llm as language_models
from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import JudgeConfig, RunConfig
from ragassay.core.protocols import Embedder, Journal, Judge
from ragassay.core.report import Built, Source
from ragassay.core.settings import NEVER_SENT, Settings
from ragassay.datasets.corpus import Corpus
from ragassay.embeddings import LocalEmbedder, unavailable
from ragassay.evaluation.evaluate import ScoringConfig
from ragassay.judges.cross_encoder import CrossEncoderJudge
from ragassay.judges.custom import JUDGES, CustomJudge
from ragassay.judges.local import LocalJudge
from ragassay.judges.panel import Panel, Rater, check_judges
from ragassay.llm import LLM, LocalSpacing, Prices, RateLimit, ReplyForm, Spacing
from ragassay.llm.journal import CallScope
from ragassay.metrics.composite import custom_metrics
from ragassay.metrics.metric import Metric, parse
from ragassay.storage.protocol import RunRecord
from ragassay.systems.builtin import Answerer, BuiltIn, Extractive, Generative
from ragassay.systems.functions import (
    Function,
    FunctionClient,
    FunctionConfig,
    RegisteredConfig,
    function_of,
    make_client,
)
from ragassay.systems.http import HttpClient, HttpConfig
from ragassay.systems.options import SystemConfig
from ragassay.systems.retrieval import Retriever
from ragassay.systems.runner import LiveSystem, LoadController

if TYPE_CHECKING:
    from ragassay.judges.preference import PreferenceJudge

V = TypeVar("V")
_MAX_KEPT = 16  # of each kind: runs, indexes


def embedder(model: str | None, threads: int | None = None) -> tuple[Embedder | None, str]:
    """The embedding model, by default the bundled one; or None and why it can't be loaded."""
    missing = unavailable(model)
    return (None, missing) if missing else (LocalEmbedder(model, threads=threads), "")


@dataclass(frozen=True)
class Shared:
    """What the jobs of a process share about providers: rate limits, and the form of a model's replies."""

    spacing: Spacing = field(default_factory=LocalSpacing)
    forms: dict[tuple[str, str | None], ReplyForm] = field(default_factory=lambda: defaultdict(ReplyForm))
    """By model and address."""


def panel(spec: RunConfig, settings: Settings, shared: Shared | None = None) -> Panel:
    """All that judges in a run: the local judge, plug-ins' and models that LiteLLM can reach. Raises BadSettings.

    ``shared`` is what their requests share with those of other jobs.
    """
    check_judges(spec)
    _check_keys(spec, settings)
    each = max(1, spec.performance.concurrency // max(sum(one.calls_model for one in spec.judges), 1))
    make = partial(_draws, spec=spec, settings=settings, shared=shared or Shared(), concurrency=each)
    return Panel([Rater(make(one), one.role, one.on, spec.seed) for one in spec.judges])


def _check_keys(spec: RunConfig, settings: Settings) -> None:
    """Raise BadSettings where RAGASSAY_API_KEY would stand in for the missing keys of several providers."""
    if settings.api_key in (None, NEVER_SENT) or spec.api_base or settings.api_base:
        return
    models = [one.model for one in spec.judges if one.calls_model and one.model not in JUDGES]
    missing = {" ".join(language_models.missing_keys(model)): None for model in models}
    missing.pop("", None)
    if len(missing) > 1:
        what, hint = "RAGASSAY_API_KEY would be sent to several providers", f"give each its own: {', '.join(missing)}"
        raise BadSettings(what, where="judges", hint=hint)


def _draws(
    judge: JudgeConfig, *, spec: RunConfig, settings: Settings, shared: Shared, concurrency: int
) -> tuple[Judge, ...]:
    """A judge, as often as it rates each row; a model's draws differ in their seeds."""
    is_only_local = not judge.calls_model and not spec.references
    if spec.judge_mode != "verdict" and (is_only_local or judge.model in JUDGES):
        raise BadSettings(f"{judge.model} can't be asked so: {spec.judge_mode} is for models", where="judge_mode")
    if judge.model == "local":
        return (LocalJudge(),)
    if judge.cross_encoder:
        return (CrossEncoderJudge(judge.cross_encoder),)
    if judge.model in JUDGES:
        custom, timeout_s = JUDGES.get(judge.model), spec.performance.timeout_s
        return (CustomJudge(custom, criteria=spec.criteria, at_once=concurrency, timeout_s=timeout_s),) * judge.samples
    from ragassay.judges.llm import LLMJudge
    from ragassay.judges.yes_no import YesNoJudge

    llm = _model(judge.model, spec, settings, shared, concurrency)
    if spec.judge_mode == "verdict":
        options: dict[str, Any] = {"prompt": spec.judge_prompt, "max_tokens": spec.parameters.max_tokens}
        return tuple(LLMJudge(llm, criteria=spec.criteria, seed_shift=n, **options) for n in range(judge.samples))
    if spec.judge_prompt is not None:
        raise BadSettings("probes have their own questions: leave judge_prompt out", where="judge_mode")
    return tuple(YesNoJudge(llm, criteria=spec.criteria, seed_shift=n) for n in range(judge.samples))


def _model(model: str, spec: RunConfig, settings: Settings, shared: Shared, concurrency: int) -> LLM:
    performance = spec.performance
    requests = performance.requests_per_minute or settings.requests_per_minute
    tokens = performance.tokens_per_minute or settings.tokens_per_minute
    return llm_of(
        model,
        spec.api_base,
        settings,
        timeout_s=performance.timeout_s,
        attempts=performance.attempts,
        concurrency=concurrency,
        limit=RateLimit(requests, tokens, shared.spacing),
        reply_form=shared.forms[model, spec.api_base or settings.api_base],
        seed=spec.seed,
        parameters=spec.parameters.model_dump(exclude={"max_tokens"}, exclude_defaults=True),
        prices=Prices(spec.prices),
    )


def preference_judge(spec: RunConfig, settings: Settings) -> PreferenceJudge:
    """The one model that compares answers; raises BadSettings unless LiteLLM reaches it."""
    from ragassay.judges.preference import PreferenceJudge

    (judge, *others) = spec.judges
    if others or not judge.calls_model or judge.model in JUDGES:
        raise BadSettings(f"{spec.judged_by} can't compare two answers", where="judges", hint="name one model")
    llm = _model(judge.model, spec, settings, Shared(), spec.performance.concurrency)
    return PreferenceJudge(llm, history_tokens=spec.history_tokens)


def llm_of(model: str, api_base: str | None, settings: Settings, **options: Any) -> LLM:
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


class Runtime:
    """Judges, prices, embedding model and systems under test, built from the settings once in a process and kept.

    ``functions``: systems under test that are functions of the caller's, by the system's name. ``threads``: how many
    cores the embedding model may use; default: all. ``spacing``: the rate limits of models; default: this object's own.
    """

    def __init__(
        self,
        settings: Settings,
        functions: Mapping[str, Function] | None = None,
        *,
        threads: int | None = None,
        spacing: Spacing | None = None,
    ) -> None:
        self.settings, self._functions = settings, functions or {}
        self._shared = Shared(spacing) if spacing else Shared()
        self._embedder = cache(lambda model: embedder(model, threads))
        self._scoring: OrderedDict[str, ScoringConfig] = OrderedDict()
        self._retrievers: OrderedDict[str, Retriever] = OrderedDict()
        self._live: OrderedDict[str, LoadController] = OrderedDict()  # runs at the same time share its limits
        self._corpora: dict[str, Corpus] = {}

    def scoring_of(self, record: RunRecord) -> ScoringConfig:
        """What judges and scores a run: made once, so that its judges learn from this run's calls alone."""
        custom = custom_metrics(record.spec)
        return _kept(
            self._scoring,
            record.id,
            lambda: self.scoring(record.spec, [parse(name, custom) for name in record.metrics]),
        )

    def scoring(self, spec: RunConfig, metrics: Sequence[Metric] = ()) -> ScoringConfig:
        """What judges and scores by a specification; raises BadSettings."""
        model, why_not = self._embedder(spec.embeddings or self.settings.embeddings)
        return ScoringConfig(spec, tuple(metrics), panel(spec, self.settings, self._shared), model, why_not)

    def systems(
        self, sources: Mapping[str, Source], config: ScoringConfig, journal: Journal
    ) -> dict[str, BuiltIn | LiveSystem]:
        """The systems among these that answer now. ``journal``: of the calls of the models of built-in ones.

        Raises NotFound and BadData on a corpus that can't be read, BadSettings on one that changed since ``sources``.
        """
        live: dict[str, BuiltIn | LiveSystem] = {}
        for name, source in sources.items():
            if source.built is not None:
                system = SystemConfig.model_validate(source.built.configuration)
                build = partial(self._retriever, source.built, system, config.embedder)
                retriever = _kept(self._retrievers, source.digest, build)
                scope = CallScope(journal, name)
                live[name] = BuiltIn(name, system, retriever, answerer(system, self.settings, config.prices, scope))
            elif source.called is not None:
                reach = partial(self._reached, name, source.called.configuration)
                live[name] = LiveSystem(name, _kept(self._live, f"{name} {source.digest}", reach))
        return live

    def _retriever(self, built: Built, system: SystemConfig, embedder: Embedder | None) -> Retriever:
        """The retriever of a built-in system, its index built or taken from the cache."""
        corpus = self._corpora.get(built.corpus)
        if corpus is None or corpus.digest != built.corpus_digest:  # it may have changed since another run
            corpus = self._corpora[built.corpus] = Corpus.read(Path(built.corpus))
        if corpus.digest != built.corpus_digest:
            raise BadSettings("the corpus changed since the run began", where=built.corpus, hint="start a new run")
        return Retriever(system, corpus, cache=self.settings.home / "cache" / "indexes", embedder=embedder)

    def _reached(self, name: str, configuration: Mapping[str, Any]) -> LoadController:
        where, kind = f"systems.{name}", configuration.get("kind")
        if kind == "http":
            http = HttpConfig.model_validate(configuration)
            return LoadController(http, HttpClient(http, where))
        if kind == "python":
            python = FunctionConfig.model_validate(configuration)
            function = self._functions.get(name) or function_of(python, where)
            return LoadController(python, FunctionClient(function))
        registered = RegisteredConfig.model_validate(configuration)
        return LoadController(registered, make_client(registered, where))


def _kept(kept: OrderedDict[str, V], key: str, make: Callable[[], V]) -> V:
    thing = kept[key] = kept.pop(key) if key in kept else make()
    if len(kept) > _MAX_KEPT:
        kept.popitem(last=False)
    return thing


def answerer(config: SystemConfig, settings: Settings, prices: Prices, journal: Journal) -> Answerer | None:
    """What makes answers of the passages that a built-in system retrieved; None where it only retrieves."""
    if config.answer is None:
        return None
    if config.answer == "extractive":
        return Extractive()
    llm = llm_of(
        config.answer.model,
        config.answer.api_base,
        settings,
        timeout_s=config.timeout_s,
        concurrency=config.concurrency,
        parameters=config.answer.parameters,
        prices=prices,
    )
    return Generative(llm, journal, config.answer.max_tokens)
