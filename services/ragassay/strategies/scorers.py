"""Scorers of passages: BM25, embeddings, and late interaction. Each has an index, cached by all that it was made from."""

from __future__ import annotations

import hashlib
import io
import logging
import math
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import orjson
from numpy.typing import NDArray

from ragassay.embeddings import DIGITS
from ragassay.errors import BadInput, BadSettings, DiskFull
from ragassay.files import write_whole
from ragassay.judges import text as text_of_judges
from ragassay.judges.text import STOP_WORDS, stem, words
from ragassay.protocols import Embedder
from ragassay.strategies.corpus import Corpus, Passage
from ragassay.strategies.options import RetrievalConfig

logger = logging.getLogger("ragassay")
Arrays: TypeAlias = dict[str, NDArray[Any]]
Scores: TypeAlias = NDArray[np.float64]
_FORM = 2  # of an index; to be raised when its arrays change their meaning
_COMPOUND = re.compile(r"\w+(?:[-\u2010\u2011]\w+)+")
_HYPHEN = re.compile("[-\u2010\u2011]")


@dataclass(frozen=True)
class Tokenizer:
    """Text to the terms that lexical retrieval looks up: lower-case words, folded and shortened as the options say."""

    fold_accents: bool = True
    hyphens: Literal["split", "join", "both"] = "split"
    stem: bool = True
    drop_stop_words: bool = True

    def plain(self, text: str) -> list[str]:
        """Its words in order, neither stemmed nor left out."""
        if self.fold_accents and not text.isascii():
            parts = unicodedata.normalize("NFKD", text)
            text = "".join(c for c in parts if not "\u0300" <= c <= "\u036f")
        if self.hyphens == "split":
            return words(text)
        joined = _COMPOUND.sub(lambda compound: _HYPHEN.sub("", compound.group()), text)
        if self.hyphens == "join":
            return words(joined)
        return words(text) + [word for one in _COMPOUND.findall(text) for word in words(_HYPHEN.sub("", one))]

    def terms(self, text: str) -> list[str]:
        """What is looked up: stop words are kept where there is nothing else."""
        terms = self.plain(text)
        if self.drop_stop_words:
            terms = [word for word in terms if word not in STOP_WORDS] or terms
        return [stem(word) for word in terms] if self.stem else terms


@runtime_checkable
class _TokenEmbedder(Protocol):
    def embed_tokens(self, texts: Sequence[str]) -> list[NDArray[np.float32]]: ...


class Feedback(NamedTuple):
    """Passages that are added to a query, by index; their share of it; how many of their words are taken."""

    indexes: Sequence[int]
    share: float
    terms: int


class Scorer(Protocol):
    """Scores all passages for a query, in the corpus's order; -inf for those that are no candidates."""

    arrays: Arrays

    def scores(self, query: str, feedback: Feedback | None = None) -> Scores:
        """Shape: (passages,). ``feedback`` is added to the query."""


