import numpy as np
import pytest
from scipy import stats as scipy_stats

from ragassay.stats.intervals import MOST_RESAMPLED, bootstrap_interval, clustered_intervals

rng = np.random.default_rng(11)
COSTS = rng.lognormal(0.0, 0.5, 60)


def test_bootstrap_interval_is_scipys():
    expected = scipy_stats.bootstrap(
        (COSTS,), np.mean, n_resamples=2000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    found = bootstrap_interval(COSTS, seed=3)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert bootstrap_interval(COSTS, seed=4) != found
    assert "above 10,000" in bootstrap_interval(np.arange(MOST_RESAMPLED + 1.0)).reason


def test_expanded_percentiles_are_as_wide_as_a_t_interval_where_the_data_are_normal():
    values = scipy_stats.norm.ppf((np.arange(20) + 0.5) / 20)
    [found] = clustered_intervals(lambda weight: np.array([weight @ values / weight.sum()]), range(20), resamples=9999)
    half = scipy_stats.t.ppf(0.975, 19) * values.std(ddof=1) / np.sqrt(20)
    assert (found.low, found.high) == pytest.approx((-half, half), abs=0.03 * 2 * half)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_bootstraps_need_eight_rows(n):
    reason = f"a bootstrap needs 8 rows, there are {n}"
    assert bootstrap_interval(COSTS[:n]).reason == reason
