"""Is B different from A, or is it luck? Paired if both answered the same queries, Welch's test if they did not."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.errors import BadSettings
from ragassay.core.statistics import Interval, NonInferiority, PairedTest, Significance, UnpairedTest
from ragassay.stats.columns import (
    Bounds,
    Floats,
    Values,
    bounds_of,
    count_of,
    differences,
    generator,
    is_binary,
    is_constant,
    mean_error,
    never_zero,
    numbers,
    pair,
    positive,
    share_of,
)
from ragassay.stats.intervals import mean_interval

MOST_EXACT_FLIPS = 20


def paired(
    a: Values,
    b: Values,
    *,
    alpha: float = 0.05,
    seed: int = 0,
    bounds: Bounds | None = None,
    binary: bool = False,
    flips: int = 9999,
) -> PairedTest:
    """B against A on the same queries: randomisation test, paired t-test, Cohen's d and the interval of the difference.

    ``a`` and ``b`` have shape (n,), row i of both belongs together. Swapping them mirrors differences, effect and
    interval exactly and leaves every p as it is. Cohen's d is the mean difference over the standard deviation of the
    differences. ``interval`` is that of ``difference_interval`` at level 1 - ``alpha``.

    Without a pair everything is None. With one pair, or if all differences are equal, there is no spread: t and d are
    None, the randomisation test stays defined. Sources: Student (1908); Cohen, "Statistical power analysis for the
    behavioral sciences" (1988); see ``randomisation``.
    """
    first, second = pair(a, b, ("a", "b"))
    alpha, bounds = share_of(alpha, "alpha"), bounds_of(bounds)
    flips = count_of(flips, "flips", 99)
    d, n = differences(first, second), len(first)
    sd = float(d.std(ddof=1)) if n > 1 else None
    return PairedTest(
        n=n,
        alpha=alpha,
        mean_a=_mean(first),
        mean_b=_mean(second),
        difference=_mean(d),
        sd=sd,
        wins=int((d > 0).sum()),
        losses=int((d < 0).sum()),
        ties=int((d == 0).sum()),
        t=_one_sample_t(d, alpha),
        randomisation=randomisation(d, alpha=alpha, seed=seed, flips=flips),
        cohens_d=float(d.mean()) / sd if sd and not is_constant(d) else None,
        interval=difference_interval(first, second, level=1 - alpha, bounds=bounds, binary=binary),
    )


def difference_interval(
    a: Values, b: Values, *, level: float = 0.95, bounds: Bounds | None = None, binary: bool = False
) -> Interval:
    """Interval of the mean of b - a on the same queries. It is the only one that ragassay shows or tests.

    ``a`` and ``b`` have shape (n,). ``bounds`` are those of the scores; the interval is clipped to what they leave
    possible. Student's t, but for yes/no scores (``binary``, or each value is 0 or 1) Bonett and Price's: two pairs are
    added, one for either side, so that pairs that all tie, or differ in one direction only, leave room for the other.
    Swapping a and b mirrors it exactly. Small n and equal differences: as in ``mean_interval``.
    Source: Bonett and Price, "Adjusted Wald confidence interval for a difference of binomial proportions based on paired
    data", Journal of Educational and Behavioral Statistics 37 (2012); with the quantile of t in place of the normal one.
    """
    first, second = pair(a, b, ("a", "b"))
    bounds = bounds_of(bounds)
    if len(first) > 1 and (binary or (is_binary(first) and is_binary(second))):
        level = share_of(level, "level")
        mean, error = _bonett_price(differences(first, second))
        half = float(scipy.special.stdtrit(len(first) - 1, (1 + level) / 2)) * error
        return Interval(low=max(mean - half, -1.0), high=min(mean + half, 1.0), level=level, method="bonett-price")
    span = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    return mean_interval(differences(first, second), level=level, bounds=span)


def _bonett_price(d: Floats) -> tuple[float, float]:
    """Mean and standard error of the differences and of one more win and one more loss."""
    n = len(d) + 2
    mean = float(d.sum()) / n
    return mean, math.sqrt(((float((d * d).sum()) + 2) / n - mean * mean) / n)


def welch(a: Values, b: Values, *, alpha: float = 0.05, bounds: Bounds | None = None) -> UnpairedTest:
    """B against A on different queries: Welch's t-test (Biometrika 34, 1947) and the interval of the difference.

    ``bounds`` are those of the scores. If the systems share queries use ``paired``: it needs far fewer of them. Below two
    rows on either side, or if both sides are constant, p and interval are None with the reason.
    """
    first, second = numbers(a, "a"), numbers(b, "b")
    alpha, bounds = share_of(alpha, "alpha"), bounds_of(bounds)
    means = {"mean_a": _mean(first), "mean_b": _mean(second)}
    known = len(first) > 0 and len(second) > 0
    reason, p = None, None
    if min(len(first), len(second)) < 2:
        reason = f"each side needs two rows, there are {len(first)} and {len(second)}"
    elif is_constant(first) and is_constant(second):
        reason = "neither side varies: there is no spread to test against"
    if reason:
        interval = Interval.absent(reason, 1 - alpha, "welch")
    else:
        difference, span = float(second.mean() - first.mean()), math.inf if bounds is None else bounds[1] - bounds[0]
        parts = [float(column.var(ddof=1)) / len(column) for column in (first, second)]
        error = math.sqrt(sum(parts))
        shares = [(part / sum(parts)) ** 2 / (len(c) - 1) for part, c in zip(parts, (first, second), strict=True)]
        p = never_zero(2 * float(scipy.special.stdtr(1 / sum(shares), -abs(difference) / error)))
        half = float(scipy.special.stdtrit(1 / sum(shares), 1 - alpha / 2)) * error
        low, high = (min(max(end, -span), span) for end in (difference - half, difference + half))
        interval = Interval(low=low, high=high, level=1 - alpha, method="welch")
    return UnpairedTest(
        n_a=len(first),
        n_b=len(second),
        alpha=alpha,
        **means,
        difference=float(second.mean() - first.mean()) if known else None,
        welch=Significance(name="welch", method="t", p=p, alpha=alpha, reason=reason),
        interval=interval,
    )


def non_inferiority(
    a: Values,
    b: Values,
    margin: float,
    *,
    alpha: float = 0.025,
    better: Literal["higher", "lower"] = "higher",
    bounds: Bounds | None = None,
    binary: bool = False,
) -> NonInferiority:
    """Is B worse than A by less than ``margin``, on the same queries? A one-sided test against -margin.

    "No significant difference" is no such proof: it may only mean too few queries. ``gain`` is the mean of B - A, or of
    A - B if lower is better; B is non-inferior if ``lower``, the one-sided bound at level 1 - alpha, lies above
    -margin. The default alpha is half of 0.05, so that ``lower`` is the lower end of the usual 95 % interval, which is
    that of ``difference_interval``. Set the margin before looking.
    Source: Piaggio et al., "Reporting of noninferiority and equivalence randomized trials", JAMA 308 (2012).
    """
    first, second = pair(a, b, ("a", "b"))
    margin, alpha = positive(margin, "margin"), share_of(alpha, "alpha")
    if better not in ("higher", "lower"):
        raise BadSettings(f"better is {better!r}", hint="use 'higher' or 'lower'")
    worse, best = (first, second) if better == "higher" else (second, first)
    gains = differences(worse, best)
    binary = binary or (is_binary(worse) and is_binary(best))
    still = not binary and is_constant(gains)
    # a t interval errs on both sides, one from constant values on one only
    level = 1 - alpha if still else 1 - 2 * alpha
    interval = difference_interval(worse, best, level=level, bounds=bounds, binary=binary)
    p = None
    if interval.low is not None and not still:
        mean, error = _bonett_price(gains) if binary else mean_error(gains)
        p = never_zero(float(scipy.special.stdtr(len(gains) - 1, -(mean + margin) / error)))
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


def randomisation(differences: Floats, *, alpha: float, seed: int, flips: int) -> Significance:
    """Sign-flip test of the mean of ``differences``, shape (n,).

    Up to 20 differences that are not 0 every combination of signs is counted; beyond, ``flips`` random ones, and p is
    (1 + those at least as extreme) / (1 + flips). If none is as extreme, the flips only bound p from above: then it is
    that of the t-test, at most this bound, so that p does not depend on the number of flips.

    Sources: Fisher, "The design of experiments" (1935); Phipson and Smyth, "Permutation p-values should never be zero",
    Statistical Applications in Genetics and Molecular Biology 9 (2010); for retrieval Smucker, Allan and Carterette, "A
    comparison of statistical significance tests for information retrieval evaluation", CIKM (2007).
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
        extreme = int((np.abs(_random_flips(moved, seed, flips)) >= least).sum())
        p = (1 + extreme) / (1 + flips)
        if not extreme:
            t = _one_sample_t(differences, alpha).p
            p = max(never_zero(smallest_p(n)), p if t is None else min(p, t))
    least_p = smallest_p(n)
    return Significance(
        name="randomisation",
        method="exact" if exact else f"{flips} random flips",
        p=p,
        alpha=alpha,
        reason=f"{n} differences are not 0: p can't be below {least_p:.3g}" if least_p > alpha else None,
    )


