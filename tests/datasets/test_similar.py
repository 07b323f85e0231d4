"""Near-duplicates: which texts are found, and which are not."""

import random

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


def test_similar_groups_ignores_case_punctuation_and_spacing():
    texts = ["How long is a token valid?", "Where?", "how long  is a token valid", "How long is a TOKEN valid!"]
    assert groups_of(texts) == [[0, 2, 3]]
    assert groups_of(texts, least=1) == [[0, 2, 3]]


def test_similar_groups_finds_texts_that_differ_in_a_letter():
    draw = random.Random(5)
    texts = [" ".join(draw.choice(WORDS) + str(draw.randrange(10**6)) for _ in range(12)) for _ in range(700)]
    changed = [text.replace(text.split()[3], text.split()[3][:-1] + "x") for text in texts]
    assert groups_of([*texts, *changed], 0.8) == [[n, n + 700] for n in range(700)]


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
