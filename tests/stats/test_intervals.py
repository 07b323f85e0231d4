import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from ragassay.core.errors import BadInput
from ragassay.stats.intervals import mean_interval, wilson_interval

EXACT = {"rel": 1e-9, "abs": 1e-9}


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("n", [2, 3, 30, 1000])
def test_the_t_interval_is_scipys(n, level):
    values = np.random.default_rng(n).normal(3.0, 2.0, n)
    expected = scipy_stats.t.interval(level, n - 1, loc=values.mean(), scale=scipy_stats.sem(values))
    found = mean_interval(values, level=level)
    assert (found.low, found.high) == pytest.approx(expected, **EXACT)
    assert (found.level, found.method, found.reason) == (level, "t", None)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "an interval needs two values, there are 0"),
        ([0.5], "an interval needs two values, there is 1"),
        ([0.1 + 0.2, 0.3, 0.3], "all 3 values are equal: the spread is unknown"),
    ],
)
def test_where_the_spread_is_unknown_there_is_no_interval_but_a_reason(values, reason):
    found = mean_interval(values)
    assert (found.low, found.high, found.reason) == (None, None, reason)


def test_with_bounds_constant_scores_leave_room_for_what_was_not_seen():
    # 0.05 ** (1 / 50) = 0.94184: were fewer than 94.2 % of all rows right, 50 of 50 would come with less than 5 %
    found = mean_interval([1.0] * 50, bounds=(0.0, 1.0))
    assert (found.low, found.high) == pytest.approx((0.941845, 1.0), abs=1e-6)
    assert found.method == "constant values"
    # no difference in 50 pairs: at most 5.8 % of all pairs differ, by 1 at the most
    equal = mean_interval([0.0] * 50, bounds=(-1.0, 1.0))
    assert (equal.low, equal.high) == pytest.approx((-0.058155, 0.058155), abs=1e-6)


def test_the_quasi_binomial_interval_of_yes_and_no_is_wilsons_with_t_for_z():
    # variance p (1 - p) / (n - 1) and t for z: Wilson with (n - 1) (z / t) ** 2 rows
    values = [1] * 24 + [0] * 6
    rows = 29 * (scipy_stats.norm.ppf(0.975) / scipy_stats.t.ppf(0.975, 29)) ** 2
    found = mean_interval(values, bounds=(0, 1))
    assert (found.low, found.high) == pytest.approx(proportion_confint(0.8 * rows, rows, method="wilson"), **EXACT)
    assert found.method == "quasi-binomial"


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (1, 2), (0, 30), (29, 30), (7, 200), (99_999, 100_000)])
def test_the_wilson_interval_is_that_of_statsmodels(successes, n, level):
    expected = proportion_confint(successes, n, alpha=1 - level, method="wilson")
    found = wilson_interval(successes, n, level=level)
    assert (found.low, found.high) == pytest.approx(expected, **EXACT)


@pytest.mark.parametrize("values", [[0.1, None], [0.1, math.inf], [[0.1, 0.2]]])
def test_mean_interval_refuses_what_is_no_column_of_numbers(values):
    with pytest.raises(BadInput, match="columns must be flat, equally long and finite"):
        mean_interval(values)
