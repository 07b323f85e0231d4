"""A judge beside people: each measure against scikit-learn, items and groups, and what is missing."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, balanced_accuracy_score, cohen_kappa_score, roc_auc_score

from ragassay.core.errors import NothingToEvaluate
from ragassay.judges.agreement import LabelledScore, agreement
from ragassay.stats.intervals import wilson_interval


def rows_of(labels, scores, groups=None, items=None):
    n = range(len(labels))
    groups, items = groups or [f"g{i}" for i in n], items or [f"i{i}" for i in n]
    return [LabelledScore(int(a), b, i, g) for a, b, i, g in zip(labels, scores, items, groups, strict=True)]


@pytest.fixture(params=range(4))
def drawn(request):
    """200 labels, and scores with many ties that follow them loosely."""
    rng = np.random.default_rng(request.param)
    labels = rng.random(200) < (0.2, 0.5, 0.8, 0.5)[request.param]
    scores = np.round(np.clip(0.3 * labels + 0.7 * rng.random(200), 0, 1), 1 if request.param % 2 else 3)
    return labels.astype(int), scores


def test_each_measure_is_that_of_scikit_learn(drawn):
    labels, scores = drawn
    found = agreement(rows_of(labels, scores.tolist()), resamples=100)
    said = (scores >= 0.5).astype(int)
    assert found.accuracy == pytest.approx(accuracy_score(labels, said))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(labels, said))
    assert found.kappa == pytest.approx(cohen_kappa_score(labels, said))
    assert found.auc == pytest.approx(roc_auc_score(labels, scores))


def test_the_reliability_table_and_its_error_are_those_of_scikit_learn():
    rng = np.random.default_rng(7)
    scores = rng.random(300)  # none on the edge of a bin, where the two differ in which bin it belongs to
    labels = (rng.random(300) < scores**2).astype(int)
    found = agreement(rows_of(labels, scores.tolist()), resamples=100)
    yes, mean = calibration_curve(labels, scores, n_bins=10, strategy="uniform")
    bins = [b for b in found.reliability if b.n]
    assert [b.share_yes for b in bins] == pytest.approx(yes)
    assert [b.mean_score for b in bins] == pytest.approx(mean)
    assert found.ece == pytest.approx(sum(b.n * abs(b.mean_score - b.share_yes) for b in bins) / 300)
    assert (sum(b.n for b in found.reliability), found.n) == (300, 300)


def test_a_score_of_one_half_is_a_yes_and_one_of_one_lies_in_the_last_bin():
    found = agreement(rows_of([1, 0, 1], [0.5, 0.0, 1.0]), resamples=100)
    assert found.accuracy == 1.0
    assert [b.n for b in found.reliability] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert found.ece == pytest.approx(0.5 / 3)


def test_rows_of_an_item_are_one_and_the_highest_score_counts():
    found = agreement(rows_of([1, 1, 0], [0.2, 0.9, 0.4], items=["a", "a", "b"]), resamples=100)
    assert (found.n, found.accuracy, found.mean_score) == (2, 1.0, pytest.approx(0.65))


def test_an_item_without_a_score_is_counted_with_its_reason_and_is_in_no_measure():
    rows = rows_of([1, 1, 0, 0], [0.9, 0.8, 0.1, 0.2], items=["a", "b", "c", "d"])
    rows += [LabelledScore(1, None, "b", "g", "the provider failed"), LabelledScore(0, None, "e", "g", "cut off")]
    found = agreement(rows, resamples=100)
    assert (found.n, found.missing, found.accuracy) == (3, 2, 1.0)
    assert found.reasons == {"the provider failed": 1, "cut off": 1}
    with pytest.raises(NothingToEvaluate, match="the judge gave no score: cut off"):
        agreement([rows[-1]])


def test_where_people_say_the_same_of_all_what_needs_both_is_none():
    found = agreement(rows_of([1, 1], [0.9, 0.4]), resamples=100)
    assert (found.accuracy, found.balanced_accuracy, found.auc, found.kappa) == (0.5, None, None, 0.0)


def test_rows_that_repeat_within_their_group_make_no_interval_narrower(drawn):
    labels, scores = drawn
    once = agreement(rows_of(labels, scores.tolist()), resamples=200)
    groups = [f"g{n}" for n in range(200)] * 5
    five = agreement(rows_of([*labels] * 5, scores.tolist() * 5, groups=groups), resamples=200)
    assert five.groups == once.groups == 200
    assert {name: str(i) for name, i in five.intervals.items()} == {name: str(i) for name, i in once.intervals.items()}
    alone = agreement(rows_of([*labels] * 5, scores.tolist() * 5), resamples=200)
    assert alone.intervals["auc"].width < 0.6 * once.intervals["auc"].width


def test_intervals_hold_the_value_repeat_with_the_seed_and_change_with_it(drawn):
    labels, scores = drawn
    first, again, other = (agreement(rows_of(labels, scores.tolist()), resamples=200, seed=s) for s in (1, 1, 2))
    assert first == again != other
    for name in ("accuracy", "balanced_accuracy", "kappa", "auc"):
        assert first.intervals[name].contains(getattr(first, name))


def test_few_groups_and_a_rare_label_have_no_interval_and_say_why():
    few = agreement(
        rows_of([1, 0] * 10, [0.9, 0.1] * 9 + [0.1, 0.9], groups=[f"g{n % 7}" for n in range(20)]), resamples=100
    )
    assert few.intervals["auc"].reason == "a bootstrap needs 8 groups, there are 7"
    rare = agreement(rows_of([1, *[0] * 29], [0.9, 0.95, *[0.1] * 28]), resamples=100)
    assert rare.intervals["auc"].reason == "undefined for too many draws: one label is rare"


def test_agreement_without_a_disagreement_claims_no_certainty():
    found = agreement(rows_of([1] * 9 + [0] * 8, [0.9] * 9 + [0.1] * 8), resamples=100)
    assert (found.accuracy, found.kappa, found.auc) == (1.0, 1.0, 1.0)
    wilson = wilson_interval(17, 17)
    assert found.intervals["accuracy"].low == pytest.approx(wilson.low)
    assert wilson.low < 0.83
    assert found.intervals["balanced_accuracy"].low < 0.83
    for name in ("kappa", "auc"):
        assert str(found.intervals[name]) == "no interval (no disagreement among 17)"


def test_agreement_names_the_best_threshold():
    labels, scores = [1, 1, 1, 0, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.6, 0.1]
    found = agreement(rows_of(labels, scores), resamples=100)
    assert found.balanced_accuracy == pytest.approx(2 / 3)  # from 0.5 on: all yes are found, one no of three
    assert (found.threshold, found.at_threshold) == (0.7, 1.0)


def test_the_interval_of_the_balanced_accuracy_covers_the_true_one():
    covered, true = 0, 0.75  # of yes and of no, three in four are told rightly
    for seed in range(100):
        rng = np.random.default_rng(seed)
        labels = (rng.random(120) < 0.4).astype(int)
        right = rng.random(120) < true
        scores = np.where(labels == right, 0.9, 0.1)
        found = agreement(rows_of(labels, scores.tolist()), resamples=200, seed=seed)
        covered += found.intervals["balanced_accuracy"].contains(true)
    assert covered >= 89
