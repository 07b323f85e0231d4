"""How far sentences carry a claim: the shares beside each expected number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragassay.judges.matching import Pool, match, terms_of


def carried(claim, *sentences, given_stems=()):
    return match(terms_of(claim), Pool.of(sentences), frozenset(given_stems))


def test_best_is_the_share_of_stems_in_one_sentence_and_union_that_in_all_chosen():
    found = carried("Anna sells red apples.", "Anna sells pears.", "Apples are red.", "Anna sleeps.")
    assert found.best == 2 / 4  # anna, sell of anna, sell, red, appl
    assert found.union == 1.0
    assert found.chosen == (0, 1)
    assert found.lacking == frozenset()


def test_a_sentence_that_adds_little_is_no_evidence():
    claim = "Anna Berg sells seven kinds of fresh red apples daily."  # 8 stems, so one more is 0.125
    found = carried(claim, "Anna Berg sells seven kinds of fresh red pears.", "Apples grow here.")
    assert (found.chosen, found.lacking) == ((0,), {"appl", "dai"})
    assert found.union == 7 / 9


def test_at_most_three_sentences_are_evidence():
    found = carried("red green blue grey", "red", "green", "blue", "grey")
    assert (found.chosen, found.union) == ((0, 1, 2), 3 / 4)


def test_words_of_the_query_are_no_achievement():
    assert carried("The capital is Paris.", "The capital is Rome.").best == 1 / 2
    assert carried("The capital is Paris.", "The capital is Rome.", given_stems={"capital"}).best == 0.0
    assert carried("The capital.", "The capital.", given_stems={"capital"}).best == 1.0  # nothing else to go by


def test_nothing_carries_a_claim_where_there_is_nothing():
    found = carried("It rains.")
    assert (found.best, found.union, found.chosen, found.near, found.denied_by) == (0.0, 0.0, (), (), None)
    assert found.similarity() == found.similarity(0.0) == 0.0


def test_similarity_weighs_words_and_meaning():
    found = carried("Anna sells red apples.", "Anna sells pears.", "Apples are red.")
    assert found.similarity() == pytest.approx(0.5 * 0.5 + 0.5 * 1.0)
    assert found.similarity(0.9) == pytest.approx(0.4 * 0.5 + 0.4 * 1.0 + 0.2 * 0.9)
    assert found.similarity(-0.5) == found.similarity(0.0) == pytest.approx(0.6)


def test_numbers_and_names_said_nowhere_cost_a_quarter_each():
    found = carried("In Oslo it rained on 12 days of 30.", "It rained on 30 days.", "Bergen")
    assert (found.unknown_numbers, found.unknown_names) == (1 / 2, 1.0)
    assert found.similarity() == pytest.approx(0.5 * 3 / 5 + 0.5 * 3 / 5 - 0.25 * 1 / 2 - 0.25)


def test_numbers_in_words_and_digits_agree():
    found = carried("It takes three days.", "It takes 3 days.")
    assert (found.best, found.unknown_numbers, found.denied_by) == (1.0, 0.0, None)


def test_another_number_in_the_same_sentence_denies():
    assert carried("Refunds take 30 days.", "Refunds take 14 days.").denied_by == 0
    assert carried("Refunds take 30 days.", "Refunds take days.").denied_by is None
    table = "The starter plan has 5 seats.", "The starter plan has 20 projects."
    assert carried("The starter plan has 5 seats and 20 projects.", *table).denied_by is None


def test_a_number_that_belongs_to_something_else_is_no_excuse():
    assert carried("Refunds take 30 days.", "Refunds take 14 days.", "Trials take 30 days.").denied_by == 0
    assert carried("Trials take 30 days.", "Refunds take 14 days.", "Trials take 30 days.").denied_by is None
    both = "Pro accounts keep data for 30 days, Starter accounts for 7 days."
    assert carried("Starter accounts keep data for 30 days.", both).denied_by == 0
    assert carried("Pro accounts keep data for 30 days.", both).denied_by is None
    assert carried("Starter accounts keep data for 7 days.", both).denied_by is None


def test_the_opposite_of_one_clause_denies_though_the_sentence_is_long():
    long = "Parking is not free near the station, but the shops and the town hall in the centre refund the ticket."
    assert carried("Parking is free near the station.", long).denied_by == 0
    assert carried("Parking is not free near the station.", long).denied_by is None


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("The tunnel is 5 km long.", "The tunnel is 5,000 m long."),
        ("The tunnel is 5,000 metres long.", "The tunnel is 5 kilometres long."),
        ("Refunds take three weeks.", "Refunds take 21 days."),
        ("The bottle holds 0.5 l.", "The bottle holds 500 ml."),
        ("The town has 1.5 million people.", "The town has 1,500,000 people."),
        ("The trial lasts 24 months.", "The trial lasts two years."),
        ("Die Frist dauert 2 Wochen.", "Die Frist dauert 14 Tage."),
    ],
)
def test_one_quantity_in_two_units_agrees(claim, said):
    found = carried(claim, said)
    assert (found.best, found.unknown_numbers, found.denied_by) == (1.0, 0.0, None)


def test_another_quantity_in_another_unit_does_not_agree():
    assert carried("The tunnel is 5 km long.", "The tunnel is 6,000 m long.").unknown_numbers == 1.0
    assert carried("Refunds take three weeks.", "Refunds take 20 days.").best < 1.0


def test_the_opposite_sign_denies():
    assert carried("Refunds are possible after a month.", "Refunds are not possible after a month.").denied_by == 0
    assert carried("Refunds are not possible after a month.", "Refunds are possible after a month.").denied_by == 0
    assert carried("Refunds are not possible.", "Refunds aren't possible.").denied_by is None


def test_a_longer_sentence_with_a_denial_elsewhere_does_not_deny():
    longer = "Refunds are possible after a month, while gift cards, coupons and credits never expire or come back."
    assert carried("Refunds are possible after a month.", longer).denied_by is None


def test_of_equal_sentences_the_one_that_agrees_is_preferred():
    found = carried("Refunds take 14 days.", "Refunds never take 20 days.", "Refunds take 14 days.")
    assert (found.chosen, found.denied_by) == ((1,), None)


def test_a_very_long_sentence_is_read_and_not_remembered():
    long = "apple " * 1000 + "x" * 1000
    assert terms_of(long) == terms_of(long)
    assert terms_of(long) is not terms_of(long)
    assert terms_of("It rains.") is terms_of("It rains.")
    assert match(terms_of("apples"), Pool.of([long])).best == 1.0


WORDS = st.lists(st.sampled_from("Anna Berg sells red green apples 12 30 not in Oslo".split()), min_size=1, max_size=8)


@given(WORDS, st.lists(WORDS, max_size=4))
def test_shares_are_shares_and_meaning_only_adds(claim, sentences):
    found = carried(" ".join(claim), *map(" ".join, sentences))
    assert 0.0 <= found.best <= found.union + 1e-9 <= 1.0 + 2e-9
    assert set(found.chosen) <= set(found.near) <= set(range(len(sentences)))
    assert 0.0 <= found.similarity(0.0) <= found.similarity(1.0) <= 1.0


@given(WORDS, st.lists(WORDS, max_size=4))
def test_a_sentence_carries_itself(claim, others):
    text = " ".join(claim)
    found = carried(text, *map(" ".join, others), text)
    assert (found.best, found.union, found.denied_by) == (1.0, 1.0, None)
    assert found.similarity() == 1.0


def test_a_number_that_is_said_only_of_something_else_denies_all_the_same():
    sentences = "Refunds are paid within 14 days.", "Support is open on 30 days of the month."
    assert carried("Refunds are paid within 30 days.", *sentences).denied_by == 0
