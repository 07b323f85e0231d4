"""Intervals of means and shares: equal to scipy's and statsmodels', and what is said where there is none."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from ragassay.core.errors import BadInput
from ragassay.stats.intervals import (
    MAX_RESAMPLED,
    bootstrap_interval,
    clustered_intervals,
    mean_interval,
    wilson_interval,
)

COSTS = np.random.default_rng(11).lognormal(0.0, 0.5, 60)
EXACT = {"rel": 1e-9, "abs": 1e-9}


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("n", [2, 3, 30, 1000])
def test_the_t_interval_is_scipys(n, level):
    values = np.random.default_rng(n).normal(3.0, 2.0, n)
    expected = scipy_stats.t.interval(level, n - 1, loc=values.mean(), scale=scipy_stats.sem(values))
    found = mean_interval(values, level=level)
    assert (found.low, found.high) == pytest.approx(expected, **EXACT)
    assert (found.level, found.method, found.reason) == (level, "t", None)


def test_where_the_spread_is_unknown_there_is_no_interval_but_a_reason():
    for values, reason in (
        ([], "an interval needs two values, there are 0"),
        ([0.1 + 0.2, 0.3, 0.3], "all 3 values are equal: the spread is unknown"),
    ):
        found = mean_interval(values)
        assert (found.low, found.high, found.reason) == (None, None, reason)
    with pytest.raises(BadInput, match="columns must be flat, equally long and finite"):
        mean_interval([0.1, math.inf])


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


@pytest.mark.parametrize("level", [0.8, 0.999])
@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (29, 30), (99_999, 100_000)])
def test_the_wilson_interval_is_that_of_statsmodels(successes, n, level):
    expected = proportion_confint(successes, n, alpha=1 - level, method="wilson")
    found = wilson_interval(successes, n, level=level)
    assert (found.low, found.high) == pytest.approx(expected, **EXACT)


def test_bootstrap_interval_is_scipys():
    expected = scipy_stats.bootstrap(
        (COSTS,), np.mean, n_resamples=2000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    found = bootstrap_interval(COSTS, seed=3)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert bootstrap_interval(COSTS[:7]).reason == "a bootstrap needs 8 rows, there are 7"
    assert "above 10,000" in bootstrap_interval(np.arange(MAX_RESAMPLED + 1.0)).reason


def test_expanded_percentiles_are_as_wide_as_a_t_interval_where_the_data_are_normal():
    values = scipy_stats.norm.ppf((np.arange(20) + 0.5) / 20)
    [found] = clustered_intervals(lambda weight: np.array([weight @ values / weight.sum()]), range(20), resamples=9999)
    half = scipy_stats.t.ppf(0.975, 19) * values.std(ddof=1) / np.sqrt(20)
    assert (found.low, found.high) == pytest.approx((-half, half), abs=0.03 * 2 * half)
