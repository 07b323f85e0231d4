"""Built-in retrievers: a configuration and a corpus to a ranked list. Byte for byte the same in every process."""

from __future__ import annotations

import io
import logging
import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragassay.core.errors import BadInput, DiskFull
from ragassay.core.files import write_whole
from ragassay.core.protocols import Embedder, digest
from ragassay.core.text import STOP_WORDS, stem, words
from ragassay.datasets.corpus import Corpus
from ragassay.embeddings import DIGITS, CrossEncoder, LocalEmbedder
from ragassay.systems.options import RetrievalConfig

logger = logging.getLogger("ragassay")
Scores: TypeAlias = NDArray[np.float64]
FEEDBACK_SHARE = 0.6  # of the passages that are added to a query
DEPTH, RERANKED = 100, 50  # candidates of each ranking, and those that are reranked
RRF_K = 60  # Cormack et al., "Reciprocal rank fusion", 2009
FEEDBACK_TERMS = 20  # words of them that BM25 takes


def terms(text: str) -> list[str]:
    """What BM25 looks up: English stems of the words without accents; stop words only if nothing else is left."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in parts if not "\u0300" <= c <= "\u036f")
    all_words = words(text)
    return [stem(word) for word in [word for word in all_words if word not in STOP_WORDS] or all_words]


class BM25:
    """BM25 (Robertson and Zaragoza, 2009) in Lucene's form: idf = ln(1 + (N - n + 0.5) / (n + 0.5))."""

    def __init__(self, config: RetrievalConfig, corpus: Corpus) -> None:
        import bm25s

        self._texts = [terms(passage.title) + terms(passage.text) for passage in corpus.passages]
        self._vocabulary = {term: n for n, term in enumerate(sorted({term for text in self._texts for term in text}))}
        self._index = {"data": np.zeros(0), "indices": np.zeros(0, int), "indptr": np.zeros(1, int)}
        if self._vocabulary:
            index = bm25s.BM25(k1=config.k1, b=config.b, method="lucene", dtype="float64")
            ids = [[self._vocabulary[term] for term in text] for text in self._texts]
            index.index((ids, self._vocabulary), create_empty_token=False, show_progress=False)
            self._index = index.scores

    def _column(self, term: str) -> slice:
        """Where the index has the passages with a term, and their scores."""
        n = self._vocabulary[term]
        return slice(int(self._index["indptr"][n]), int(self._index["indptr"][n + 1]))

    def scores(self, query: str, feedback: Sequence[int] = ()) -> Scores:
        """The sum of the query's terms in each passage; a passage without any of them is no candidate.

        ``feedback``: indexes of passages that are added to the query.
        """
        scores = np.zeros(len(self._texts))
        query_terms = Counter(term for term in terms(query) if term in self._vocabulary)
        for term, weight in (self._mixed(query_terms, feedback) if feedback else query_terms).items():
            column = self._column(term)
            scores[self._index["indices"][column]] += weight * self._index["data"][column]
        return np.where(scores > 0, scores, -np.inf)

    def _mixed(self, query_terms: Counter[str], feedback: Sequence[int]) -> dict[str, float]:
        """Weights of the query's terms and of the best terms of the feedback passages; each part adds up to its share.

        A term weighs its share of the passage times its idf, added over the passages: the relevance model of
        Abdul-Jaleel et al., "UMass at TREC 2004: novelty and HARD" (RM3), with idf in the place of smoothing.
        """
        relevance: dict[str, float] = {}
        for index in feedback:
            counts = Counter(self._texts[index])
            for term, count in counts.items():
                column = self._column(term)
                n = column.stop - column.start
                idf = math.log(1 + (len(self._texts) - n + 0.5) / (n + 0.5))
                relevance[term] = relevance.get(term, 0.0) + count / counts.total() * idf
        best = sorted(relevance, key=lambda term: (-relevance[term], term))[:FEEDBACK_TERMS]
        total = sum(relevance[term] for term in best)
        weights = {term: (1 - FEEDBACK_SHARE) * count / query_terms.total() for term, count in query_terms.items()}
        for term in best:
            weights[term] = weights.get(term, 0.0) + FEEDBACK_SHARE * relevance[term] / total
        return weights


