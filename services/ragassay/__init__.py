"""Evaluates RAG systems: retrieval, answers, cost, latency - and how far each of its own numbers can be trusted.

    report = ragassay.evaluate(rows)           rows: dicts, a data frame, a Hugging Face Dataset, a path
    print(report); report.rows; report.worst(3); report.metrics["faithfulness"].value
    print(ragassay.compare(report, ragassay.evaluate(new_rows)))
    ragassay.gate(rows, gates=[{"mrr": ">= 0.7"}]).passed
    ragassay.evaluate(systems={...}, datasets={...}, baseline="v1"); ragassay.retrieval(qrels, run).means

Functions are below; classes have a help of their own: Report, Comparison, Benchmark, RetrievalScores, Gates, Costs; Client;
Datasets, Dataset, Sample, Response, Result, Score, Verdict; Chunk, Ranked, Units; LocalJudge, LLMJudge; AssayError.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragassay.analysis.trec import RetrievalScores as RetrievalScores
    from ragassay.analysis.trec import retrieval
    from ragassay.client import Client as Client
    from ragassay.core.errors import AssayError as AssayError
    from ragassay.core.models import Response as Response
    from ragassay.core.models import Result as Result
    from ragassay.core.models import Sample as Sample
    from ragassay.core.models import Score as Score
    from ragassay.core.models import Verdict as Verdict
    from ragassay.datasets.dataset import Dataset as Dataset
    from ragassay.datasets.load import load
    from ragassay.judges.custom import judge
    from ragassay.judges.llm import LLMJudge as LLMJudge
    from ragassay.judges.local import LocalJudge as LocalJudge
    from ragassay.judges.verdict import Units as Units
    from ragassay.metrics.chunk import Chunk as Chunk
    from ragassay.metrics.metric import metric, parse
    from ragassay.metrics.ranked import Ranked as Ranked
    from ragassay.reporting.files import exporter
    from ragassay.reporting.objects import Comparison as Comparison
    from ragassay.reporting.objects import Costs as Costs
    from ragassay.reporting.objects import Gates as Gates
    from ragassay.reporting.objects import Report as Report
    from ragassay.sdk.benchmark import Benchmark as Benchmark
    from ragassay.sdk.compare import compare
    from ragassay.sdk.datasets import Datasets as Datasets
    from ragassay.sdk.evaluate import aevaluate, evaluate
    from ragassay.sdk.gate import gate
    from ragassay.sdk.references import open_report
    from ragassay.systems.functions import system

_NAMES = {
    "analysis.trec": "RetrievalScores retrieval",
    "client": "Client",
    "core.errors": "AssayError",
    "core.models": "Response Result Sample Score Verdict",
    "datasets.dataset": "Dataset",
    "datasets.load": "load",
    "judges.custom": "judge",
    "judges.llm": "LLMJudge",
    "judges.local": "LocalJudge",
    "judges.verdict": "Units",
    "metrics.chunk": "Chunk",
    "metrics.metric": "metric parse",
    "metrics.ranked": "Ranked",
    "reporting.files": "exporter",
    "reporting.objects": "Comparison Costs Gates Report",
    "sdk.benchmark": "Benchmark",
    "sdk.compare": "compare",
    "sdk.datasets": "Datasets",
    "sdk.evaluate": "aevaluate evaluate",
    "sdk.gate": "gate",
    "sdk.references": "open_report",
    "systems.functions": "system",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}
"""Each public name and the module that it is imported from at first use, so that ``import ragassay`` is light."""

# What help(ragassay) describes; the help of every class would be a thousand lines.
__all__ = [
    "aevaluate",
    "compare",
    "evaluate",
    "exporter",
    "gate",
    "judge",
    "load",
    "metric",
    "open_report",
    "parse",
    "retrieval",
    "system",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'ragassay' has no attribute {name!r}")
    return getattr(import_module(f"ragassay.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_WHERE)
