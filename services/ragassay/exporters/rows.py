"""A report as flat rows: one for each query and system, all with the same keys, for data frames and spreadsheets."""

from __future__ import annotations

from typing import Any

from ragassay.compare.attribution import attribute
from ragassay.documents import Report
from ragassay.metrics.base import OPERATIONAL
from ragassay.models import Result

_EVALUATION = ("calls", "input_tokens", "output_tokens", "cost_usd")


def flat_rows(report: Report) -> list[dict[str, Any]]:
    """A row for each result, system by system in the dataset's order; the keys are the same in all, in the same order.

    ``system``, ``query_id``, ``category``, ``difficulty``, ``query``, ``answer``, ``ground_truth_answer`` (several
    joined with `` | ``), ``responded``, ``error``; a number per metric under its name; ``cause`` and ``why`` of an
    answer that is not accurate; ``METRIC_reason`` for metrics that say, for at least one row, why a score is what it is
    or is missing; ``suspicious`` (labels of suspicious texts); what the answer took (ms, tokens, USD) and, with
    ``evaluation_`` before it, what judging it took; and the user's own fields as ``metadata.NAME``.
    What is missing is None.
    """
    results = [result for system in report.systems.values() for result in system.results]
    metrics = report.provenance.metrics
    explained = [name for name in metrics if any(result.scores[name].reason for result in results)]
    own = list(dict.fromkeys(key for result in results for key in result.metadata))
    return [_row(result, metrics, explained, own) for result in results]


def _row(result: Result, metrics: tuple[str, ...], explained: list[str], own: list[str]) -> dict[str, Any]:
    failure = attribute(result)
    return {
        **{name: getattr(result, name) for name in ("system", "query_id", "category", "difficulty", "query", "answer")},
        "ground_truth_answer": " | ".join(result.ground_truth_answer) or None,
        "responded": result.responded,
        "error": result.error,
        **{name: result.scores[name].value for name in metrics},
        "cause": failure and failure.cause,
        "why": failure and failure.why,
        **{f"{name}_reason": result.scores[name].reason for name in explained},
        "suspicious": " ".join(result.verdict.suspicious) or None if result.verdict else None,
        "model": result.model,
        **{name: getattr(result, name) for name in OPERATIONAL},
        **{f"evaluation_{name}": getattr(result.evaluation, name) for name in _EVALUATION},
        **{f"metadata.{name}": result.metadata.get(name) for name in own},
    }
