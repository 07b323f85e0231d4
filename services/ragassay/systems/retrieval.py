"""Built-in retrievers: a configuration and a corpus to a ranked list. Byte for byte the same in every process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragassay.core.errors import BadInput
from ragassay.core.protocols import Embedder
from ragassay.datasets.corpus import Corpus
from ragassay.embeddings import DIGITS, CrossEncoder, LocalEmbedder
from ragassay.systems.options import RetrievalConfig
from ragassay.systems.scorers import BM25, Dense, Scorer


class Hit(NamedTuple):
    """A retrieved passage. ``score``: in the last stage; ``stages``: in each stage that scored it."""

    id: str
    score: float
    stages: dict[str, float]


@dataclass(frozen=True)
class SearchResult:
    """What was retrieved for a query; ``before``: ids in the order that a reranker was given, best first."""

    hits: tuple[Hit, ...]
    before: tuple[str, ...] | None = None


class Pipeline:
    """A retriever made of stages: candidates, then reranking, then diversity. Safe to be used by several threads."""

    def __init__(
        self,
        config: RetrievalConfig,
        corpus: Corpus,
        scorers: Mapping[str, Scorer],
        reranker: CrossEncoder | None,
        similarity: Dense | None,
    ) -> None:
        self.config, self.corpus = config, corpus
        self._scorers, self._reranker, self._similarity = scorers, reranker, similarity

    @property
    def index_bytes(self) -> int:
        """Size of the indexes in memory; one that two parts share counts once."""
        parts = {id(part): part for part in (*self._scorers.values(), self._similarity) if part is not None}
        return sum(array.nbytes for part in parts.values() for array in part.arrays.values())

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that rank, with the digest of their weights where they are in a folder."""
        names = {part.model for part in (*self._scorers.values(), self._similarity) if isinstance(part, Dense)}
        return tuple(sorted(names | ({self._reranker.name} if self._reranker else set())))

    def search(self, query: str, k: int) -> SearchResult:
        """The ``k`` best passages, best first; equal scores by id ascending. Raises BadInput: ``k`` < 1, blank query."""
        if k < 1:
            raise BadInput(f"k should be at least 1, not {k}")
        if not query.strip():
            raise BadInput("the query is blank")
        ranked, stages = self._candidates(query, max(self.config.depth, k))
        if first := ranked[: self.config.feedback]:
            ranked, stages = self._candidates(query, max(self.config.depth, k), first)
        before = None
        if self._reranker is not None:
            ranked = ranked[: max(self.config.rerank_depth, k)]
            before = tuple(self._id(n) for n in ranked)
            ranked = self._reranked(self._reranker, query, ranked, stages)
        if self._similarity is not None and self.config.mmr is not None:
            ranked = self._diverse(self._similarity, self.config.mmr, ranked, stages, k)
        hits = tuple(Hit(self._id(n), [*stages[n].values()][-1], stages[n]) for n in ranked[:k])
        return SearchResult(hits, before)

    def warm_up(self) -> None:
        """Search once, so that models are loaded before a query is timed."""
        self.search("warm up", 1)

    def _id(self, index: int) -> str:
        return self.corpus.passages[index].id

    def _candidates(
        self, query: str, depth: int, feedback: Sequence[int] = ()
    ) -> tuple[list[int], dict[int, dict[str, float]]]:
        """Indexes of the best candidates, best first, and the scores of each in each stage."""
        stages: dict[int, dict[str, float]] = {}
        fused: dict[int, float] = {}
        ranked: list[int] = []
        for name, scorer in self._scorers.items():
            scores = scorer.scores(query, feedback)
            # The corpus is in the order of ids, so a stable sort leaves equal scores in that order.
            ranked = [int(n) for n in np.argsort(-scores, kind="stable")[:depth] if np.isfinite(scores[n])]
            for rank, n in enumerate(ranked, 1):
                stages.setdefault(n, {})[name] = float(scores[n])
                fused[n] = fused.get(n, 0.0) + 1 / (self.config.rrf_k + rank)
        if len(self._scorers) == 1:
            return ranked, stages
        for n, score in fused.items():
            stages[n]["rrf"] = score
        return sorted(fused, key=lambda n: (-fused[n], n))[:depth], stages

    def _reranked(
        self, reranker: CrossEncoder, query: str, ranked: list[int], stages: dict[int, dict[str, float]]
    ) -> list[int]:
        texts = [self.corpus.passages[n].full for n in ranked]
        for n, score in zip(ranked, reranker.score(query, texts), strict=True):
            stages[n]["rerank"] = round(float(score), DIGITS)
        return sorted(ranked, key=lambda n: (-stages[n]["rerank"], n))

    def _diverse(
        self, similarity: Dense, weight: float, ranked: list[int], stages: dict[int, dict[str, float]], k: int
    ) -> list[int]:
        """Maximal marginal relevance (Carbonell and Goldstein, 1998) over the candidates.

        Relevance is the score so far, scaled to 0..1 over the candidates; similarity is the largest cosine with a passage
        that was chosen already, 0 at the least.
        """
        last = np.array([[*stages[n].values()][-1] for n in ranked])
        spread = np.ptp(last) if len(last) else 0.0
        relevance = (last - last.min()) / spread if spread else np.ones(len(last))
        nearest = np.zeros(len(ranked))
        left, chosen = list(range(len(ranked))), list[int]()
        while left and len(chosen) < k:
            values = {i: round(float(weight * relevance[i] - (1 - weight) * nearest[i]), DIGITS) for i in left}
            best = min(left, key=lambda i: (-values[i], ranked[i]))
            stages[ranked[best]]["mmr"] = values[best]
            chosen.append(ranked[best])
            left.remove(best)
            nearest = np.maximum(nearest, similarity.similarity(ranked[best], ranked))
        return chosen


def build(
    config: RetrievalConfig, corpus: Corpus, *, cache: Path | None = None, embedder: Embedder | None = None
) -> Pipeline:
    """The retriever that ``config`` describes, ready to search ``corpus``.

    Vectors are taken from the folder ``cache``, or made and kept there. ``embedder`` stands in where the configuration
    names no model; default: the bundled one. Raises MissingExtra and BadSettings where a model can't be loaded.
    """
    dense = None
    if config.kind != "bm25" or config.mmr is not None:
        model = _embedder(config.model) if config.model or embedder is None else embedder
        dense = Dense(corpus, model, cache)
    scorers: dict[str, Scorer] = {}
    if config.kind != "dense":
        scorers["bm25"] = BM25(config, corpus)
    if config.kind != "bm25" and dense is not None:
        scorers["dense"] = dense
    reranker = _cross_encoder(str(config.rerank_model)) if config.rerank else None
    return Pipeline(config, corpus, scorers, reranker, dense)


@cache
def _embedder(model: str | None) -> LocalEmbedder:
    return LocalEmbedder(model)


@cache
def _cross_encoder(model: str) -> CrossEncoder:
    return CrossEncoder(model)
