"""How often the canary panel raises a false alarm, and which changes of a judge it finds: made-up nights of 80 rows.

    python benchmarks/judge/drift.py [--nights 4000]

A night is three judgings of four labels a row: two of the baseline and a new one. A judge is unsure of 30 % of the rows,
whose labels it gives otherwise at random; once in a while it denies all labels of a row at once. "changed" is the share
of labels that differ between two judgings of one night. "denies" is the share of rows that the changed judge denies,
"swaps" the share of labels that it gives otherwise, up or down. The last column goes by baselines: a baseline that was a
rare draw raises its false alarms again and again.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from ragassay.runs.canary import FALSE_ALARMS
from ragassay.stats.drift import stands_out

ROWS, LABELS = 80, 4
Drawn = NDArray[np.bool_]


class PretendedJudge:
    """Labels of made-up rows, by a judge that errs as often as ``noise`` says."""

    def __init__(self, rng: np.random.Generator, noise: float) -> None:
        self._rng, self._noise = rng, noise
        self._right = rng.random((ROWS, LABELS)) < 0.7
        self._unsure = np.where(rng.random((ROWS, 1)) < 0.3, noise / 0.3, 0.0)

    def labels(self, denies: float = 0.0, swaps: float = 0.0) -> Drawn:
        """One judging. Shape: (rows, labels)."""
        given = self._right ^ (self._rng.random((ROWS, LABELS)) < self._unsure)
        given &= self._rng.random((ROWS, 1)) >= self._noise / 2 + denies
        labels: Drawn = given ^ (self._rng.random((ROWS, LABELS)) < swaps)
        return labels


def is_alarm(judgings: list[Drawn], seed: int) -> bool:
    """Is the last of three judgings taken for drift?"""
    labels = np.stack(judgings, axis=1)
    scores = np.stack([labels[:, :, :2].mean(axis=2), labels[:, :, 2:].mean(axis=2), labels.mean(axis=2)], axis=2)
    apart = (labels[:, :, None] != labels[:, None]).mean(axis=3)
    return stands_out(scores, apart, alpha=FALSE_ALARMS, seed=seed, draws=1999).p <= FALSE_ALARMS


def main() -> None:
    """Print a table for a page."""
    options = argparse.ArgumentParser()
    options.add_argument("--nights", type=int, default=4000)
    nights = options.parse_args().nights
    rng = np.random.default_rng(19)
    print(
        "| noise of the judge: labels changed | false alarms a night | of the baselines, with 3 or more in 100 nights |"
    )
    print("|---|---|---|")
    for noise in (0.0, 0.01, 0.03, 0.1):
        judges = [PretendedJudge(rng, noise) for _ in range(nights)]
        alarms = [is_alarm([judge.labels() for _ in range(3)], n) for n, judge in enumerate(judges)]
        apart = np.mean([(judge.labels() != judge.labels()).mean() for judge in judges[:300]])
        often = []
        for judge in judges[: max(nights // 50, 20)]:
            first = [judge.labels(), judge.labels()]
            often.append(sum(is_alarm([*first, judge.labels()], n) for n in range(100)) >= 3)
        print(f"| {apart:.1%} | {np.mean(alarms):.2%} | {np.mean(often):.0%} |")
    print("\n| change | noise 1 % | noise 3 % | noise 10 % |")
    print("|---|---|---|---|")
    for what, change in (
        *((f"denies {share:.0%} of the rows", {"denies": share}) for share in (0.05, 0.1, 0.2, 0.3)),
        *((f"swaps {share:.0%} of the labels", {"swaps": share}) for share in (0.05, 0.1, 0.2)),
    ):
        found = []
        for noise in (0.01, 0.03, 0.1):
            judges = [PretendedJudge(rng, noise) for _ in range(nights // 10)]
            hits = [is_alarm([j.labels(), j.labels(), j.labels(**change)], n) for n, j in enumerate(judges)]
            found.append(f"{np.mean(hits):.0%}")
        print(f"| {what} | {' | '.join(found)} |")


if __name__ == "__main__":
    main()
