"""Fits the local judge on human-labelled sets, and measures it on each set with weights fitted on the others.

    python benchmarks/judge/fit.py --data DIR [--swapped NAME] [--write]

DIR holds ``faithfulness/*.jsonl`` and ``correctness/*.jsonl`` in the format of ``ragassay judge agreement``, and perhaps
``retrieval/*/corpus.jsonl``, whose texts ``perturb.py`` changes. ``--swapped``: a set whose labels mean the opposite. A set
with one label only is fitted on and not measured. ``--write`` writes services/ragassay/judges/local_weights.py and the
tables of docs/judge-accuracy.md; nothing else of the data is kept.

Each set weighs the same, and so do its two labels, so that the judge tells yes from no on sets with any share of yes.
Changed texts (``MADE``) weigh little: they teach it to distrust copies, which people nearly always call supported.
"""

import argparse
import asyncio
import json
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent))
import perturb
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from ragassay.core.models import Response, Sample, Verdict
from ragassay.core.text import is_lead_in, sentences, words
from ragassay.judges import local_weights
from ragassay.judges.agreement import MEASURES, measures
from ragassay.judges.local import LocalJudge
from ragassay.judges.overlap import FEATURES, Source, features, terms_of
from ragassay.metrics.judged import correctness

SEED, ROWS, MAX_CLAIMS = 1, 500, 250
MADE = {"texts": 0.1, "claims": 0.03, "one label": 0.1}
RIDGE = 0.33  # on standardised features, each set weighs 1
STRETCH = 1.5  # the ridge shrinks log odds; so much on sets left out
ROOT = Path(__file__).resolve().parents[2]
WEIGHTS, PAGE = ROOT / "services/ragassay/judges/local_weights.py", ROOT / "docs/judge-accuracy.md"


@dataclass
class Labelled:
    """A set; ``of``: the set that it was made of; ``features``: of each row's sentences."""

    name: str
    of: str
    weight: float
    rows: list[dict[str, Any]]
    features: list[np.ndarray] = field(default_factory=list)

    @property
    def labels(self) -> np.ndarray:
        return np.array([row["label"] for row in self.rows])

    @property
    def weights(self) -> np.ndarray:
        share = self.labels.mean()
        even = np.where(self.labels == 1, 0.5 / share, 0.5 / (1 - share)) if 0 < share < 1 else np.ones(len(self.rows))
        return even * self.weight / len(self.rows)


def read(file: Path, swapped: Sequence[str] = ()) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    for row in rows:
        label = row["label"] if row.get("label_binary") is None else row["label_binary"]
        row["label"] = int((label >= 0.5) != (file.stem in swapped))
    return rows


def of_sentences(row: dict[str, Any]) -> np.ndarray:
    source = Source([sentences(context) for context in row["contexts"]])
    claims = [terms_of(text) for text in sentences(row["answer"]) if not is_lead_in(text)]
    return np.array([features(claim, source) for claim in claims]).reshape(len(claims), len(FEATURES))


def support_sets(data: Path, swapped: Sequence[str]) -> list[Labelled]:
    draw, sets = random.Random(SEED), []
    for file in sorted((data / "faithfulness").glob("*.jsonl")):
        one = Labelled(file.stem, file.stem, 1.0, read(file, swapped))
        sets.append(one)
        if len(set(one.labels)) == 1:
            one.weight = MADE["one label"]
            continue
        claims = perturb.of_claims(one.rows, draw)
        sets.append(
            Labelled(f"claims of {one.name}", one.name, MADE["claims"], draw.sample(claims, len(claims))[:MAX_CLAIMS])
        )
        texts = [context for row in one.rows for context in row["contexts"]]
        if np.mean([len(sentences(text)) for text in texts[:100]]) > 4:
            sets.append(Labelled(f"texts of {one.name}", one.name, MADE["texts"], perturb.rows(texts, ROWS, draw)))
    for file in sorted((data / "retrieval").glob("*/corpus.jsonl")):
        texts, name = [row.get("text", "") for row in map(json.loads, file.read_text().splitlines())], file.parent.name
        sets.append(Labelled(f"texts of {name}", name, MADE["texts"], perturb.rows(texts, ROWS, draw)))
    for one in sets:
        one.features = [of_sentences(row) for row in one.rows]
    return [one for one in sets if one.rows]


def fitted(sets: Sequence[Labelled]) -> dict[str, float]:
    """Weights by feature. The sentence that is supported least stands for its answer; which one, the fit before says."""
    kept = [(f, y, w) for s in sets for f, y, w in zip(s.features, s.labels, s.weights, strict=True) if len(f)]
    everything = np.vstack([f for f, _, _ in kept])
    mean, spread = everything.mean(axis=0), everything.std(axis=0) + 1e-9
    own = 1 / spread
    for _ in range(4):
        x = np.array([f[np.argmin(f @ own)] for f, _, _ in kept])
        model = LogisticRegression(C=1 / RIDGE, max_iter=1000)
        model.fit((x - mean) / spread, [y for _, y, _ in kept], sample_weight=[w for _, _, w in kept])
        own = model.coef_[0] / spread
    found = {"intercept": model.intercept_[0] - own @ mean, **dict(zip(FEATURES, own, strict=True))}
    return {name: round(float(STRETCH * weight), 4) for name, weight in found.items()}


