"""A stop rule that goes by a dear judge on a share of the rows: how often it errs, and how many calls it takes.

    python benchmarks/judge/stopping.py [--draws 300]

Made-up judges on 3,000 rows in random order, looked at after every 50. The dear judge says what is true; the cheap one errs.
"""

from __future__ import annotations

import argparse

import numpy as np

from ragassay.stats import ConfidenceSequence, CorrectedSequence, Interval

ROWS, LOOK, WIDTH = 3000, 50, 0.1
JUDGES = {  # share of yes, how often the cheap judge says yes to a no, and no to a yes
    "errs on 6 of 100, both ways": (0.7, 0.1, 0.05),
    "says yes to 40 % of the noes": (0.7, 0.4, 0.05),
    "nearly all is right": (0.95, 0.2, 0.02),
    "guesses": (0.7, 0.5, 0.5),
}


def stopped(sequence: ConfidenceSequence | CorrectedSequence, at: int) -> int | None:
    """The row at which the rule ``width <= 0.1`` is satisfied, if it is."""
    width = sequence.interval.width
    return at if width is not None and width <= WIDTH else None


def one(rng: np.random.Generator, judge: str, share: float) -> tuple[int, int, Interval, int]:
    """Rows and dear calls until the corrected rule stops, the interval after all rows, and calls with the dear judge alone."""
    yes, kind, strict = JUDGES[judge]
    truth = (rng.random(ROWS) < yes).astype(float)
    cheap = np.where(truth > 0, rng.random(ROWS) >= strict, rng.random(ROWS) < kind).astype(float)
    chosen = rng.random(ROWS) < share
    corrected, alone = CorrectedSequence(0.95, (0.0, 1.0), int(chosen.sum()), ROWS), ConfidenceSequence()
    until, until_alone = None, None
    for start in range(0, ROWS, LOOK):
        here = range(start, start + LOOK)
        corrected.update((cheap[n], truth[n] if chosen[n] else None, bool(chosen[n])) for n in here)
        until = until or stopped(corrected, start + LOOK)
        if until_alone is None:
            alone.update(truth[start : start + LOOK])
            until_alone = stopped(alone, start + LOOK)
    rows = until or ROWS
    return rows, int(chosen[:rows].sum()), corrected.interval, until_alone or ROWS


def main() -> None:
    """Print a table for a page."""
    options = argparse.ArgumentParser()
    options.add_argument("--draws", type=int, default=300)
    draws = options.parse_args().draws
    print("| cheap judge | share | rows | calls | calls, dear judge on all | misses |\n|---|---|---|---|---|---|")
    for judge, (yes, *_) in JUDGES.items():
        for share in (0.1, 0.3, 0.5):
            rng = np.random.default_rng(int(100 * share))
            found = [one(rng, judge, share) for _ in range(draws)]
            rows, calls, alone = (int(np.median([row[place] for row in found])) for place in (0, 1, 3))
            missed = sum(not row[2].contains(yes) for row in found) / draws
            print(f"| {judge} | {share:.0%} | {rows:,} | {calls:,} | {alone:,} | {missed:.1%} |", flush=True)


if __name__ == "__main__":
    main()
