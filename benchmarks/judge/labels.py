"""What labels by people do for a judge, on labelled sets: corrected means.

    python benchmarks/judge/labels.py --data DIR [--swapped q2_dialog]

DIR holds JSON Lines as ``ragassay judge agreement`` takes them, in folders or not. The local judge judges each set; labels
of ``--swapped`` sets are read the other way round. As many rows as the set has are drawn from it with replacement, n of
them with their labels, again and again: how often does the interval hold the set's own share of yes, and how often that of
the judge's mean alone?
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ragassay.core.eval_config import RunConfig
from ragassay.core.settings import Settings
from ragassay.evaluation import local
from ragassay.evaluation.labels import LabelledRows
from ragassay.judges.agreement import columns
from ragassay.sdk.evaluation import runtime_for
from ragassay.stats.intervals import Floats, mean_interval
from ragassay.stats.ppi import corrected_mean

DRAWS = 400


def sets(folder: Path, swapped: list[str], home: Path) -> Iterator[tuple[str, Floats, Floats]]:
    """Name, labels and scores of each set that the local judge can be measured on."""
    for path in sorted(folder.rglob("*.jsonl")):
        first = json.loads(path.open().readline())
        if "label" not in first and "label_binary" not in first:
            continue
        rows = LabelledRows(path)
        runtime = runtime_for(settings=Settings(home=home))
        run = local.start(runtime, RunConfig(metrics=(rows.metric.name,)), rows.inputs)
        asyncio.run(local.complete(runtime, run))
        labels, scores = columns(list(rows.scored(run)))
        labels = 1 - labels if path.stem in swapped else labels
        if len(set(labels)) < 2:  # people say the same of all: there is nothing to measure against
            continue
        yield f"{path.stem}, {rows.metric.name}", labels, scores


def coverage(labels: Floats, scores: Floats, n: int) -> tuple[float, float, float]:
    """How often the corrected interval holds the share of yes, how often the judge's own, and its width beside labels alone."""
    rng, rows, share = np.random.default_rng(n), len(labels), float(labels.mean())
    held = naive = 0
    widths: list[float] = []
    for _ in range(DRAWS):
        drawn = rng.integers(0, rows, rows)
        y, f = labels[drawn], scores[drawn]
        ci = corrected_mean(np.where(np.arange(rows) < n, y, np.nan), f).interval
        low, high = (ci and ci.low) or 0.0, (ci and ci.high) or 1.0
        held += low <= share <= high
        naive += abs(float(f.mean()) - share) <= 1.96 * float(f.std(ddof=1)) / rows**0.5
        if width := mean_interval(y[:n], bounds=(0.0, 1.0)).width:
            widths.append((high - low) / width)
    return held / DRAWS, naive / DRAWS, float(np.mean(widths))


def main() -> None:
    """Print a table for a page."""
    options = argparse.ArgumentParser()
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--swapped", nargs="*", default=[])
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as home:
        found = list(sets(given.data, given.swapped, Path(home)))
    print("| set | judge's mean | people | " + " | ".join(f"n = {n}" for n in (30, 100, 300)) + " | judge's own |")
    print("|---|---|---|---|---|---|---|")
    for name, labels, scores in found:
        measured_at = [coverage(labels, scores, n) for n in (30, 100, 300)]
        cells = " | ".join(f"{held:.1%} ({width:.2f})" for held, _, width in measured_at)
        means = f"{scores.mean():.3f} | {labels.mean():.3f}"
        print(f"| {name} | {means} | {cells} | {measured_at[0][1]:.1%} |")


if __name__ == "__main__":
    main()
