"""Is B different from A, or is it luck? Paired where both answered the same rows, Welch where they did not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from ragassay.errors import BadSettings
from ragassay.stats.columns import (
    Bounds,
    Floats,
    Values,
    block_sums,
    bounds_of,
    count_of,
    differences,
    generator,
    is_constant,
    mean_error,
    numbers,
    pair,
    positive,
    share_of,
)
from ragassay.stats.distributions import never_zero, normal_below, t_above, t_quantile
from ragassay.stats.intervals import bootstrap_interval, mean_interval
from ragassay.stats.results import Effect, Interval, NonInferiority, PairedTest, Significance, UnpairedTest

MOST_EXACT_RANKS = 50
MOST_EXACT_FLIPS = 20
MOST_SIGNS = 4096


def paired(
    a: Values,
    b: Values,
    *,
    alpha: float = 0.05,
    seed: int = 0,
    bounds: Bounds | None = None,
    resamples: int = 2000,
    flips: int = 9999,
) -> PairedTest:
    """B against A on the same rows: tests, effect sizes and intervals.

    ``a`` and ``b`` have shape (n,), row i of both belongs together. Swapping them mirrors every difference, effect and
    interval exactly and leaves every p as it is.

    The t test asks about the mean difference and trusts the central limit theorem; the randomisation test asks the same
    and trusts nothing but the pairing; Wilcoxon asks about ranks, so that a few large differences can't decide.
    Cohen's d is given by the standard deviation of the differences (d_z) and by the pooled one of A and B (d_pooled);
    rank_biserial is (rank sum above - rank sum below) / both. Intervals are at level 1 - ``alpha``; ``interval`` is
    that of ``difference_interval``.

    Small n: with no pair all is None. With one, or where all differences are equal, there is nothing to estimate a
    spread from: t and effect sizes are None with the reason, the other two tests stay defined. Fewer than six pairs
    that differ can't reach 0.05 in them; their ``reason`` says so. The bootstrap begins at eight.

    Sources: Student (1908); Cohen, "Statistical power analysis for the behavioral sciences" (1988); Kerby, "The simple
    difference formula", Comprehensive Psychology 3 (2014); for the rest see ``wilcoxon`` and ``randomisation``.
    """
    first, second = pair(a, b, ("a", "b"))
    alpha, bounds = share_of(alpha, "alpha"), bounds_of(bounds)
    flips = count_of(flips, "flips", 99)
    d, n = differences(first, second), len(first)
    return PairedTest(
        n=n,
        units=n,
        alpha=alpha,
        mean_a=_mean(first),
        mean_b=_mean(second),
        difference=_mean(d),
        sd=float(d.std(ddof=1)) if n > 1 else None,
        wins=int((d > 0).sum()),
        losses=int((d < 0).sum()),
        ties=int((d == 0).sum()),
        t=_one_sample_t(d, alpha),
        wilcoxon=wilcoxon(d, alpha),
        randomisation=randomisation(d, alpha=alpha, seed=seed, flips=flips),
        d_z=_effect("d_z", d, lambda: float(d.std(ddof=1))),
        d_pooled=_effect("d_pooled", d, lambda: math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)),
        rank_biserial=_rank_biserial(d),
        interval=difference_interval(first, second, level=1 - alpha, bounds=bounds),
        bootstrap=bootstrap_interval(d, level=1 - alpha, resamples=resamples, seed=seed),
    )


def difference_interval(a: Values, b: Values, *, level: float = 0.95, bounds: Bounds | None = None) -> Interval:
    """Interval of the mean of b - a on the same rows: Student's t. It is the only one that ragassay shows or tests.

    ``a`` and ``b`` have shape (n,). ``bounds`` are those of the scores; differences are clipped to what they leave
    possible. Swapping a and b mirrors it exactly. Small n and equal differences: as in ``mean_interval``.
    """
    first, second = pair(a, b, ("a", "b"))
    bounds = bounds_of(bounds)
    span = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    return mean_interval(differences(first, second), level=level, bounds=span)


def welch(a: Values, b: Values, *, alpha: float = 0.05, bounds: Bounds | None = None) -> UnpairedTest:
    """B against A on different rows, whose spreads may differ: Welch's t test, interval of the difference, Cohen's d.

    ``bounds`` are those of the scores. Where the same rows are at hand use ``paired``: it needs far fewer of them.
    Below two rows on either side, or where both sides are constant, p and interval are None with the reason.
    Source: Welch, "The generalization of Student's problem when several different population variances are involved",
    Biometrika 34 (1947).
    """
    first, second = numbers(a, "a"), numbers(b, "b")
    alpha, bounds = share_of(alpha, "alpha"), bounds_of(bounds)
    reason = None
    if min(len(first), len(second)) < 2:
        reason = f"each side needs two rows, there are {len(first)} and {len(second)}"
    elif is_constant(first) and is_constant(second):
        reason = "neither side varies: there is no spread to test against"
    known = len(first) > 0 and len(second) > 0
    shared = {
        "n_a": len(first),
        "n_b": len(second),
        "alpha": alpha,
        "mean_a": _mean(first),
        "mean_b": _mean(second),
        "difference": float(second.mean() - first.mean()) if known else None,
    }
    if reason:
        return UnpairedTest(
            **shared,
            welch=Significance(name="welch", method="t", alpha=alpha, reason=reason),
            d_pooled=Effect(name="d_pooled", reason=reason),
            interval=Interval.absent(reason, 1 - alpha, "welch"),
        )
    difference = float(second.mean() - first.mean())
    rests = len(first) - 1, len(second) - 1
    variances = float(first.var(ddof=1)), float(second.var(ddof=1))
    parts = variances[0] / len(first), variances[1] / len(second)
    error = math.sqrt(sum(parts))
    weights = parts[0] / sum(parts), parts[1] / sum(parts)
    df = 1 / (weights[0] ** 2 / rests[0] + weights[1] ** 2 / rests[1])
    pooled = math.sqrt((variances[0] * rests[0] + variances[1] * rests[1]) / sum(rests))
    half = t_quantile(1 - alpha / 2, df) * error
    low, high = difference - half, difference + half
    if bounds is not None:
        span = bounds[1] - bounds[0]
        low, high = (min(max(end, -span), span) for end in (low, high))
    return UnpairedTest(
        **shared,
        welch=_significance("welch", difference / error, df, alpha),
        d_pooled=Effect(name="d_pooled", value=difference / pooled),
        interval=Interval(low=low, high=high, level=1 - alpha, method="welch"),
    )


def non_inferiority(
    a: Values,
    b: Values,
    margin: float,
    *,
    alpha: float = 0.025,
    better: Literal["higher", "lower"] = "higher",
    bounds: Bounds | None = None,
) -> NonInferiority:
    """Is B worse than A by less than ``margin``, on the same rows? A one-sided paired t test against -margin.

    "No significant difference" is no such proof: it may only mean too few rows. ``gain`` is the mean of B - A, or of
    A - B where lower is better; B is non-inferior when ``lower``, the one-sided bound at level 1 - alpha, lies above
    -margin. The default alpha is half of 0.05, so that ``lower`` is the lower end of the usual 95 % interval. Set the
    margin before looking. With ``bounds`` of the scores, constant differences are judged as in ``mean_interval``.
    Source: Piaggio et al., "Reporting of noninferiority and equivalence randomized trials", JAMA 308 (2012).
    """
    first, second = pair(a, b, ("a", "b"))
    margin, alpha = positive(margin, "margin"), share_of(alpha, "alpha")
    if better not in ("higher", "lower"):
        raise BadSettings(f"better is {better!r}", hint="use 'higher' or 'lower'")
    worse, best = (first, second) if better == "higher" else (second, first)
    gains = differences(worse, best)
    still = is_constant(gains)
    # a t interval errs on both sides, one from constant values on one only
    level = 1 - alpha if still else 1 - 2 * alpha
    interval = difference_interval(worse, best, level=level, bounds=bounds)
    p = None
    if interval.low is not None and not still:
        mean, error = mean_error(gains)
        p = never_zero(t_above((mean + margin) / error, len(gains) - 1))
    return NonInferiority(
        n=len(gains),
        margin=margin,
        alpha=alpha,
        gain=_mean(gains),
        lower=interval.low,
        p=p,
        non_inferior=None if interval.low is None else interval.low > -margin,
        reason=interval.reason,
    )


def signed_ranks(differences: Floats) -> tuple[float, float, Floats]:
    """Rank sums of the positive and of the negative differences, and the ranks of all that are not 0."""
    moved = differences[differences != 0.0]
    _, place, ties = np.unique(np.abs(moved), return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(ties) - (ties - 1) / 2)[place] if len(moved) else moved
    return float(ranks[moved > 0].sum()), float(ranks[moved < 0].sum()), ranks


def wilcoxon(differences: Floats, alpha: float) -> Significance:
    """Wilcoxon's signed-rank test of ``differences``, shape (n,), of which zeros are left out.

    Up to 50 differences p is exact, also where ranks are tied, given those ranks; beyond, it is the normal
    approximation with the correction for ties and none for continuity. The statistic is the smaller rank sum.
    All differences 0: p is 1. None at all: None.
    Source: Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1 (1945).
    """
    if not len(differences):
        return Significance(name="wilcoxon", method="exact", alpha=alpha, reason="there are no pairs")
    above, below, ranks = signed_ranks(differences)
    statistic, n = min(above, below), len(ranks)
    exact = n <= MOST_EXACT_RANKS
    p = _exact_rank_p(ranks, statistic) if exact else _normal_rank_p(ranks, statistic)
    return Significance(
        name="wilcoxon",
        method="exact" if exact else "normal approximation",
        statistic=statistic,
        p=never_zero(p),
        alpha=alpha,
        smallest_p=_smallest(n) if exact else None,
        reason=_hopeless(n, alpha),
    )


def _exact_rank_p(ranks: Floats, statistic: float) -> float:
    """Counts, over all signs, the rank sums up to ``statistic``; tied ranks are halves, so sums are counted doubled."""
    doubled = np.rint(2 * ranks).astype(np.intp)
    ways = np.zeros(int(doubled.sum()) + 1)
    ways[0] = 1.0
    for rank in doubled:
        ways[rank:] += ways[:-rank].copy()
    return float(2 * ways[: round(2 * statistic) + 1].sum() / 2.0 ** len(ranks))


def _normal_rank_p(ranks: Floats, statistic: float) -> float:
    n = len(ranks)
    ties = np.unique(ranks, return_counts=True)[1].astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((ties**3 - ties).sum()) / 48
    return 2 * normal_below((statistic - n * (n + 1) / 4) / math.sqrt(variance))


def randomisation(differences: Floats, *, alpha: float, seed: int, flips: int) -> Significance:
    """Sign-flip test of the mean of ``differences``, shape (n,). The statistic is that mean.

    Up to 20 differences that are not 0 every combination of signs is counted; beyond, ``flips`` random ones, and p is
    (1 + those at least as extreme) / (1 + flips), so that it is never 0. Beyond 4,096 differences they are dealt at
    random into as many blocks that turn as one, which is as valid.

    Sources: Fisher, "The design of experiments" (1935); Phipson and Smyth, "Permutation p-values should never be zero",
    Statistical Applications in Genetics and Molecular Biology 9 (2010); Hemerik and Goeman, "Exact testing with random
    permutations", TEST 27 (2018) for turning blocks; for retrieval Smucker, Allan and Carterette, "A comparison of
    statistical significance tests for information retrieval evaluation", CIKM (2007).
    """
    if not len(differences):
        return Significance(name="randomisation", method="exact", alpha=alpha, reason="there are no pairs")
    moved = differences[differences != 0.0]
    n, total = len(moved), float(moved.sum())
    least = abs(total) - 1e-12 * float(np.abs(moved).sum())  # sums in another order differ by rounding
    exact = n <= MOST_EXACT_FLIPS
    if exact:
        p = float((np.abs(_all_flips(moved)) >= least).mean())
    else:
        p = (1 + int((np.abs(_random_flips(moved, seed, flips)) >= least).sum())) / (1 + flips)
    return Significance(
        name="randomisation",
        method="exact" if exact else f"{flips} random flips",
        statistic=total / len(differences),
        p=p,
        alpha=alpha,
        smallest_p=_smallest(n) if exact else 1 / (1 + flips),
        reason=_hopeless(n, alpha),
    )


def _all_flips(moved: Floats) -> Floats:
    """Every sum with the first sign held; the other half are the same with all signs turned, and as extreme."""
    totals = moved[:1] if len(moved) else np.zeros(1)
    for value in moved[1:]:
        totals = np.concatenate([totals + value, totals - value])
    return totals


def _random_flips(moved: Floats, seed: int, flips: int) -> Floats:
    """Sums under random signs, eight differences at a time: a random byte picks one of the 256 sums of their signs."""
    rng = generator(seed)
    if len(moved) > MOST_SIGNS:
        moved = block_sums(moved, rng.permutation(len(moved)) % MOST_SIGNS)
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    signs = (2.0 * bits - 1.0).T
    eights = np.pad(moved, (0, -len(moved) % 8)).reshape(-1, 8)
    totals = np.zeros(flips)
    for eight in eights:
        totals += (eight @ signs)[rng.integers(0, 256, size=flips, dtype=np.uint8)]
    return totals


def _smallest(n: int) -> float:
    return min(1.0, 2.0 ** (1 - n))


def _hopeless(n: int, alpha: float) -> str | None:
    least = _smallest(n)
    return f"{n} differences are not 0: p can't be below {least:.3g}" if least > alpha else None


def _one_sample_t(d: Floats, alpha: float) -> Significance:
    if len(d) < 2:
        reason = f"a t test needs two pairs, there are {len(d)}"
    elif is_constant(d):
        reason = f"all {len(d)} differences are {d[0]:.4g}: there is no spread to test against"
    else:
        mean, error = mean_error(d)
        return _significance("t", mean / error, len(d) - 1, alpha)
    return Significance(name="t", method="t", alpha=alpha, reason=reason)


def _significance(name: str, t: float, df: float, alpha: float) -> Significance:
    p = never_zero(2 * t_above(abs(t), df))
    return Significance(name=name, method="t", statistic=t, df=df, p=p, alpha=alpha)


def _effect(name: str, d: Floats, unit: Callable[[], float]) -> Effect:
    if len(d) < 2:
        return Effect(name=name, reason=f"an effect size needs two pairs, there are {len(d)}")
    if name == "d_z" and is_constant(d):
        return Effect(name=name, reason="all differences are equal: they have no spread")
    scale = unit()
    return Effect(name=name, value=float(d.mean()) / scale) if scale > 0 else Effect(name=name, reason="no spread")


def _rank_biserial(d: Floats) -> Effect:
    above, below, ranks = signed_ranks(d)
    if not len(ranks):
        return Effect(name="rank_biserial", reason="no pair differs")
    return Effect(name="rank_biserial", value=(above - below) / (above + below))


def _mean(column: Floats) -> float | None:
    return float(column.mean()) if len(column) else None
