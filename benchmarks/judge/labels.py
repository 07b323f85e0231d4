"""What labels by people do for a judge, on labelled sets: calibrated scores, corrected means, and labels that are saved.

    python benchmarks/judge/labels.py --data DIR [--swapped q2_dialog] [--draws 400]

DIR holds JSON Lines as ``ragassay judge agreement`` takes them, in folders or not. The local judge judges each set; labels
of ``--swapped`` sets are read the other way round. Calibration is measured by cross-validation. For corrected means, as
many rows as the set has are drawn from it with replacement, n of them with their labels, again and again: how often does
the interval hold the set's own share of yes, and how often that of the judge's mean alone? The last table takes the labels
for a dear judge that agrees with people in all: on a share of the rows, with the local judge on all, how many rows is it
asked about, and how many would it take by itself for an interval as narrow?
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ragassay.errors import BadInput
from ragassay.judges.agreement import ScoredItems
from ragassay.judges.calibration import check_labels, crossed, measured
from ragassay.python.stored import session_of
from ragassay.runs import foreground
from ragassay.runs.agreement import LabelledRows
from ragassay.settings import Settings
from ragassay.specification import JobSpec
from ragassay.stats.columns import Floats
from ragassay.stats.ppi import corrected_mean, needed_labels

HALF_WIDTH = 0.05
SHARES = (0.1, 0.2, 0.3, 0.5)


def sets(folder: Path, swapped: list[str], home: Path) -> Iterator[tuple[str, ScoredItems]]:
    """Name, labels and scores of each set that the local judge can be measured on."""
    settings = Settings(home=home)
    session = session_of(settings)
    for path in sorted(folder.rglob("*.jsonl")):
        first = json.loads(path.open().readline())
        if "label" not in first and "label_binary" not in first:
            continue
        rows = LabelledRows(path)
        metric = rows.metric(None)
        run = foreground.start(session, settings, JobSpec(metrics=(metric.name,)), rows.inputs)
        foreground.complete(session, settings, run)
        items = ScoredItems(rows.scored(run, metric))
        if path.stem in swapped:
            items.labels = 1 - items.labels
        if len(set(items.labels)) < 2:  # people say the same of all: there is nothing to measure against
            continue
        yield f"{path.stem}, {metric.name}", items


def calibration(items: ScoredItems) -> str:
    """Brier score, log loss and ECE before and after, and the AUC."""
    try:
        check_labels(items.labels, items.scores)
    except BadInput as refused:
        return f"{refused.message} | | | "
    held_out = crossed(items.labels, items.scores, items.groups, 0)
    found = measured(items.labels, items.scores, held_out, items.groups, level=0.95, seed=0)
    cells = [f"{found[name].before:.3f} to {found[name].after:.3f}" for name in ("brier", "log_loss", "ece")]
    return " | ".join([*cells, f"{found['auc'].before:.2f}"])


def coverage(items: ScoredItems, n: int, draws: int) -> tuple[float, float, float]:
    """How often the corrected interval holds the share of yes, how often the judge's own, and its width beside labels alone."""
    rng, rows, share = np.random.default_rng(n), len(items.labels), float(items.labels.mean())
    held = naive = 0
    widths: list[float] = []
    for _ in range(draws):
        drawn = rng.integers(0, rows, rows)
        y, f = items.labels[drawn], items.scores[drawn]
        found = corrected_mean(y[:n], f[:n], f[n:], bounds=(0.0, 1.0))
        low, high = found.interval.low or 0.0, found.interval.high or 1.0
        held += low <= share <= high
        naive += abs(float(f.mean()) - share) <= 1.96 * float(f.std(ddof=1)) / rows**0.5
        if found.alone and found.alone.low is not None and found.alone.high is not None:
            widths.append((high - low) / (found.alone.high - found.alone.low))
    return held / draws, naive / draws, float(np.mean(widths))


def saved(items: ScoredItems, share: float, draws: int) -> str:
    """Rows that the dear judge is asked about, those that would do it alone, what that saves, and coverage."""
    rng, rows, truth = np.random.default_rng(round(100 * share)), len(items.labels), float(items.labels.mean())
    held, asked, worth = 0, [], []
    for _ in range(draws):
        drawn = rng.integers(0, rows, rows)
        chosen = rng.random(rows) < share
        y, f = items.labels[drawn], items.scores[drawn]
        found = corrected_mean(y[chosen], f[chosen], f[~chosen], bounds=(0.0, 1.0))
        held += found.interval.contains(truth)
        asked.append(found.labels)
        worth.append(min(found.worth or found.labels, rows))
    n, alone = float(np.mean(asked)), float(np.mean(worth))
    return f"{n:.0f} do as {alone:.0f}: {1 - n / alone:.0%} ({held / draws:.1%})"


def needed(labels: Floats, scores: Floats) -> str:
    """Labels for an interval of +- 0.05 with the judge and without, of 2,000 rows that it has scored."""
    correlation = max(float(np.corrcoef(labels, scores)[0, 1]), 0.0)
    sd = float(labels.std(ddof=1))
    with_judge, alone = (needed_labels(HALF_WIDTH, sd, r, 2000) for r in (correlation, 0.0))
    return f"{correlation:.2f} | {with_judge} | {alone}"


def main() -> None:
    """Print four tables for a page."""
    options = argparse.ArgumentParser()
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--swapped", nargs="*", default=[])
    options.add_argument("--draws", type=int, default=400)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as home:
        found = dict(sets(given.data, given.swapped, Path(home)))
    print("| set | items | yes | Brier | log loss | ECE | AUC |\n|---|---|---|---|---|---|---|")
    for name, items in found.items():
        print(f"| {name} | {len(items.labels):,} | {items.labels.mean():.0%} | {calibration(items)} |")
    print("\n| set | judge's mean | people | " + " | ".join(f"n = {n}" for n in (30, 100, 300)) + " | judge's own |")
    print("|---|---|---|---|---|---|---|")
    for name, items in found.items():
        measured_at = [coverage(items, n, given.draws) for n in (30, 100, 300)]
        cells = " | ".join(f"{held:.1%} ({width:.2f})" for held, _, width in measured_at)
        means = f"{items.scores.mean():.3f} | {items.labels.mean():.3f}"
        print(f"| {name} | {means} | {cells} | {measured_at[0][1]:.1%} |")
    print("\n| set | rows | " + " | ".join(f"{share:.0%} of the rows" for share in SHARES) + " |")
    print("|---|---" + "|---" * len(SHARES) + "|")
    for name, items in found.items():
        cells = " | ".join(saved(items, share, given.draws) for share in SHARES)
        print(f"| {name} | {len(items.labels):,} | {cells} |")
    print("\n| set | correlation | labels with the judge | without |\n|---|---|---|---|")
    for name, items in found.items():
        print(f"| {name} | {needed(items.labels, items.scores)} |")


if __name__ == "__main__":
    main()
