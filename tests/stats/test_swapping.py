"""Swapping A and B flips every sign and leaves every p as it is, to the last bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragassay.stats import Effect, Interval, Significance, bootstrap_interval, mean_interval, paired, welch

graded = st.tuples(*[st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 1.0])] * 2)
free = st.tuples(*[st.floats(-1e6, 1e6, allow_subnormal=False)] * 2)
pairs = st.one_of(st.lists(graded, max_size=40), st.lists(free, max_size=40))


def mirrored(interval: Interval) -> Interval:
    low, high = interval.low, interval.high
    return interval.model_copy(update={"low": None if high is None else -high, "high": None if low is None else -low})


def turned(effect: Effect) -> Effect:
    return effect.model_copy(update={"value": None if effect.value is None else -effect.value})


def flipped(test: Significance, reason: str | None) -> Significance:
    statistic = test.statistic if test.name == "wilcoxon" or test.statistic is None else -test.statistic
    return test.model_copy(update={"statistic": statistic, "reason": reason})


@settings(max_examples=80, deadline=None)
@given(pairs, st.integers(0, 9))
def test_a_paired_comparison_mirrors(rows, seed):
    a, b = np.array(rows, dtype=float).reshape(-1, 2).T
    options = {"seed": seed, "resamples": 200, "flips": 199}
    forth, back = paired(a, b, **options), paired(b, a, **options)
    assert (back.mean_a, back.mean_b) == (forth.mean_b, forth.mean_a)
    assert back.difference == (None if forth.difference is None else -forth.difference)
    assert (back.wins, back.losses, back.ties) == (forth.losses, forth.wins, forth.ties)
    for name in ("t", "wilcoxon", "randomisation"):
        # the reason for a missing t names the difference, so its words change with the sign
        assert getattr(back, name) == flipped(getattr(forth, name), getattr(back, name).reason)
    for name in ("d_z", "d_pooled", "rank_biserial"):
        assert getattr(back, name) == turned(getattr(forth, name))
    for name in ("interval", "bootstrap"):
        assert getattr(back, name) == mirrored(getattr(forth, name))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=20), st.lists(st.floats(0, 1), max_size=20))
def test_an_unpaired_comparison_mirrors(a, b):
    forth, back = welch(a, b), welch(b, a)
    assert back.difference == (None if forth.difference is None else -forth.difference)
    assert (back.n_a, back.n_b, back.mean_a, back.mean_b) == (forth.n_b, forth.n_a, forth.mean_b, forth.mean_a)
    if forth.welch.p is None:
        assert back.welch.p is back.interval.low is back.d_pooled.value is None
    else:
        assert back.welch == flipped(forth.welch, None)
        assert back.d_pooled == turned(forth.d_pooled)
        assert back.interval == mirrored(forth.interval)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40), st.sampled_from(["percentile", "bca"]), st.booleans())
def test_intervals_mirror_with_their_data(values, method, expand):
    column = np.array(values)
    for make in (
        lambda x: mean_interval(x, bounds=(-1, 1)),
        lambda x: bootstrap_interval(x, method=method, resamples=200, expand=expand),
    ):
        assert make(-column) == mirrored(make(column))


def test_many_rows_in_blocks_mirror_too():
    values = np.random.default_rng(0).normal(0.1, 1, 20_000)
    assert bootstrap_interval(-values) == mirrored(bootstrap_interval(values))
