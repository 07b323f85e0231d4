"""Quantiles and tails of the normal and t distributions, without the weight of importing scipy.stats."""

from __future__ import annotations

import math
import sys
from statistics import NormalDist

_NORMAL = NormalDist()


def normal_quantile(p: float) -> float:
    """The z below which a standard normal falls with probability ``p``."""
    return _NORMAL.inv_cdf(p)


def normal_below(z: float) -> float:
    """Probability that a standard normal falls below ``z``, exact in the lower tail."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def t_quantile(p: float, df: float) -> float:
    """The t below which Student's t with ``df`` degrees of freedom falls with probability ``p``."""
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def t_above(t: float, df: float) -> float:
    """Probability that Student's t with ``df`` degrees of freedom exceeds ``t``."""
    from scipy.special import stdtr

    return float(stdtr(df, -t))


def never_zero(p: float) -> float:
    """A p value as it may be printed: at most 1, and the smallest float where it underflows."""
    return min(1.0, max(p, sys.float_info.min))
