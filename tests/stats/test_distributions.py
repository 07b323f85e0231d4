"""Student's t against scipy's."""

import pytest
from scipy.special import stdtr, stdtrit

from ragassay.stats.distributions import t_above, t_quantile


@pytest.mark.parametrize("df", [1, 1.5, 2, 3, 9.7, 29, 99, 201, 1e4, 1e6, 1e9])
def test_students_t_equals_scipys(df):
    for t in (0.0, 1e-6, 0.1, 1.0, 1.96, 5.0, 40.0, -1.3):
        assert t_above(t, df) == pytest.approx(stdtr(df, -t), rel=1e-8, abs=1e-300)
    for p in (0.5, 0.5001, 0.6, 0.9, 0.975, 0.9999, 1 - 1e-8, 0.025):
        assert t_quantile(p, df) == pytest.approx(stdtrit(df, p), rel=1e-8, abs=1e-12)
