"""Searching twice: the first passages found are added to the query, in words and in meaning."""

import math

import pytest

from fakes import FakeEmbedder
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.systems.options import RetrievalConfig
from ragassay.systems.retrieval import build

TEXTS = {"a": "apple banana", "b": "banana cherry", "c": "date", "d": "elder"}


def search(query="apple", texts=TEXTS, **options):
    corpus = Corpus.of(Passage(id=i, text=text) for i, text in texts.items())
    found = build(RetrievalConfig(**options), corpus, embedder=FakeEmbedder(4096)).search(query, 10).hits
    return {hit.id: hit.score for hit in found}


def test_feedback_bm25_finds_words_of_the_first_passages():
    assert list(search(kind="bm25")) == ["a"]
    found = search(kind="bm25", feedback=1)
    # 'apple' is in 1 of 4 passages, 'banana' in 2; each is half of passage a
    apple, banana = math.log(1 + 3.5 / 1.5), math.log(1 + 2.5 / 2.5)
    taken = 0.6 * banana / (apple + banana)
    # lengths 2, 2, 1, 1, mean 1.5
    in_b = banana * 1 / (1 + 1.2 * (0.25 + 0.75 * 2 / 1.5))
    assert list(found) == ["a", "b"]
    assert found["b"] == pytest.approx(taken * in_b)


def test_feedback_dense_moves_the_query_towards_the_mean_of_the_passages():
    plain, moved = search(kind="dense"), search(kind="dense", feedback=1)
    # words are at right angles: q = (1, 0), a = (1, 1) / sqrt(2), b shares only 'banana'
    share = 0.6 / math.sqrt(2)
    length = math.hypot(0.4 + share, share)
    assert plain["a"] == pytest.approx(math.sqrt(0.5), abs=1e-6)
    assert moved["a"] == pytest.approx((0.4 + 2 * share) / math.sqrt(2) / length, abs=1e-6)
    assert (plain["b"], moved["b"]) == (0, pytest.approx(share / math.sqrt(2) / length, abs=1e-6))
