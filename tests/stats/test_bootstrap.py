import itertools

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ragassay.core.errors import BadInput, BadSettings
from ragassay.stats import bootstrap_interval, clustered_intervals, ratio_interval
from ragassay.stats.intervals import MOST_RESAMPLED, _percentiles

rng = np.random.default_rng(11)
COSTS = rng.lognormal(0.0, 0.5, 60)
RIGHT = (rng.random(60) < 0.7).astype(float)


def test_bootstrap_interval_is_scipys():
    expected = scipy_stats.bootstrap(
        (COSTS,), np.mean, n_resamples=2000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    found = bootstrap_interval(COSTS, seed=3)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert bootstrap_interval(COSTS, seed=4) != found
    assert "above 10,000" in bootstrap_interval(np.arange(MOST_RESAMPLED + 1.0)).reason


def test_ratio_interval_is_scipys_but_for_the_small_sample_correction():
    def ratio(cost, right, axis=-1):
        return cost.sum(axis=axis) / right.sum(axis=axis)

    expected = scipy_stats.bootstrap(
        (COSTS, RIGHT), ratio, paired=True, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    found = ratio_interval(COSTS, RIGHT, resamples=20_000)
    # the correction at n = 60: sqrt(60 / 59) * t / z = 1.03 of the half width
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.06 * (expected.high - expected.low))


def test_expanded_percentiles_are_as_wide_as_a_t_interval_where_the_data_are_normal():
    values = scipy_stats.norm.ppf((np.arange(20) + 0.5) / 20)
    [found] = clustered_intervals(lambda weight: np.array([weight @ values / weight.sum()]), range(20), resamples=9999)
    half = scipy_stats.t.ppf(0.975, 19) * values.std(ddof=1) / np.sqrt(20)
    assert (found.low, found.high) == pytest.approx((-half, half), abs=0.03 * 2 * half)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_bootstraps_need_eight_rows(n):
    reason = f"a bootstrap needs 8 rows, there are {n}"
    assert bootstrap_interval(COSTS[:n]).reason == reason
    assert ratio_interval(COSTS[:n], np.ones(n)).reason == reason


def test_bootstraps_need_a_spread():
    assert bootstrap_interval([0.3] * 20).reason == "all values are equal: the spread is unknown"
    reason = "all rows are equal: the spread is unknown"
    assert ratio_interval([0.01] * 20, [1] * 20).reason == reason
    assert ratio_interval([0.0] * 20, RIGHT[:20]).reason == reason


def test_ratio_interval_of_no_accurate_answer_is_undefined():
    found = ratio_interval(COSTS, np.zeros(60))
    assert (found.low, found.high, found.unbounded) == (None, None, False)
    assert found.reason == "the denominators add up to 0"


def test_ratio_interval_of_few_accurate_answers_is_unbounded():
    # with 2 right in 60 a draw has none with probability (58 / 60) ** 60 = 0.131, so beyond 2.5 % the end is infinite
    right = np.zeros(60)
    right[[3, 41]] = 1.0
    found = ratio_interval(COSTS, right)
    assert found.unbounded
    assert found.high is None
    assert 0 < found.low < COSTS.sum() / 2
    assert str(found).endswith("..unbounded")


def test_ratio_interval_with_hardly_any_denominator_is_absent():
    found = _percentiles(np.full(1000, np.inf), 50, 0.95, "bootstrap percentile")
    assert found.reason == "almost no resample has a denominator above 0"


def test_ratio_interval_follows_its_units_and_widens_with_the_level():
    some, cents = ratio_interval(COSTS, RIGHT), ratio_interval(100 * COSTS, RIGHT)
    assert (cents.low, cents.high) == pytest.approx((100 * some.low, 100 * some.high), rel=1e-12)
    made = [ratio_interval(COSTS, RIGHT, level=level) for level in (0.5, 0.8, 0.9, 0.95, 0.99)]
    for narrow, wide in itertools.pairwise(made):
        assert wide.low <= narrow.low
        assert wide.high >= narrow.high


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bootstrap_interval(COSTS, resamples=10), BadSettings, "resamples is 10"),
        (lambda: bootstrap_interval(COSTS, seed=-1), BadSettings, "seed is -1"),
        (lambda: ratio_interval([-1.0] * 9, [1] * 9), BadInput, "not negative"),
        (lambda: ratio_interval(COSTS, RIGHT[:-1]), BadInput, "numerators has 60 rows, denominators has 59"),
    ],
)
def test_bootstraps_refuse_what_makes_no_sense(call, error, message):
    with pytest.raises(error, match=message):
        call()
