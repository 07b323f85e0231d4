import numpy as np
import pytest

from ragassay.stats.changepoint import change_points


def noise(n, seed):
    return np.random.default_rng(seed).normal(0.0, 0.01, n)


def test_a_step_is_found_where_it_is():
    found = change_points(np.r_[[0.80] * 12, [0.74] * 9] + noise(21, 0))
    assert [point.index for point in found] == [12]
    assert (found[0].before, found[0].after) == pytest.approx((0.80, 0.74), abs=0.01)
    assert found[0].p == 1 / 1000


def test_the_largest_step_by_hand():
    # cut after 4 of 8: sqrt(4 * 4 / 8) * 1 = 1.414 is the largest; of the 70 orders of 4 zeros and 4 ones only the two
    # sorted ones have it, so p is near 2 / 70 = 0.0286
    found = change_points([0, 0, 0, 0, 1, 1, 1, 1], permutations=9999)
    assert [(point.index, point.before, point.after) for point in found] == [(4, 0.0, 1.0)]
    assert found[0].p == pytest.approx(2 / 70, abs=4 * np.sqrt(0.0278 / 9999))


@pytest.mark.parametrize("values", [[], [0.5], [0.1, 0.9], [0.1, 0.1, 0.9, 0.9], [0.7] * 50, [0.1 + 0.2, 0.3] * 10])
def test_too_few_or_equal_runs_have_no_step(values):
    assert change_points(values) == ()


def test_without_a_step_one_is_seen_as_often_as_alpha_says():
    rng = np.random.default_rng(4)
    alarms = sum(bool(change_points(rng.normal(0, 1, 20), permutations=199, seed=i)) for i in range(600))
    # 5 % of 600 is 30, with a standard deviation of sqrt(600 * 0.05 * 0.95) = 5.3
    assert abs(alarms - 30) <= 3 * 5.3
