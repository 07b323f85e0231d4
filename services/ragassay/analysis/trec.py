"""Judgments and a run, from TREC files or as plain dicts, to the values of retrieval metrics."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

import ragassay.metrics.retrieval  # noqa: F401 - registers its metrics: finding one imports no others
from ragassay.core.errors import BadInput, BadSettings, NothingToEvaluate
from ragassay.core.grades import LARGEST_GRADE, SMALLEST
from ragassay.datasets.trec import Retrieved
from ragassay.metrics.metric import Metric, parse
from ragassay.metrics.ranked import Array, Ranked

BLOCK = 1000  # queries whose padded gains are in memory at once
DEFAULTS = ("ndcg@10", "map", "mrr", "precision@10", "recall@10")
CELLS = 1 << 17  # of a table of queries by ranks, so that a block's tables fit into a core's cache


@dataclass(frozen=True)
class RetrievalScores:
    """``means`` by metric over the judged queries; ``per_query`` by query and metric. None is undefined, never 0.

    ``unjudged`` counts queries of the run that have no judgments and are left out, ``missing_from_run`` judged ones that
    the run lacks, which score 0, ``without_relevant`` those where nothing is relevant and ``without_hit`` those where
    nothing relevant was retrieved.
    """

    means: dict[str, float | None]
    per_query: dict[str, dict[str, float | None]] = field(repr=False)
    unjudged: int
    missing_from_run: int
    without_relevant: int
    without_hit: int


def retrieval(
    qrels: Mapping[str, Mapping[str, float] | Iterable[str]],
    run: Mapping[str, Mapping[str, float] | Sequence[str]],
    metrics: str | Iterable[str] | None = None,
    *,
    relevant_from: float | None = None,
    max_grade: float = 3.0,
) -> RetrievalScores:
    """Score ranked documents by judgments, as trec_eval does.

    qrels: {query: {document: grade}}, or {query: [documents]} of relevant ones, in a list or a set.
    run: {query: [documents, best first]} or {query: {document: score}}; equal scores are ordered by document id,
    descending, as in trec_eval, and compared as float64.
    metrics: such as ["ndcg@10", "mrr"]; default: ndcg@10, map, mrr, precision@10 and recall@10. A document is relevant
    when its grade is above 0, or at least ``relevant_from``; ``max_grade`` is the greatest grade there is, for err.
    Raises UnknownName or BadSettings for a metric that is not one of ids and grades, NothingToEvaluate without
    judgments, and BadInput for a score that is not a finite number, a grade beyond 1,000, and a document that a list holds
    twice.
    """
    names = [metrics] if isinstance(metrics, str) else DEFAULTS if metrics is None else metrics
    for name, grade in (("relevant_from", relevant_from), ("max_grade", max_grade)):
        if grade is not None and not SMALLEST <= grade <= LARGEST_GRADE:
            raise BadSettings(f"{name} is {grade!r}", hint=f"it must be above 0, and at most {LARGEST_GRADE:,}")
    for name, argument in (("qrels", qrels), ("run", run)):
        if not isinstance(argument, Mapping):
            hint = "ragassay trec reads TREC files; ragassay.evaluate takes data frames and rows with retrieved_doc_ids"
            raise BadInput(f"should be a dict by query, is {type(argument).__name__}", where=name, hint=hint)
    graded = {query: _grades(query, judged) for query, judged in qrels.items()}
    by_name = {metric.name: metric for metric in map(retrieval_metric, names)}
    if not graded:
        raise NothingToEvaluate("no query is judged")
    values: dict[str, list[Array]] = {name: [] for name in by_name}
    without_relevant = without_hit = 0
    left = iter(graded)
    while block := list(islice(left, BLOCK)):
        for query in block:
            _numbers(graded[query], f"grades of query {query!r}", LARGEST_GRADE)
        batch = Ranked.build(
            [_order(query, run.get(query, ())) for query in block],
            [graded[query] for query in block],
            relevant_from=relevant_from,
            max_grade=max_grade,
        )
        for name, metric in by_name.items():
            values[name].append(metric.values(batch))
        without_relevant += int((batch.relevant_count == 0).sum())
        without_hit += int(((batch.relevant_count > 0) & (batch.first == 0)).sum())
    columns = {name: np.concatenate(parts) for name, parts in values.items()}
    scores = {
        name: [None if math.isnan(value) else value for value in column.tolist()] for name, column in columns.items()
    }
    return RetrievalScores(
        means={name: mean(column) for name, column in columns.items()},
        per_query={query: {name: row[n] for name, row in scores.items()} for n, query in enumerate(graded)},
        unjudged=sum(query not in graded for query in run),
        missing_from_run=sum(query not in run for query in graded),
        without_relevant=without_relevant,
        without_hit=without_hit,
    )


def evaluate_run(retrieved: Retrieved, metrics: Mapping[str, Metric]) -> dict[str, Array]:
    """For each metric its value for each judged query, NaN where it is undefined."""
    cuts = [int(m.argument) for m in metrics.values() if m.param == "k" and m.argument is not None]
    depth = max(cuts) if len(cuts) == len(metrics) else None  # metrics with a cutoff look no further
    widest = max(int(retrieved.lengths.max(initial=1)), 1)
    widest = max(widest if depth is None else min(depth, widest), int(np.diff(retrieved.offsets).max()))
    step = max(CELLS // widest, 1)
    values: dict[str, Array] = {name: np.empty(len(retrieved.lengths)) for name in metrics}
    for begin in range(0, len(retrieved.lengths), step):
        end = min(begin + step, len(retrieved.lengths))
        batch = Ranked.of_grades(*retrieved.tables(begin, end, depth))
        for name, metric in metrics.items():
            values[name][begin:end] = metric.values(batch)
    return values


def mean(values: Array) -> float | None:
    """Mean over the queries where a metric is defined; None when there is none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else None


