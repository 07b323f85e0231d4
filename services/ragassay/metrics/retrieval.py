"""Retrieval metrics: how many of the relevant documents came, and how far up. Definitions as in trec_eval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ragassay.core.errors import BadSettings
from ragassay.metrics.metric import UNIT, metric
from ragassay.metrics.ranked import Array, Ranked


@metric(better="higher", needs="judgments", bounds=UNIT)
def precision(batch: Ranked, k: int) -> Array:
    """Share of the first k ranks that hold a relevant document; ranks beyond the list count as misses."""
    return batch.hits(k) / k


@metric(better="higher", needs="judgments", bounds=UNIT)
def precision_retrieved(batch: Ranked, k: int) -> Array:
    """Share of the documents among the first k that are relevant; ranks beyond the list don't count."""
    return batch.hits(k) / np.maximum(np.minimum(k, batch.lengths), 1)


@metric(better="higher", needs="judgments", bounds=UNIT)
def recall(batch: Ranked, k: int) -> Array:
    """Share of the relevant documents found among the first k; 0 where nothing is relevant."""
    return batch.hits(k) / np.maximum(batch.relevant_count, 1)


@metric(better="higher", needs="judgments", bounds=UNIT)
def f1(batch: Ranked, k: int) -> Array:
    """Harmonic mean of precision@k and recall@k; 0 where both are 0."""
    return _ratio(2 * batch.hits(k), k + batch.relevant_count)


@metric(better="higher", needs="judgments", binary=True)
def hit(batch: Ranked, k: int) -> Array:
    """1 where a relevant document is among the first k, else 0."""
    return (batch.hits(k) > 0).astype(np.float64)


@metric(better="higher", needs="judgments", bounds=UNIT)
def mrr(batch: Ranked, k: int | None = None) -> Array:
    """Reciprocal rank of the first relevant document (within k); 0 where there is none. Its mean is the MRR."""
    first = batch.first.astype(np.float64)
    within = first > 0 if k is None else (first > 0) & (first <= k)
    return np.where(within, 1 / np.maximum(first, 1), 0.0)


@metric(better="higher", needs="judgments", bounds=UNIT)
def ndcg(batch: Ranked, k: int) -> Array:
    """Discounted cumulative gain of the first k over that of the ideal order; gain = grade (as trec_eval)."""
    return _ratio(batch.dcg(k), batch.ideal_dcg(k))


@metric(better="higher", needs="judgments", bounds=UNIT)
def ndcg_exp(batch: Ranked, k: int) -> Array:
    """As ndcg, with gain 2^grade - 1, which rewards the best documents more (Burges et al., 2005)."""
    return _ratio(batch.dcg(k, exponential=True), batch.ideal_dcg(k, exponential=True))


@metric(better="higher", needs="judgments", name="map", bounds=UNIT)
def average_precision(batch: Ranked, k: int | None = None) -> Array:
    """Average precision (within k): precision at each relevant rank, summed, over all relevant documents."""
    return _ratio(_precisions(batch, k), batch.relevant_count)


@metric(better="higher", needs="judgments", name="map_min", bounds=UNIT)
def average_precision_reachable(batch: Ranked, k: int) -> Array:
    """As map@k, divided by the number of relevant documents that fit into k."""
    return _ratio(_precisions(batch, k), np.minimum(batch.relevant_count, k))


@metric(better="higher", needs="judgments", bounds=UNIT)
def r_precision(batch: Ranked) -> Array:
    """Precision at the rank that equals the number of relevant documents."""
    ranks = np.arange(1, batch.gains.shape[1] + 1)
    hits = (batch.relevant & (ranks <= batch.relevant_count[:, None])).sum(axis=1)
    return _ratio(hits.astype(np.float64), batch.relevant_count)