class BM25:
    """BM25 (Robertson and Zaragoza, 2009) in Lucene's form: idf = ln(1 + (N - n + 0.5) / (n + 0.5)).

    ``OPTIONS`` are those that its index depends on.
    """

    OPTIONS: ClassVar = {"k1", "b", "title_weight", "fold_accents", "hyphens", "stem", "drop_stop_words"}

    def __init__(self, config: RetrievalConfig, corpus: Corpus, folder: Path | None) -> None:
        self._corpus, self._config = corpus, config
        self._tokenizer = Tokenizer(config.fold_accents, config.hyphens, config.stem, config.drop_stop_words)
        facts = {
            **config.model_dump(include=self.OPTIONS),
            "corpus": corpus.digest,
            "index": "bm25",
            "bm25s": metadata.version("bm25s"),
            "words": _digest_of_terms(),
        }
        self.arrays = _load_or_build(folder, facts, lambda: self._index(config, corpus))
        self._size = len(corpus.passages)
        terms = self.arrays["vocabulary"].tobytes().decode()
        self._vocabulary = {term: n for n, term in enumerate(terms.split("\n"))} if terms else {}

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
        terms = self._tokenizer.terms
        return terms(passage.title) * self._config.title_weight + terms(passage.text)

    def scores(self, query: str, feedback: Feedback | None = None) -> Scores:
        """The sum of the query's terms in each passage; a passage without any of them is no candidate."""
        scores = np.zeros(self._size)
        data, indices, indptr = (self.arrays[name] for name in ("data", "indices", "indptr"))
        query_terms = Counter(term for term in self._tokenizer.terms(query) if term in self._vocabulary)
        for term, weight in (self._mixed(query_terms, feedback) if feedback else query_terms).items():
            n = self._vocabulary[term]
            part = slice(indptr[n], indptr[n + 1])
            scores[indices[part]] += weight * data[part]
        return np.where(scores > 0, scores, -np.inf)

    def _mixed(self, query_terms: Counter[str], feedback: Feedback) -> dict[str, float]:
        """Weights of the query's terms and of the best terms of the feedback passages; each part adds up to its share.

        A term weighs its share of the passage times its idf, added over the passages: the relevance model of
        Abdul-Jaleel et al., "UMass at TREC 2004: novelty and HARD" (RM3), with idf in the place of smoothing.
        """
        relevance: dict[str, float] = {}
        indptr = self.arrays["indptr"]
        for index in feedback.indexes:
            terms = Counter(self._terms(self._corpus.passages[index]))
            for term, count in terms.items():
                n = self._vocabulary[term]
                count_with_term = int(indptr[n + 1] - indptr[n])
                idf = math.log(1 + (self._size - count_with_term + 0.5) / (count_with_term + 0.5))
                relevance[term] = relevance.get(term, 0.0) + count / terms.total() * idf
        best = sorted(relevance, key=lambda term: (-relevance[term], term))[: feedback.terms]
        total = sum(relevance[term] for term in best)
        weights = {term: (1 - feedback.share) * count / query_terms.total() for term, count in query_terms.items()}
        for term in best:
            weights[term] = weights.get(term, 0.0) + feedback.share * relevance[term] / total
        return weights


class Dense:
    """Cosine of query and passage under an embedding model. Every passage with a text is a candidate."""

    def __init__(self, config: RetrievalConfig, corpus: Corpus, embedder: Embedder, folder: Path | None) -> None:
        self._embedder, self.model = embedder, embedder.name
        facts = {"index": "dense", **_of_embeddings(config, corpus, embedder)}
        self.arrays = _load_or_build(folder, facts, lambda: self._index(config, corpus))
        self._filled = self.arrays["vectors"].any(axis=1)
        self._last: tuple[str, NDArray[np.float32]] | None = None  # a query with feedback comes twice

    def _index(self, config: RetrievalConfig, corpus: Corpus) -> Arrays:
        texts = _texts(config, corpus)
        filled = [n for n, text in enumerate(texts) if text.strip()]
        embedded = self._embedder.embed([texts[n] for n in filled])
        vectors = np.zeros((len(texts), embedded.shape[1]), dtype=np.float32)
        vectors[filled] = embedded
        return {"vectors": vectors}

    def scores(self, query: str, feedback: Feedback | None = None) -> Scores:
        """Cosines; a blank passage is no candidate. Feedback moves the query towards its passages' mean (Rocchio, 1971)."""
        last = self._last
        if last is None or last[0] != query:
            last = self._last = (query, self._embedder.embed([query])[0])
        vector = last[1]
        if feedback:
            mean = self.arrays["vectors"][list(feedback.indexes)].mean(axis=0)
            vector = (1 - feedback.share) * vector + feedback.share * mean
            vector = vector / (np.linalg.norm(vector) or 1.0)
        cosines = (self.arrays["vectors"] @ vector).astype(np.float64).round(DIGITS)
        return np.asarray(np.where(self._filled, cosines, -np.inf))

    def similarity(self, index: int, others: Sequence[int]) -> Scores:
        """Cosines of one passage with others."""
        vectors = self.arrays["vectors"]
        return np.asarray(vectors[list(others)] @ vectors[index], dtype=np.float64).round(DIGITS)


