import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ragassay.errors import BadInput, BadSettings
from ragassay.stats import bootstrap_interval, difference_interval, mean_interval, non_inferiority, paired, welch
from ragassay.stats.tests import _all_flips, _random_flips, randomisation, wilcoxon

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
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue), **EXACT)
    assert found.df == n - 1


def test_the_interval_of_the_difference_is_scipys():
    a, b = two(40)
    expected = scipy_stats.ttest_rel(b, a).confidence_interval(0.9)
    found = paired(a, b, alpha=0.1).interval
    assert (found.low, found.high) == pytest.approx(tuple(expected), **EXACT)


@pytest.mark.parametrize("n", [1, 2, 6, 20, 50])
def test_wilcoxon_without_ties_is_scipys_exact_one(n):
    a, b = two(n)
    expected, found = scipy_stats.wilcoxon(b, a, method="exact"), paired(a, b).wilcoxon
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue), **EXACT)
    assert found.method == "exact"


@pytest.mark.parametrize("seed", range(5))
def test_wilcoxon_with_ties_and_zeros_counts_every_sign(seed):
    a, b = steps(12, seed)
    d = (b - a)[b != a]
    ranks = scipy_stats.rankdata(np.abs(d))
    # every way to give the ranks a sign, counted one by one
    sums = [
        sum(r for r, up in zip(ranks, signs, strict=True) if up) for signs in itertools.product((0, 1), repeat=len(d))
    ]
    least = min(ranks[d > 0].sum(), ranks[d < 0].sum())
    expected = min(1.0, 2 * np.mean([s <= least for s in sums]))
    found = paired(a, b).wilcoxon
    assert (found.statistic, found.p) == pytest.approx((least, expected), **EXACT)


@pytest.mark.parametrize("make", [two, steps])
def test_wilcoxon_on_many_pairs_is_scipys_normal_approximation(make):
    a, b = make(400)
    expected = scipy_stats.wilcoxon(b, a, method="approx", correction=False)
    found = paired(a, b).wilcoxon
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue), **EXACT)
    assert found.method == "normal approximation"


@pytest.mark.parametrize("n", [3, 8, 12])
@pytest.mark.parametrize("make", [two, steps])
def test_the_randomisation_test_on_few_pairs_is_scipys_permutation_test(make, n):
    a, b = make(n)
    expected = scipy_stats.permutation_test(
        (b, a), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    found = paired(a, b).randomisation
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue), **EXACT)
    assert found.method == "exact"


def test_the_randomisation_test_by_hand():
    # differences 1, 2, 4: of the 8 sums 7 5 3 -1 1 -3 -5 -7 two are at least 7 away from 0
    found = paired([0, 0, 0], [1, 2, 4]).randomisation
    assert (found.statistic, found.p, found.smallest_p) == (pytest.approx(7 / 3), 0.25, 0.25)
    assert found.reason == "3 differences are not 0: p can't be below 0.25"


def test_random_flips_come_near_the_exact_p():
    # 40 differences of one size, 27 up, 13 down: as extreme are 27 or more on a side, 2 P(X >= 27) = 0.0385
    d = np.array([0.5] * 27 + [-0.5] * 13)
    found = randomisation(d, alpha=0.05, seed=1, flips=9999)
    expected = 2 * scipy_stats.binom.sf(26, 40, 0.5)
    assert expected == pytest.approx(0.0385, abs=5e-5)
    assert found.p == pytest.approx(expected, abs=4 * math.sqrt(expected / 9999))
    assert found.method == "9999 random flips"


def test_random_flips_have_the_spread_of_all_flips():
    d = np.array([3.0, 1.0, 0.5, 2.0, 0.25, 1.5, 1.0, 4.0, 2.5])
    some, every = _random_flips(d, 0, 40_000), _all_flips(d)
    spread = math.sqrt((d**2).sum())
    assert some.std() == pytest.approx(spread, rel=0.02)
    assert some.mean() == pytest.approx(0.0, abs=4 * spread / 200)
    assert set(np.round(np.abs(some), 9)) == set(np.round(np.abs(every), 9))


def test_signs_that_turn_in_blocks_give_the_p_of_a_z_test_on_many_rows():
    # 20,000 rows, mean 2 standard errors from 0: two-sided p = 0.0455; the spread of 4,096 block sums is known to
    # sqrt(1 / (2 * 4096)) = 1.1 %, which moves p by 0.0024
    d = np.random.default_rng(5).normal(0, 1, 20_000)
    d += 2 * d.std() / math.sqrt(20_000) - d.mean()
    found = randomisation(d, alpha=0.05, seed=0, flips=9999)
    assert found.p == pytest.approx(0.0455, abs=4 * math.sqrt(0.0455 / 9999) + 0.003)


def test_a_randomisation_p_is_never_zero():
    a, b = two(300, shift=5.0)
    assert paired(a, b, flips=999).randomisation.p == 1 / 1000


def test_no_p_is_zero_however_clear_the_difference():
    rng = np.random.default_rng(0)
    a = rng.normal(0, 1e-9, 5000)
    found = paired(a, a[::-1] + 1.0, resamples=100, flips=99)
    assert 0 < found.t.p < 1e-300
    assert 0 < found.wilcoxon.p < 1e-300


