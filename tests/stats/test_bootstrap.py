import itertools

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ragassay.errors import BadInput, BadSettings
from ragassay.stats import bootstrap_interval, ratio_interval
from ragassay.stats.intervals import MOST_UNITS, _interval

rng = np.random.default_rng(11)
SKEWED = rng.exponential(1.0, 60)
COSTS = rng.lognormal(0.0, 0.5, 60)
RIGHT = (rng.random(60) < 0.7).astype(float)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_without_expansion_the_interval_is_scipys_up_to_the_draws(method):
    expected = scipy_stats.bootstrap(
        (SKEWED,), np.mean, n_resamples=20_000, method=method, rng=np.random.default_rng(1)
    ).confidence_interval
    found = bootstrap_interval(SKEWED, method=method, resamples=20_000, expand=False)
    # an end is a quantile of 20,000 draws: its error is near 0.02 of the width
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.03 * (expected.high - expected.low))


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_ratio_interval_is_scipys_up_to_the_draws(method):
    def ratio(cost, right, axis=-1):
        return cost.sum(axis=axis) / right.sum(axis=axis)

    expected = scipy_stats.bootstrap(
        (COSTS, RIGHT), ratio, paired=True, n_resamples=20_000, method=method, rng=np.random.default_rng(1)
    ).confidence_interval
    found = ratio_interval(COSTS, RIGHT, method=method, resamples=20_000, expand=False)
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.03 * (expected.high - expected.low))


def test_expanded_percentiles_are_as_wide_as_a_t_interval_where_the_data_are_normal():
    values = scipy_stats.norm.ppf((np.arange(20) + 0.5) / 20)
    found = bootstrap_interval(values, resamples=40_000)
    half = scipy_stats.t.ppf(0.975, 19) * values.std(ddof=1) / np.sqrt(20)
    assert (found.low, found.high) == pytest.approx((-half, half), abs=0.03 * 2 * half)


def test_the_ends_are_order_statistics_of_the_draws():
    # 8 rows of which one is 1: the number of ones in a resample is binomial(8, 1/8), and the 2.5 % and 97.5 % points of
    # that are 0 and 3, as P(X <= 2) = 0.935 and P(X <= 3) = 0.990
    found = bootstrap_interval([1.0] + [0.0] * 7, expand=False)
    assert (found.low, found.high) == (0.0, 3 / 8)


def test_a_seed_gives_the_same_interval_and_another_seed_another():
    assert bootstrap_interval(SKEWED, seed=3) == bootstrap_interval(SKEWED, seed=3)
    assert bootstrap_interval(SKEWED, seed=3) != bootstrap_interval(SKEWED, seed=4)


def test_blocks_give_the_interval_of_the_whole():
    values = np.random.default_rng(5).lognormal(0.0, 0.6, 6 * MOST_UNITS)
    found = bootstrap_interval(values)
    # sd of a lognormal: sqrt(exp(0.36) - 1) * exp(0.18) = 0.788
    assert found.width == pytest.approx(2 * 1.96 * 0.7881 / np.sqrt(len(values)), rel=0.08)
    assert found.low < values.mean() < found.high


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_below_eight_rows_there_is_no_bootstrap_interval(n):
    reason = f"a bootstrap needs 8 rows, there are {n}"
    assert bootstrap_interval(SKEWED[:n]).reason == reason
    assert ratio_interval(COSTS[:n], np.ones(n)).reason == reason


def test_equal_rows_have_no_spread_to_resample():
    reason = "all rows are equal: the spread is unknown"
    assert bootstrap_interval([0.3] * 20).reason == reason
    assert ratio_interval([0.01] * 20, [1] * 20).reason == reason
    assert ratio_interval([0.0] * 20, RIGHT[:20]).reason == reason


def test_no_accurate_answer_is_no_cost_per_accurate_answer():
    found = ratio_interval(COSTS, np.zeros(60))
    assert (found.low, found.high, found.unbounded) == (None, None, False)
    assert found.reason == "the denominators add up to 0"


def test_few_accurate_answers_leave_the_cost_of_one_unbounded():
    # with 2 right in 60 a draw has none with probability (58 / 60) ** 60 = 0.131, so beyond 2.5 % the end is infinite
    right = np.zeros(60)
    right[[3, 41]] = 1.0
    found = ratio_interval(COSTS, right)
    assert found.unbounded
    assert found.high is None
    assert found.low is not None
    assert 0 < found.low < COSTS.sum() / 2
    assert str(found).endswith("..unbounded")


def test_one_accurate_answer_leaves_no_acceleration_and_the_method_says_so():
    right = np.zeros(60)
    right[3] = 1.0
    found = ratio_interval(COSTS, right)
    assert found.unbounded
    assert found.method == "bootstrap percentile, expanded"


def test_hardly_any_denominator_leaves_no_interval_at_all():
    draws = np.full(1000, np.inf)
    found = _interval(draws, 1.0, None, 50, 0.95, "bootstrap percentile", False)
    assert found.reason == "almost no resample has a denominator above 0"


def test_a_rare_accurate_answer_stays_as_rare_in_blocks():
    right = np.zeros(10 * MOST_UNITS)
    right[:6] = 1.0
    costs = np.random.default_rng(0).lognormal(0, 0.5, len(right))
    found = ratio_interval(costs, right, method="percentile", expand=False)
    total = costs.sum()
    # the number in a draw is Poisson(6): P(X <= 1) = 0.017, P(X <= 2) = 0.062, P(X >= 12) = 0.020, P(X >= 11) = 0.043
    assert found.high == pytest.approx(total / 2, rel=0.02)
    assert found.low == pytest.approx(total / 11, rel=0.02)


def test_a_ratio_follows_its_units():
    some, cents = ratio_interval(COSTS, RIGHT), ratio_interval(100 * COSTS, RIGHT)
    assert (cents.low, cents.high) == pytest.approx((100 * some.low, 100 * some.high), rel=1e-12)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_more_confidence_never_narrows(method):
    made = [ratio_interval(COSTS, RIGHT, method=method, level=level) for level in (0.5, 0.8, 0.9, 0.95, 0.99)]
    for narrow, wide in itertools.pairwise(made):
        assert wide.low <= narrow.low
        assert wide.high >= narrow.high


def test_extreme_skew_does_not_break_bca():
    values = np.array([0.0] * 9 + [1e6])
    for data in (values, -values):
        found = bootstrap_interval(data, method="bca", level=0.999)
        assert found.low is not None
        assert found.low <= data.mean() <= found.high


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bootstrap_interval(SKEWED, method="t"), BadSettings, "unknown bootstrap method 't'"),
        (lambda: bootstrap_interval(SKEWED, resamples=10), BadSettings, "resamples is 10"),
        (lambda: bootstrap_interval(SKEWED, seed=-1), BadSettings, "seed is -1"),
        (lambda: ratio_interval([-1.0] * 9, [1] * 9), BadInput, "not negative"),
        (lambda: ratio_interval(COSTS, RIGHT[:-1]), BadInput, "numerators has 60 rows, denominators has 59"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
