"""Tests of two systems and corrections for many, against scipy and statsmodels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from ragassay.core.errors import BadSettings
from ragassay.stats.intervals import difference_interval, differences
from ragassay.stats.tests import (
    cohens_d,
    correct,
    randomisation,
    t_test,
    welch,
)

EXACT = {"rel": 1e-9, "abs": 1e-12}


def two(n, shift=0.2, seed=0):
    rng = np.random.default_rng(seed + n)
    a = rng.normal(0.5, 1.0, n)
    return a, a + rng.normal(shift, 0.7, n)


def steps(n, seed=0):
    rng = np.random.default_rng(seed + n)
    return rng.choice([0.0, 0.25, 0.5, 1.0], n), rng.choice([0.0, 0.5, 0.75, 1.0], n)


@pytest.mark.parametrize("n", [2, 30, 500])
def test_t_test_and_interval_of_the_difference_are_scipys(n):
    a, b = two(n)
    expected = scipy_stats.ttest_rel(b, a)
    assert t_test(b - a) == pytest.approx(expected.pvalue, **EXACT)
    found = difference_interval(a, b, level=0.9)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.9)), **EXACT)


@pytest.mark.parametrize("n", [3, 8, 12])
@pytest.mark.parametrize("make", [two, steps])
def test_the_randomisation_test_on_few_pairs_is_scipys_permutation_test(make, n):
    a, b = make(n)
    expected = scipy_stats.permutation_test(
        (b, a), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert randomisation(b - a) == pytest.approx(expected.pvalue, **EXACT)


def shares(n, wins, losses):
    return [0.0] * wins + [1.0] * losses + [0.0] * (n - wins - losses), [1.0] * wins + [0.0] * (n - wins)


def test_difference_interval_of_yes_no_scores_by_hand():
    # (4 + 1) / 32 - (0 + 1) / 32 = 0.125, variance (5 + 1) / 32 - 0.125 ** 2 = 0.171875, over 32; t of 29 is 2.0452
    found = difference_interval(*shares(30, 4, 0))
    half = 2.0452 * math.sqrt(0.171875 / 32)
    assert (found.low, found.high) == pytest.approx((0.125 - half, 0.125 + half), abs=1e-4)


def test_difference_interval_of_yes_no_scores_holds_0_if_the_exact_test_finds_nothing():
    for n in (*range(2, 30), 60, 200):
        for wins in range(min(n, 12) + 1):
            for losses in range(min(wins, n - wins) + 1):
                exact = scipy_stats.binomtest(wins, wins + losses).pvalue if wins else 1.0
                found = difference_interval(*shares(n, wins, losses))
                assert found.low <= (wins - losses) / n <= found.high
                assert exact < 0.125 or found.contains(0.0), (n, wins, losses)


@pytest.mark.parametrize("flips", [199, 9999])
def test_randomisation_p_below_its_flips_does_not_depend_on_their_number(flips):
    a, b = two(300, shift=0.6)
    t = scipy_stats.ttest_rel(b, a).pvalue
    assert t < 1e-20
    assert randomisation(b - a, flips=flips) == pytest.approx(t, rel=1e-6)
    # 25 equal gains: no p of signs is below 2 / 2 ** 25
    assert randomisation(np.full(25, 0.1), flips=flips) == 1 / (1 + flips)


@pytest.mark.parametrize(
    ("changes", "p", "d"),
    [
        *(([], None, None), ([0.7], 1.0, None), ([0.0] * 30, 1.0, None), ([0.1] * 10, 2 / 2**10, None)),
        ([1.0, 2.0, 3.0], 0.25, 2.0),  # mean 2, sd 1
    ],
)
def test_tests_of_differences_without_spread_have_no_t_and_no_cohens_d(changes, p, d):
    column = np.array(changes, dtype=float)
    assert (randomisation(column), cohens_d(column), t_test(column) is None) == (p, d, d is None)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (5, 40), (300, 200)])
def test_welch_is_scipys(n, m):
    rng = np.random.default_rng(n)
    a, b = rng.normal(0, 1, n), rng.normal(0.4, 3, m)
    expected, (p, interval) = scipy_stats.ttest_ind(b, a, equal_var=False), welch(a, b)
    assert p == pytest.approx(expected.pvalue, **EXACT)
    assert (interval.low, interval.high) == pytest.approx(tuple(expected.confidence_interval()), **EXACT)


def mirrored(interval):
    low, high = interval.low, interval.high
    return interval.model_copy(update={"low": None if high is None else -high, "high": None if low is None else -low})


GRADED, BINARY = (
    st.tuples(kind, kind) for kind in (st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]), st.sampled_from([0.0, 1.0]))
)
FREE = st.tuples(*[st.floats(-1e6, 1e6, allow_subnormal=False)] * 2)


@settings(max_examples=80, deadline=None)
@given(st.one_of(*(st.lists(kind, max_size=40) for kind in (GRADED, BINARY, FREE))), st.integers(0, 9))
def test_swapping_a_and_b_mirrors_the_interval_and_leaves_every_p(rows, seed):
    a, b = np.array(rows, dtype=float).reshape(-1, 2).T
    forth, back = differences(a, b), differences(b, a)
    assert randomisation(forth, seed=seed, flips=199) == randomisation(back, seed=seed, flips=199)
    assert t_test(forth) == t_test(back)
    assert difference_interval(b, a) == mirrored(difference_interval(a, b))


# --- corrections ---

ps = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=30)
METHODS = [("bonferroni", "bonferroni"), ("holm", "holm"), ("bh", "fdr_bh")]


@pytest.mark.parametrize(("ours", "theirs"), METHODS)
@settings(max_examples=8, deadline=None)  # theirs takes 0.1 s for Holm
@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_adjusted_p_values_are_those_of_statsmodels(ours, theirs, values):
    assert correct(values, ours) == pytest.approx(multipletests(values, method=theirs)[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("ours", [method for method, _ in METHODS])
@given(values=ps)
def test_an_undefined_p_keeps_its_place_and_does_not_count(ours, values):
    known = iter(correct([p for p in values if p is not None], ours))
    assert correct(values, ours) == [None if p is None else next(known) for p in values]
    with pytest.raises(BadSettings, match=r"unknown correction 'sidak'; use one of none, bonferroni, holm"):
        correct(values, "sidak")
