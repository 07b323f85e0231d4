"""Quantiles and tails of the normal and t distributions; every report needs them, and scipy takes a quarter of a second."""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_MOST_STEPS = 10_000  # far beyond the square root of any sample size


def normal_quantile(p: float) -> float:
    """The z below which a standard normal falls with probability ``p``."""
    return _NORMAL.inv_cdf(p)


def normal_below(z: float) -> float:
    """Probability that a standard normal falls below ``z``, exact in the lower tail."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@lru_cache(maxsize=256)
def t_quantile(p: float, df: float) -> float:
    """The t below which Student's t with ``df`` degrees of freedom falls with probability ``p``, 0 < p < 1.

    By bisection, until no float lies between.
    """
    if p <= 0.5:
        return 0.0 if p == 0.5 else -t_quantile(1 - p, df)
    low, high = 0.0, 1.0
    while t_above(high, df) > 1 - p:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if t_above(middle, df) > 1 - p else (low, middle)
    return high


def t_above(t: float, df: float) -> float:
    """Probability that Student's t with ``df`` degrees of freedom exceeds ``t``."""
    if t < 0:
        return 1.0 - t_above(-t, df)
    if math.isinf(t):
        return 0.0
    return 0.5 * _regularized_beta(df / 2, 0.5, df / (df + t * t), t * t / (df + t * t))


def _log(x: float, rest: float) -> float:
    """The logarithm of x = 1 - ``rest``, exact where x is next to 1."""
    return math.log(x) if x < 0.5 else math.log1p(-rest)


def _log_gamma_ratio(a: float) -> float:
    """log(gamma(a + 1/2) / gamma(a)); by its series where the difference of two large logarithms would lose digits."""
    if a < 100:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    return 0.5 * math.log(a) - 1 / (8 * a) + 1 / (192 * a**3)


def _regularized_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularized incomplete beta function at x = 1 - ``rest``, one of a and b a half; DLMF 8.17.22, Lentz's method."""
    if x == 0 or rest == 0:
        return float(rest == 0)
    if x > (a + 1) / (a + b + 2):  # there the fraction of the other side converges faster
        return 1.0 - _regularized_beta(b, a, rest, x)
    factor = a * _log(x, rest) + b * _log(rest, x) + _log_gamma_ratio(max(a, b)) - math.lgamma(0.5)
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1))
    fraction, m, change = d, 1, 0.0
    while abs(change - 1.0) > sys.float_info.epsilon and m < _MOST_STEPS:
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        c, d = 1.0 + even / c, 1.0 / (1.0 + even * d)
        fraction *= c * d
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        c, d = 1.0 + odd / c, 1.0 / (1.0 + odd * d)
        change = c * d
        fraction *= change
        m += 1
    return math.exp(factor) * fraction / a


def never_zero(p: float) -> float:
    """A p value as it may be printed: at most 1, and the smallest float where it underflows."""
    return min(1.0, max(p, sys.float_info.min))
