import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ragassay.core.errors import BadInput
from ragassay.stats.intervals import difference_interval, student
from ragassay.stats.tests import non_inferiority, paired, randomisation, welch

EXACT = {"rel": 1e-9, "abs": 1e-12}


def two(n, shift=0.2, seed=0):
    rng = np.random.default_rng(seed + n)
    a = rng.normal(0.5, 1.0, n)
    return a, a + rng.normal(shift, 0.7, n)


def steps(n, seed=0):
    rng = np.random.default_rng(seed + n)
    return rng.choice([0.0, 0.25, 0.5, 1.0], n), rng.choice([0.0, 0.5, 0.75, 1.0], n)


@pytest.mark.parametrize("n", [2, 5, 30, 500])
def test_the_paired_t_test_is_scipys(n):
    a, b = two(n)
    expected, found = scipy_stats.ttest_rel(b, a), paired(a, b).t
    assert found.p == pytest.approx(expected.pvalue, **EXACT)


def test_the_interval_of_the_difference_is_scipys():
    a, b = two(40)
    expected = scipy_stats.ttest_rel(b, a).confidence_interval(0.9)
    found = paired(a, b, alpha=0.1).interval
    assert (found.low, found.high) == pytest.approx(tuple(expected), **EXACT)


@pytest.mark.parametrize("n", [3, 8, 12])
@pytest.mark.parametrize("make", [two, steps])
def test_the_randomisation_test_on_few_pairs_is_scipys_permutation_test(make, n):
    a, b = make(n)
    expected = scipy_stats.permutation_test(
        (b, a), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    found = paired(a, b).randomisation
    assert found.p == pytest.approx(expected.pvalue, **EXACT)
    assert found.method == "exact"


def test_the_randomisation_test_by_hand():
    # differences 1, 2, 4: of the 8 sums 7 5 3 -1 1 -3 -5 -7 two are at least 7 away from 0
    found = paired([0, 0, 0], [1, 2, 4]).randomisation
    assert found.p == 0.25
    assert found.reason == "3 differences are not 0: p can't be below 0.25"


def test_random_flips_come_near_the_exact_p():
    # 40 differences of one size, 27 up, 13 down: as extreme are 27 or more on a side, 2 P(X >= 27) = 0.0385
    d = np.array([0.5] * 27 + [-0.5] * 13)
    found = randomisation(d, alpha=0.05, seed=1, flips=9999)
    expected = 2 * scipy_stats.binom.sf(26, 40, 0.5)
    assert expected == pytest.approx(0.0385, abs=5e-5)
    assert found.p == pytest.approx(expected, abs=4 * math.sqrt(expected / 9999))
    assert found.method == "9999 random flips"


@pytest.mark.parametrize("flips", [199, 9999])
def test_randomisation_p_below_its_flips_does_not_depend_on_their_number(flips):
    a, b = two(300, shift=0.6)
    t = scipy_stats.ttest_rel(b, a).pvalue
    assert t < 1e-20
    assert paired(a, b, flips=flips).randomisation.p == pytest.approx(t, rel=1e-6)
    # 25 equal gains: no p of signs is below 2 / 2 ** 25
    assert paired([0.0] * 25, [0.1] * 25, flips=flips).randomisation.p == 1 / (1 + flips)


def test_cohens_d_by_hand():
    # d = 1, 2, 3: mean 2, sd 1
    found = paired([1, 2, 3], [2, 4, 6])
    assert found.cohens_d == pytest.approx(2.0)
    assert (found.mean_a, found.mean_b, found.difference, found.n) == (2.0, 4.0, 2.0, 3)


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


def test_non_inferiority_of_yes_no_scores_is_no_easier_with_a_loss():
    lower = [non_inferiority(*shares(200, 0, losses), 0.05).lower for losses in range(5)]
    assert lower == sorted(lower, reverse=True)


def test_wins_losses_and_ties_add_up_and_rounding_is_a_tie():
    found = paired([0.3, 0.5, 0.7, 0.1], [0.1 + 0.2, 0.75, 0.2, 0.9])
    assert (found.wins, found.losses, found.ties) == (2, 1, 1)


def test_the_intervals_of_the_difference_are_those_of_the_differences():
    a, b = steps(50)
    found = paired(a, b, bounds=(0, 1))
    assert found.interval == difference_interval(a, b, bounds=(0, 1)) == student(b - a, 0.95, (-1, 1))


def test_without_pairs_nothing_is_said():
    found = paired([], [])
    assert (found.n, found.mean_a, found.mean_b, found.difference) == (0, None, None, None)
    for part in (found.t, found.randomisation):
        assert (part.p, part.significant) == (None, None)
        assert part.reason
    assert found.interval.low is found.cohens_d is None


def test_one_pair_has_no_t_but_still_a_p_that_can_find_nothing():
    found = paired([0.2], [0.9])
    assert found.t.reason == "a t-test needs two pairs, there are 1"
    assert (found.cohens_d, found.randomisation.p) == (None, 1.0)
    assert found.randomisation.reason == "1 differences are not 0: p can't be below 1"


def test_no_difference_at_all_is_p_one_where_signs_are_flipped_and_undefined_for_t():
    found = paired([0.5] * 30, [0.5] * 30, bounds=(0, 1))
    assert found.t.reason == "all 30 differences are 0: there is no spread to test against"
    assert (found.randomisation.p, found.cohens_d) == (1.0, None)
    # 1 - 0.05 ** (1 / 30) = 0.09503: that share of all rows may still differ, by 1 at the most
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.09503, 0.09503), abs=5e-6)


