"""ragassay judges RAG systems - retrieval, answers, cost, latency - and says how far its own numbers can be trusted.

The names here are the public surface. Each is imported from its room at first use, so that ``import ragassay`` is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragassay.data.load import load, load_responses
    from ragassay.documents import Report
    from ragassay.embeddings import FakeEmbedder, LocalEmbedder
    from ragassay.engine import Plan, Tools, evaluate
    from ragassay.errors import AssayError
    from ragassay.judges.llm import LLMJudge
    from ragassay.judges.local import LocalJudge
    from ragassay.ledger import MemoryLedger
    from ragassay.llm import LLM, FakeLLM
    from ragassay.metrics import Chunk, metric, parse
    from ragassay.metrics.ranked import Ranked
    from ragassay.models import JobSpec, Response, Result, Sample, Score, Verdict
    from ragassay.trec.evaluation import RetrievalScores, evaluate_retrieval

_ROOMS = {
    "AssayError": "errors",
    "Chunk": "metrics",
    "FakeEmbedder": "embeddings",
    "FakeLLM": "llm",
    "JobSpec": "models",
    "LLM": "llm",
    "LLMJudge": "judges.llm",
    "LocalEmbedder": "embeddings",
    "LocalJudge": "judges.local",
    "MemoryLedger": "ledger",
    "Plan": "engine",
    "Ranked": "metrics.ranked",
    "Report": "documents",
    "Response": "models",
    "Result": "models",
    "RetrievalScores": "trec.evaluation",
    "Sample": "models",
    "Score": "models",
    "Tools": "engine",
    "Verdict": "models",
    "evaluate": "engine",
    "evaluate_retrieval": "trec.evaluation",
    "load": "data.load",
    "load_responses": "data.load",
    "metric": "metrics",
    "parse": "metrics",
}

__all__ = [
    "LLM",
    "AssayError",
    "Chunk",
    "FakeEmbedder",
    "FakeLLM",
    "JobSpec",
    "LLMJudge",
    "LocalEmbedder",
    "LocalJudge",
    "MemoryLedger",
    "Plan",
    "Ranked",
    "Report",
    "Response",
    "Result",
    "RetrievalScores",
    "Sample",
    "Score",
    "Tools",
    "Verdict",
    "evaluate",
    "evaluate_retrieval",
    "load",
    "load_responses",
    "metric",
    "parse",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'ragassay' has no attribute {name!r}")
    return getattr(import_module(f"ragassay.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
