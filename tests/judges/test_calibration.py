"""Calibrations: the arithmetic against scikit-learn's and scipy's, and figures on items that nothing was fitted on."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.optimize import isotonic_regression, minimize

from ragassay.errors import BadInput
from ragassay.judges.calibration import (
    METHODS,
    chance,
    check_labels,
    crossed,
    fit,
    isotonic_knots,
    logistic,
    measured,
)
from ragassay.specification import Calibration


def made_up(n=400, seed=0, slope=3.0, shift=-1.0):
    """Scores of a judge that is too sure of itself, and labels by the chance that they stand for."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(0.8, 0.5, n)
    true = 1 / (1 + np.exp(-(slope * (scores - 0.5) + shift)))
    return (rng.random(n) < true).astype(float), scores


def logit(scores):
    inside = np.clip(scores, 0.01, 0.99)
    return np.log(inside / (1 - inside))


@pytest.mark.parametrize("shifted", [False, True])
def test_slope_and_intercept_are_those_of_least_log_loss(shifted):
    labels, scores = made_up()

    def loss(weights):
        z = weights[0] * logit(scores) + (weights[1] if shifted else 0)
        return np.logaddexp(0, z).sum() - (labels * z).sum() + 0.005 * (weights**2).sum()

    best = minimize(loss, [0.0, 0.0], method="BFGS").x
    assert logistic(labels, scores, shifted=shifted) == pytest.approx((best[0], best[1] if shifted else 0), abs=1e-3)


def test_isotonic_steps_are_those_of_scipy():
    labels, scores = made_up(200)
    order = np.argsort(scores)
    expected = np.clip(isotonic_regression(labels[order]).x, 1 / 400, 1 - 1 / 400)
    xs, ys = zip(*isotonic_knots(labels, scores), strict=True)
    assert np.interp(scores[order], xs, ys) == pytest.approx(expected)


@pytest.mark.parametrize("method", ["temperature", "platt"])
def test_a_label_of_weight_2_counts_as_two(method):
    labels, scores = made_up()
    weights = np.where(np.arange(len(labels)) % 4 == 0, 2.0, 1.0)
    repeated = weights.astype(int)
    labels_twice, scores_twice = labels.repeat(repeated), scores.repeat(repeated)
    shifted = method == "platt"
    by_weight = logistic(labels, scores, shifted=shifted, weights=weights)
    assert by_weight == pytest.approx(logistic(labels_twice, scores_twice, shifted=shifted))
    knots, of_copies = isotonic_knots(labels, scores, weights), isotonic_knots(labels_twice, scores_twice)
    inside = [at for at, (_, chance) in enumerate(knots) if 0.01 < chance < 0.99]  # the ends depend on the number
    assert [knots[at] for at in inside] == [pytest.approx(of_copies[at]) for at in inside]


def test_isotonic_steps_of_tied_scores_are_their_means():
    labels = np.array([0, 1, 1, 0, 1, 1.0])
    scores = np.array([0, 0, 0.5, 0.5, 0.5, 1.0])
    assert isotonic_knots(labels, scores) == ((0.0, 0.5), (0.5, pytest.approx(2 / 3)), (1.0, pytest.approx(11 / 12)))


def of(method, labels, scores):
    slope, intercept = logistic(labels, scores, shifted=method == "platt")
    given = (
        {"knots": isotonic_knots(labels, scores)} if method == "isotonic" else {"slope": slope, "intercept": intercept}
    )
    return Calibration(judge="0" * 16, metric="faithfulness", method=method, labels=len(labels), data="x", **given)


@pytest.mark.parametrize("method", METHODS)
@given(a=st.floats(0, 1), b=st.floats(0, 1))
def test_a_higher_score_never_has_a_lower_chance(method, a, b):
    labels, scores = made_up(60)
    calibration = of(method, labels, scores)
    low, high = sorted((a, b))
    assert 0 < chance(calibration, low) <= chance(calibration, high) < 1


@pytest.mark.parametrize("method", METHODS)
def test_one_score_gets_what_a_column_of_them_gets(method):
    labels, scores = made_up(60)
    column = fit(labels, scores, method)(scores)
    assert [chance(of(method, labels, scores), float(score)) for score in scores] == pytest.approx(list(column))


def test_on_held_out_items_a_judge_that_is_too_sure_is_worth_more_after():
    labels, scores = made_up()
    groups = [f"g{n // 2}" for n in range(len(labels))]
    found = measured(labels, scores, crossed(labels, scores, groups, 0), groups, level=0.95, seed=0)
    for name in ("brier", "log_loss", "ece"):
        assert found[name].after < found[name].before
        assert found[name].change_interval.high < 0
    assert found["ece"].after < 0.08
    assert found["auc"].after == pytest.approx(found["auc"].before, abs=0.04)
    brier = np.mean((scores - labels) ** 2)
    assert found["brier"].before == pytest.approx(brier)


def test_no_item_is_judged_by_a_map_that_has_seen_its_group():
    labels, scores = made_up(120)
    groups = [f"g{n // 3}" for n in range(120)]
    own = np.array([group == "g7" for group in groups])
    others = np.where(own, 1 - labels, labels)
    before, after = (crossed(given, scores, groups, 0) for given in (labels, others))
    assert (before[own] == after[own]).all()
    assert (before[~own] != after[~own]).any()


REFUSED = {
    "few": (20, 29, "49 items have a score, 20 yes and 29 no", "label at least 1 more"),
    "one kind": (60, 4, "60 yes and 4 no", "label at least 6 more"),
    "none": (0, 0, "0 items have a score", "label at least 50 more"),
}


@pytest.mark.parametrize(("yes", "no", "what", "hint"), REFUSED.values(), ids=REFUSED)
def test_too_few_labels_are_refused_with_how_many_are_missing(yes, no, what, hint):
    labels = np.array([1.0] * yes + [0.0] * no)
    with pytest.raises(BadInput, match=what) as refused:
        check_labels(labels, labels.copy())
    assert refused.value.hint == hint


def test_labels_the_other_way_round_are_refused():
    labels, scores = made_up()
    with pytest.raises(BadInput, match="do not rise with the labels") as refused:
        check_labels(1 - labels, scores)
    assert "the other way round" in refused.value.hint


WRONG = [
    {"method": "platt", "slope": -1.0},
    {"method": "isotonic"},
    {"method": "platt", "knots": ((0.0, 0.1),)},
    {"method": "isotonic", "knots": ((0.0, 0.5), (1.0, 0.4))},
    {"method": "isotonic", "knots": ((0.5, 0.2), (0.5, 0.4))},
    {"method": "isotonic", "knots": ((0.5, 1.2),)},
    {"method": "platt", "slope": math.inf},
]


@pytest.mark.parametrize("given", WRONG)
def test_a_map_that_falls_can_not_be_read_from_a_file(given):
    with pytest.raises(ValidationError):
        Calibration(judge="0", metric="faithfulness", labels=50, data="x", **given)
