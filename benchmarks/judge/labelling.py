"""What the order in which people label rows is worth: coverage of the mean, also of one that stopped labelling, and of agreement.

    python benchmarks/judge/labelling.py [--draws 400]

Made-up judges on 1,000 rows that are drawn anew each time, labelled in the order of ``/ui/runs/{run}/label``: of three
labels two of rows drawn at random and one of a row that was chosen. "Until" stops where the page says that enough is known.
"All as random" is what would come of it if the chosen rows corrected the mean too.
"""

from __future__ import annotations

import argparse

import numpy as np

from ragassay.judges.agreement import LabelledScore, agreement
from ragassay.models import Result, Score
from ragassay.runs.labelling import Labelling
from ragassay.specification import JobSpec
from ragassay.stats.ppi import corrected_mean
from ragassay.store.labels import HumanLabel

ROWS, LOOK, METRIC, SYSTEM = 1000, 3, "faithfulness", "default"
JUDGES = {  # share of yes, how far the score follows it, and its shift
    "good": (0.7, 0.4, 0.0),
    "too kind": (0.7, 0.3, 0.3),
    "nearly all is right": (0.93, 0.4, 0.0),
    "guesses": (0.7, 0.0, 0.0),
}
Population = tuple[dict[str, float], dict[str, float], Labelling]


def population(rng: np.random.Generator, judge: str) -> Population:
    """What people would say of each row, the judge's scores, and the order of labelling."""
    share, follows, shift = JUDGES[judge]
    truth = (rng.random(ROWS) < share).astype(float)
    scores = np.clip(follows * truth + (1 - follows) * rng.random(ROWS) + shift * rng.random(ROWS), 0, 1).round(2)
    rows = [
        Result.model_construct(query_id=f"q{n}", answer="", scores={METRIC: Score.model_construct(value=float(score))})
        for n, score in enumerate(scores)
    ]
    labelling = Labelling(rows, METRIC, JobSpec(), str(rng.random()))
    ids = [row.query_id for row in rows]
    return dict(zip(ids, truth, strict=True)), dict(zip(ids, map(float, scores), strict=True)), labelling


def label(said: dict[str, HumanLabel], truth: dict[str, float], labelling: Labelling) -> None:
    """One more label."""
    row = labelling.next(said)
    assert row is not None
    said[row.query_id] = HumanLabel(
        system=SYSTEM, query_id=row.query_id, metric=METRIC, value=truth[row.query_id], by="x", at="now"
    )


def one(rng: np.random.Generator, judge: str, count: int) -> dict[str, tuple[bool, float]]:
    """Of one population: whether each interval holds what is true, and the error of each estimate."""
    truth, scores, labelling = population(rng, judge)
    said: dict[str, HumanLabel] = {}
    for _ in range(count):
        label(said, truth, labelling)
    share = JUDGES[judge][0]
    mean, _ = labelling.mean(said, 0.05)
    given = list(labelling.labelled(said))
    labelled = {query: value for query, value, *_ in given}
    naive = corrected_mean(
        list(labelled.values()),
        [scores[query] for query in labelled],
        [score for query, score in scores.items() if query not in labelled],
        bounds=(0.0, 1.0),
    )
    found = agreement(
        [LabelledScore(int(value), scores[query], query, query, weight=weight) for query, value, _, weight in given],
        resamples=200,
    )
    whole = agreement(
        [LabelledScore(int(truth[query]), scores[query], query, query) for query in scores], resamples=100
    )
    plain = agreement(
        [LabelledScore(int(value), scores[query], query, query) for query, value, *_ in given], resamples=100
    )
    return {
        "mean": (mean.interval.contains(share), (mean.mean or 0) - share),
        "mean, all as random": (naive.interval.contains(share), (naive.mean or 0) - share),
        "balanced accuracy": (
            found.intervals["balanced_accuracy"].contains(whole.balanced_accuracy or 0),
            (found.balanced_accuracy or 0) - (whole.balanced_accuracy or 0),
        ),
        "balanced accuracy, no weights": (
            plain.intervals["balanced_accuracy"].contains(whole.balanced_accuracy or 0),
            (plain.balanced_accuracy or 0) - (whole.balanced_accuracy or 0),
        ),
    }


def until(rng: np.random.Generator, judge: str, half_width: float) -> tuple[bool, int]:
    """Whether the interval at which the page says "enough" holds the share, and after how many random labels."""
    truth, _, labelling = population(rng, judge)
    said: dict[str, HumanLabel] = {}
    while True:
        for _ in range(LOOK):
            label(said, truth, labelling)
        mean, more = labelling.mean(said, half_width)
        if more == 0 or len(said) >= ROWS - LOOK:
            return mean.interval.contains(JUDGES[judge][0]), mean.labels


def main() -> None:
    """Print tables for a page."""
    options = argparse.ArgumentParser()
    options.add_argument("--draws", type=int, default=400)
    options.add_argument("--labels", type=int, default=90)
    given = options.parse_args()
    print("| judge | figure | covered | bias |\n|---|---|---|---|")
    for judge in JUDGES:
        rng = np.random.default_rng(1)
        draws = [one(rng, judge, given.labels) for _ in range(given.draws)]
        for figure in draws[0]:
            held, errors = zip(*(draw[figure] for draw in draws), strict=True)
            print(f"| {judge} | {figure} | {100 * np.mean(held):.1f}% | {np.mean(errors):+.3f} |", flush=True)
    print("\n| judge | stops at +- | covered | random labels, median |\n|---|---|---|---|")
    for judge in JUDGES:
        for half_width in (0.1, 0.05):
            rng = np.random.default_rng(2)
            stops = [until(rng, judge, half_width) for _ in range(given.draws)]
            held, labels = zip(*stops, strict=True)
            print(f"| {judge} | {half_width} | {100 * np.mean(held):.1f}% | {np.median(labels):.0f} |", flush=True)


if __name__ == "__main__":
    main()
