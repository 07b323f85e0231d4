"""What scores passages: BM25, embeddings, and late interaction. Each keeps its index by all that it was made from."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragassay.errors import BadInput, BadSettings
from ragassay.judges import words
from ragassay.seams import Embedder
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


class Fed(NamedTuple):
    """Passages that are added to a query, by place; their share of it; how many of their words are taken."""

    places: Sequence[int]
    share: float
    terms: int


class Stage(Protocol):
    """Scores all passages for a query, in the corpus's order; -inf for those that are no candidates."""

    arrays: Arrays

    def scores(self, query: str, fed: Fed | None = None) -> Scores:
        """Shape: (passages,). ``fed`` is added to the query."""


class Lexical:
    """BM25 (Robertson and Zaragoza, 2009) in Lucene's form: idf = ln(1 + (N - n + 0.5) / (n + 0.5))."""

    def __init__(self, config: RetrievalConfig, corpus: Corpus, folder: Path | None) -> None:
        self._corpus, self._config = corpus, config
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

        texts = [self._terms(passage) for passage in corpus.passages]
        vocabulary = {term: n for n, term in enumerate(sorted({term for text in texts for term in text}))}
        listed = np.frombuffer("\n".join(vocabulary).encode(), np.uint8)
        if not vocabulary:
            return {"vocabulary": listed, "data": np.zeros(0), "indices": np.zeros(0, int), "indptr": np.zeros(1, int)}
        index = bm25s.BM25(k1=config.k1, b=config.b, method="lucene", dtype="float64")
        ids = [[vocabulary[term] for term in text] for text in texts]
        index.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        return {"vocabulary": listed, **{name: index.scores[name] for name in ("data", "indices", "indptr")}}

    def _terms(self, passage: Passage) -> list[str]:
        terms = self._normaliser.terms
        return terms(passage.title) * self._config.title_weight + terms(passage.text)

    def scores(self, query: str, fed: Fed | None = None) -> Scores:
        """The sum of the query's terms in each passage; a passage without any of them is no candidate."""
        found = np.zeros(self._size)
        data, indices, indptr = (self.arrays[name] for name in ("data", "indices", "indptr"))
        asked = Counter(term for term in self._normaliser.terms(query) if term in self._vocabulary)
        for term, weight in (self._mixed(asked, fed) if fed else asked).items():
            n = self._vocabulary[term]
            part = slice(indptr[n], indptr[n + 1])
            found[indices[part]] += weight * data[part]
        return np.where(found > 0, found, -np.inf)

    def _mixed(self, asked: Counter[str], fed: Fed) -> dict[str, float]:
        """Weights of the query's terms and of the most telling ones of the fed passages; each part adds up to its share.

        A term tells as much as its share of the passage times its idf, added over the passages: the relevance model of
        Abdul-Jaleel et al., "UMass at TREC 2004: novelty and HARD" (RM3), with idf in the place of smoothing.
        """
        told: dict[str, float] = {}
        indptr = self.arrays["indptr"]
        for place in fed.places:
            terms = Counter(self._terms(self._corpus.passages[place]))
            for term, count in terms.items():
                n = self._vocabulary[term]
                held = int(indptr[n + 1] - indptr[n])
                idf = math.log(1 + (self._size - held + 0.5) / (held + 0.5))
                told[term] = told.get(term, 0.0) + count / terms.total() * idf
        best = sorted(told, key=lambda term: (-told[term], term))[: fed.terms]
        total = sum(told[term] for term in best)
        weights = {term: (1 - fed.share) * count / asked.total() for term, count in asked.items()}
        for term in best:
            weights[term] = weights.get(term, 0.0) + fed.share * told[term] / total
        return weights


class Dense:
    """Cosine of query and passage under an embedding model. Every passage with a text is a candidate."""

    def __init__(self, config: RetrievalConfig, corpus: Corpus, embedder: Embedder, folder: Path | None) -> None:
        self._embedder, self.model = embedder, embedder.name
        facts = {"index": "dense", **_of_embeddings(config, corpus, embedder)}
        self.arrays = kept(folder, facts, lambda: self._index(config, corpus))
        self._filled = self.arrays["vectors"].any(axis=1)
        self._last: tuple[str, NDArray[np.float32]] | None = None  # a query with feedback comes twice

    def _index(self, config: RetrievalConfig, corpus: Corpus) -> Arrays:
        texts = _texts(config, corpus)
        filled = [n for n, text in enumerate(texts) if text.strip()]
        given = self._embedder.embed([texts[n] for n in filled])
        vectors = np.zeros((len(texts), given.shape[1]), dtype=np.float32)
        vectors[filled] = given
        return {"vectors": vectors}

    def scores(self, query: str, fed: Fed | None = None) -> Scores:
        """Cosines; a blank passage is no candidate. Fed passages move the query towards their mean (Rocchio, 1971)."""
        last = self._last
        if last is None or last[0] != query:
            last = self._last = (query, self._embedder.embed([query])[0])
        asked = last[1]
        if fed:
            asked = (1 - fed.share) * asked + fed.share * self.arrays["vectors"][list(fed.places)].mean(axis=0)
            asked = asked / (np.linalg.norm(asked) or 1.0)
        found = (self.arrays["vectors"] @ asked).astype(np.float64).round(DIGITS)
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
        filled = [n for n in places if ends[n + 1] > ends[n]]
        found = dict.fromkeys(places, -1.0)
        if filled:
            read = [pieces[ends[n] : ends[n + 1]] for n in filled]
            likeness = np.concatenate(read).astype(np.float32) @ asked.T
            starts = np.cumsum([0, *map(len, read[:-1])])
            best = np.maximum.reduceat(likeness, starts, axis=0).mean(axis=1, dtype=np.float64).round(DIGITS)
            found |= dict(zip(filled, best.tolist(), strict=True))
        return [found[n] for n in places]


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