def test_a_constant_difference_has_no_t_but_a_clear_p():
    a = np.linspace(0, 0.5, 10)
    found = paired(a, a + 0.1)
    assert found.t.reason == "all 10 differences are 0.1: there is no spread to test against"
    assert found.cohens_d is None
    assert (found.randomisation.p, found.randomisation.significant) == (2 / 2**10, True)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (5, 40), (300, 200)])
def test_welch_is_scipys(n, m):
    rng = np.random.default_rng(n)
    a, b = rng.normal(0, 1, n), rng.normal(0.4, 3, m)
    expected, found = scipy_stats.ttest_ind(b, a, equal_var=False), welch(a, b)
    assert found.welch.p == pytest.approx(expected.pvalue, **EXACT)
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(expected.confidence_interval()), **EXACT)
    assert (found.n_a, found.n_b) == (n, m)


def test_an_unpaired_interval_is_clipped_to_what_scores_can_differ_by():
    found = welch([0.0, 0.5], [1.0, 0.5], bounds=(0, 1))
    assert (found.interval.low, found.interval.high) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([], [0.5, 0.6], "each side needs two rows, there are 0 and 2"),
        ([0.5, 0.6], [0.5], "each side needs two rows, there are 2 and 1"),
        ([0.5, 0.5], [0.7, 0.7], "neither side varies: there is no spread to test against"),
    ],
)
def test_where_welch_has_no_spread_it_says_so(a, b, reason):
    found = welch(a, b)
    assert (found.welch.p, found.welch.reason) == (None, reason)
    assert found.interval.reason == reason


def test_one_side_may_be_constant():
    assert welch([0.5, 0.5, 0.5], [0.1, 0.7, 0.9]).welch.p == pytest.approx(
        scipy_stats.ttest_1samp([0.1, 0.7, 0.9], 0.5).pvalue
    )


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_non_inferiority_is_scipys_one_sided_test_against_the_margin(better):
    a, b = two(60, shift=-0.05)
    gains = b - a if better == "higher" else a - b
    expected = scipy_stats.ttest_1samp(gains + 0.3, 0.0, alternative="greater")
    found = non_inferiority(a, b, 0.3, better=better)
    assert found.p == pytest.approx(expected.pvalue, **EXACT)
    assert found.lower == pytest.approx(expected.confidence_interval(0.975).low - 0.3, **EXACT)
    ends = difference_interval(a, b)
    assert found.lower == (ends.low if better == "higher" else -ends.high)
    assert found.non_inferior is (found.p < 0.025)
    assert found.gain == pytest.approx(gains.mean())


def test_a_wide_margin_is_kept_and_a_narrow_one_is_not():
    a, b = two(60, shift=0.0)
    found = [non_inferiority(a, b, margin).non_inferior for margin in (0.01, 0.1, 0.3, 1.0)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (False, True)


def test_identical_systems_are_non_inferior_only_as_far_as_the_rows_reach():
    # one-sided 97.5 %: 1 - 0.025 ** (1 / 100) = 0.0362 of all rows may be worse by 1
    same = [0.5] * 100
    found = non_inferiority(same, same, 0.05, bounds=(0, 1))
    assert found.lower == pytest.approx(-0.0362, abs=5e-5)
    assert (found.p, found.non_inferior) == (None, True)
    assert non_inferiority(same, same, 0.03, bounds=(0, 1)).non_inferior is False
    unknown = non_inferiority(same, same, 0.05)
    assert (unknown.non_inferior, unknown.lower) == (None, None)
    assert unknown.reason == "all 100 values are equal: the spread is unknown"


def test_paired_refuses_columns_of_different_length():
    with pytest.raises(BadInput, match="columns must be flat, equally long and finite"):
        paired([1, 2], [1])
