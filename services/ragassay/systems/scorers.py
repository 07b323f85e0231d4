"""Scorers of passages: BM25, and embeddings, whose vectors are cached by all that they were made from."""

from __future__ import annotations

import io
import logging
import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragassay.core.errors import BadInput, DiskFull
from ragassay.core.files import write_whole
from ragassay.core.protocols import Embedder, digest
from ragassay.core.text import STOP_WORDS, stem, words
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.embeddings import DIGITS
from ragassay.systems.options import RetrievalConfig

logger = logging.getLogger("ragassay")
Arrays: TypeAlias = dict[str, NDArray[Any]]
Scores: TypeAlias = NDArray[np.float64]
FEEDBACK_SHARE = 0.6  # of the passages that are added to a query
FEEDBACK_TERMS = 20  # words of them that BM25 takes


def terms(text: str, stemmed: bool = True) -> list[str]:
    """The words that BM25 looks up, without accents; ``stemmed``: English stems, and stop words only if nothing is left."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in parts if not "\u0300" <= c <= "\u036f")
    found = words(text)
    if not stemmed:
        return found
    return [stem(word) for word in [word for word in found if word not in STOP_WORDS] or found]


class Scorer(Protocol):
    """Scores all passages for a query, in the corpus's order; -inf for those that are no candidates."""

    arrays: Arrays

    def scores(self, query: str, feedback: Sequence[int] = ()) -> Scores:
        """Shape: (passages,). ``feedback``: indexes of passages that are added to the query."""


class BM25:
    """BM25 (Robertson and Zaragoza, 2009) in Lucene's form: idf = ln(1 + (N - n + 0.5) / (n + 0.5))."""

    def __init__(self, config: RetrievalConfig, corpus: Corpus) -> None:
        self._config = config
        self._texts = [self._terms(passage) for passage in corpus.passages]
        self._vocabulary = {term: n for n, term in enumerate(sorted({term for text in self._texts for term in text}))}
        self.arrays = self._index()

    def _index(self) -> Arrays:
        import bm25s

        if not self._vocabulary:
            return {"data": np.zeros(0), "indices": np.zeros(0, int), "indptr": np.zeros(1, int)}
        index = bm25s.BM25(k1=self._config.k1, b=self._config.b, method="lucene", dtype="float64")
        ids = [[self._vocabulary[term] for term in text] for text in self._texts]
        index.index((ids, self._vocabulary), create_empty_token=False, show_progress=False)
        return {name: index.scores[name] for name in ("data", "indices", "indptr")}

    def _terms(self, passage: Passage) -> list[str]:
        return terms(passage.title, self._config.stem) + terms(passage.text, self._config.stem)

    def scores(self, query: str, feedback: Sequence[int] = ()) -> Scores:
        """The sum of the query's terms in each passage; a passage without any of them is no candidate."""
        scores = np.zeros(len(self._texts))
        data, indices, indptr = (self.arrays[name] for name in ("data", "indices", "indptr"))
        query_terms = Counter(term for term in terms(query, self._config.stem) if term in self._vocabulary)
        for term, weight in (self._mixed(query_terms, feedback) if feedback else query_terms).items():
            n = self._vocabulary[term]
            part = slice(indptr[n], indptr[n + 1])
            scores[indices[part]] += weight * data[part]
        return np.where(scores > 0, scores, -np.inf)

    def _mixed(self, query_terms: Counter[str], feedback: Sequence[int]) -> dict[str, float]:
        """Weights of the query's terms and of the best terms of the feedback passages; each part adds up to its share.

        A term weighs its share of the passage times its idf, added over the passages: the relevance model of
        Abdul-Jaleel et al., "UMass at TREC 2004: novelty and HARD" (RM3), with idf in the place of smoothing.
        """
        relevance: dict[str, float] = {}
        indptr = self.arrays["indptr"]
        for index in feedback:
            terms = Counter(self._texts[index])
            for term, count in terms.items():
                n = self._vocabulary[term]
                count_with_term = int(indptr[n + 1] - indptr[n])
                idf = math.log(1 + (len(self._texts) - count_with_term + 0.5) / (count_with_term + 0.5))
                relevance[term] = relevance.get(term, 0.0) + count / terms.total() * idf
        best = sorted(relevance, key=lambda term: (-relevance[term], term))[:FEEDBACK_TERMS]
        total = sum(relevance[term] for term in best)
        weights = {term: (1 - FEEDBACK_SHARE) * count / query_terms.total() for term, count in query_terms.items()}
        for term in best:
            weights[term] = weights.get(term, 0.0) + FEEDBACK_SHARE * relevance[term] / total
        return weights


class Dense:
    """Cosine of query and passage under an embedding model. Every passage with a text is a candidate."""

    def __init__(self, corpus: Corpus, embedder: Embedder, folder: Path | None) -> None:
        self._embedder, self.model = embedder, embedder.name
        self.arrays = {"vectors": self._vectors(corpus, folder)}
        self._filled = self.arrays["vectors"].any(axis=1)
        self._last: tuple[str, NDArray[np.float32]] | None = None  # a query with feedback comes twice

    def _vectors(self, corpus: Corpus, folder: Path | None) -> NDArray[np.float32]:
        texts = [passage.full for passage in corpus.passages]
        filled = [n for n, text in enumerate(texts) if text.strip()]
        if not filled:
            raise BadInput("every passage of the corpus is blank, so there is nothing to embed")
        path = None if folder is None else folder / f"dense-{_digest(corpus, self.model)}.npy"
        if path is not None and (kept := _read(path, len(texts))) is not None:
            return kept
        embedded = self._embedder.embed([texts[n] for n in filled])
        vectors = np.zeros((len(texts), embedded.shape[1]), dtype=np.float32)
        vectors[filled] = embedded
        if path is not None:
            _keep(path, vectors)
        return vectors

    def scores(self, query: str, feedback: Sequence[int] = ()) -> Scores:
        """Cosines; a blank passage is no candidate. Feedback moves the query towards its passages' mean (Rocchio, 1971)."""
        last = self._last
        if last is None or last[0] != query:
            last = self._last = (query, self._embedder.embed([query])[0])
        vector = last[1]
        if feedback:
            mean = self.arrays["vectors"][list(feedback)].mean(axis=0)
            vector = (1 - FEEDBACK_SHARE) * vector + FEEDBACK_SHARE * mean
            vector = vector / (np.linalg.norm(vector) or 1.0)
        cosines = (self.arrays["vectors"] @ vector).astype(np.float64).round(DIGITS)
        return np.asarray(np.where(self._filled, cosines, -np.inf))

    def similarity(self, index: int, others: Sequence[int]) -> Scores:
        """Cosines of one passage with others."""
        vectors = self.arrays["vectors"]
        return np.asarray(vectors[list(others)] @ vectors[index], dtype=np.float64).round(DIGITS)


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
