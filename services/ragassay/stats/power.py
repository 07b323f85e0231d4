"""Before spending: how small a difference can so many rows show, and how many rows does a difference need?"""

from __future__ import annotations

import math

import scipy  # loads scipy.special at the first use; it takes a quarter of a second

from ragassay.core.errors import BadSettings
from ragassay.stats.intervals import t_quantile

LARGEST_DF = 1e7  # beyond it t and normal agree to more digits than a plan has


def power_of(effect: float, n: int, sd: float, *, alpha: float = 0.05) -> float:
    """Chance that a two-sided paired t test on ``n`` rows, two or more, finds a true mean difference of ``effect``.

    ``sd`` is the standard deviation of the differences, in the unit of ``effect``. Exact for normal differences,
    through the noncentral t distribution, both tails. Raises BadSettings for an sd that is not positive.
    Source: Cohen, "Statistical power analysis for the behavioral sciences" (1988).
    """
    _check(sd, alpha, n=n)
    return _power(abs(effect) / sd * math.sqrt(n), n - 1, alpha)


def minimum_detectable_effect(n: int, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest true mean difference that ``n`` paired rows show with chance ``power``; same unit as ``sd``."""
    _check(sd, alpha, power, n)
    low, high = 0.0, 1.0
    while _power(high, n - 1, alpha) < power:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if _power(middle, n - 1, alpha) >= power else (middle, high)
    return high * sd / math.sqrt(n)


def needed_n(effect: float, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """The fewest paired rows that show a true mean difference of ``effect`` with chance ``power``; at least 2.

    Raises BadSettings if ``effect`` is 0: no number of rows shows it.
    """
    _check(sd, alpha, power)
    if not 0 < (size := abs(effect) / sd) < math.inf:
        raise BadSettings(f"effect is {effect:g}", hint="it must be a finite number other than 0")
    guess = (float(scipy.special.ndtri(1 - alpha / 2) + scipy.special.ndtri(power)) / size) ** 2
    if guess > LARGEST_DF:
        return math.ceil(guess)
    low, high = 1, max(2, math.ceil(guess))
    while _power(size * math.sqrt(high), high - 1, alpha) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = _power(size * math.sqrt(middle), middle - 1, alpha) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def _check(sd: float, alpha: float, power: float = 0.8, n: int = 2) -> None:
    """Raises BadSettings for what a user can't mean; a power that is not above alpha is reached by no difference at all."""
    if n < 2:
        raise BadSettings(f"n is {n}", hint="a paired test needs 2 rows")
    if not 0 < sd < math.inf:
        raise BadSettings(f"sd is {sd:g}", hint="it must be a finite number above 0")
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0 < value < 1:
            raise BadSettings(f"{name} is {value:g}", hint="it must lie between 0 and 1, such as 0.05 or 0.8")
    if power <= alpha:
        raise BadSettings(f"power {power:g} is not above alpha {alpha:g}", hint="0.8 is usual")


def _power(shift: float, df: int, alpha: float) -> float:
    """``shift`` is the noncentrality: effect / (sd / sqrt(n))."""
    edge = t_quantile(df, 1 - alpha)
    # the lower tail is that of the mirrored distribution; scipy answers NaN where it is nothing next to 1
    upper = 1.0 - float(scipy.special.nctdtr(df, shift, edge))
    lower = 1.0 - float(scipy.special.nctdtr(df, -shift, edge))
    return upper if math.isnan(lower) else upper + lower
