"""Settings -> real things plugged in; the only such place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragassay.embeddings import LocalEmbedder, available
from ragassay.engine import Tools
from ragassay.judges.local import LocalJudge
from ragassay.llm import LLM
from ragassay.models import Embedder, JobSpec, Judge, Ledger
from ragassay.prices import Prices
from ragassay.settings import Settings
from ragassay.store.ledger import CallCache, FolderLedger


def embedder(settings: Settings) -> tuple[Embedder | None, str]:
    """The embedding model, or None and why there is none."""
    missing = available(settings.embeddings)
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
    embeddings, why_not = embedder(settings)
    return Tools(judge(spec, settings, embeddings), ledger, Prices(spec.prices), embeddings, why_not)


@contextmanager
def folder_ledger(run_folder: Path, settings: Settings, *, use_cache: bool) -> Iterator[FolderLedger]:
    """The ledger of a run in a folder, with the cache of earlier runs' calls where it is wanted."""
    cache = CallCache(settings.home / "cache" / "calls.sqlite") if use_cache else None
    ledger = FolderLedger(run_folder / "calls.jsonl", run=run_folder.name, cache=cache)
    try:
        yield ledger
    finally:
        ledger.close()
        if cache:
            cache.close()
