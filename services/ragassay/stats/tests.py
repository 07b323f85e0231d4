"""Is B different from A, or is it luck? Tests on the same queries and on different ones, and corrections for many tests."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import Correction
from ragassay.core.statistics import Interval
from ragassay.stats.intervals import Bounds, Floats, Values, columns, is_constant, span_of, standard_error, t_quantile

PValues: TypeAlias = Sequence[float | None]

MAX_EXACT_FLIPS = 20
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


def randomisation(differences: Floats, *, seed: int = 0, flips: int = 9999) -> float | None:
    """The p value of a sign-flip test of the mean of ``differences``, shape (n,): B - A on the same queries; None without one.

    Up to 20 differences that are not 0 every combination of signs is counted; beyond, ``flips`` random ones, and p is
    (1 + those at least as extreme) / (1 + flips). If none is as extreme, the flips only bound p from above: then it is
    that of the t-test, at most this bound, so that p does not depend on the number of flips.

    Sources: Fisher, "The design of experiments" (1935); Phipson and Smyth, "Permutation p-values should never be zero",
    Statistical Applications in Genetics and Molecular Biology 9 (2010); for retrieval Smucker, Allan and Carterette, "A
    comparison of statistical significance tests for information retrieval evaluation", CIKM (2007).
    """
    if not len(differences):
        return None
    moved = differences[differences != 0.0]
    n, total = len(moved), float(moved.sum())
    least = abs(total) - 1e-12 * float(np.abs(moved).sum())  # sums in another order differ by rounding
    if n <= MAX_EXACT_FLIPS:
        return float((np.abs(_all_flips(moved)) >= least).mean())
    extreme = int((np.abs(_random_flips(moved, seed, flips)) >= least).sum())
    p = (1 + extreme) / (1 + flips)
    if extreme or (t := t_test(differences)) is None:
        return p
    return max(never_zero(smallest_p(n)), min(p, t))


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
    rng = np.random.default_rng(seed)
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    signs = (2.0 * bits - 1.0).T
    totals = np.zeros(flips)
    for eight in np.pad(moved, (0, -len(moved) % 8)).reshape(-1, 8):
        totals += (eight @ signs)[rng.integers(0, 256, size=flips, dtype=np.uint8)]
    return totals


def t_test(differences: Floats) -> float | None:
    """p of the paired t-test: Student's, of the mean of ``differences``; None without two of them, or if all are equal."""
    d, n = cohens_d(differences), len(differences)
    return None if d is None else p_of_t(d * math.sqrt(n), n - 1)


def cohens_d(differences: Floats) -> float | None:
    """The mean of ``differences`` over their standard deviation; None without two of them, or if all are equal.

    Source: Cohen, "Statistical power analysis for the behavioral sciences" (1988).
    """
    if len(differences) < 2 or is_constant(differences):
        return None
    return float(differences.mean()) / float(differences.std(ddof=1))


def welch(a: Values, b: Values, *, alpha: float = 0.05, bounds: Bounds | None = None) -> tuple[float | None, Interval]:
    """B against A on different queries: p of Welch's t-test (Biometrika 34, 1947) and the interval of mean b - mean a.

    ``bounds`` are those of the scores. If the systems share queries pair them: it needs far fewer. Below two rows on either
    side, or if both sides are constant, p and interval are None with the reason.
    """
    (first,), (second,) = columns(a), columns(b)
    reason, level = None, 1 - alpha
    if min(len(first), len(second)) < 2:
        reason = f"each side needs two rows, there are {len(first)} and {len(second)}"
    elif is_constant(first) and is_constant(second):
        reason = "neither side varies: there is no spread to test against"
    if reason:
        return None, Interval.absent(reason, level, "welch")
    # not scipy.stats.ttest_ind: it warns if one side is constant, which is no problem here
    variances = [standard_error(column) ** 2 for column in (first, second)]
    error = math.sqrt(sum(variances))
    shares = [variance / sum(variances) for variance in variances]
    df = 1 / sum(share**2 / (len(column) - 1) for share, column in zip(shares, (first, second), strict=True))
    difference, half = float(second.mean() - first.mean()), t_quantile(df, level) * error
    p = p_of_t(difference / error, df)
    lower, upper = span_of(bounds) if bounds else (-math.inf, math.inf)
    low, high = max(difference - half, lower), min(difference + half, upper)
    return p, Interval(low=low, high=high, level=level, method="welch")


_RULES: dict[Correction, Callable[[Floats], Floats]] = {
    "none": lambda p: p,
    "bonferroni": lambda p: p * len(p),
    "holm": lambda p: np.maximum.accumulate(p * np.arange(len(p), 0, -1)),
    "benjamini_hochberg": lambda p: np.minimum.accumulate((p * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1],
}
"""What becomes of the known p values, in ascending order."""


def correction_named(name: str, *, where: str | None = None) -> Correction:
    """The correction of that name, ``bh`` is short for Benjamini-Hochberg; raises BadSettings for another one."""
    full = "benjamini_hochberg" if name == "bh" else name
    for method in _RULES:
        if method == full:
            return method
    raise BadSettings(f"unknown correction {name!r}", where=where, hint=f"use one of {', '.join(_RULES)}")


def correct(ps: PValues, method: str) -> list[float | None]:
    """``ps`` adjusted by the correction of that name; None stays None, in its place, and does not count.

    Bonferroni and Holm bound the chance of any false finding, and Holm never finds less; Benjamini and Hochberg bound the
    share of false findings among the findings. Raises BadSettings for another name.
    Sources: Dunn, "Multiple comparisons among means", JASA 56 (1961); Holm, "A simple sequentially rejective multiple test
    procedure", Scandinavian J. Statistics 6 (1979); Benjamini and Hochberg, "Controlling the false discovery rate", J. Royal
    Statistical Society B 57 (1995).
    """
    known = [place for place, p in enumerate(ps) if p is not None]
    column = np.array([ps[place] for place in known], dtype=np.float64)
    order = np.argsort(column, kind="stable")
    adjusted: list[float | None] = [None] * len(ps)
    for rank, p in zip(order, np.minimum(_RULES[correction_named(method)](column[order]), 1.0), strict=True):
        adjusted[known[rank]] = float(p)
    return adjusted


def stars(p: float | None) -> str:
    """``***`` for p <= 0.001, ``**`` for p <= 0.01, ``*`` for p <= 0.05, else nothing; nothing too for None."""
    return next((mark for limit, mark in STARS if p is not None and p <= limit), "")


def p_of_t(t: float, df: float) -> float:
    """The two-sided p value of a t statistic with ``df`` degrees of freedom."""
    return never_zero(2 * float(scipy.special.stdtr(df, -abs(t))))


def never_zero(p: float) -> float:
    """A p value as it may be printed: at most 1, and the smallest float where it underflows."""
    return min(1.0, max(p, sys.float_info.min))
