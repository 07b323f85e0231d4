"""Retrieval metrics: how many of the relevant documents came, and how far up. Definitions as in trec_eval."""

from __future__ import annotations

import numpy as np

from ragassay.metrics.base import metric
from ragassay.metrics.ranked import Array, Ranked


@metric(better="higher", needs="judgments")
def precision(batch: Ranked, k: int) -> Array:
    """Share of the first k ranks that hold a relevant document; ranks beyond the list count as misses."""
    return batch.hits(k) / k


@metric(better="higher", needs="judgments")
def precision_retrieved(batch: Ranked, k: int) -> Array:
    """Share of the documents among the first k that are relevant; ranks beyond the list don't count."""
    return batch.hits(k) / np.maximum(np.minimum(k, batch.lengths), 1)


@metric(better="higher", needs="judgments")
def recall(batch: Ranked, k: int) -> Array:
    """Share of the relevant documents found among the first k; 0 where nothing is relevant."""
    return batch.hits(k) / np.maximum(batch.relevant_count, 1)


@metric(better="higher", needs="judgments")
def f1(batch: Ranked, k: int) -> Array:
    """Harmonic mean of precision@k and recall@k; 0 where both are 0."""
    return _ratio(2 * batch.hits(k), k + batch.relevant_count)


@metric(better="higher", needs="judgments", share=True)
def hit(batch: Ranked, k: int) -> Array:
    """1 where a relevant document is among the first k, else 0."""
    return (batch.hits(k) > 0).astype(np.float64)


@metric(better="higher", needs="judgments")
def mrr(batch: Ranked, k: int | None = None) -> Array:
    """Reciprocal rank of the first relevant document (within k); 0 where there is none. Its mean is the MRR."""
    first = batch.first.astype(np.float64)
    within = first > 0 if k is None else (first > 0) & (first <= k)
    return np.where(within, 1 / np.maximum(first, 1), 0.0)


@metric(better="higher", needs="judgments")
def ndcg(batch: Ranked, k: int) -> Array:
    """Discounted cumulative gain of the first k over that of the ideal order; gain = grade (as trec_eval)."""
    return _ratio(batch.dcg(k), batch.ideal_dcg(k))


@metric(better="higher", needs="judgments")
def ndcg_exp(batch: Ranked, k: int) -> Array:
    """As ndcg, with gain 2^grade - 1, which rewards the best documents more (Burges et al., 2005)."""
    return _ratio(batch.dcg(k, exponential=True), batch.ideal_dcg(k, exponential=True))


@metric(better="higher", needs="judgments", name="map")
def average_precision(batch: Ranked, k: int | None = None) -> Array:
    """Average precision (within k): precision at each relevant rank, summed, over all relevant documents."""
    return _ratio(_precisions(batch, k), batch.relevant_count)


@metric(better="higher", needs="judgments", name="map_min")
def average_precision_reachable(batch: Ranked, k: int) -> Array:
    """As map@k, divided by the number of relevant documents that fit into k."""
    return _ratio(_precisions(batch, k), np.minimum(batch.relevant_count, k))


@metric(better="higher", needs="judgments")
def r_precision(batch: Ranked) -> Array:
    """Precision at the rank that equals the number of relevant documents."""
    ranks = np.arange(1, batch.gains.shape[1] + 1)
    hits = (batch.relevant & (ranks <= batch.relevant_count[:, None])).sum(axis=1)
    return _ratio(hits.astype(np.float64), batch.relevant_count)


@metric(better="higher", needs="judgments")
def err(batch: Ranked, k: int) -> Array:
    """Expected reciprocal rank of a user who stops with probability (2^g - 1) / 2^max (Chapelle et al., 2009)."""
    grades = np.minimum(batch.gains[:, :k], batch.max_grade)
    stops = (np.exp2(grades) - 1) / np.exp2(batch.max_grade)
    goes_on = np.cumprod(1 - stops, axis=1)
    reaches = np.concatenate([np.ones((len(stops), 1)), goes_on[:, :-1]], axis=1)[:, : stops.shape[1]]
    expected: Array = (reaches * stops) @ (1 / np.arange(1, stops.shape[1] + 1))
    return expected


@metric(better="higher", needs="judgments")
def rbp(batch: Ranked, p: float) -> Array:
    """Rank-biased precision of a user who goes on with probability p; binary relevance (Moffat and Zobel, 2008)."""
    weights = p ** np.arange(batch.gains.shape[1])
    total: Array = (1 - p) * (batch.relevant @ weights)
    return total


def _precisions(batch: Ranked, k: int | None) -> Array:
    """Sum of the precision at each relevant rank (within k)."""
    found, relevant = batch.found[:, :k], batch.relevant[:, :k]
    total: Array = (found * relevant) @ (1 / np.arange(1, found.shape[1] + 1))
    return total


def _ratio(part: Array, whole: Array) -> Array:
    """part / whole; 0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