def measured(labels: np.ndarray, chances: np.ndarray) -> tuple[float, float, float]:
    """AUC, balanced accuracy at 0.5 and expected calibration error in ten bins."""
    found = dict(zip(MEASURES, measures(labels, chances), strict=True))
    return found["auc"], found["balanced_accuracy"], found["ece"]


def judged(rows: Sequence[dict[str, Any]], value: Callable[[Verdict], float | None]) -> tuple[float, float, float]:
    """Of the judge itself, with the weights that are set; the best row of an item counts."""
    samples = []
    for n, row in enumerate(rows):
        response = Response(answer=row["answer"], contexts=row.get("contexts"))
        truths = row.get("ground_truth_answer") or ()
        query = row.get("query") or "?"
        samples.append(Sample(query_id=str(n), query=query, ground_truth_answer=truths, response=response))
    items: dict[str, tuple[float, float]] = {}
    for n, rating in enumerate(asyncio.run(LocalJudge().judge(samples, journal=None))):
        item = str(rows[n].get("max_group") or f"row {n}")
        found = rows[n]["label"], value(rating.verdict) or 0.0
        items[item] = tuple(map(max, found, items.get(item, (0.0, 0.0))))
    labels, chances = np.array(list(items.values()), dtype=np.float64).T
    return measured(labels, chances)


def apart(sets: Sequence[Labelled], one: Labelled) -> list[Labelled]:
    """The sets without one, what was made of it, and the set of one label from the same collection."""
    collection = one.of.split("_")[0]
    return [s for s in sets if s.of != one.of and not (s.weight == MADE["one label"] and s.of.startswith(collection))]


def stands_in(row: dict[str, Any]) -> bool:
    said = " ".join(words(row["answer"]))
    return any(" ".join(words(truth)) in said for truth in row["ground_truth_answer"] if words(truth))


def python_of(weights: Mapping[str, dict[str, float]]) -> str:
    lines = [(local_weights.__doc__ or "").join(['"""'] * 2), ""]
    for name, table in weights.items():
        lines += [f"{name} = {{", *(f'    "{key}": {value},' for key, value in table.items()), "}"]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the labelled sets")
    parser.add_argument("--swapped", action="append", default=[], metavar="NAME", help="a set whose labels are swapped")
    parser.add_argument("--write", action="store_true", help="write the weights and the tables")
    options = parser.parse_args()
    sets = support_sets(options.data, options.swapped)
    lines = ["| set | rows | words: AUC | balanced | ECE | judge: AUC | balanced | ECE |", f"|{'---|' * 8}"]
    found: list[list[float]] = []
    for one in sets:
        if len(set(one.labels)) == 1 or one.name.startswith("claims"):
            continue
        local_weights.SUPPORT.update(fitted(apart(sets, one)))
        by_words = measured(one.labels, np.array([f[:, 0].min() if len(f) else 0.0 for f in one.features]))
        figures = [*by_words, *judged(one.rows, lambda verdict: verdict.probability.get("faithfulness"))]
        lines.append(f"| {one.name} | {len(one.rows):,} | {' | '.join(f'{figure:.2f}' for figure in figures)} |")
        found += [figures] if one.weight == 1.0 else []
    means = " | ".join(f"{figure:.2f}" for figure in np.mean(found, axis=0))
    lines.append(f"| mean of the labelled sets | | {means} |")
    lines += ["", "| set | rows | a truth occurs in it: balanced | judge: AUC | balanced | ECE |", f"|{'---|' * 6}"]
    (file,) = (options.data / "correctness").glob("*.jsonl")
    rows = read(file)
    naive = balanced_accuracy_score([row["label"] for row in rows], [stands_in(row) for row in rows])
    of_correctness = judged(rows, lambda verdict: correctness(verdict).value)
    cells = " | ".join(f"{figure:.2f}" for figure in (naive, *of_correctness))
    lines.append(f"| {file.stem} | {len(rows):,} | {cells} |")
    weights = {
        "SUPPORT": fitted(sets),
        "BALANCED_ACCURACY": {  # on sets that the weights were not fitted on
            "support_min": round(min(figures[4] for figures in found), 2),
            "support_max": round(max(figures[4] for figures in found), 2),
            "correctness": round(float(of_correctness[1]), 2),
        },
    }
    print("\n".join(lines), python_of(weights), sep="\n\n")
    if options.write:
        WEIGHTS.write_text(python_of(weights))
        shown = re.compile("(<!-- fit measured -->\n).*?(<!-- /fit measured -->)", re.DOTALL)
        PAGE.write_text(shown.sub(lambda page: "\n".join([page[1] + lines[0], *lines[1:], page[2]]), PAGE.read_text()))


if __name__ == "__main__":
    main()