class LateInteraction:
    """MaxSim (Khattab and Zaharia, 2020): mean over the query's word pieces of the best cosine in the passage."""

    def __init__(self, config: RetrievalConfig, corpus: Corpus, embedder: Embedder, folder: Path | None) -> None:
        if not isinstance(embedder, _TokenEmbedder):
            raise BadSettings(f"embedding model {embedder.name} gives no vectors of word pieces, which reranking needs")
        self._embedder, self.model = embedder, embedder.name
        facts = {"index": "pieces", **_of_embeddings(config, corpus, embedder)}
        self.arrays = _load_or_build(folder, facts, lambda: self._index(config, corpus))

    def _index(self, config: RetrievalConfig, corpus: Corpus) -> Arrays:
        texts = _texts(config, corpus)
        embedded = iter(self._embedder.embed_tokens([text for text in texts if text.strip()]))
        pieces = [next(embedded).astype(np.float16) if text.strip() else None for text in texts]
        ends = np.cumsum([0, *(0 if one is None else len(one) for one in pieces)])
        return {"pieces": np.concatenate([one for one in pieces if one is not None]), "ends": ends}

    def score(self, query: str, indexes: Sequence[int]) -> list[float]:
        """Scores of the passages at these indexes; -1 for a blank one."""
        query_pieces = self._embedder.embed_tokens([query])[0]
        pieces, ends = self.arrays["pieces"], self.arrays["ends"]
        filled = [n for n in indexes if ends[n + 1] > ends[n]]
        scores = dict.fromkeys(indexes, -1.0)
        if filled:
            of_each = [pieces[ends[n] : ends[n + 1]] for n in filled]
            similarity = np.concatenate(of_each).astype(np.float32) @ query_pieces.T
            starts = np.cumsum([0, *map(len, of_each[:-1])])
            best = np.maximum.reduceat(similarity, starts, axis=0).mean(axis=1, dtype=np.float64).round(DIGITS)
            scores |= dict(zip(filled, best.tolist(), strict=True))
        return [scores[n] for n in indexes]


@cache
def _digest_of_terms() -> str:
    """SHA-256 of the code that makes terms: other terms need another index."""
    files = (str(text_of_judges.__file__), __file__)
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()


def text_of(passage: Passage, config: RetrievalConfig) -> str:
    """What embedding models and rerankers read of a passage."""
    return passage.full if config.title_prefix else passage.text


def _texts(config: RetrievalConfig, corpus: Corpus) -> list[str]:
    texts = [text_of(passage, config) for passage in corpus.passages]
    if not any(text.strip() for text in texts):
        raise BadInput("every passage of the corpus is blank, so there is nothing to embed")
    return texts


def _of_embeddings(config: RetrievalConfig, corpus: Corpus, embedder: Embedder) -> dict[str, str | bool]:
    """What the index of an embedding model is made from."""
    facts: dict[str, str | bool] = {
        "corpus": corpus.digest,
        "title_prefix": config.title_prefix,
        "model": embedder.name,
    }
    for library in ("onnxruntime", "sentence-transformers", "torch"):
        with suppress(metadata.PackageNotFoundError):
            facts[library] = metadata.version(library)
    return facts


def _load_or_build(cache: Path | None, facts: Mapping[str, Any], build: Callable[[], Arrays]) -> Arrays:
    """The arrays that ``build`` gives, taken from ``cache`` where they were made from the same ``facts`` before.

    ``facts`` hold the corpus digest, the options and the versions that matter, and the index's kind as ``index``. They
    name the file and stand in it: an index of anything else, or a damaged one, is made anew, never used.
    """
    if cache is None:
        return build()
    key = orjson.dumps({**facts, "form": _FORM}, option=orjson.OPT_SORT_KEYS)
    path = cache / f"{facts['index']}-{hashlib.sha256(key).hexdigest()[:32]}.npz"
    cached = _read(path, key)
    if cached is not None:
        return cached
    arrays = build()
    content = io.BytesIO()
    stored: Arrays = {"facts": np.frombuffer(key, np.uint8), **arrays}
    np.savez(content, **stored)  # type: ignore[arg-type]  # its stubs know an option that older numpy takes for an array
    try:
        write_whole(path, content.getvalue(), private=True)
    except DiskFull as full:
        logger.warning("the index is not kept for later runs: %s", full)
    return arrays


def _read(path: Path, key: bytes) -> Arrays | None:
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile):
        return None
    facts = arrays.pop("facts", None)
    return arrays if facts is not None and facts.tobytes() == key else None
