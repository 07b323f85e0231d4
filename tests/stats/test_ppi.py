"""Means corrected by labels: against the published formulas written again, and coverage by simulation."""

import numpy as np
import pytest

from ragassay.stats.intervals import mean_interval
from ragassay.stats.ppi import corrected_difference, corrected_mean

BOUNDS = (0.0, 1.0)
ROWS = 1000


def drawn(rng, n, *, share=0.7, too_kind=0.4, too_strict=0.05):
    """Labels of the first n rows, NaN for the others, and the scores of a judge that says yes too often."""
    truth = (rng.random(ROWS) < share).astype(float)
    scores = np.where(truth == 1, rng.random(ROWS) >= too_strict, rng.random(ROWS) < too_kind).astype(float)
    truth[n:] = np.nan
    return truth, scores


def test_mean_is_that_of_the_published_formulas():
    labels, scores = drawn(np.random.default_rng(0), 100)
    y, f, g, n, m = labels[:100], scores[:100], scores[100:], 100, ROWS - 100
    weight = np.cov(y, f)[0, 1] / ((1 + n / m) * scores.var(ddof=1))
    found = corrected_mean(labels, scores)
    assert found.value == pytest.approx(weight * g.mean() + (y - weight * f).mean())
    assert (found.uncorrected, found.n, found.corrected_by) == (pytest.approx(scores.mean()), ROWS, 100)
    spread = (y - weight * f).var(ddof=1) / n + weight**2 * g.var(ddof=1) / m
    # 1.984: Student's t at 0.975 with 99 degrees of freedom; a further label that disagrees by 1 adds (weight / n)^2
    half = 1.984 * np.sqrt(spread + (weight / n) ** 2)
    assert found.interval.high - found.interval.low == pytest.approx(2 * half, rel=0.03)


def test_a_judge_whose_scores_vary_too_little_has_a_weight_of_1():
    truth = (np.arange(ROWS) % 3 > 0).astype(float)
    scores = 0.5 + 0.5 * (truth - 0.5)  # the weight of least variance is near 2
    labels = np.where(np.arange(ROWS) < 100, truth, np.nan)
    assert corrected_mean(labels, scores).value == pytest.approx(scores[100:].mean() + (truth - scores)[:100].mean())


def test_where_all_rows_are_labelled_or_all_labels_are_one_the_judge_has_no_part():
    labels, scores = drawn(np.random.default_rng(2), 100)
    assert corrected_mean(labels[:100], scores[:100]).value == labels[:100].mean()
    labels[:30], labels[30:] = 1.0, np.nan
    same = corrected_mean(labels, scores)
    assert (same.value, same.interval.method) == (1.0, "constant values")
    assert same.interval.low < 0.91  # 0.05 ** (1 / 30)


def test_too_few_labels_are_no_correction():
    found = corrected_mean(np.array([1.0] * 9 + [np.nan] * 50), np.full(59, 0.5))
    assert (found.value, found.interval.low, found.corrected_by) == (None, None, 9)
    assert found.reason == "a correction needs 10 questions with a label and a score, there are 9"


@pytest.mark.parametrize("correct", [lambda *of: (corrected_mean(*of), None), corrected_difference])
def test_answering_each_question_three_times_alike_adds_no_information(correct):
    labels, scores = drawn(np.random.default_rng(3), 60)
    once, p = correct(labels, scores)
    found, same_p = correct(*(np.repeat(column, 3) for column in (labels, scores, np.arange(len(scores)))))
    assert (found.corrected_by, found.n, found.uncorrected) == (180, 3 * ROWS, pytest.approx(once.uncorrected))
    assert (found.value, found.interval, same_p) == (once.value, once.interval, p)


def test_a_question_with_a_label_counts_by_its_labelled_answers_alone():
    rng = np.random.default_rng(5)
    labels, scores = drawn(rng, 60)
    once = corrected_mean(labels, scores)
    unlabelled = rng.random(60)  # of each labelled question another answer, without a label
    more, questions = np.concatenate([labels, np.full(60, np.nan)]), np.concatenate([np.arange(ROWS), np.arange(60)])
    found = corrected_mean(more, np.concatenate([scores, unlabelled]), questions)
    assert (found.corrected_by, found.value, found.interval) == (60, once.value, once.interval)


@pytest.mark.parametrize("n", [30, 300])
def test_an_interval_is_never_wider_than_that_of_the_labels_alone(n):
    rng = np.random.default_rng(n)
    for too_kind, too_strict in ((0.4, 0.05), (0.1, 0.1), (0.05, 0.3), (0.5, 0.5)):
        labels, scores = drawn(rng, n, too_kind=too_kind, too_strict=too_strict)
        assert corrected_mean(labels, scores).interval.width <= mean_interval(labels[:n], bounds=BOUNDS).width


def test_p_of_no_difference_is_where_the_interval_begins_to_hold_it():
    rng = np.random.default_rng(5)
    truth = rng.choice([-1.0, 0.0, 1.0], 400, p=[0.1, 0.6, 0.3])
    scores = np.where(rng.random(400) < 0.2, rng.choice([-1.0, 0.0, 1.0], 400), truth)
    labels = np.where(np.arange(400) < 60, truth, np.nan)
    p = corrected_difference(labels, scores)[1]
    assert 1e-6 < p < 0.2
    low, high = (
        corrected_difference(labels, scores, level=1 - p * factor)[0].interval.low for factor in (1.001, 0.999)
    )
    assert low >= 0 >= high
    for label, expected in ((1.0, 2.0**-10), (0.0, 1.0)):
        equal = np.array([label] * 10 + [np.nan] * 90)
        assert corrected_difference(equal, np.full(100, 0.5))[1] == pytest.approx(expected)
