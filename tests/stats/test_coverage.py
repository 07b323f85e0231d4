"""Do intervals hold what they promise? Simulated; RAGASSAY_SLOW_TESTS=1 runs ten times as many simulations."""

import itertools
import os
import re
from pathlib import Path

import numpy as np
import pytest

from ragassay.core.statistics import RatioSums
from ragassay.stats.intervals import difference_interval, mean_interval, student, wilson_interval
from ragassay.stats.ppi import corrected_difference, corrected_mean
from ragassay.stats.ratio import Stratum, incremental_cost, sums_interval
from ragassay.stats.tests import randomisation, t_test, welch

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
MORE = 10 if os.environ.get("RAGASSAY_SLOW_TESTS") == "1" else 1
RUNS, SIZES = 1000 * MORE, (20, 50, 200)

CELL = r"\| (\d+\.\d) "
GRADES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
USUAL, BETTER, NEARLY_ALL = [0.05, 0.1, 0.15, 0.3, 0.4], [0.02, 0.06, 0.12, 0.3, 0.5], [0.02, 0.02, 0.03, 0.03, 0.9]
GAINS, GAIN_SHARES = np.array([-1, -0.5, -0.25, 0, 0.25, 0.5, 1]), [0.02, 0.04, 0.09, 0.55, 0.15, 0.1, 0.05]
MEAN_GAIN = float(GAINS @ GAIN_SHARES)


def grades(rng, n, shares=USUAL):
    return rng.choice(GRADES, n, p=shares)


def gains(rng, n):
    return rng.choice(GAINS, n, p=GAIN_SHARES)


def costs(rng, n):
    return rng.lognormal(0.0, 0.5, n)  # mean exp(0.125)


def seed(rng):
    return int(rng.integers(2**31))


def cost_per_accurate(rng, n, share, tail=0.5):
    spent = rng.lognormal(-(tail**2) / 2 + 0.125, tail, n)  # the same mean, whatever the tail
    sums = RatioSums.of(zip(spent.tolist(), (rng.random(n) < share).tolist(), strict=True))
    return sums_interval([Stratum(sums, n)])


def corrected(rng, n, step, share):
    """``n`` labels; the judge scores these and 10 n other rows ``step`` too high in a ``share`` of the cases."""
    labels = grades(rng, 11 * n)
    scores = np.minimum(labels + step * (rng.random(11 * n) < share), 1.0)
    labels[n:] = np.nan
    return corrected_mean(labels, scores).interval


def corrected_gain(rng, n):
    """``n`` pairs with labels; the judge misses a difference in 2 of 10 pairs, in these and 10 n others."""
    labels = gains(rng, 11 * n)
    scores = labels * (rng.random(11 * n) < 0.8)
    labels[n:] = np.nan
    return corrected_difference(labels, scores)[0].interval


def any_share(rng, n):
    """The interval of a share from 0.5 to 0.9, moved by what that is away from 0.7."""
    share = rng.uniform(0.5, 0.9)
    interval = wilson_interval(int(rng.binomial(n, share)), n)
    return interval.model_copy(update={"low": interval.low - share + 0.7, "high": interval.high - share + 0.7})


def of_shares(rng, n, better, worse):
    """B is right where A is not with chance ``better``, and wrong where A is right with chance ``worse``."""
    d = rng.choice([1.0, -1.0, 0.0], n, p=[better, worse, 1 - better - worse])
    return difference_interval(d < 0, d > 0)


def one_more(rng, n):
    """B is right where A is in 9 of 10 cases and where A is not in 5 of 10, at 1.4 times the cost: + 0.2 answers."""
    right_a, cost_a = rng.random(n) < 0.5, costs(rng, n)
    right_b = rng.random(n) < np.where(right_a, 0.9, 0.5)
    cost_b = 1.4 * cost_a * rng.lognormal(-0.02, 0.2, n)
    return incremental_cost(cost_a, right_a, cost_b, right_b).interval


