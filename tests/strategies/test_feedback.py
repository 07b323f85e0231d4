"""Searching twice: the first passages found are added to the query, in words and in meaning."""

import math

import pytest
from pydantic import ValidationError

from fakes import FakeEmbedder
from ragassay.strategies.corpus import Corpus, Passage
from ragassay.strategies.options import RetrievalConfig
from ragassay.strategies.retrieval import build

TEXTS = {"a": "apple banana", "b": "banana cherry", "c": "date", "d": "elder"}


def search(query="apple", texts=TEXTS, **options):
    corpus = Corpus.of(Passage(id=i, text=text) for i, text in texts.items())
    found = build(RetrievalConfig(**options), corpus, embedder=FakeEmbedder(4096)).search(query, 10).hits
    return {hit.id: hit.score for hit in found}


def test_words_of_the_first_passages_find_others():
    assert list(search(kind="bm25")) == ["a"]
    found = search(kind="bm25", feedback=1)
    # 'apple' is in 1 of 4 passages, 'banana' in 2; each is half of passage a
    apple, banana = math.log(1 + 3.5 / 1.5), math.log(1 + 2.5 / 2.5)
    taken = 0.5 * banana / (apple + banana)
    # lengths 2, 2, 1, 1, mean 1.5
    in_b = banana * 1 / (1 + 1.2 * (0.25 + 0.75 * 2 / 1.5))
    assert list(found) == ["a", "b"]
    assert found["b"] == pytest.approx(taken * in_b)


def test_only_so_many_words_are_taken_the_most_telling_first():
    # of a's words 'apple' is the rarer one, and it is the query's already
    assert list(search(kind="bm25", feedback=1, feedback_terms=1)) == ["a"]


def test_the_share_of_the_passages_is_the_weight():
    light, heavy = (search(kind="bm25", feedback=1, feedback_weight=w)["b"] for w in (0.2, 0.8))
    assert heavy == pytest.approx(4 * light)


def test_embeddings_move_the_query_towards_the_mean_of_the_passages():
    plain, moved = search(kind="dense"), search(kind="dense", feedback=1)
    # words are at right angles: q = (1, 0), a = (1, 1) / sqrt(2), b shares only 'banana'
    half = 0.5 / math.sqrt(2)
    length = math.hypot(0.5 + half, half)
    assert plain["a"] == pytest.approx(math.sqrt(0.5), abs=1e-6)
    assert moved["a"] == pytest.approx((0.5 + 2 * half) / math.sqrt(2) / length, abs=1e-6)
    assert (plain["b"], moved["b"]) == (0, pytest.approx(half / math.sqrt(2) / length, abs=1e-6))


def test_both_rankings_are_fed_with_what_they_found_together():
    found = search("fig", kind="hybrid", feedback=2)
    # nobody has the word: the embeddings' first two by id are fed, and BM25 finds what shares a word with them
    assert list(found)[:2] == ["a", "b"]
    assert search("fig", kind="bm25", feedback=2) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "bm25", "feedback_weight": 0.3}, "feedback_weight"),
        ({"kind": "dense", "feedback": 2, "feedback_terms": 5}, "feedback_terms"),
        ({"kind": "bm25", "feedback": -1}, "greater than or equal to 0"),
        ({"kind": "bm25", "feedback": 1, "feedback_weight": 1}, "less than 1"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        RetrievalConfig(**options)