@metric(better="higher", needs="judgments", bounds=UNIT)
def err(batch: Ranked, k: int) -> Array:
    """Expected reciprocal rank of a user who stops with probability (2^g - 1) / 2^max (Chapelle et al., 2009)."""
    if (highest := batch.gains.max(initial=0.0)) > batch.max_grade:
        what = f"err: a document has grade {highest:g}, above max_grade, which is {batch.max_grade:g}"
        raise BadSettings(what, hint=f"set max_grade, with files by ragassay evaluate --set max_grade={highest:g}")
    stops = (np.exp2(batch.gains[:, :k]) - 1) / np.exp2(batch.max_grade)
    goes_on = np.cumprod(1 - stops, axis=1)
    reaches = np.concatenate([np.ones((len(stops), 1)), goes_on[:, :-1]], axis=1)[:, : stops.shape[1]]
    expected: Array = (reaches * stops) @ (1 / np.arange(1, stops.shape[1] + 1))
    return expected


@metric(better="higher", needs="judgments", bounds=UNIT)
def rbp(batch: Ranked, p: float) -> Array:
    """Rank-biased precision of a user who goes on with probability p; binary relevance (Moffat and Zobel, 2008)."""
    weights = p ** np.arange(batch.gains.shape[1])
    total: Array = (1 - p) * (batch.relevant @ weights)
    return total


@metric(better="higher", needs="judgments", bounds=UNIT)
def bpref(batch: Ranked) -> Array:
    """How seldom a document judged not relevant ranks before a relevant one; unjudged ones don't count (trec_eval)."""
    relevant = batch.relevant_count[:, None]
    before = np.cumsum(batch.judged & ~batch.relevant, axis=1, dtype=np.float64)
    max_before = np.maximum(np.minimum(relevant, batch.judged_count[:, None] - relevant), 1)
    return _ratio((batch.relevant * (1 - np.minimum(before, relevant) / max_before)).sum(axis=1), batch.relevant_count)


@metric(better="higher", needs="judgments", bounds=UNIT)
def q_measure(batch: Ranked, k: int | None = None) -> Array:
    """Average precision with graded gains: (hits + gain) / (rank + ideal gain) at each relevant rank (Sakai, beta 1)."""
    gained, relevant = np.cumsum(batch.gains[:, :k], axis=1), batch.relevant[:, :k]
    ideal = np.zeros(gained.shape)
    width = min(batch.ideal.shape[1], gained.shape[1])
    ideal[:, :width] = batch.ideal[:, :width]
    ranks = np.arange(1, gained.shape[1] + 1)
    blended = (batch.cumulative_hits[:, :k] + gained) / (ranks + np.cumsum(ideal, axis=1))
    reachable = batch.relevant_count if k is None else np.minimum(batch.relevant_count, k)
    return _ratio((relevant * blended).sum(axis=1), reachable)


@metric(better="higher", needs="judgments", bounds=UNIT)
def judged(batch: Ranked, k: int) -> Array:
    """Share of the documents among the first k that have a judgment, whatever the grade."""
    return _ratio(batch.judged[:, :k].sum(axis=1, dtype=np.float64), np.minimum(k, batch.lengths))


@metric(better="higher", needs="judgments", bounds=(-1.0, 1.0))
def kendall_tau(batch: Ranked) -> Array:
    """Kendall's tau-b of the returned order and the order by grade; undefined where all grades are the same."""
    from scipy.stats import kendalltau  # takes most of a second to import

    return _correlations(batch, kendalltau)


@metric(better="higher", needs="judgments", bounds=(-1.0, 1.0))
def spearman_rho(batch: Ranked) -> Array:
    """Spearman's rho of the returned order and the order by grade, equal grades sharing their mean rank."""
    from scipy.stats import spearmanr

    return _correlations(batch, spearmanr)


def _correlations(batch: Ranked, correlate: Callable[[Array, Array], Any]) -> Array:
    """The correlation of each list's order and its grades; NaN if all grades are the same."""
    values = np.full(len(batch.lengths), np.nan)
    for n, length in enumerate(batch.lengths.tolist()):
        grades = batch.gains[n, :length]
        if length and np.ptp(grades) > 0:
            values[n] = correlate(-np.arange(length, dtype=np.float64), grades).statistic
    return values.clip(-1.0, 1.0)


def _precisions(batch: Ranked, k: int | None) -> Array:
    """Sum of the precision at each relevant rank (within k)."""
    hits, relevant = batch.cumulative_hits[:, :k], batch.relevant[:, :k]
    total: Array = (hits * relevant) @ (1 / np.arange(1, hits.shape[1] + 1))
    return total


def _ratio(part: Array, whole: Array) -> Array:
    """part / whole; 0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
