"""Means corrected by labels: against the published formulas written again, and coverage by simulation."""

import numpy as np
import pytest

from ragassay.stats.ppi import corrected_mean

BOUNDS = (0.0, 1.0)
SHARE, ROWS = 0.7, 1000


def drawn(rng, n, *, too_kind=0.4, too_strict=0.05):
    """Labels of n rows, the scores of a judge that says yes too often for these, and for all others."""
    truth = rng.random(ROWS) < SHARE
    judged = np.where(truth, rng.random(ROWS) >= too_strict, rng.random(ROWS) < too_kind).astype(float)
    return truth[:n].astype(float), judged[:n], judged[n:]


def test_mean_and_weight_are_those_of_the_published_formulas():
    y, f, g = drawn(np.random.default_rng(0), 100)
    n, m = len(y), len(g)
    covariance = sum((a - y.mean()) * (b - f.mean()) for a, b in zip(y, f, strict=True)) / (n - 1)
    everything = [*f, *g]
    centre = sum(everything) / (n + m)
    variance = sum((one - centre) ** 2 for one in everything) / (n + m - 1)
    weight = covariance / ((1 + n / m) * variance)
    mean = weight * sum(g) / m + sum(a - weight * b for a, b in zip(y, f, strict=True)) / n
    found = corrected_mean(y, f, g, bounds=BOUNDS)
    assert found.weight == pytest.approx(weight)
    assert found.mean == pytest.approx(mean)
    assert found.judged == pytest.approx(centre)
    spread = np.var([a - weight * b for a, b in zip(y, f, strict=True)], ddof=1) / n + weight**2 * np.var(g, ddof=1) / m
    # 1.984: Student's t at 0.975 with 99 degrees of freedom; a further label that disagrees by 1 adds (weight / n)^2
    half = 1.984 * np.sqrt(spread + (weight / n) ** 2)
    assert found.interval.high - found.interval.low == pytest.approx(2 * half, rel=0.03)


@pytest.mark.parametrize("n", [30, 100, 300])
def test_the_interval_holds_the_share_and_that_of_the_judges_mean_does_not(n):
    rng, draws = np.random.default_rng(n), 1500
    held = naive = narrower = 0
    for _ in range(draws):
        y, f, g = drawn(rng, n)
        found = corrected_mean(y, f, g, bounds=BOUNDS)
        held += found.interval.low <= SHARE <= found.interval.high
        error = 1.96 * np.concatenate([f, g]).std() / np.sqrt(ROWS)
        naive += abs(found.judged - SHARE) <= error
        narrower += found.interval.high - found.interval.low <= found.alone.high - found.alone.low
    # of 1,500, 95 % has a standard error of 0.6 %
    assert held / draws >= 0.935
    assert naive / draws < 0.01  # the judge's share is 0.785, 0.085 too high, and its interval +- 0.025
    assert narrower / draws > 0.85


def test_a_judge_that_guesses_is_given_no_weight():
    rng = np.random.default_rng(1)
    y, f, g = (rng.random(size) < 0.5 for size in (200, 200, 800))
    found = corrected_mean(y, f, g, bounds=BOUNDS)
    assert found.weight < 0.15
    assert found.mean == pytest.approx(y.mean(), abs=0.02)
    width, alone = (one.high - one.low for one in (found.interval, found.alone))
    assert width == pytest.approx(alone, rel=0.05)


def test_where_all_rows_are_labelled_or_all_labels_are_one_the_judge_has_no_part():
    rng = np.random.default_rng(2)
    y, f, g = drawn(rng, 100)
    assert corrected_mean(y, f, [], bounds=BOUNDS).mean == y.mean()
    same = corrected_mean(np.ones(30), f[:30], g, bounds=BOUNDS)
    assert (same.mean, same.weight, same.interval.method) == (1.0, 0.0, "constant values")
    assert same.interval.low < 0.91  # 0.05 ** (1 / 30)


def test_a_difference_may_be_negative_and_has_students_interval():
    rng = np.random.default_rng(3)
    worse, better = (rng.random(1000) < share for share in (0.6, 0.8))
    truth = worse.astype(float) - better
    judged = np.where(rng.random(1000) < 0.9, truth, rng.integers(-1, 2, 1000))
    found = corrected_mean(truth[:200], judged[:200], judged[200:], bounds=BOUNDS, differences=True)
    assert found.interval.low <= -0.2 <= found.interval.high < 0
    assert (found.interval.low + found.interval.high) / 2 == pytest.approx(found.mean)


def test_too_few_labels_are_no_correction():
    found = corrected_mean([1.0] * 9, [1.0] * 9, [0.5] * 50, bounds=BOUNDS)
    assert (found.mean, found.interval.low) == (None, None)
    assert found.reason == "a correction needs 10 labels of rows with a score, there are 9"


@pytest.mark.parametrize("n", [30, 100, 300])
@pytest.mark.parametrize("share", [0.5, 0.7, 0.85])
def test_intervals_hold_over_rates_and_judges_and_are_never_wider_than_the_labels_alone(n, share):
    """Of 600 draws 95 % has a standard error of 0.9 %; with 30 labels the interval holds more than it has to."""
    rng, judges = np.random.default_rng(n), [(0.4, 0.05), (0.1, 0.1), (0.05, 0.3), (0.5, 0.5)]
    held, draws = 0, 600
    for draw in range(draws):
        too_kind, too_strict = judges[draw % 4]
        truth = rng.random(ROWS) < share
        judged = np.where(truth, rng.random(ROWS) >= too_strict, rng.random(ROWS) < too_kind).astype(float)
        found = corrected_mean(truth[:n], judged[:n], judged[n:], bounds=BOUNDS)
        held += found.interval.low <= share <= found.interval.high
        assert found.interval.width <= found.alone.width
    assert 0.93 <= held / draws <= (0.985 if n == 30 else 0.97)


def test_p_of_no_difference_is_where_the_interval_begins_to_hold_it():
    rng = np.random.default_rng(5)
    truth = rng.choice([-1.0, 0.0, 1.0], 400, p=[0.1, 0.6, 0.3])
    judged = np.where(rng.random(400) < 0.2, rng.choice([-1.0, 0.0, 1.0], 400), truth)

    def at(level):
        return corrected_mean(truth[:60], judged[:60], judged[60:], bounds=BOUNDS, level=level, differences=True)

    p = at(0.95).p
    assert 1e-6 < p < 0.2
    assert at(1 - p * 1.001).interval.low >= 0 >= at(1 - p * 0.999).interval.low
    equal = corrected_mean([1.0] * 10, [0.5] * 10, [0.5] * 90, bounds=BOUNDS, differences=True)
    assert equal.p == pytest.approx(2.0**-10)
    none = corrected_mean([0.0] * 10, [0.5] * 10, [0.5] * 90, bounds=BOUNDS, differences=True)
    assert none.p == 1.0


@pytest.mark.parametrize(("n", "noise"), [(30, 0.2), (100, 0.2), (100, 0.6)])
def test_no_difference_is_called_one_in_at_most_5_of_100(n, noise):
    rng, draws = np.random.default_rng(n), 600
    called = 0
    for _ in range(draws):
        truth = rng.choice([-1.0, 0.0, 1.0], 500, p=[0.2, 0.6, 0.2])
        judged = np.where(rng.random(500) < noise, rng.choice([0.0, 1.0], 500), truth)  # it favours the second system
        called += corrected_mean(truth[:n], judged[:n], judged[n:], bounds=BOUNDS, differences=True).p <= 0.05
    assert called / draws <= 0.05 + 3 * 0.009