class Dense:
    """Cosine of query and passage under an embedding model. Every passage with a text is a candidate.

    Vectors are taken from ``folder``, by the digests of corpus and model, or made and kept there.
    """

    def __init__(self, corpus: Corpus, embedder: Embedder, folder: Path | None) -> None:
        self.model = embedder.name
        self._embed = lru_cache(maxsize=8)(lambda query: embedder.embed([query])[0])  # one with feedback comes twice
        path = None if folder is None else folder / f"dense-{_digest(corpus, self.model)}.npy"
        cached = None if path is None else _read(path, len(corpus.passages))
        self._vectors = _vectors(corpus, embedder) if cached is None else cached
        if path is not None and cached is None:
            _keep(path, self._vectors)
        self._filled = self._vectors.any(axis=1)

    def scores(self, query: str, feedback: Sequence[int] = ()) -> Scores:
        """Cosines; a blank passage is no candidate. Feedback moves the query towards its passages' mean (Rocchio, 1971)."""
        vector = self._embed(query)
        if feedback:
            vector = (1 - FEEDBACK_SHARE) * vector + FEEDBACK_SHARE * self._vectors[list(feedback)].mean(axis=0)
            vector = vector / (np.linalg.norm(vector) or 1.0)
        cosines = (self._vectors @ vector).astype(np.float64).round(DIGITS)
        return np.asarray(np.where(self._filled, cosines, -np.inf))

    def similarity(self, index: int, others: Sequence[int]) -> Scores:
        """Cosines of one passage with others."""
        return np.asarray(self._vectors[list(others)] @ self._vectors[index], dtype=np.float64).round(DIGITS)


def _vectors(corpus: Corpus, embedder: Embedder) -> NDArray[np.float32]:
    """A vector for each passage; a blank one has zeros."""
    filled = {n: passage.full for n, passage in enumerate(corpus.passages) if passage.full.strip()}
    if not filled:
        raise BadInput("every passage of the corpus is blank, so there is nothing to embed")
    embedded = embedder.embed(list(filled.values()))
    vectors = np.zeros((len(corpus.passages), embedded.shape[1]), dtype=np.float32)
    vectors[list(filled)] = embedded
    return vectors


def _digest(corpus: Corpus, model: str) -> str:
    """SHA-256 of what vectors are made from: corpus, model, and the versions of the libraries that run it."""
    facts = {"corpus": corpus.digest, "model": model}
    for library in ("onnxruntime", "sentence-transformers", "torch"):
        with suppress(metadata.PackageNotFoundError):
            facts[library] = metadata.version(library)
    return digest(facts)[:32]


def _keep(path: Path, vectors: NDArray[np.float32]) -> None:
    content = io.BytesIO()
    np.save(content, vectors)
    try:
        write_whole(path, content.getvalue(), private=True)
    except DiskFull as full:
        logger.warning("vectors are not kept for later runs: %s", full)


def _read(path: Path, rows: int) -> NDArray[np.float32] | None:
    """Vectors that were kept; None without a file, and for a damaged one."""
    try:
        vectors = np.load(path, allow_pickle=False)
    except (OSError, EOFError, ValueError):
        return None
    return vectors if isinstance(vectors, np.ndarray) and vectors.ndim == 2 and len(vectors) == rows else None


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


class Retriever:
    """A configuration and a corpus, ready to search: candidates, then reranking, then diversity. Safe to be used by threads.

    Vectors are taken from the folder ``cache``, or made and kept there. ``embedder`` is used if the configuration
    names no model; default: the bundled one. Raises MissingExtra and BadSettings where a model can't be loaded.
    """

    def __init__(
        self, config: RetrievalConfig, corpus: Corpus, *, cache: Path | None = None, embedder: Embedder | None = None
    ) -> None:
        self.config, self.corpus = config, corpus
        self._similarity: Dense | None = None
        if config.kind != "bm25" or config.mmr is not None:
            model = _embedder(config.model) if config.model or embedder is None else embedder
            self._similarity = Dense(corpus, model, cache)
        self._scorers: dict[str, BM25 | Dense] = {} if config.kind == "dense" else {"bm25": BM25(config, corpus)}
        if config.kind != "bm25" and self._similarity is not None:
            self._scorers["dense"] = self._similarity
        self._reranker = _cross_encoder(config.rerank) if config.rerank else None

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that rank, with the digest of their weights where they are in a folder."""
        names = {self._similarity.model} if self._similarity else set()
        return tuple(sorted(names | ({self._reranker.name} if self._reranker else set())))

    def search(self, query: str, k: int) -> SearchResult:
        """The ``k`` best passages, best first; equal scores by id ascending. Raises BadInput: ``k`` < 1, blank query."""
        if k < 1:
            raise BadInput(f"k should be at least 1, not {k}")
        if not query.strip():
            raise BadInput("the query is blank")
        ranked, stages = self._candidates(query, max(DEPTH, k))
        if first := ranked[: self.config.feedback]:
            ranked, stages = self._candidates(query, max(DEPTH, k), first)
        before = None
        if self._reranker is not None:
            ranked = ranked[: max(RERANKED, k)]
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
                fused[n] = fused.get(n, 0.0) + 1 / (RRF_K + rank)
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


_embedder, _cross_encoder = cache(LocalEmbedder), cache(CrossEncoder)  # each model is loaded once in a process
