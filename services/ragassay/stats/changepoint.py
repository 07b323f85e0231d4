"""Metrics over runs: where did a level change, and was it more than the usual scatter?"""

from __future__ import annotations

import math

import numpy as np

from ragassay.core.statistics import ChangePoint
from ragassay.stats.intervals import MAX_CELLS, Floats, Values, columns, is_constant

MIN_PART = 2  # values on either side of a step


def change_points(
    values: Values, *, alpha: float = 0.05, permutations: int = 999, seed: int = 0
) -> tuple[ChangePoint, ...]:
    """Lasting steps of the mean in a series of runs, shape (runs,) in time order; ascending by index.

    Binary segmentation: the cut with the largest sqrt(k (n - k) / n) |mean before - mean after| is kept when at most a
    share ``alpha`` of random orders of the same values have one as large; then both parts are searched alike. Both
    sides of a cut have two values at least. So a series without any step shows one with probability alpha.

    It takes runs to be independent: a slow drift appears as a stair of steps. Small n: a step needs about four runs on
    either side to be found at 0.05, because fewer values have too few orders; shorter series give none.
    Sources: Scott and Knott, "A cluster analysis method for grouping means in the analysis of variance", Biometrics 30
    (1974); for the permutation test Matteson and James, "A nonparametric approach for multiple change point analysis of
    multivariate data", JASA 109 (2014).
    """
    (column,) = columns(values)
    steps: list[ChangePoint] = []
    parts = [(0, len(column))]
    while parts:
        start, stop = parts.pop()
        part = column[start:stop]
        if len(part) < 2 * MIN_PART or is_constant(part):
            continue
        cut, p = _largest_step(part, permutations, seed)
        if p <= alpha:
            before, after = float(part[:cut].mean()), float(part[cut:].mean())
            steps.append(ChangePoint(index=start + cut, before=before, after=after, p=p))
            parts += [(start, start + cut), (start + cut, stop)]
    return tuple(sorted(steps, key=lambda point: point.index))


def _largest_step(part: Floats, permutations: int, seed: int) -> tuple[int, float]:
    """Where the largest step is, and how often a random order has one as large."""
    centred, n = part - part.mean(), len(part)
    steps = _steps(centred[None])[0]
    seen = float(steps.max()) * (1 - 1e-12)  # sums in another order differ by rounding
    rng, larger, rows = np.random.default_rng(seed), 0, max(1, MAX_CELLS // n)
    for start in range(0, permutations, rows):
        orders = np.tile(np.arange(n), (min(rows, permutations - start), 1))
        larger += int((_steps(centred[rng.permuted(orders, axis=1)]).max(axis=1) >= seen).sum())
    return MIN_PART + int(steps.argmax()), (1 + larger) / (1 + permutations)


def _steps(centred: Floats) -> Floats:
    """For each cut of each row, shape (rows, cuts): the difference of means in units of its standard error / sd."""
    n = centred.shape[1]
    size = np.arange(MIN_PART, n - MIN_PART + 1)
    sums = np.cumsum(centred, axis=1)[:, size - 1]
    steps: Floats = np.abs(sums) * math.sqrt(n) / np.sqrt(size * (n - size))
    return steps
