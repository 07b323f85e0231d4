"""Ratios from sums against scipy on the rows, the cost of one more accurate answer, and the Pareto front."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy import stats as scipy_stats

from ragassay.core.statistics import RatioSums
from ragassay.stats.ratio import Stratum, difference_sums_interval, incremental_cost, pareto_front, sums_interval

rng = np.random.default_rng(29)


def sums(cost, accurate):
    return RatioSums.of(zip(np.asarray(cost, float).tolist(), np.asarray(accurate, float).tolist(), strict=True))


def once(cost, accurate):
    """The rows as one dataset whose questions were asked once."""
    return [Stratum(sums(cost, accurate), len(cost))]


def drawn(n, share, tail=0.5, more=0.0, rng=rng):
    """Lognormal costs with mean 1, and ``more`` for an accurate answer."""
    right = rng.random(n) < share
    return rng.lognormal(-(tail**2) / 2, tail, n) * (1 + more * right), right


def differences(n, rng=rng, better=0.5):
    """B is right where A is in 9 of 10 cases and where A is not in ``better``, at 1.4 times the cost."""
    right_a, cost_a = rng.random(n) < 0.5, rng.lognormal(0, 0.5, n)
    right_b = rng.random(n) < np.where(right_a, 0.9, better)
    cost_b = 1.4 * cost_a * rng.lognormal(-0.02, 0.2, n)
    return cost_b - cost_a, right_b.astype(float) - right_a


@pytest.mark.parametrize(("share", "more"), [(0.5, 0.0), (0.8, 1.0), (0.2, 0.0), (1.0, 0.0)])
def test_the_interval_of_a_ratio_is_mover_on_the_rows_themselves(share, more):
    cost, right = drawn(60, share, more=more)
    t, p = scipy_stats.t.ppf(0.975, 59), right.mean()
    rows = 59 if 0 < p < 1 else 60

    def wilson(low, high):  # the shares that a test of so many rows just accepts
        return optimize.brentq(lambda q: abs(p - q) - t * np.sqrt(q * (1 - q) / rows), low, high)

    below = np.log(p / wilson(1e-9, p - 1e-9))
    above = np.log(wilson(p + 1e-9, 1 - 1e-9) / p) if p < 1 else 0.0
    of_cost = t * scipy_stats.sem(cost) / cost.mean()
    r = np.corrcoef(cost, right)[0, 1] if p < 1 else 0.0
    ratio = cost.sum() / right.sum()
    found = sums_interval(once(cost, right))
    assert found.low == pytest.approx(ratio * np.exp(-np.sqrt(of_cost**2 + above**2 - 2 * r * of_cost * above)))
    assert found.high == pytest.approx(ratio * np.exp(np.sqrt(of_cost**2 + below**2 - 2 * r * of_cost * below)))


def test_the_ends_of_a_difference_are_the_prices_that_a_t_test_of_the_rows_just_accepts():
    cost, right = differences(120)
    found = difference_sums_interval(once(cost, right))
    for price in (found.low, found.high):
        assert scipy_stats.ttest_1samp(cost - price * right, 0.0).pvalue == pytest.approx(0.05)
    assert found.low < cost.sum() / right.sum() < found.high


def test_where_the_gain_is_unclear_the_price_has_no_upper_end():
    cost, right = differences(30, np.random.default_rng(5), better=0.2)
    found = difference_sums_interval(once(cost, right))
    assert right.sum() > 0
    assert scipy_stats.ttest_1samp(right, 0.0).pvalue > 0.05
    assert (found.unbounded, found.high) == (True, None)
    assert scipy_stats.ttest_1samp(cost - found.low * right, 0.0).pvalue == pytest.approx(0.05)


@given(st.lists(st.tuples(st.floats(1e-60, 1e6), st.sampled_from([0.0, 1.0])), min_size=1, max_size=40))
def test_whatever_the_costs_an_interval_holds_the_ratio_or_says_why_there_is_none(rows):
    found = sums_interval([Stratum(RatioSums.of(rows), len(rows))])
    if found.low is None:
        assert found.reason
    else:
        ratio = sum(cost for cost, _ in rows) / sum(right for _, right in rows)
        assert found.contains(ratio) or ratio == pytest.approx(found.low) or ratio == pytest.approx(found.high)


def test_without_an_upper_end_where_another_sample_may_have_no_accurate_answer():
    cost = rng.lognormal(0, 0.5, 60)
    assert [sums_interval(once(cost, np.arange(60) < accurate)).unbounded for accurate in (3, 4)] == [True, False]


# --- one more accurate answer, and the front ---

N = 200
COST_A, COST_B = rng.lognormal(-4, 0.4, N), rng.lognormal(-3.7, 0.4, N)
RIGHT_A = rng.random(N) < 0.5
RIGHT_B = RIGHT_A | (rng.random(N) < 0.5)


def test_the_cost_of_one_more_accurate_answer():
    found = incremental_cost(COST_A, RIGHT_A, COST_B, RIGHT_B)
    gained = int(RIGHT_B.sum()) - int(RIGHT_A.sum())
    assert found.extra_accurate == gained
    assert found.extra_cost == pytest.approx(COST_B.sum() - COST_A.sum())
    assert found.value == pytest.approx((COST_B.sum() - COST_A.sum()) / gained)
    assert found.interval.low < found.value < found.interval.high
    assert found.reason is None


@pytest.mark.parametrize("right_b", [RIGHT_A, RIGHT_A & (rng.random(N) < 0.8)])
def test_without_more_accurate_answers_there_is_no_price_for_one(right_b):
    found = incremental_cost(COST_A, RIGHT_A, COST_B, right_b)
    assert found.value is None
    assert found.reason == found.interval.reason == "B gives no more accurate answers than A"
    assert incremental_cost([], [], [], []).reason == "no query has a known cost and accuracy in both"
    found = incremental_cost(COST_B, RIGHT_A, COST_A, RIGHT_B, names=("old", "new"))
    assert (found.value, found.interval.low) == (None, None)
    assert found.reason == found.interval.reason == "new is cheaper and better"


AXES = {"accuracy": "higher", "cost": "lower", "latency": "lower"}


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=12))
def test_pareto_front_holds_who_is_beaten_by_nobody_and_names_who_beats_the_others(points):
    named = {str(i): point for i, point in enumerate(points)}
    front = pareto_front(named, AXES)
    signed = {name: (a, -b, -c) for name, (a, b, c) in named.items()}

    def beats(x, y):
        return signed[x] != signed[y] and all(p >= q for p, q in zip(signed[x], signed[y], strict=True))

    assert front.front
    assert not any(beats(x, y) for x in named for y in front.front)
    assert all(winner in front.front and beats(winner, loser) for loser, winner in front.dominated.items())
    assert set(front.front) | set(front.dominated) == set(named)
