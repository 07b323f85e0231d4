"""Diversity and novelty: is the same said again and again, are all sides of a question met, is it up to date?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ragassay.core.errors import Unavailable, reason_from
from ragassay.core.models import Sample, Score, seconds
from ragassay.embeddings import DIGITS, vectors_of
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import UNIT, metric
from ragassay.metrics.ranked import Ranked, discounts
from ragassay.metrics.retrieval import ndcg

ALPHA = 0.5
MAX_GAINS = 5_000_000  # about a second
HALF_LIFE_S = 365 * 86_400.0


@metric(better="higher", needs="subtopics", kind="retrieval", bounds=UNIT)
def alpha_ndcg(sample: Sample, k: int) -> Score:
    """NDCG whose gain counts a document's subtopics, each worth half of what it was before it was met (Clarke, 2008)."""
    subtopics = sample.subtopics or {}
    gains = min(k, len(subtopics)) * sum(map(len, subtopics.values()))
    if gains > MAX_GAINS:
        return Score.absent(f"the query has too many documents with subtopics for alpha_ndcg@{k}")
    reached = _novelty(sample.retrieved_doc_ids or (), subtopics, k)
    best = _novelty(_most_novel(subtopics, k), subtopics, k)
    return Score(value=reached / best if best else 0.0, details={"k": k, "dcg": reached, "idcg": best})


@metric(better="higher", needs=("contexts", "embeddings"), kind="retrieval", bounds=(0.0, 2.0))
def intra_list_diversity(chunk: Chunk, k: int) -> list[Score]:
    """Mean of 1 - cosine over all pairs of the first k contexts, blank ones left out: 0 where all say the same."""
    if chunk.embedder is None:
        return [Score.absent(chunk.no_embedder, "no_input") for _ in chunk.samples]
    lists = [[text for text in (sample.contexts or ())[:k] if text.strip()] for sample in chunk.samples]
    try:
        vectors = vectors_of(chunk.embedder, (text for texts in lists if len(texts) > 1 for text in texts))
    except Unavailable as error:
        return [Score.absent(reason_from(error), "failed") for _ in chunk.samples]
    return [_spread([vectors[text] for text in contexts] if len(contexts) > 1 else []) for contexts in lists]


@metric(better="higher", needs=("judgments", "doc_timestamps"), kind="retrieval", bounds=UNIT)
def time_decayed_ndcg(chunk: Chunk, k: int) -> list[Score]:
    """NDCG whose gain halves with every 365 days that a document is older than the newest relevant one."""
    undated = [_undated(sample) for sample in chunk.samples]
    decayed = [{} if lack else _decayed(sample) for sample, lack in zip(chunk.samples, undated, strict=True)]
    ranked = Ranked.build([sample.retrieved_doc_ids or () for sample in chunk.samples], decayed)
    values, details = ndcg(ranked, k).tolist(), ranked.details(k)
    return [
        Score.absent(f"relevant document {lack!r} has no timestamp", "no_input") if lack else Score(value=v, details=d)
        for lack, v, d in zip(undated, values, details, strict=True)
    ]


def _novelty(ids: Sequence[str], subtopics: Mapping[str, Sequence[str]], k: int) -> float:
    """Discounted gain of a list, a subtopic being worth (1 - ALPHA) ** how often it was met before."""
    met: Counter[str] = Counter()
    total = 0.0
    for doc, discount in zip(ids[:k], discounts(min(k, len(ids))).tolist(), strict=True):
        total += discount * _gain(subtopics.get(doc, ()), met)
        met.update(set(subtopics.get(doc, ())))
    return total


def _gain(covered: Sequence[str], met: Counter[str]) -> float:
    return float(sum((1 - ALPHA) ** met[each] for each in set(covered)))


def _most_novel(subtopics: Mapping[str, Sequence[str]], k: int) -> list[str]:
    """The ideal list, found greedily as is the custom, since the true one is NP-hard; equals by id ascending."""
    met: Counter[str] = Counter()
    left, chosen = sorted(subtopics), list[str]()
    while left and len(chosen) < k:
        best = max(left, key=lambda doc: _gain(subtopics[doc], met))
        left.remove(best)
        chosen.append(best)
        met.update(set(subtopics[best]))
    return chosen


def _spread(vectors: Sequence[object]) -> Score:
    if not vectors:
        return Score.absent("fewer than two contexts have no diversity")
    table = np.asarray(vectors, np.float64)
    cosines = (table @ table.T)[np.triu_indices(len(table), 1)]
    return Score(value=max(0.0, round(float(1 - cosines.mean()), DIGITS)), details={"pairs": len(cosines)})


def _undated(sample: Sample) -> str | None:
    """The first relevant document without a timestamp."""
    dated = sample.doc_timestamps or {}
    return next((doc for doc, grade in (sample.judgments or {}).items() if grade > 0 and doc not in dated), None)


def _decayed(sample: Sample) -> dict[str, float]:
    """Grades, halved for every half-life before the newest relevant document. What is newest cancels out of the NDCG."""
    grades = {doc: grade for doc, grade in (sample.judgments or {}).items() if grade > 0}
    times = {doc: seconds((sample.doc_timestamps or {})[doc]) for doc in grades}
    newest = max(times.values(), default=0.0)
    return {doc: float(grade * 0.5 ** ((newest - times[doc]) / HALF_LIFE_S)) for doc, grade in grades.items()}