def retrieval_metric(name: str) -> Metric:
    """The metric of that name; raises UnknownName, and BadSettings for one that needs more than ids and grades."""
    metric = parse(name)
    if metric.input_type != "Ranked":
        raise BadSettings(
            f"metric {name!r} needs more than ids and grades", hint="evaluate samples instead: ragassay evaluate --help"
        )
    return metric


def _grades(query: str, judged: Mapping[str, float] | Iterable[str]) -> Mapping[str, float]:
    """The grade of each judged document; 1 where only the relevant ones are named."""
    if isinstance(judged, Mapping):
        return judged
    if isinstance(judged, str) or not isinstance(judged, Iterable):
        what = "should be {document: grade}, or a list or set of relevant documents"
        raise BadInput(f"{what}, is {judged!r}", where=f"qrels of query {query!r}")
    return dict.fromkeys(judged, 1.0)


def _order(query: str, ranking: Mapping[str, float] | Sequence[str]) -> Sequence[str]:
    """Ids, best first."""
    if isinstance(ranking, Mapping):
        scores = _numbers(ranking, f"scores of query {query!r}")
        order = np.argsort(-scores, kind="stable")
        ids, ranked = list(ranking), scores[order]
        if (ranked[1:] == ranked[:-1]).any():
            return [document for _, document in sorted(zip(scores.tolist(), ids, strict=True), reverse=True)]
        return [ids[n] for n in order.tolist()]
    if isinstance(ranking, str) or not isinstance(ranking, Sequence) or len(set(ranking)) < len(ranking):
        raise BadInput("should be a list that names each document once, best first", where=f"run of query {query!r}")
    return ranking


def _numbers(of_documents: Mapping[str, float], where: str, largest: float = math.inf) -> Array:
    """The numbers of documents; raises BadInput for one that is not finite, or beyond the ``largest``."""
    try:
        numbers = np.array(array("d", of_documents.values()))
    except (TypeError, OverflowError):
        numbers = np.array([_float(number) for number in of_documents.values()])
    fits = np.isfinite(numbers) & (np.abs(numbers) <= largest)
    if not fits.all():
        document = list(of_documents)[int(fits.argmin())]
        number = "finite number" if largest == math.inf else f"number from -{largest:g} to {largest:g}"
        what = f"document {document!r} has {of_documents[document]!r}, which is no {number}"
        raise BadInput(what, where=where)
    return numbers


def _float(number: float) -> float:
    """As float64; NaN for what is no number, and for a whole number that is too large."""
    try:
        return array("d", (number,))[0]
    except (TypeError, OverflowError):
        return math.nan
