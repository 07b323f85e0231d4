"""Near-duplicates: which texts are found, and which are not."""

import pytest

from ragassay.datasets import describe
from ragassay.datasets.describe import normalised, similar_groups

WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa".split()


def groups_of(texts, least=0.7):
    return similar_groups([normalised(text) for text in texts], least)


def test_similar_groups_compares_by_the_jaccard_index():
    # abcd; bcde, bcdf: 1 of 3
    assert similar_groups(["abcde", "abcdf"], 1 / 3) == [[0, 1]]
    assert similar_groups(["abcde", "abcdf"], 0.34) == []


def test_similar_groups_leaves_unlike_texts_apart():
    texts = ["What is the capital of France?", "What is the capital of Spain?", "", "?"]
    assert groups_of(texts) == [[2, 3]]  # no word is left of either
    assert groups_of(texts[:2], least=0.6) == [[0, 1]]
    assert groups_of([]) == []


@pytest.mark.parametrize("text", ["Überprüfung der Zugriffstoken, monatlich", "バックアップはいつ始まりますか"])
def test_similar_groups_compares_other_scripts(text):
    assert groups_of([text, "x", text + "!"]) == [[0, 2]]


def test_normalised_keeps_vowel_signs():
    # without its vowel sign, "कि" (that) would be the letter of "का" (of)
    assert normalised("कि?") != normalised("का?")


def test_similar_groups_compares_the_first_texts_of_many(monkeypatch):
    monkeypatch.setattr(describe, "MAX_COMPARED", 2)
    assert similar_groups(["abcde", "abcdf", "abcdg", "abcde"], 1 / 3) == [[0, 1, 3]]
