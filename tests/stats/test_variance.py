"""Components of variance: against simulated ones, a mixed model, and expectations of mean squares worked out by matrices."""

import math
import warnings

import numpy as np
import pytest

from ragassay.stats import variance_split
from ragassay.stats.variance import judge_error


def drawn(rng, sizes, queries, *, query=0.0, generation=0.0, judge=0.0):
    """Judgings, answer after answer, with components of these standard deviations."""
    of = np.asarray(queries)
    answers = 3 + rng.normal(0, query, of.max() + 1)[of] + rng.normal(0, generation, len(of))
    return np.repeat(answers, sizes) + rng.normal(0, judge, sum(sizes))


def by_matrices(x, sizes, queries):
    """Method of moments from quadratic forms: E[x'Ax] is the sum of tr(A Z Z') times each component."""
    answer, n = np.repeat(np.arange(len(sizes)), sizes), len(x)
    query = np.asarray(queries)[answer]

    def projection(groups):
        z = (groups[:, None] == np.unique(groups)[None, :]).astype(float)
        return z @ np.linalg.inv(z.T @ z) @ z.T, z @ z.T

    (of_query, zz_query), (of_answer, zz_answer) = projection(query), projection(answer)
    forms = [of_query - np.full((n, n), 1 / n), of_answer - of_query, np.eye(n) - of_answer]
    left = [[np.trace(form @ zz) for zz in (zz_query, zz_answer, np.eye(n))] for form in forms]
    return np.linalg.solve(left, [x @ form @ x for form in forms])


def estimates(split):
    return {name: part.estimate for name, part in split.parts.items()}


def test_unequal_numbers_of_answers_and_judgings_are_what_the_expected_mean_squares_say():
    rng = np.random.default_rng(3)
    queries = [0, 0, 0, 1, 2, 2, 3, 3, 4, 5, 5, 5, 6, 7, 7]
    sizes = [2, 3, 1, 3, 3, 2, 1, 1, 4, 2, 2, 2, 1, 5, 2]
    x = drawn(rng, sizes, queries, query=0.5, generation=0.3, judge=0.4)
    expected = by_matrices(x, sizes, queries)
    found = estimates(variance_split(x, sizes, queries, resamples=100))
    assert list(found) == ["query", "generation", "judge"]
    assert list(found.values()) == pytest.approx(list(expected), rel=1e-9)


