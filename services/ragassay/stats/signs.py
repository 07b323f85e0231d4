"""Two tests that rest on one idea: were A and B alike, each difference could as well have had the other sign."""

from __future__ import annotations

import math

import numpy as np

from ragassay.stats.columns import Floats, generator, sums
from ragassay.stats.distributions import never_zero, normal_below
from ragassay.stats.findings import Significance

MOST_EXACT_RANKS = 50
MOST_EXACT_FLIPS = 20
MOST_SIGNS = 4096


def signed_ranks(units: Floats) -> tuple[float, float, Floats]:
    """Rank sums of the positive and of the negative differences, and the ranks of all that are not 0."""
    moved = units[units != 0.0]
    _, place, ties = np.unique(np.abs(moved), return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(ties) - (ties - 1) / 2)[place] if len(moved) else moved
    return float(ranks[moved > 0].sum()), float(ranks[moved < 0].sum()), ranks


def wilcoxon(units: Floats, alpha: float) -> Significance:
    """Wilcoxon's signed-rank test of ``units``, shape (units,): differences, of which zeros are left out.

    Up to 50 differences p is exact, also where ranks are tied, given those ranks; beyond, it is the normal
    approximation with the correction for ties and none for continuity. The statistic is the smaller rank sum.
    All differences 0: p is 1. None at all: None.
    Source: Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1 (1945).
    """
    if not len(units):
        return Significance(name="wilcoxon", method="exact", alpha=alpha, reason="there are no pairs")
    above, below, ranks = signed_ranks(units)
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


def randomisation(units: Floats, rows: int, *, alpha: float, seed: int, flips: int) -> Significance:
    """Sign-flip test of the mean difference; ``units`` are differences, or their sums within groups.

    Up to 20 units that are not 0 every combination of signs is counted; beyond, ``flips`` random ones, and p is
    (1 + those at least as extreme) / (1 + flips), so that it is never 0. Beyond 4,096 units they are dealt at random
    into as many blocks that turn as one, which is as valid. The statistic is the mean over ``rows``.

    Sources: Fisher, "The design of experiments" (1935); Phipson and Smyth, "Permutation p-values should never be zero",
    Statistical Applications in Genetics and Molecular Biology 9 (2010); Hemerik and Goeman, "Exact testing with random
    permutations", TEST 27 (2018) for turning blocks; for retrieval Smucker, Allan and Carterette, "A comparison of
    statistical significance tests for information retrieval evaluation", CIKM (2007).
    """
    if not len(units):
        return Significance(name="randomisation", method="exact", alpha=alpha, reason="there are no pairs")
    moved = units[units != 0.0]
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
        statistic=total / rows,
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
        moved = sums(moved, rng.permutation(len(moved)) % MOST_SIGNS)
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
