"""Swapping A and B flips every sign and leaves every p as it is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragassay.core.statistics import Interval
from ragassay.stats.intervals import mean_interval
from ragassay.stats.tests import paired, welch

graded = st.tuples(*[st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 1.0])] * 2)
binary = st.tuples(*[st.sampled_from([0.0, 1.0])] * 2)
free = st.tuples(*[st.floats(-1e6, 1e6, allow_subnormal=False)] * 2)
pairs = st.one_of(*(st.lists(kind, max_size=40) for kind in (graded, binary, free)))


def mirrored(interval: Interval) -> Interval:
    low, high = interval.low, interval.high
    return interval.model_copy(update={"low": None if high is None else -high, "high": None if low is None else -low})


@settings(max_examples=80, deadline=None)
@given(pairs, st.integers(0, 9))
def test_paired_mirrors(rows, seed):
    a, b = np.array(rows, dtype=float).reshape(-1, 2).T
    forth, back = paired(a, b, seed=seed, flips=199), paired(b, a, seed=seed, flips=199)
    assert (back.mean_a, back.mean_b) == (forth.mean_b, forth.mean_a)
    assert back.difference == (None if forth.difference is None else -forth.difference)
    assert (back.wins, back.losses, back.ties) == (forth.losses, forth.wins, forth.ties)
    assert (back.t.p, back.randomisation) == (forth.t.p, forth.randomisation)
    assert back.cohens_d == (None if forth.cohens_d is None else -forth.cohens_d)
    assert back.interval == mirrored(forth.interval)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=20), st.lists(st.floats(0, 1), max_size=20))
def test_welch_mirrors(a, b):
    forth, back = welch(a, b), welch(b, a)
    assert back.difference == (None if forth.difference is None else -forth.difference)
    assert (back.n_a, back.n_b, back.mean_a, back.mean_b) == (forth.n_b, forth.n_a, forth.mean_b, forth.mean_a)
    if forth.welch.p is None:
        assert back.welch.p is back.interval.low is None
    else:
        assert back.welch.p == pytest.approx(forth.welch.p)
        assert back.interval.low == pytest.approx(-forth.interval.high)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40))
def test_mean_interval_mirrors(values):
    column = np.array(values)
    assert mean_interval(-column) == mirrored(mean_interval(column))
