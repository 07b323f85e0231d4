"""Means corrected by labels: against the published formulas written again, and coverage by simulation."""

import numpy as np
import pytest

from ragassay.stats.ppi import corrected_by_labels, corrected_mean

BOUNDS = (0.0, 1.0)
ROWS = 1000


def drawn(rng, n, *, share=0.7, too_kind=0.4, too_strict=0.05):
    """Labels of n rows, the scores of a judge that says yes too often for these, and for all others."""
    truth = rng.random(ROWS) < share
    judged = np.where(truth, rng.random(ROWS) >= too_strict, rng.random(ROWS) < too_kind).astype(float)
    return truth[:n].astype(float), judged[:n], judged[n:]


def test_mean_and_weight_are_those_of_the_published_formulas():
    y, f, g = drawn(np.random.default_rng(0), 100)
    n, m = len(y), len(g)
    everything = np.concatenate([f, g])
    weight = np.cov(y, f)[0, 1] / ((1 + n / m) * everything.var(ddof=1))
    mean = weight * g.mean() + (y - weight * f).mean()
    found = corrected_mean(y, f, g, bounds=BOUNDS)
    assert found.lambda_ == pytest.approx(weight)
    assert found.mean == pytest.approx(mean)
    assert found.judged == pytest.approx(everything.mean())
    spread = (y - weight * f).var(ddof=1) / n + weight**2 * g.var(ddof=1) / m
    # 1.984: Student's t at 0.975 with 99 degrees of freedom; a further label that disagrees by 1 adds (weight / n)^2
    half = 1.984 * np.sqrt(spread + (weight / n) ** 2)
    assert found.interval.high - found.interval.low == pytest.approx(2 * half, rel=0.03)


def test_a_judge_whose_scores_vary_too_little_has_a_weight_of_1():
    truth = (np.arange(ROWS) % 3 > 0).astype(float)
    judged = 0.5 + 0.5 * (truth - 0.5)  # the weight of least variance is near 2
    found = corrected_mean(truth[:100], judged[:100], judged[100:], bounds=BOUNDS)
    assert found.lambda_ == 1.0
    assert found.mean == pytest.approx(judged[100:].mean() + (truth - judged)[:100].mean())


def test_where_all_rows_are_labelled_or_all_labels_are_one_the_judge_has_no_part():
    rng = np.random.default_rng(2)
    y, f, g = drawn(rng, 100)
    assert corrected_mean(y, f, [], bounds=BOUNDS).mean == y.mean()
    same = corrected_mean(np.ones(30), f[:30], g, bounds=BOUNDS)
    assert (same.mean, same.lambda_, same.interval.method) == (1.0, 0.0, "constant values")
    assert same.interval.low < 0.91  # 0.05 ** (1 / 30)


def test_too_few_labels_are_no_correction():
    found = corrected_mean([1.0] * 9, [1.0] * 9, [0.5] * 50, bounds=BOUNDS)
    assert (found.mean, found.interval.low) == (None, None)
    assert found.reason == "a correction needs 10 questions with a label and a score, there are 9"


@pytest.mark.parametrize("differences", [False, True])
def test_answering_each_question_three_times_alike_adds_no_information(differences):
    y, f, g = drawn(np.random.default_rng(3), 60)
    once = corrected_mean(y, f, g, bounds=BOUNDS, differences=differences)
    labels, scores = np.concatenate([y, np.full(len(g), np.nan)]), np.concatenate([f, g])
    thrice = [np.repeat(column, 3) for column in (labels, scores, np.arange(len(scores)))]
    found = corrected_by_labels(*thrice, level=0.95, differences=differences)
    assert (found.labels, found.rows, found.judged) == (180, 3 * ROWS, pytest.approx(once.judged))
    assert (found.mean, found.interval, found.p) == (once.mean, once.interval, once.p)


def test_a_question_with_a_label_counts_by_its_labelled_answers_alone():
    rng = np.random.default_rng(5)
    y, f, g = drawn(rng, 60)
    once = corrected_mean(y, f, g, bounds=BOUNDS)
    unlabelled = rng.random(60)  # of each labelled question another answer, without a label
    labels = np.concatenate([y, np.full(60 + len(g), np.nan)])
    scores, questions = np.concatenate([f, unlabelled, g]), np.concatenate([np.arange(60), np.arange(ROWS)])
    found = corrected_by_labels(labels, scores, questions, level=0.95)
    assert (found.labels, found.mean, found.interval) == (60, once.mean, once.interval)


@pytest.mark.parametrize("n", [30, 300])
def test_an_interval_is_never_wider_than_that_of_the_labels_alone(n):
    rng = np.random.default_rng(n)
    for too_kind, too_strict in ((0.4, 0.05), (0.1, 0.1), (0.05, 0.3), (0.5, 0.5)):
        found = corrected_mean(*drawn(rng, n, too_kind=too_kind, too_strict=too_strict), bounds=BOUNDS)
        assert found.interval.width <= found.labels_only_interval.width


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
