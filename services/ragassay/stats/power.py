"""Before spending: how small a difference can so many rows show, and how many rows does a difference need?"""

from __future__ import annotations

import math

import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.errors import BadSettings
from ragassay.stats.columns import count_of, positive, share_of

LARGEST_DF = 1e7  # beyond it t and normal agree to more digits than a plan has


def power_of(effect: float, n: int, sd: float, *, alpha: float = 0.05) -> float:
    """Chance that a two-sided paired t test on ``n`` rows finds a true mean difference of ``effect``.

    ``sd`` is the standard deviation of the differences, in the unit of ``effect``. Exact for normal differences,
    through the noncentral t distribution, both tails. Raises BadSettings for n below 2 or an sd that is not positive.
    Source: Cohen, "Statistical power analysis for the behavioral sciences" (1988).
    """
    n, sd, alpha = count_of(n, "n", 2), positive(sd, "sd"), share_of(alpha, "alpha")
    return _power(abs(effect) / sd * math.sqrt(n), n - 1, alpha)


def minimum_detectable_effect(n: int, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest true mean difference that ``n`` paired rows show with chance ``power``; same unit as ``sd``."""
    n, sd, alpha, power = count_of(n, "n", 2), positive(sd, "sd"), share_of(alpha, "alpha"), _reachable(power, alpha)
    low, high = 0.0, 1.0
    while _power(high, n - 1, alpha) < power:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if _power(middle, n - 1, alpha) >= power else (middle, high)
    return high * sd / math.sqrt(n)


def needed_n(effect: float, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """The fewest paired rows that show a true mean difference of ``effect`` with chance ``power``; at least 2.

    Raises BadSettings when ``effect`` is 0: no number of rows shows it.
    """
    size = positive(abs(effect), "effect") / positive(sd, "sd")
    alpha, power = share_of(alpha, "alpha"), _reachable(power, alpha)
    guess = (float(scipy.special.ndtri(1 - alpha / 2) + scipy.special.ndtri(power)) / size) ** 2
    if guess > LARGEST_DF:
        return math.ceil(guess)

    def enough(n: int) -> bool:
        return _power(size * math.sqrt(n), n - 1, alpha) >= power

    low, high = 1, max(2, math.ceil(guess))
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _reachable(power: float, alpha: float) -> float:
    """``power``; one that is not above alpha would be reached by no difference at all."""
    if share_of(power, "power") <= alpha:
        raise BadSettings(f"power {power:g} is not above alpha {alpha:g}", hint="0.8 is usual")
    return power


def _power(shift: float, df: int, alpha: float) -> float:
    """``shift`` is the noncentrality: effect / (sd / sqrt(n))."""
    edge = float(scipy.special.stdtrit(df, 1 - alpha / 2))
    # the lower tail is that of the mirrored distribution; scipy answers NaN where it is nothing next to 1
    upper, lower = (
        1.0 - float(scipy.special.nctdtr(df, shift, edge)),
        1.0 - float(scipy.special.nctdtr(df, -shift, edge)),
    )
    return upper if math.isnan(lower) else upper + lower