COST = float(np.exp(0.125))
CASES = {
    "mean of graded scores, t": (lambda r, n: mean_interval(grades(r, n)), GRADES @ USUAL),
    "mean of graded scores, quasi-binomial": (lambda r, n: mean_interval(grades(r, n), bounds=(0, 1)), GRADES @ USUAL),
    "nearly all scores 1, t": (lambda r, n: student(grades(r, n, NEARLY_ALL), 0.95, (0, 1)), GRADES @ NEARLY_ALL),
    "nearly all scores 1, quasi-binomial": (
        lambda r, n: mean_interval(grades(r, n, NEARLY_ALL), bounds=(0, 1)),
        GRADES @ NEARLY_ALL,
    ),
    "share, 5 to 9 of 10": (lambda r, n: any_share(r, n), 0.7),
    "paired difference, t": (lambda r, n: student(gains(r, n), 0.95, (-1, 1)), MEAN_GAIN),
    "paired difference of shares, +15 % and -5 %": (lambda r, n: of_shares(r, n, 0.15, 0.05), 0.1),
    "paired difference of shares, +4 % and -1 %": (lambda r, n: of_shares(r, n, 0.04, 0.01), 0.03),
    "unpaired difference, Welch": (
        lambda r, n: welch(grades(r, n), grades(r, 2 * n, BETTER))[1],
        GRADES @ BETTER - GRADES @ USUAL,
    ),
    "cost per accurate answer, 5 of 10 right": (lambda r, n: cost_per_accurate(r, n, 0.5), COST / 0.5),
    "cost per accurate answer, 8 of 10 right": (lambda r, n: cost_per_accurate(r, n, 0.8), COST / 0.8),
    "the same, heavy-tailed costs": (lambda r, n: cost_per_accurate(r, n, 0.8, tail=0.8), COST / 0.8),
    "cost of one more accurate answer": (one_more, COST * 0.4 / 0.2),
    "corrected mean, n labels, a good judge": (lambda r, n: corrected(r, n, 0.25, 0.3), GRADES @ USUAL),
    "corrected mean, n labels, a poor judge": (lambda r, n: corrected(r, n, 0.75, 0.5), GRADES @ USUAL),
    "corrected paired difference, n labels": (corrected_gain, MEAN_GAIN),
}
OUTSIDE = {  # the page says why
    ("nearly all scores 1, t", 20),
    ("nearly all scores 1, t", 50),
    ("paired difference of shares, +15 % and -5 %", 20),
    ("paired difference of shares, +4 % and -1 %", 20),
    ("paired difference of shares, +4 % and -1 %", 50),
    ("cost of one more accurate answer", 20),
}


PRINTED = {
    (case, n): float(text) / 100
    for case, *row in re.findall(rf"^\| ([^|]+?) {CELL}{CELL}{CELL}\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    for n, text in zip(SIZES, row, strict=True)
}


def error(share, runs):
    return (share * (1 - share) / runs) ** 0.5


@pytest.mark.parametrize(("case", "n"), list(itertools.product(CASES, SIZES)))
def test_a_95_percent_interval_covers_in_93_to_97_of_100_and_as_the_page_says(case, n):
    make, truth = CASES[case]
    rng = np.random.default_rng([n, *case.encode()])
    made = [interval for interval in (make(rng, n) for _ in range(RUNS)) if interval.low is not None]
    found, runs, printed = sum(interval.contains(truth) for interval in made) / len(made), len(made), PRINTED[case, n]
    if (case, n) not in OUTSIDE:
        assert 0.93 - 3 * error(0.93, runs) <= found <= 0.97 + 3 * error(0.97, runs)
    # the page was printed from 10,000 simulations, and rounded
    noise = (error(min(printed, 0.99), runs) ** 2 + error(printed, 10_000) ** 2) ** 0.5
    assert found == pytest.approx(printed, abs=4 * noise + 0.0005)


@pytest.mark.parametrize("n", [30, 200])
def test_tests_of_equal_systems_find_something_in_5_of_100(n):
    rng, runs = np.random.default_rng(n), 120 * MORE
    found = {"t": 0, "randomisation": 0}
    for _ in range(runs):
        d = gains(rng, n) * rng.choice([-1, 1], n)
        found["t"] += t_test(d) <= 0.05
        found["randomisation"] += randomisation(d, flips=499, seed=seed(rng)) <= 0.05
    for name, count in found.items():
        assert count / runs == pytest.approx(0.05, abs=0.012 + 3 * error(0.05, runs)), name
