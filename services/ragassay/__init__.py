"""Evaluates RAG systems: retrieval, answers, cost, latency - and how far each of its own numbers can be trusted.

    report = ragassay.evaluate(rows)           rows: dicts, a data frame, a Hugging Face Dataset, a path
    print(report); report.rows; report.worst(3); report.metrics["faithfulness"].mean
    print(ragassay.compare(report, ragassay.evaluate(new_rows)))
    ragassay.run(systems={...}, datasets={...}, baseline="v1"); ragassay.retrieval(qrels, run).means

Functions are below; classes have a help of their own: Report, Comparison, Benchmark, RetrievalScores, Costs; Client;
Datasets, Dataset, Sample, Response, Result, Score, Verdict; Chunk, Ranked, Units; LocalJudge, LLMJudge; AssayError.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragassay.data.dataset import Dataset as Dataset
    from ragassay.data.load import load
    from ragassay.errors import AssayError as AssayError
    from ragassay.exporters import exporter
    from ragassay.judges.llm import LLMJudge as LLMJudge
    from ragassay.judges.local import LocalJudge as LocalJudge
    from ragassay.judges.registered import judge
    from ragassay.judges.verdict import Units as Units
    from ragassay.metrics import Chunk as Chunk
    from ragassay.metrics import metric, parse
    from ragassay.metrics.ranked import Ranked as Ranked
    from ragassay.models import Response as Response
    from ragassay.models import Result as Result
    from ragassay.models import Sample as Sample
    from ragassay.models import Score as Score
    from ragassay.models import Verdict as Verdict
    from ragassay.python.benchmark import BenchmarkReport, arun, run
    from ragassay.python.client import Client as Client
    from ragassay.python.comparing import ComparisonReport, compare
    from ragassay.python.costs import Costs as Costs
    from ragassay.python.datasets import Datasets as Datasets
    from ragassay.python.evaluation import aevaluate, evaluate
    from ragassay.python.report import EvaluationReport
    from ragassay.strategies.registered import strategy
    from ragassay.trec import RetrievalScores as RetrievalScores
    from ragassay.trec import retrieval

    Benchmark, Comparison, Report = BenchmarkReport, ComparisonReport, EvaluationReport

_WHERE = {
    "AssayError": "errors",
    "Benchmark": "python.benchmark:BenchmarkReport",
    "Chunk": "metrics",
    "Client": "python.client",
    "Comparison": "python.comparing:ComparisonReport",
    "Costs": "python.costs",
    "Dataset": "data.dataset",
    "Datasets": "python.datasets",
    "LLMJudge": "judges.llm",
    "LocalJudge": "judges.local",
    "Ranked": "metrics.ranked",
    "Report": "python.report:EvaluationReport",
    "Response": "models",
    "Result": "models",
    "RetrievalScores": "trec",
    "Sample": "models",
    "Score": "models",
    "Units": "judges.verdict",
    "Verdict": "models",
    "aevaluate": "python.evaluation",
    "arun": "python.benchmark",
    "compare": "python.comparing",
    "evaluate": "python.evaluation",
    "exporter": "exporters",
    "judge": "judges.registered",
    "load": "data.load",
    "metric": "metrics",
    "parse": "metrics",
    "retrieval": "trec",
    "run": "python.benchmark",
    "strategy": "strategies.registered",
}
"""Each public name and the module that it is imported from at first use, so that ``import ragassay`` is light."""

# What help(ragassay) describes; the help of every class would be a thousand lines.
__all__ = [
    "aevaluate",
    "arun",
    "compare",
    "evaluate",
    "exporter",
    "judge",
    "load",
    "metric",
    "parse",
    "retrieval",
    "run",
    "strategy",
]


class _Package(ModuleType):
    """The import of the room ``compare`` would put it where the function of that name is."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "compare" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'ragassay' has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    return getattr(import_module(f"ragassay.{module}"), attribute or name)


def __dir__() -> list[str]:
    return sorted(_WHERE)
