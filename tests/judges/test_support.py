"""What the chance of support and of correctness is made of."""

import json
import math

import pytest

from ragassay.judges import support
from ragassay.judges.matching import Pool, match, terms_of
from ragassay.judges.quantities import quantities
from ragassay.judges.support import CORRECTNESS_FEATURES, SUPPORT_FEATURES, correctness_features, support_features


def features_of(claim, *said, texts_of=None):
    pool, terms = Pool.of(said, texts_of), terms_of(claim)
    return dict(zip(SUPPORT_FEATURES, support_features(terms, pool, match(terms, pool)), strict=True))


def chance(claim, *said):
    return support.probability(support.support_logit(tuple(features_of(claim, *said).values())))


def test_a_copy_lacks_nothing():
    found = features_of("The red gate opens at nine.", "The red gate opens at nine. ")
    ones = {"window", "pool", "alike", "pairs", "copied"}
    assert {name: found[name] for name in ones} == dict.fromkeys(ones, 1.0)
    assert found["length"] == pytest.approx(math.log1p(6))
    assert not any(value for name, value in found.items() if name not in {*ones, "length"})


def test_the_shares_are_those_of_stems_pairs_names_and_numbers():
    found = features_of("Anna met Olaf Lund in Oslo on 3 May.", "In Oslo, Anna met a friend on 4 May.")
    # stems: anna met olaf lund oslo 3 may, of which met, anna and oslo are there; may is a stop word
    assert found["window"] == found["pool"] == found["alike"] == pytest.approx(3 / 6)
    assert found["missing"] == pytest.approx(math.log1p(3))
    assert found["unknown_numbers"] == 1.0
    assert found["unknown_names"] == pytest.approx(2 / 3)  # Olaf and Lund of Olaf, Lund, Oslo; May is none
    assert found["pairs"] == pytest.approx(2 / 8)  # anna met, in oslo


def test_forms_of_a_word_count_in_one_feature_alone():
    found = features_of("Domestication began.", "Horses were domesticated.")
    assert (found["alike"], found["pool"]) == (1 / 2, 0.0)


def test_evidence_is_a_window_of_neighbours_in_one_text():
    parts = "Anna Berg leads the team.", "She was hired in 2019.", "The canteen is closed."
    claim = "Anna Berg was hired in 2019."
    assert features_of(claim, *parts)["window"] == 1.0
    apart = features_of(claim, *parts, texts_of=[0, 1, 1])
    assert (apart["window"], apart["pool"]) == (pytest.approx(2 / 4), 1.0)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Books may be kept for 21 days.", "Books may be kept for 28 days."),
        ("Books may be kept for 21 days.", "Films may be kept for 21 days."),
        ("The Millbrook branch is closed on Mondays.", "The Quay Street branch is closed on Mondays."),
        ("The Quay Street branch opens at nine.", "The Castle Street branch opens at nine."),
        ("Food is not allowed in study rooms.", "Food is allowed in study rooms."),
    ],
)
def test_one_thing_changed_makes_support_less_likely(right, wrong):
    said = (
        *("Books may be kept for 21 days.", "Films may be kept for 7 days.", "Food is not allowed in study rooms."),
        *("The Quay Street branch opens at nine.", "The Millbrook branch is closed on Mondays."),
    )
    assert chance(right, *said) > 0.8
    assert chance(wrong, *said) < chance(right, *said) - 0.05


def test_an_answer_is_compared_with_the_ground_truth_that_it_is_nearest_to():
    said = "The painter was Joseph Mallord William Turner."
    truths = ("John Constable", "Joseph Turner")
    found = dict(zip(CORRECTNESS_FEATURES, correctness_features("Who?", said, truths, refusal=False), strict=True))
    assert found == {
        "stands_in_it": 0.0,
        "words": 1.0,
        "spelling": 1.0,
        "unknown_numbers": 0.0,
        "refusal": 0.0,
        "length": pytest.approx(math.log1p(7)),
    }


def test_a_name_spelt_otherwise_and_a_truth_that_stands_in_the_answer():
    def first(answer, truth):
        return correctness_features("Who was it?", answer, (truth,), refusal=False)[:3]

    assert first("Katherine Hepburn", "Katharine Hepburn") == (0.0, 0.5, 1.0)
    assert first("It was the Touchstone.", "The Touchstone") == (1.0, 1.0, 1.0)
    assert first("It was Mary.", "Katharine Hepburn") == (0.0, 0.0, 0.0)


def test_the_weights_say_where_they_come_from_and_have_one_for_each_feature():
    document = json.loads(json.dumps(support.weights()))
    assert tuple(document["support"]["features"]) == SUPPORT_FEATURES
    assert tuple(document["correctness"]["features"]) == CORRECTNESS_FEATURES
    source = document["provenance"]
    assert {"script", "date", "seed", "sets", "left_out"} <= set(source)
    assert all(len(digest) == 16 for digest in source["sets"].values())
    least, most, correctness = support.left_out()
    assert 0.5 < least < most < 1
    assert 0.5 < correctness < 1


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("5 km", ["5000 m"]),
        ("5,000 m and 2.5kg", ["5000 m", "2500 g", "5000 "]),
        ("three weeks", ["1814400 s"]),
        ("a year", ["12 months"]),
        ("1.5 million", ["1500000 "]),
        ("5 kmh, 3 apples, v1.2.3 m", []),
        ("1,2,3 m", []),
    ],
)
def test_quantities_are_read_in_their_base_unit(text, values):
    assert [one.value for one in quantities(text)] == values
