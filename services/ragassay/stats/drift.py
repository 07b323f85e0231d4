"""Does the last of several judgings of the same rows stand out from the others?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ragassay.stats.columns import Floats, count_of, generator, share_of

_EQUAL = 1e-9  # sums in another order differ by rounding


@dataclass(frozen=True)
class StandsOut:
    """``p`` of the last judging as a whole; by measure, how far it lies from the others, its own ``p`` corrected for the
    number of measures, and the distance beyond which that is at most ``alpha``.
    """

    p: float
    distances: Floats
    p_by_measure: Floats
    thresholds: Floats


def stands_out(scores: Floats, differing: Floats, *, alpha: float, seed: int = 0, draws: int = 9999) -> StandsOut:
    """A permutation test over judgings of the same rows, of which the last is new.

    ``scores`` has shape (rows, judgings, measures), NaN where a row lacks a measure: a measure's distance is the mean of
    (last - mean of the others). ``differing`` has shape (rows, judgings, judgings), the share of a row's labels in which
    two judgings differ: its distance, the last measure, is the mean of (last from others - others from each other).

    Where nothing has changed, each of a row's judgings is as likely to be the last, however noisy the judge is and
    however its labels within the row hang together: so ``p`` is exact. It is that of the largest distance, each in
    units of its spread under the hypothesis, over ``draws`` random choices (maxT; Westfall and Young 1993).
    """
    alpha, draws = share_of(alpha, "alpha"), count_of(draws, "draws", 99)
    rows, judgings, _ = scores.shape
    held = np.isfinite(scores.sum(axis=1))
    known = np.where(held[:, None, :], scores, 0.0)
    role = (known * judgings - known.sum(axis=1, keepdims=True)) / (judgings - 1)
    apart = differing.sum(axis=2) / (judgings - 1)
    rest = math.comb(judgings - 1, 2)
    among = (differing.sum(axis=(1, 2))[:, None] / 2 - apart * (judgings - 1)) / rest if rest else np.zeros_like(apart)
    role = np.concatenate([role, (apart - among)[:, :, None]], axis=2)
    counts = np.append(held.sum(axis=0), rows)
    spread = np.sqrt((role**2).mean(axis=1).sum(axis=0))
    moves = spread > 0
    unit = np.where(moves, spread, 1.0)
    last = role[:, -1].sum(axis=0)
    size = _sizes(last[None, :] / unit)
    picks = generator(seed).integers(judgings, size=(draws, rows), dtype=np.int8)
    drawn = sum((picks == n).astype(np.float32) @ role[:, n].astype(np.float32) for n in range(judgings))
    largest = _sizes(np.asarray(drawn, dtype=np.float64) / unit).max(axis=1)
    beyond = (largest[None, :] >= size[0][:, None] * (1 - 1e-5) - _EQUAL).sum(axis=1)
    by_measure = (1 + beyond) / (1 + draws)
    critical = np.sort(largest)[-max(int((1 + draws) * alpha + _EQUAL), 1)]
    return StandsOut(
        p=float(by_measure.min()),
        distances=last / np.maximum(counts, 1),
        p_by_measure=by_measure,
        thresholds=critical * unit / np.maximum(counts, 1),
    )


def _sizes(distances: Floats) -> Floats:
    """How large distances are: scores may fall or rise, labels can only differ more."""
    sizes: Floats = np.abs(distances)
    sizes[:, -1] = distances[:, -1]
    return sizes


def sign_test(up: int, down: int) -> float:
    """Chance of so uneven a split of ``up + down`` changes where both are as likely; two-sided, exact (McNemar)."""
    n = up + down
    tail = sum(math.comb(n, k) for k in range(min(up, down) + 1))
    return min(1.0, 2 * tail / (1 << n))
