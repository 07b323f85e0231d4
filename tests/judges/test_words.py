"""Words, stems, numbers, names and negation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.tokenizers import DefaultTokenizer

from ragassay.core.text import content, names, negated, numbers, stem, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The U.S. isn't far_off", ["the", "u", "s", "isn", "t", "far", "off"]),
        ("Größe, naïve!", ["größe", "naïve"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("東京は広い", ["東", "京", "は", "広", "い"]),
        ("iPhone 15 Pro 价格", ["iphone", "15", "pro", "价", "格"]),
        ("…—!", []),
    ],
)
def test_words_are_found_in_every_script(text, expected):
    assert words(text) == expected


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=80))
def test_words_of_ascii_are_the_tokens_of_rouge_score(text):
    assert words(text) == DefaultTokenizer().tokenize(text)


@pytest.mark.parametrize(
    "family",
    [
        ["refund", "refunds", "refunded", "refunding"],
        ["company", "companies"],
        ["stop", "stops", "stopped", "stopping"],
        ["use", "uses", "used"],
        ["quick", "quickly"],
        ["organise", "organize", "organised", "organizes"],
        ["pay", "pays", "payment", "payments", "paying"],
        ["box", "boxes"],
        ["three", "3"],
    ],
)
def test_forms_of_a_word_share_a_stem(family):
    assert len({stem(word) for word in family}) == 1


@pytest.mark.parametrize(("one", "other"), [("bus", "but"), ("class", "clas"), ("thing", "th"), ("days", "dates")])
def test_other_words_keep_other_stems(one, other):
    assert stem(one) != stem(other)


@given(st.text(max_size=20))
def test_a_stem_is_never_empty_but_of_nothing(word):
    assert bool(stem(word)) == bool(word)


def test_content_leaves_out_words_that_carry_no_meaning():
    assert content("The refunds are not for you, but for the company.") == {"refund", "company"}


def test_content_of_stop_words_only_is_all_of_them():
    assert content("Yes, it is.") == {"yes", "it", "is"}
    assert content("!?") == frozenset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,000 and 1000.0 and 01000", {"1000"}),
        ("2.50 or 2.5", {"2.5"}),
        ("0 and 0.0 and 0.5", {"0", "0.5"}),
        ("v1.2.3 and B2B and 10kg", {"10"}),
        ("the season 2018–19", {"2018", "2019"}),
        ("twelve of twenty, but one", {"12", "20"}),
        ("3,14", {"3,14"}),
        ("nothing", set()),
    ],
)
def test_numbers_have_one_spelling(text, expected):
    assert numbers(text) == expected


def test_names_are_capitalised_words_but_the_first():
    assert names("Refunds go to Anna Lee in New York. The end.") == {"anna", "lee", "new", "york", "end"} - {"end"}
    assert names("paris") == names("Paris") == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "It does not ship.",
        "It doesn't ship.",
        "It doesn’t ship",
        "no refunds",
        "It cannot",
        "without a fee",
        "It never does",
    ],
)
def test_a_denial_is_seen(text):
    assert negated(text)


@pytest.mark.parametrize("text", ["It ships.", "Not only that, it ships too.", "See no. 5.", "nothings", "a knot"])
def test_what_denies_nothing_is_not_a_denial(text):
    assert not negated(text)
