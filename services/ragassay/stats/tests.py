"""Is B different from A, or is it luck? Paired where both answered the same rows, Welch where they did not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from ragassay.errors import BadSettings
from ragassay.stats.bootstrap import bootstrap_interval
from ragassay.stats.columns import (
    Bounds,
    Codes,
    Floats,
    Groups,
    Values,
    bounds_of,
    codes_of,
    count_of,
    differences,
    is_constant,
    numbers,
    pair,
    positive,
    scale_of,
    share_of,
    spread,
    sums,
    unit_count,
    without_noise,
)
from ragassay.stats.distributions import never_zero, t_above, t_quantile
from ragassay.stats.findings import Effect, Interval, NonInferiority, PairedTest, Significance, UnpairedTest
from ragassay.stats.intervals import mean_interval
from ragassay.stats.signs import randomisation, signed_ranks, wilcoxon


def paired(
    a: Values,
    b: Values,
    *,
    alpha: float = 0.05,
    seed: int = 0,
    groups: Groups | None = None,
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
    rank_biserial is (rank sum above - rank sum below) / both. Intervals are at level 1 - ``alpha``; ``bounds`` are
    those of the scores, and clip the t interval of the difference.

    With ``groups`` t is clustered, signs are flipped and rows resampled by whole groups, and Wilcoxon sees the mean
    difference of each group.

    Small n: with no pair all is None. With one, or where all differences are equal, there is nothing to estimate a
    spread from: t and effect sizes are None with the reason, the other two tests stay defined. Fewer than six pairs
    that differ can't reach 0.05 in them; their ``reason`` says so. The bootstrap begins at eight.

    Sources: Student (1908); Cohen, "Statistical power analysis for the behavioral sciences" (1988); Kerby, "The simple
    difference formula", Comprehensive Psychology 3 (2014); for the rest see ``wilcoxon``, ``randomisation`` and
    ``spread``.
    """
    first, second = pair(a, b, ("a", "b"))
    alpha, bounds = share_of(alpha, "alpha"), bounds_of(bounds)
    flips = count_of(flips, "flips", 99)
    d, n = differences(first, second), len(first)
    codes = codes_of(groups, n)
    totals = sums(d, codes)
    means = without_noise(totals / sums(np.ones(n), codes), scale_of(first, second))
    span = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    return PairedTest(
        n=n,
        units=len(totals),
        alpha=alpha,
        mean_a=_mean(first),
        mean_b=_mean(second),
        difference=_mean(d),
        wins=int((d > 0).sum()),
        losses=int((d < 0).sum()),
        ties=int((d == 0).sum()),
        t=_one_sample_t(d, codes, alpha),
        wilcoxon=wilcoxon(means, alpha),
        randomisation=randomisation(totals, n, alpha=alpha, seed=seed, flips=flips),
        d_z=_effect("d_z", d, lambda: float(d.std(ddof=1))),
        d_pooled=_effect("d_pooled", d, lambda: math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)),
        rank_biserial=_rank_biserial(means),
        interval=mean_interval(d, level=1 - alpha, bounds=span, groups=groups),
        bootstrap=bootstrap_interval(d, level=1 - alpha, resamples=resamples, seed=seed, groups=groups),
    )


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
    groups: Groups | None = None,
) -> NonInferiority:
    """Is B worse than A by less than ``margin``, on the same rows? A one-sided paired t test against -margin.

    "No significant difference" is no such proof: it may only mean too few rows. ``gain`` is the mean of B - A, or of
    A - B where lower is better; B is non-inferior when ``lower``, the one-sided bound at level 1 - alpha, lies above
    -margin. The default alpha is half of 0.05, so that ``lower`` is the lower end of the usual 95 % interval. Set the
    margin before looking. With ``bounds`` of the scores, constant differences are judged as in ``mean_interval``.
    Source: Piaggio et al., "Reporting of noninferiority and equivalence randomized trials", JAMA 308 (2012).
    """
    first, second = pair(a, b, ("a", "b"))
    margin, alpha, bounds = positive(margin, "margin"), share_of(alpha, "alpha"), bounds_of(bounds)
    if better not in ("higher", "lower"):
        raise BadSettings(f"better is {better!r}", hint="use 'higher' or 'lower'")
    gains = differences(first, second) if better == "higher" else differences(second, first)
    span = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    still = is_constant(gains)
    # a t interval errs on both sides, one from constant values on one only
    level = 1 - alpha if still else 1 - 2 * alpha
    interval = mean_interval(gains, level=level, bounds=span, groups=groups)
    p = None
    if interval.low is not None and not still:
        mean, error, units = spread(gains, codes_of(groups, len(gains)))
        p = never_zero(t_above((mean + margin) / error, units - 1))
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


def _one_sample_t(d: Floats, codes: Codes | None, alpha: float) -> Significance:
    units = unit_count(d, codes)
    reason = None
    if units < 2:
        reason = f"a t test needs two {'pairs' if codes is None else 'groups'}, there are {units}"
    elif is_constant(d):
        reason = f"all {len(d)} differences are {d[0]:.4g}: there is no spread to test against"
    else:
        mean, error, units = spread(d, codes)
        if error > 0.0:
            return _significance("t", mean / error, units - 1, alpha)
        reason = "all groups have the same mean difference: there is no spread to test against"
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


def _rank_biserial(units: Floats) -> Effect:
    above, below, ranks = signed_ranks(units)
    if not len(ranks):
        return Effect(name="rank_biserial", reason="no pair differs")
    return Effect(name="rank_biserial", value=(above - below) / (above + below))


def _mean(column: Floats) -> float | None:
    return float(column.mean()) if len(column) else None
