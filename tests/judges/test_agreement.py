"""A judge beside people: each measure against scikit-learn, items and groups, and what is missing."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, balanced_accuracy_score, cohen_kappa_score, roc_auc_score

from ragassay.core.errors import NothingToEvaluate
from ragassay.judges.agreement import MEASURES, LabelledScore, agreement
from ragassay.stats.intervals import wilson_interval


def rows_of(labels, scores, groups=None):
    groups = groups or [f"g{i}" for i in range(len(labels))]
    return [LabelledScore(int(a), b, g) for a, b, g in zip(labels, scores, groups, strict=True)]


@pytest.fixture(params=range(2))
def drawn(request):
    """200 labels, and scores with many ties that follow them loosely."""
    rng = np.random.default_rng(request.param)
    labels = rng.random(200) < (0.2, 0.5)[request.param]
    scores = np.round(np.clip(0.3 * labels + 0.7 * rng.random(200), 0, 1), 1 if request.param % 2 else 3)
    return labels.astype(int), scores


def test_each_measure_is_that_of_scikit_learn(drawn):
    labels, scores = drawn
    found = agreement(rows_of(labels, scores.tolist()), resamples=100)
    said = (scores >= 0.5).astype(int)
    assert found.accuracy.value == pytest.approx(accuracy_score(labels, said))
    assert found.balanced_accuracy.value == pytest.approx(balanced_accuracy_score(labels, said))
    assert found.kappa.value == pytest.approx(cohen_kappa_score(labels, said))
    assert found.auc.value == pytest.approx(roc_auc_score(labels, scores))


def test_the_calibration_error_is_that_of_scikit_learns_curve():
    rng = np.random.default_rng(7)
    scores = rng.random(300)  # none on the edge of a bin, where the two differ in which bin it belongs to
    labels = (rng.random(300) < scores**2).astype(int)
    found = agreement(rows_of(labels, scores.tolist()), resamples=100)
    yes, mean = calibration_curve(labels, scores, n_bins=10, strategy="uniform")
    held = np.bincount((scores * 10).astype(int), minlength=10)
    assert found.ece.value == pytest.approx(float(held[held > 0] @ np.abs(mean - yes)) / 300)


def test_a_row_without_a_score_is_counted_with_its_reason_and_is_in_no_measure():
    rows = [*rows_of([1, 1, 0], [0.9, 0.8, 0.1]), LabelledScore(0, None, "e", "cut off")]
    found = agreement(rows, resamples=100)
    assert (found.accuracy.n, found.accuracy.value, found.ece.missing) == (3, 1.0, {"cut off": 1})
    with pytest.raises(NothingToEvaluate, match="the judge gave no score: cut off"):
        agreement(rows[-1:])


def test_rows_that_repeat_within_their_group_make_no_interval_narrower(drawn):
    labels, scores = drawn
    once = agreement(rows_of(labels, scores.tolist()), resamples=200)
    groups = [f"g{n}" for n in range(200)] * 5
    five = agreement(rows_of([*labels] * 5, scores.tolist() * 5, groups=groups), resamples=200)
    assert five.groups == once.groups == 200
    for name in MEASURES:
        first = getattr(once, name)
        assert str(getattr(five, name).interval) == str(first.interval)
        assert name == "ece" or first.interval.contains(first.value)


def test_agreement_without_a_disagreement_claims_no_certainty():
    found = agreement(rows_of([1] * 9 + [0] * 8, [0.9] * 9 + [0.1] * 8), resamples=100)
    assert (found.accuracy.value, found.kappa.value, found.auc.value) == (1.0, 1.0, 1.0)
    wilson = wilson_interval(17, 17)
    assert found.accuracy.interval.low == pytest.approx(wilson.low)
    assert wilson.low < 0.83
    assert found.balanced_accuracy.interval.low < 0.83
    for one in (found.kappa, found.auc):
        assert str(one.interval) == "no interval (no disagreement among 17)"


@pytest.mark.parametrize("labels", [[1] * 20, [0, 1] * 10])
def test_kappa_has_no_interval_if_people_or_the_judge_give_one_answer_only(labels):
    scores = [0.9, 0.1] * 10 if 0 not in labels else [0.9] * 20
    found = agreement(rows_of(labels, scores), resamples=100)
    assert found.kappa.value == pytest.approx(0.0)
    assert str(found.kappa.interval) == "no interval (people or the judge gave one answer only)"


def test_agreement_names_the_best_threshold():
    labels, scores = [1, 1, 1, 0, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.6, 0.1]
    found = agreement(rows_of(labels, scores), resamples=100)
    assert found.balanced_accuracy.value == pytest.approx(2 / 3)  # from 0.5 on: all yes are found, one no of three
    assert (found.threshold, found.at_threshold) == (0.7, 1.0)
