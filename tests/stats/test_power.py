import math

import pytest
from statsmodels.stats.power import TTestPower

from ragassay.core.errors import BadSettings
from ragassay.stats.power import minimum_detectable_effect, needed_n, power_of

theirs = TTestPower()


def power_of_theirs(size, n, alpha):
    """Where the lower tail is too small for scipy's noncentral t it is NaN, and the upper tail is all there is."""
    both = theirs.power(size, n, alpha)
    return theirs.power(size, n, alpha / 2, alternative="larger") if math.isnan(both) else both


@pytest.mark.parametrize("n", [2, 30, 10_000])
@pytest.mark.parametrize(("size", "alpha"), [(0.01, 0.001), (0.5, 0.05), (2.0, 0.05)])
def test_power_is_that_of_statsmodels(n, size, alpha):
    expected = power_of_theirs(size, n, alpha)
    assert power_of(size * 3.0, n, 3.0, alpha=alpha) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert power_of(-size, n, 1.0, alpha=alpha) == power_of(size, n, 1.0, alpha=alpha)


@pytest.mark.parametrize("n", [2, 8, 30, 200, 5000])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.99])
def test_the_minimum_detectable_effect_has_just_that_power(n, power):
    effect = minimum_detectable_effect(n, 0.3, power=power)
    assert power_of_theirs(effect / 0.3, n, 0.05) == pytest.approx(power, abs=1e-9)


@pytest.mark.parametrize("size", [0.02, 0.1, 0.5, 1.0, 3.0])
def test_the_needed_n_is_that_of_statsmodels_rounded_up(size):
    assert needed_n(size * 0.3, 0.3) == math.ceil(theirs.solve_power(size, None, 0.05, 0.8))


@pytest.mark.parametrize("plan", [lambda: power_of(0.1, 1, 0.3), lambda: minimum_detectable_effect(1, 0.3)])
def test_one_row_has_no_power(plan):
    with pytest.raises(BadSettings, match="n is 1"):
        plan()
