"""Near-duplicates: what is found, what is not, and that every machine finds the same."""

from __future__ import annotations

import random

import pytest

from ragassay.data.similar import Groups, _signatures, join_similar, normalised, similarity

WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa".split()


def groups_of(texts: list[str], least: float = 0.7) -> list[list[int]]:
    groups = Groups(len(texts))
    join_similar(groups, [normalised(text) for text in texts], least)
    return [places for places in groups.members().values() if len(places) > 1]


def test_similarity_is_the_jaccard_index_of_runs_of_four_characters() -> None:
    assert similarity("abcde", "abcdf") == 1 / 3  # abcd; bcde, bcdf
    assert similarity("ab", "ab") == 1.0
    assert similarity("ab", "cd") == 0.0


def test_case_punctuation_and_spacing_do_not_tell_texts_apart() -> None:
    assert groups_of(
        ["How long is a token valid?", "Where?", "how long  is a token valid", "How long is a TOKEN valid!"]
    ) == [[0, 2, 3]]


def test_of_texts_that_differ_in_a_word_or_a_letter_all_are_found() -> None:
    draw = random.Random(5)
    texts = [" ".join(draw.choice(WORDS) + str(draw.randrange(10**6)) for _ in range(12)) for _ in range(400)]
    changed = [text.replace(text.split()[3], text.split()[3][:-1] + "x") for text in texts]
    assert min(map(similarity, texts, changed)) >= 0.8
    assert groups_of([*texts, *changed]) == [[n, n + 400] for n in range(400)]


def test_unlike_texts_and_texts_below_the_threshold_are_not_joined() -> None:
    texts = ["What is the capital of France?", "What is the capital of Spain?", "", "?"]
    assert groups_of(texts) == [[2, 3]]  # nothing is left of either
    assert groups_of(texts[:2], least=0.6) == [[0, 1]]


@pytest.mark.parametrize("text", ["Überprüfung der Zugriffstoken, monatlich", "バックアップはいつ始まりますか"])
def test_other_scripts_are_compared_too(text: str) -> None:
    assert groups_of([text, "x", text + "!"]) == [[0, 2]]


def test_signatures_are_the_same_on_any_machine() -> None:
    assert _signatures(["how long is an access token valid", "a"])[:, :4].tolist() == PINNED


PINNED = [[328673889, 53282357, 142203995, 89507108], [2731911430, 895750883, 334830819, 3482683835]]
