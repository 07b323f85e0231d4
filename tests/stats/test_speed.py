"""A report or a comparison of 100,000 rows waits for no interval and no test."""

import time

import numpy as np
import pytest

from ragassay.core.cost_sums import RatioSums
from ragassay.stats.intervals import bootstrap_interval, difference_interval, mean_interval
from ragassay.stats.ratio import Stratum, incremental_cost, sums_interval
from ragassay.stats.tests import randomisation, welch

N = 100_000
rng = np.random.default_rng(0)
SCORES, OTHERS, RIGHT, MORE_RIGHT = rng.random(N), rng.random(N), rng.random(N) < 0.6, rng.random(N) < 0.7
COSTS, MORE_COSTS = rng.lognormal(0, 0.5, N), rng.lognormal(0.3, 0.5, N)
MAKERS = {
    "quasi-binomial": lambda: mean_interval(SCORES, bounds=(0, 1)),
    "bootstrap": lambda: bootstrap_interval(SCORES[:10_000]),
    "ratio": lambda: sums_interval([Stratum(RatioSums.of(zip(COSTS.tolist(), RIGHT.tolist(), strict=True)), N)]),
    "one more": lambda: incremental_cost(COSTS, RIGHT, MORE_COSTS, MORE_RIGHT).interval,
    "paired": lambda: difference_interval(SCORES, OTHERS),
    "welch": lambda: welch(SCORES, OTHERS)[1],
    "randomisation": lambda: randomisation(OTHERS - SCORES),
}


@pytest.mark.parametrize("name", MAKERS)
def test_at_100_000_rows_an_interval_or_test_takes_at_most_two_seconds(name):
    started = time.process_time()  # processor time, as other processes may share the machine
    MAKERS[name]()
    assert time.process_time() - started <= 2.0