def test_balanced_components_are_those_of_a_mixed_model():
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    rng = np.random.default_rng(4)
    sizes, queries = [3] * 60, [n // 2 for n in range(60)]
    x = drawn(rng, sizes, queries, query=0.5, generation=0.4, judge=0.3)
    constant, groups = np.ones((len(x), 1)), np.repeat(queries, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_two = np.repeat(np.eye(2), 3, axis=0)
        within = VCSpec(["answer"], [[["a", "b"]] * 30], [[of_two] * 30])
        model = MixedLM(x, constant, groups=groups, exog_re=constant, exog_vc=within).fit(reml=True)
    found = estimates(variance_split(x, sizes, queries, resamples=100))
    reml = {"query": float(model.cov_re[0, 0]), "generation": float(model.vcomp[0]), "judge": float(model.scale)}
    assert found == pytest.approx(reml, rel=1e-3)


def test_known_components_come_back_on_average_and_their_intervals_hold_them():
    rng = np.random.default_rng(5)
    queries = [n // 2 for n in range(160)]
    known = {"query": 0.25, "generation": 0.04, "judge": 0.09}
    found, held = {name: [] for name in known}, dict.fromkeys(known, 0)
    for n in range(120):
        sizes = list(rng.integers(1, 4, len(queries)))
        sds = {name: math.sqrt(value) for name, value in known.items()}
        split = variance_split(drawn(rng, sizes, queries, **sds), sizes, queries, resamples=199, seed=n)
        for name, part in split.parts.items():
            found[name].append(part.estimate)
            held[name] += part.interval.contains(known[name])
    for name, value in known.items():
        error = np.std(found[name]) / math.sqrt(len(found[name]))
        assert np.mean(found[name]) == pytest.approx(value, abs=3.5 * error)
        assert held[name] >= 0.88 * 120  # 95 % nominal; a binomial of 120 draws falls below 106 once in 600


def test_without_a_second_answer_query_and_generation_are_one_component():
    # by hand: judge (4 x 0.5^2) / 2 = 0.5; means 1 and 3, so the mean square of queries is 2 x (1 + 1) = 4, (4 - 0.5) / 2
    split = variance_split([0.5, 1.5, 2.5, 3.5], [2, 2], [0, 1], resamples=100)
    assert estimates(split) == pytest.approx({"query and generation": 1.75, "judge": 0.5})
    assert split.parts["judge"].share == pytest.approx(0.5 / 2.25)
    assert "8 groups" in split.parts["judge"].interval.reason
    # the mean over two rows: judge 0.5 / 4 judgings, rows 1.75 / 2
    assert split.judge_error == pytest.approx(math.sqrt(0.5 / 4))
    assert split.error == pytest.approx(math.sqrt(1.75 / 2 + 0.5 / 4))
    assert split.least_difference == pytest.approx(1.959964 * math.sqrt(2 * 0.5 / 4), rel=1e-6)


def test_the_error_is_that_of_means_drawn_anew_and_the_judges_part_that_of_judging_anew():
    rng = np.random.default_rng(6)
    sizes, queries = [3, 1, 2, 2] * 25, [n // 2 for n in range(100)]
    weights = np.repeat(1 / np.array(sizes), sizes) / len(sizes)
    sds = {"query": 0.5, "generation": 0.3, "judge": 0.4}
    means = [drawn(rng, sizes, queries, **sds) @ weights for _ in range(4000)]
    again = [drawn(rng, sizes, queries, judge=0.4) @ weights for _ in range(4000)]
    many = [20] * 6000, [n // 2 for n in range(6000)]
    split = variance_split(drawn(rng, *many, **sds), *many, resamples=100)
    known = {name: part.variance for name, part in split.parts.items()}
    of_judge = judge_error(known["judge"], sizes)
    assert np.std(again) == pytest.approx(of_judge, rel=0.05)
    drawn_anew = known["query"] * 50 * 4 / 100**2 + known["generation"] / 100 + of_judge**2
    assert np.std(means) == pytest.approx(math.sqrt(drawn_anew), rel=0.05)


def test_an_estimate_below_zero_counts_as_zero_and_is_told():
    # the answers have the same mean, so the judge's noise alone would make more between them
    split = variance_split([0.0, 1.0, 0.0, 1.0, 0.0, 1.0], [2, 2, 2], [0, 1, 2], resamples=100)
    together = split.parts["query and generation"]
    assert (together.estimate, together.variance, together.share) == (pytest.approx(-0.25), 0.0, 0.0)
    assert split.parts["judge"].share == 1.0


def test_a_judge_without_noise_has_none_by_construction_and_further_answers_still_tell_generation():
    rng = np.random.default_rng(7)
    queries = [n // 3 for n in range(60)]
    x = drawn(rng, [1] * 60, queries, query=0.5, generation=0.3)
    split = variance_split(x, [1] * 60, queries, exact=True, resamples=100)
    groups = x.reshape(20, 3)
    within = groups.var(axis=1, ddof=1).mean()
    expected = {"query": groups.mean(axis=1).var(ddof=1) - within / 3, "generation": within, "judge": 0.0}
    assert estimates(split) == pytest.approx(expected)
    assert (split.judge_error, split.least_difference, split.narrower) == (0.0, 0.0, None)


def test_twice_the_judgings_help_as_many_rows_as_is_said():
    rng = np.random.default_rng(8)
    x = drawn(rng, [2] * 80, range(80), query=0.2, judge=0.6)
    split = variance_split(x, [2] * 80, range(80), resamples=100)
    judge, rest = split.parts["judge"].variance, split.parts["query and generation"].variance
    twice = math.sqrt(rest / 80 + judge / 320)
    assert split.narrower == pytest.approx(1 - twice / split.error)
    assert math.sqrt((rest + judge / 2) / (80 + split.rows_instead)) <= twice * (1 + 1e-9)
    assert math.sqrt((rest + judge / 2) / (80 + split.rows_instead - 1)) > twice
    decided = variance_split(x, [2] * 80, range(80), averaged=False, resamples=100)
    assert (decided.narrower, decided.judge_error) == (None, pytest.approx(math.sqrt(judge / 80)))


@pytest.mark.parametrize(
    ("values", "sizes", "queries", "why"),
    [
        ([0.1, 0.2], [2], [0], "2 queries with a score are needed, there are 1"),
        ([], [], [], "2 queries with a score are needed, there are 0"),
        ([0.1, 0.2, 0.3], [1, 1, 1], [0, 1, 2], "no answer was judged twice"),
    ],
)
def test_what_can_not_be_told_has_a_reason(values, sizes, queries, why):
    split = variance_split(values, sizes, queries)
    assert (split.parts, split.error, split.reason) == ({}, None, why)


def test_where_nothing_varies_there_is_no_share():
    split = variance_split([0.5] * 20, [2] * 10, range(10), resamples=100)
    assert [part.share for part in split.parts.values()] == [None, None]
    assert (split.error, split.judge_error) == (0.0, 0.0)


def test_the_judge_alone_makes_larger_differences_than_stated_as_seldom_as_stated():
    """On rows of which most are clear to the judge and some are not: each run judges the same answers anew."""
    rng, rows, repeat, draws = np.random.default_rng(9), 80, 2, 4000
    chance = np.resize([0.98, 0.98, 0.02, 0.5], rows)
    runs = (rng.random((2, draws, rows, repeat)) < chance[:, None]).astype(float)
    means = runs.mean(axis=(2, 3))
    variances = runs.var(axis=3, ddof=1).mean(axis=2)  # as each run measures it
    errors = [[judge_error(one, [repeat] * rows) for one in of] for of in variances]
    beyond = np.abs(means[1] - means[0]) > 1.959964 * np.hypot(*errors)
    # 5 % of 4,000 are 200, with a standard deviation of 14; means of few values lie on a grid, which costs some more
    assert 150 <= beyond.sum() <= 260
