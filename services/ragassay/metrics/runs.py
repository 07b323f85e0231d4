"""Judgments and a run as plain dicts, scored in one call: for notebooks, and for users of other retrieval libraries."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ragassay.errors import BadInput, BadSettings, NothingToEvaluate
from ragassay.metrics.base import Metric, parse
from ragassay.metrics.ranked import Array, Ranked

BLOCK = 1000  # queries whose padded gains are in memory at once


@dataclass(frozen=True)
class RetrievalScores:
    """``means`` by metric over the judged queries; ``per_query`` by query and metric. None is undefined, never 0.

    ``unjudged`` counts queries of the run that have no judgments and are left out, ``missing_from_run`` judged ones that
    the run lacks, which score 0, ``without_relevant`` those where nothing is relevant and ``without_hit`` those where
    nothing relevant was retrieved.
    """

    means: dict[str, float | None]
    per_query: dict[str, dict[str, float | None]]
    unjudged: int
    missing_from_run: int
    without_relevant: int
    without_hit: int


def evaluate_retrieval(
    qrels: Mapping[str, Mapping[str, float]],
    run: Mapping[str, Mapping[str, float] | Sequence[str]],
    metrics: Iterable[str] = ("ndcg@10", "map", "mrr", "precision@10", "recall@10"),
    *,
    relevant_from: float | None = None,
    max_grade: float = 3.0,
) -> RetrievalScores:
    """Score a run, {query: {document: score}} or {query: [documents, best first]}, by {query: {document: grade}}.

    Equal scores are ordered by document id ascending. Raises UnknownName or BadSettings for a metric that is not one of
    ids and grades, NothingToEvaluate without judgments, and BadInput for a score or grade that is not a finite number
    and for a document that a list holds twice.
    """
    asked = {metric.name: metric for metric in map(_of_ids, metrics)}
    if not qrels:
        raise NothingToEvaluate("no query is judged")
    per_query: dict[str, dict[str, float | None]] = {}
    without_relevant = without_hit = 0
    left = iter(qrels)
    while block := list(islice(left, BLOCK)):
        for query in block:
            _numbers(qrels[query], f"grades of query {query!r}")
        ranked = Ranked.build(
            [_order(query, run.get(query, ())) for query in block],
            [qrels[query] for query in block],
            relevant_from=relevant_from,
            max_grade=max_grade,
        )
        columns = [metric.function(ranked, **metric.arguments).tolist() for metric in asked.values()]
        for query, *values in zip(block, *columns, strict=True):
            per_query[query] = {
                name: value if math.isfinite(value) else None for name, value in zip(asked, values, strict=True)
            }
        without_relevant += int((ranked.relevant_count == 0).sum())
        without_hit += int(((ranked.relevant_count > 0) & (ranked.first == 0)).sum())
    return RetrievalScores(
        means={name: _mean([row[name] for row in per_query.values()]) for name in asked},
        per_query=per_query,
        unjudged=sum(query not in qrels for query in run),
        missing_from_run=sum(query not in run for query in qrels),
        without_relevant=without_relevant,
        without_hit=without_hit,
    )


def _of_ids(name: str) -> Metric:
    found = parse(name)
    if found.sees != "Ranked":
        raise BadSettings(f"metric {name!r} needs more than ids and grades", hint="evaluate samples instead")
    return found


def _order(query: str, given: Mapping[str, float] | Sequence[str]) -> Sequence[str]:
    """Ids, best first."""
    if isinstance(given, Mapping):
        behind = -_numbers(given, f"scores of query {query!r}")
        order = np.argsort(behind, kind="stable")
        ids = list(given)
        if (np.diff(behind[order]) == 0).any():
            return [doc for _, doc in sorted(zip(behind.tolist(), ids, strict=True))]
        return [ids[n] for n in order.tolist()]
    if isinstance(given, str) or len(set(given)) < len(given):
        raise BadInput("should be a list that names each document once", where=f"run of query {query!r}")
    return given


def _numbers(given: Mapping[str, float], where: str) -> Array:
    try:
        numbers = np.array(array("d", given.values()))
    except TypeError:
        numbers = np.array([number if isinstance(number, int | float) else math.nan for number in given.values()])
    finite = np.isfinite(numbers)
    if not finite.all():
        doc = list(given)[int(finite.argmin())]
        raise BadInput(f"document {doc!r} has {given[doc]!r}, which is no finite number", where=where)
    return numbers


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
