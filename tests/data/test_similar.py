"""Near-duplicates: what is found, what is not, and that every machine finds the same."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ragassay.data import similar
from ragassay.data.similar import Groups, _signatures, _UpperBounds, join_similar, normalised, similarity

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


def test_no_pair_is_more_similar_than_its_bound() -> None:
    draw = random.Random(3)
    texts = [normalised(" ".join(draw.choices(WORDS, k=draw.randrange(1, 40)))) for _ in range(120)] + [
        "",
        "a",
        "aaaaaaaa",
    ]
    pairs = np.array([(a, b) for a in range(len(texts)) for b in range(a)])
    bounds = _UpperBounds(texts).of(pairs)
    exact = [similarity(texts[a], texts[b]) for a, b in pairs]
    assert all(bound >= value for bound, value in zip(bounds, exact, strict=True))
    assert np.mean(bounds - exact) < 0.05


def test_of_a_crowd_of_texts_of_one_form_few_are_compared_letter_by_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is like all others, at 0.6; without bounds it took 60,055 comparisons."""
    compared = []
    monkeypatch.setattr(similar, "similarity", lambda a, b: compared.append(a) or similarity(a, b))
    draw = random.Random(1)
    texts = [f"what is the status of order {draw.randrange(16**8):08x}" for _ in range(2000)]
    found = groups_of([*texts, texts[7] + "x"], least=0.8)
    assert [7, 2000] in found
    assert len(compared) < 1000


def test_signatures_are_the_same_on_any_machine() -> None:
    assert _signatures(["how long is an access token valid", "a"])[:, :4].tolist() == PINNED


PINNED = [[328673889, 53282357, 142203995, 89507108], [2731911430, 895750883, 334830819, 3482683835]]
