"""The test for drift of a judge: exact at any noise, and in units that a reader can check."""

import itertools
import math

import numpy as np
import pytest

from ragassay.stats.drift import sign_test, stands_out


def apart(labels):
    """Shares of differing labels of each pair of judgings; ``labels`` has shape (rows, judgings, labels)."""
    return (labels[:, :, None] != labels[:, None]).mean(axis=3)


def judged(rng, *, rows=80, noise=0.05, swayed=0.0):
    """Three judgings of four labels a row by a judge that errs on some rows more than on others, and at times on all of
    a row at once; the last one denies all of a share ``swayed`` of the rows.
    """
    right = rng.random((rows, 1, 4)) < 0.7
    unsure = np.where(rng.random((rows, 1, 1)) < 0.3, noise / 0.3, 0.0)
    labels = right ^ (rng.random((rows, 3, 4)) < unsure)
    labels &= rng.random((rows, 3, 1)) >= noise / 2
    labels[:, 2] &= rng.random((rows, 1)) >= swayed
    scores = np.stack([labels[:, :, :2].mean(axis=2), labels.mean(axis=2)], axis=2)
    return scores, apart(labels)


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_false_alarms_are_as_many_as_stated(noise):
    rng, nights = np.random.default_rng(5), 2000
    alarms = sum(stands_out(*judged(rng, noise=noise), alpha=0.02, draws=499, seed=n).p <= 0.02 for n in range(nights))
    # 0.02 of 2,000 are 40, with a standard deviation of 6.3
    assert 20 <= alarms <= 60


def test_a_judge_that_denies_a_fifth_of_the_rows_is_found_in_most_nights():
    rng = np.random.default_rng(6)
    found = [stands_out(*judged(rng, swayed=0.2), alpha=1 / 200, draws=1999, seed=n).p <= 1 / 200 for n in range(100)]
    assert sum(found) >= 75


def test_p_is_what_all_choices_of_a_last_judging_give():
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 3, (6, 3, 1)) / 2
    still = np.zeros((6, 3, 3))
    found = stands_out(scores, still, alpha=0.05, draws=20_000)
    totals = [
        abs(sum(scores[n, r, 0] - (scores[n].sum() - scores[n, r, 0]) / 2 for n, r in enumerate(roles)))
        for roles in itertools.product(range(3), repeat=6)
    ]
    here = abs((scores[:, 2, 0] - scores[:, :2, 0].mean(axis=1)).sum())
    assert found.p == pytest.approx(np.mean(np.array(totals) >= here - 1e-9), abs=0.015)
    assert found.distances[0] == pytest.approx((scores[:, 2, 0] - scores[:, :2, 0].mean(axis=1)).mean())


def test_of_a_judge_without_noise_five_rows_that_change_one_way_are_drift_and_four_are_not():
    def p(changed):
        scores = np.ones((60, 3, 1))
        scores[:changed, 2] = 0
        return stands_out(scores, np.zeros((60, 3, 3)), alpha=1 / 200).p

    # each of them is the last judging with a chance of 1/3: 3^-5 = 0.0041, 3^-4 = 0.0123
    assert p(5) == pytest.approx(3**-5, abs=0.002)
    assert p(4) == pytest.approx(3**-4, abs=0.004)
    assert (p(5) <= 1 / 200, p(4) <= 1 / 200, p(0)) == (True, False, 1.0)


def test_labels_that_change_both_ways_are_drift_too():
    """As many go up as down, so no mean moves."""
    labels = np.zeros((60, 3, 2), dtype=bool)
    labels[:, :, 0] = True
    labels[:12, 2] = [False, True]
    scores = labels.mean(axis=2)[:, :, None]
    found = stands_out(scores, apart(labels), alpha=1 / 200)
    assert found.distances[0] == 0
    assert found.p <= 1 / 200
    assert found.distances[1] == pytest.approx(12 / 60)


def test_a_difference_beyond_the_threshold_is_drift_and_no_other():
    rng = np.random.default_rng(3)
    for n in range(20):
        found = stands_out(*judged(rng, swayed=0.1), alpha=0.02, draws=999, seed=n)
        sizes = np.append(np.abs(found.distances[:-1]), found.distances[-1])
        assert list(found.p_by_measure <= 0.02) == list(sizes > found.thresholds + 1e-6)


def test_a_row_without_a_measure_is_no_part_of_it():
    scores = np.ones((40, 3, 2))
    scores[:20, :, 1] = np.nan
    scores[20:, 2, 1] = 0.5
    found = stands_out(scores, np.zeros((40, 3, 3)), alpha=0.05)
    assert found.distances == pytest.approx([0, -0.5, 0])


def test_the_sign_test_is_the_binomial():
    assert sign_test(0, 0) == 1.0
    assert sign_test(3, 11) == pytest.approx(2 * sum(math.comb(14, k) for k in range(4)) / 2**14)
    assert sign_test(2000, 0) < 1e-300