def smallest_p(moved: int) -> float:
    """The least p that a two-sided sign-flip test can give if ``moved`` pairs differ."""
    return min(1.0, 2.0 ** (1 - moved))


def _all_flips(moved: Floats) -> Floats:
    """Every sum with the first sign held; the other half are the same with all signs turned, and as extreme."""
    totals = moved[:1] if len(moved) else np.zeros(1)
    for value in moved[1:]:
        totals = np.concatenate([totals + value, totals - value])
    return totals


def _random_flips(moved: Floats, seed: int, flips: int) -> Floats:
    """Sums under random signs, eight differences at a time: a random byte picks one of the 256 sums of their signs."""
    rng = generator(seed)
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    signs = (2.0 * bits - 1.0).T
    eights = np.pad(moved, (0, -len(moved) % 8)).reshape(-1, 8)
    totals = np.zeros(flips)
    for eight in eights:
        totals += (eight @ signs)[rng.integers(0, 256, size=flips, dtype=np.uint8)]
    return totals


def _one_sample_t(d: Floats, alpha: float) -> Significance:
    reason, p = None, None
    if len(d) < 2:
        reason = f"a t-test needs two pairs, there are {len(d)}"
    elif is_constant(d):
        reason = f"all {len(d)} differences are {d[0]:.4g}: there is no spread to test against"
    else:
        mean, error = mean_error(d)
        p = never_zero(2 * float(scipy.special.stdtr(len(d) - 1, -abs(mean) / error)))
    return Significance(name="t", method="t", p=p, alpha=alpha, reason=reason)


def _mean(column: Floats) -> float | None:
    return float(column.mean()) if len(column) else None
