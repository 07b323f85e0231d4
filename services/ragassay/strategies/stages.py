"""What scores passages: BM25, embeddings, and late interaction. Each keeps its index by all that it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragassay.errors import BadInput, BadSettings
from ragassay.judges import words
from ragassay.models import Embedder
from ragassay.strategies import wording
from ragassay.strategies.corpus import Corpus, Passage
from ragassay.strategies.options import RetrievalConfig
from ragassay.strategies.shelf import Arrays, kept
from ragassay.strategies.wording import Normaliser

Scores = NDArray[np.float64]
DIGITS = 6  # embeddings differ beyond, with the batch and the machine


@runtime_checkable
class _TokenEmbedder(Protocol):
    def embed_tokens(self, texts: Sequence[str]) -> list[NDArray[np.float32]]: ...


class Stage(Protocol):
    """Scores all passages for a query, in the corpus's order; -inf for those that are no candidates."""

    arrays: Arrays

    def scores(self, query: str) -> Scores:
        """Shape: (passages,)."""


class Lexical:
    """BM25 (Robertson and Zaragoza, 2009) in Lucene's form: idf = ln(1 + (N - n + 0.5) / (n + 0.5))."""

    def __init__(self, config: RetrievalConfig, corpus: Corpus, folder: Path | None) -> None:
        self._normaliser = Normaliser(config.fold_accents, config.hyphens, config.stem, config.drop_stop_words)
        facts = {
            **config.model_dump(include={"k1", "b", "title_weight", "fold_accents", "hyphens", "stem"}),
            "drop_stop_words": config.drop_stop_words,
            "corpus": corpus.digest,
            "index": "bm25",
            "bm25s": metadata.version("bm25s"),
            "words": _digest_of_words(),
        }
        self.arrays = kept(folder, facts, lambda: self._index(config, corpus))
        self._size = len(corpus.passages)
        said = self.arrays["vocabulary"].tobytes().decode()
        self._vocabulary = {term: n for n, term in enumerate(said.split("\n"))} if said else {}

    def _index(self, config: RetrievalConfig, corpus: Corpus) -> Arrays:
        import bm25s

        terms = self._normaliser.terms
        texts = [terms(p.title) * config.title_weight + terms(p.text) for p in corpus.passages]
        vocabulary = {term: n for n, term in enumerate(sorted({term for text in texts for term in text}))}
        listed = np.frombuffer("\n".join(vocabulary).encode(), np.uint8)
        if not vocabulary:
            return {"vocabulary": listed, "data": np.zeros(0), "indices": np.zeros(0, int), "indptr": np.zeros(1, int)}
        index = bm25s.BM25(k1=config.k1, b=config.b, method="lucene", dtype="float64")
        ids = [[vocabulary[term] for term in text] for text in texts]
        index.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        return {"vocabulary": listed, **{name: index.scores[name] for name in ("data", "indices", "indptr")}}

    def scores(self, query: str) -> Scores:
        """The sum of the query's terms in each passage; a passage without any of them is no candidate."""
        found = np.zeros(self._size)
        data, indices, indptr = (self.arrays[name] for name in ("data", "indices", "indptr"))
        for term in self._normaliser.terms(query):
            if (n := self._vocabulary.get(term)) is not None:
                part = slice(indptr[n], indptr[n + 1])
                found[indices[part]] += data[part]
        return np.where(found > 0, found, -np.inf)


class Dense:
    """Cosine of query and passage under an embedding model. Every passage with a text is a candidate."""

    def __init__(self, config: RetrievalConfig, corpus: Corpus, embedder: Embedder, folder: Path | None) -> None:
        self._embedder, self.model = embedder, embedder.name
        facts = {"index": "dense", **_of_embeddings(config, corpus, embedder)}
        self.arrays = kept(folder, facts, lambda: self._index(config, corpus))
        self._filled = self.arrays["vectors"].any(axis=1)

    def _index(self, config: RetrievalConfig, corpus: Corpus) -> Arrays:
        texts = _texts(config, corpus)
        filled = [n for n, text in enumerate(texts) if text.strip()]
        given = self._embedder.embed([texts[n] for n in filled])
        vectors = np.zeros((len(texts), given.shape[1]), dtype=np.float32)
        vectors[filled] = given
        return {"vectors": vectors}

    def scores(self, query: str) -> Scores:
        """Cosines; a blank passage is no candidate."""
        found = (self.arrays["vectors"] @ self._embedder.embed([query])[0]).astype(np.float64).round(DIGITS)
        return np.asarray(np.where(self._filled, found, -np.inf))

    def alike(self, place: int, others: Sequence[int]) -> Scores:
        """Cosines of one passage with others."""
        vectors = self.arrays["vectors"]
        return np.asarray(vectors[list(others)] @ vectors[place], dtype=np.float64).round(DIGITS)


class LateInteraction:
    """MaxSim (Khattab and Zaharia, 2020): mean over the query's word pieces of the best cosine in the passage."""

    def __init__(self, config: RetrievalConfig, corpus: Corpus, embedder: Embedder, folder: Path | None) -> None:
        if not isinstance(embedder, _TokenEmbedder):
            raise BadSettings(f"embedding model {embedder.name} gives no vectors of word pieces, which reranking needs")
        self._embedder, self.model = embedder, embedder.name
        facts = {"index": "pieces", **_of_embeddings(config, corpus, embedder)}
        self.arrays = kept(folder, facts, lambda: self._index(config, corpus))

    def _index(self, config: RetrievalConfig, corpus: Corpus) -> Arrays:
        texts = _texts(config, corpus)
        given = iter(self._embedder.embed_tokens([text for text in texts if text.strip()]))
        pieces = [next(given).astype(np.float16) if text.strip() else None for text in texts]
        ends = np.cumsum([0, *(0 if one is None else len(one) for one in pieces)])
        return {"pieces": np.concatenate([one for one in pieces if one is not None]), "ends": ends}

    def score(self, query: str, places: Sequence[int]) -> list[float]:
        """Of the passages at these places; -1 for a blank one."""
        asked = self._embedder.embed_tokens([query])[0]
        pieces, ends = self.arrays["pieces"], self.arrays["ends"]
        found = [pieces[ends[n] : ends[n + 1]].astype(np.float32) @ asked.T for n in places]
        return [round(float(one.max(axis=0).mean()), DIGITS) if one.size else -1.0 for one in found]


@cache
def _digest_of_words() -> str:
    """SHA-256 of the code that makes terms: other terms need another index."""
    files = [str(found.__file__) for found in (words, wording)]
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()


def text_of(passage: Passage, config: RetrievalConfig) -> str:
    """What embedding models and rerankers read of a passage."""
    return passage.full if config.title_prefix else passage.text


def _texts(config: RetrievalConfig, corpus: Corpus) -> list[str]:
    texts = [text_of(passage, config) for passage in corpus.passages]
    if not any(text.strip() for text in texts):
        raise BadInput("every passage of the corpus is blank, so there is nothing to embed")
    return texts


def _of_embeddings(config: RetrievalConfig, corpus: Corpus, embedder: Embedder) -> dict[str, Any]:
    libraries = {name: metadata.version(name) for name in ("sentence-transformers", "torch") if _installed(name)}
    return {"corpus": corpus.digest, "title_prefix": config.title_prefix, "model": embedder.name, **libraries}


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