def test_effect_sizes_by_hand():
    # d = 1, 2, 3: mean 2, sd 1; var a = 1, var b = 4, pooled sqrt(2.5) = 1.5811; all ranks above: 1
    found = paired([1, 2, 3], [2, 4, 6])
    assert found.d_z.value == pytest.approx(2.0)
    assert found.d_pooled.value == pytest.approx(2 / math.sqrt(2.5))
    assert found.rank_biserial.value == 1.0
    assert (found.mean_a, found.mean_b, found.difference, found.n) == (2.0, 4.0, 2.0, 3)


def test_wins_losses_and_ties_add_up_and_rounding_is_a_tie():
    found = paired([0.3, 0.5, 0.7, 0.1], [0.1 + 0.2, 0.75, 0.2, 0.9])
    assert (found.wins, found.losses, found.ties) == (2, 1, 1)


def test_differences_that_are_equal_but_for_rounding_share_a_rank():
    # 0.8 - 0.7 and 0.3 - 0.2 differ in the last bit; tied at rank 1.5, so below = 1.5 and above = 1.5 + 3
    found = paired([0.7, 0.3, 0.0], [0.8, 0.2, 0.9])
    assert found.wilcoxon.statistic == 1.5


def test_the_intervals_of_the_difference_are_those_of_the_differences():
    a, b = steps(50)
    found = paired(a, b, seed=4, bounds=(0, 1))
    assert found.interval == difference_interval(a, b, bounds=(0, 1)) == mean_interval(b - a, bounds=(-1, 1))
    assert found.bootstrap == bootstrap_interval(b - a, seed=4)


def test_without_pairs_nothing_is_said():
    found = paired([], [])
    assert (found.n, found.mean_a, found.mean_b, found.difference) == (0, None, None, None)
    for part in (found.t, found.wilcoxon, found.randomisation):
        assert (part.p, part.significant) == (None, None)
        assert part.reason
    assert found.interval.low is found.bootstrap.low is None


def test_one_pair_has_no_t_but_still_a_p_that_can_find_nothing():
    found = paired([0.2], [0.9])
    assert found.t.reason == "a t test needs two pairs, there are 1"
    assert found.d_z.reason == "an effect size needs two pairs, there are 1"
    assert (found.wilcoxon.p, found.randomisation.p) == (1.0, 1.0)
    assert found.randomisation.reason == "1 differences are not 0: p can't be below 1"


def test_no_difference_at_all_is_p_one_where_signs_are_flipped_and_undefined_for_t():
    found = paired([0.5] * 30, [0.5] * 30, bounds=(0, 1))
    assert found.t.reason == "all 30 differences are 0: there is no spread to test against"
    assert (found.wilcoxon.p, found.randomisation.p) == (1.0, 1.0)
    assert found.rank_biserial.reason == "no pair differs"
    assert found.d_pooled.reason == "no spread"
    # 1 - 0.05 ** (1 / 30) = 0.09503: that share of all rows may still differ, by 1 at the most
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.09503, 0.09503), abs=5e-6)


def test_a_constant_difference_has_no_t_but_a_clear_p():
    a = np.linspace(0, 0.5, 10)
    found = paired(a, a + 0.1)
    assert found.t.reason == "all 10 differences are 0.1: there is no spread to test against"
    assert found.d_z.reason == "all differences are equal: they have no spread"
    assert found.wilcoxon.p == found.randomisation.p == 2 / 2**10
    assert found.wilcoxon.significant is True


def test_few_pairs_that_differ_are_said_to_be_too_few():
    assert wilcoxon(np.array([1.0, 2, 3, 4, 5]), 0.05).reason == "5 differences are not 0: p can't be below 0.0625"
    assert wilcoxon(np.array([1.0, 2, 3, 4, 5, 6]), 0.05).reason is None


@pytest.mark.parametrize(("n", "m"), [(2, 2), (5, 40), (300, 200)])
def test_welch_is_scipys(n, m):
    rng = np.random.default_rng(n)
    a, b = rng.normal(0, 1, n), rng.normal(0.4, 3, m)
    expected, found = scipy_stats.ttest_ind(b, a, equal_var=False), welch(a, b)
    assert (found.welch.statistic, found.welch.p) == pytest.approx((expected.statistic, expected.pvalue), **EXACT)
    assert found.welch.df == pytest.approx(expected.df, **EXACT)
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(expected.confidence_interval()), **EXACT)
    assert (found.n_a, found.n_b) == (n, m)


def test_unpaired_effect_size_by_hand():
    # means 2 and 4, variances 1 and 4, both n = 3: pooled sd sqrt((2 + 8) / 4) = sqrt(2.5)
    found = welch([1, 2, 3], [2, 4, 6], bounds=(0, 10))
    assert found.d_pooled.value == pytest.approx(2 / math.sqrt(2.5))
    assert found.difference == 2.0


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
    assert found.interval.reason == found.d_pooled.reason == reason


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


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: paired([1, 2], [1]), BadInput, "a has 2 rows, b has 1; keep only the rows that both have"),
        (lambda: paired([1, 2], [1, None]), BadInput, r"b\[1\] is not a finite number"),
        (lambda: paired([1], [2], alpha=5), BadSettings, "alpha is 5"),
        (lambda: paired([1], [2], flips=1), BadSettings, "flips is 1; it must be a whole number of at least 99"),
        (lambda: non_inferiority([1], [2], 0.0), BadSettings, "margin is 0"),
        (lambda: non_inferiority([1], [2], 0.1, better="up"), BadSettings, "better is 'up'"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
