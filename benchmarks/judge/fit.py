"""Fits the local judge on human-labelled sets, and says how well it does on sets that it was not fitted on.

    python benchmarks/judge/fit.py --data DIR [--swapped NAME] [--write]

DIR holds ``faithfulness/*.jsonl`` and ``correctness/*.jsonl`` in the format of ``ragassay judge agreement``; where there is
``retrieval/*/corpus.jsonl``, its texts are changed by ``perturb.py`` as well. ``--swapped``: a set whose labels mean the
opposite. A set that has one label only (partly supported claims) is fitted on and not measured. ``--write`` puts the
weights into services/ragassay/judges/local_weights.json and the tables into docs/judges.md; nothing else of the data is
kept. The same data and seed give the same weights to 6 digits.

A set counts as much as any other, and so do its two labels: the fit is to tell yes from no on sets that it has not seen,
whatever their share of yes. Rows of ``perturb.py`` count less (``MADE``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import perturb
from measured import put

from ragassay.core.text import is_lead_in, refuses, sentences, words
from ragassay.judges import support
from ragassay.judges.agreement import Measures
from ragassay.judges.matching import Pool, match, terms_of

SEED = 1
RIDGE = 0.3  # on standardised features, where each set weighs 1
MADE = {"rows": 0.25, "claims": 0.03, "one label": 0.1}  # weight of what is made, and of a set with one label
DENIED = -4.0  # set, not fitted: few sentences of the labelled sets deny a context, and nearly none of those is true
ROWS, MOST_CLAIMS = 500, 250
CORRECTNESS_RIDGE = 0.003
MEASURED = (1, 3, 4)  # of what ``Measures`` gives: balanced accuracy, AUC, ECE
WEIGHTS = Path(support.__file__).with_name("local_weights.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "judges.md"
Features = np.ndarray  # (sentences or answers, features)


@dataclass
class Labelled:
    """A set: features of each row's sentences, labels, and the rows that are one item. ``of``: the set it was made of."""

    name: str
    of: str
    weight: float
    rows: list[dict[str, Any]]
    features: list[Features] = field(default_factory=list)

    @property
    def labels(self) -> np.ndarray:
        return np.array([row["label"] for row in self.rows], dtype=float)

    @property
    def items(self) -> list[list[int]]:
        found: dict[Any, list[int]] = {}
        for n, row in enumerate(self.rows):
            found.setdefault(row.get("max_group") or n, []).append(n)
        return list(found.values())


def read(file: Path, swapped: Sequence[str]) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    for row in rows:
        label = row["label"] if row.get("label_binary") is None else row["label_binary"]
        row["label"] = int((label >= 0.5) != (file.stem in swapped))
    return rows


def of_sentences(row: dict[str, Any]) -> Features:
    cut = [sentences(context) for context in row["contexts"]]
    pool = Pool.of([s for each in cut for s in each], [n for n, each in enumerate(cut) for _ in each])
    answer = [terms_of(s) for s in sentences(row["answer"]) if not is_lead_in(s)]
    found = [support.support_features(claim, pool, match(claim, pool)) for claim in answer]
    return np.array(found, dtype=float).reshape(len(found), len(support.SUPPORT_FEATURES))


def of_answer(row: dict[str, Any]) -> Features:
    answer = sentences(row["answer"])
    found = support.correctness_features(
        row["query"], row["answer"], row["ground_truth_answer"], refusal=refuses(answer)
    )
    return np.array([found], dtype=float)


def logistic(x: Features, y: np.ndarray, weight: np.ndarray, ridge: float) -> tuple[np.ndarray, float]:
    """Coefficients on standardised features and intercept, by Newton's method; the intercept is not shrunk."""
    x = np.c_[x, np.ones(len(x))]
    shrink = np.diag([*[ridge] * (x.shape[1] - 1), 1e-9])
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ beta))
        step = np.linalg.solve(
            x.T @ (x * (weight * p * (1 - p))[:, None]) + shrink, x.T @ (weight * (p - y)) + shrink @ beta
        )
        beta = beta - step
        if np.abs(step).max() < 1e-10:
            break
    return beta[:-1], float(beta[-1])


def weights_of(one: Labelled) -> np.ndarray:
    y = one.labels
    share = float(y.mean())
    even = np.where(y == 1, 0.5 / share, 0.5 / (1 - share)) if 0 < share < 1 else np.ones(len(y))
    return even * one.weight / len(y)


@dataclass(frozen=True)
class Fit:
    """Weights on the features as they are. ``per_log_sentences`` is added for each log(number of sentences)."""

    weights: np.ndarray
    intercept: float
    per_log_sentences: float = 0.0

    def logit(self, features: Features) -> float:
        if not len(features):
            return -support.LONGEST_LOGIT
        return float((features @ self.weights).min() + self.intercept + self.per_log_sentences * np.log(len(features)))


def fitted(sets: Sequence[Labelled], ridge: float) -> Fit:
    """The sentence of an answer that is supported least stands for it; which that is follows from the fit before."""
    kept = [(f, y, w) for s in sets for f, y, w in zip(s.features, s.labels, weights_of(s), strict=True) if len(f)]
    y, weight = np.array([k[1] for k in kept]), np.array([k[2] for k in kept])
    everything = np.vstack([f for f, _, _ in kept])
    mean, spread = everything.mean(axis=0), everything.std(axis=0) + 1e-9
    many = np.log([len(f) for f, _, _ in kept])
    least = [int(np.argmin(f[:, 0] + f[:, 2])) for f, _, _ in kept]
    for _ in range(4):
        x = np.array([(f[n] - mean) / spread for (f, _, _), n in zip(kept, least, strict=True)])
        found, intercept = logistic(np.c_[x, many], y, weight, ridge)
        own = found[:-1] / spread
        least = [int(np.argmin(f @ own)) for f, _, _ in kept]
    if own.shape == (len(support.SUPPORT_FEATURES),):
        own[support.SUPPORT_FEATURES.index("denied")] = DENIED
    return Fit(own, intercept - float(own @ mean), float(found[-1]))


def measured(one: Labelled, score: Callable[[Features], float]) -> np.ndarray:
    """Balanced accuracy, AUC and ECE on a set's items."""
    scores, labels = np.array([score(f) for f in one.features]), one.labels
    best = np.array([max(scores[n] for n in item) for item in one.items])
    label = np.array([max(labels[n] for n in item) for item in one.items])
    return Measures(label, best).weighted(np.ones(len(best)))[list(MEASURED)]


def made_of(one: Labelled, draw: random.Random) -> list[Labelled]:
    """What ``perturb.py`` makes of a set's supported claims, and of its contexts."""
    claims = perturb.of_claims(one.rows, draw)
    draw.shuffle(claims)
    made = [Labelled(f"claims of {one.name}", one.name, MADE["claims"], claims[:MOST_CLAIMS])] if claims else []
    texts = [context for row in one.rows for context in row["contexts"]]
    if np.mean([len(sentences(text)) for text in texts[:100]]) > 4:
        rows = perturb.rows(texts, ROWS, draw)
        made.append(Labelled(f"texts of {one.name}", one.name, MADE["rows"], rows))
    return made


def support_sets(data: Path, swapped: Sequence[str], draw: random.Random) -> list[Labelled]:
    sets: list[Labelled] = []
    for file in sorted((data / "faithfulness").glob("*.jsonl")):
        one = Labelled(file.stem, file.stem, 1.0, read(file, swapped))
        if len(set(one.labels)) == 1:
            one.weight = MADE["one label"]
            sets.append(one)
        else:
            sets += [one, *made_of(one, draw)]
    for file in sorted((data / "retrieval").glob("*/corpus.jsonl")):
        texts = [json.loads(line).get("text", "") for line in file.read_text(encoding="utf-8").splitlines()]
        sets.append(
            Labelled(f"texts of {file.parent.name}", file.parent.name, MADE["rows"], perturb.rows(texts, ROWS, draw))
        )
    for one in sets:
        one.features = [of_sentences(row) for row in one.rows]
    return sets


def cells(numbers: np.ndarray) -> str:
    balanced, auc, ece = numbers
    return f"{auc:.2f} | {balanced:.2f} | {ece:.2f}"


def leave_one_out(sets: Sequence[Labelled], ridge: float) -> tuple[list[str], dict[str, list[float]]]:
    """A table, and AUC, balanced accuracy and ECE on each labelled set, fitted without it and what was made of it."""
    lines = ["| set | items | words: AUC | balanced | ECE | judge: AUC | balanced | ECE |", f"|{'---|' * 8}"]
    found, outcomes = {}, []
    for one in sets:
        if one.weight != 1.0 and not one.name.startswith("texts"):
            continue
        apart = fitted([other for other in sets if other.of != one.of], ridge)
        half = measured(one, lambda f: float(f[:, 1].min()) if len(f) else 0.0)
        rest = measured(one, lambda f, fit=apart: support.probability(fit.logit(f)))
        lines.append(f"| {one.name} | {len(one.items):,} | {cells(half)} | {cells(rest)} |")
        if one.weight == 1.0:
            outcomes.append((half, rest))
            found[one.name] = [round(float(rest[n]), 3) for n in (1, 0, 2)]
    means = [cells(np.mean([outcome[n] for outcome in outcomes], axis=0)) for n in range(2)]
    return [*lines, f"| mean of the labelled sets | | {' | '.join(means)} |"], found


def correctness_sets(data: Path) -> list[Labelled]:
    sets = []
    for file in sorted((data / "correctness").glob("*.jsonl")):
        rows = read(file, ())
        one = Labelled(file.stem, file.stem, 1.0, rows)
        one.features = [of_answer(row) for row in rows]
        sets.append(one)
    return sets


def in_folds(one: Labelled, folds: int = 5) -> np.ndarray:
    """Balanced accuracy, AUC and ECE of answers to questions that the fit has not seen."""
    fold = [int(hashlib.sha256(str(row.get("group")).encode()).hexdigest(), 16) % folds for row in one.rows]
    scores = np.zeros(len(one.rows))
    for n in range(folds):
        kept = [i for i, f in enumerate(fold) if f != n]
        part = Labelled(one.name, one.of, 1.0, [one.rows[i] for i in kept], [one.features[i] for i in kept])
        fit = fitted([part], CORRECTNESS_RIDGE)
        for i in set(range(len(fold))) - set(kept):
            scores[i] = support.probability(fit.logit(one.features[i]))
    return Measures(one.labels, scores).weighted(np.ones(len(scores)))[list(MEASURED)]


def stands_in(row: dict[str, Any]) -> float:
    said = " ".join(words(row["answer"]))
    return float(any(" ".join(words(t)) in said for t in row["ground_truth_answer"] if words(t)))


def part(fit: Fit, names: Sequence[str]) -> dict[str, Any]:
    return {
        "intercept": round(fit.intercept, 6),
        "features": {name: round(float(w), 6) for name, w in zip(names, fit.weights, strict=True)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the labelled sets")
    parser.add_argument("--swapped", action="append", default=[], metavar="NAME", help="a set whose labels are swapped")
    parser.add_argument("--write", action="store_true", help="put the weights where the judge reads them")
    options = parser.parse_args()
    began, draw = time.process_time(), random.Random(SEED)
    sets, truths = support_sets(options.data, options.swapped, draw), correctness_sets(options.data)
    lines, apart = leave_one_out(sets, RIDGE)
    lines += ["", "| set | items | the truth stands in it: balanced | judge: AUC | balanced | ECE |", f"|{'---|' * 6}"]
    for one in truths:
        balanced, auc, ece = in_folds(one)
        plain = np.array([stands_in(row) for row in one.rows])
        naive = Measures(one.labels, plain).weighted(np.ones(len(plain)))[1]
        lines.append(f"| {one.name} | {len(one.rows):,} | {naive:.3f} | {auc:.3f} | {balanced:.3f} | {ece:.2f} |")
        apart[one.name] = [round(float(v), 3) for v in (auc, balanced, ece)]
    print("\n".join(lines))
    whole = fitted(sets, RIDGE)
    document = {
        "provenance": {
            "script": "benchmarks/judge/fit.py",
            "date": datetime.now(UTC).date().isoformat(),
            "seed": SEED,
            "sets": {
                f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()[:16]
                for folder in ("faithfulness", "correctness", "retrieval")
                for file in sorted((options.data / folder).rglob("*.jsonl"))
                if folder != "retrieval" or file.name == "corpus.jsonl"
            },
            "swapped": options.swapped,
            "support": [one.name for one in sets if one.name in apart],
            "correctness": [one.name for one in truths],
            "left_out": {"columns": ["auc", "balanced_accuracy", "ece"], **apart},
        },
        "support": {
            **part(whole, support.SUPPORT_FEATURES),
            "per_log_sentences": round(whole.per_log_sentences, 6),
        },
        "correctness": part(fitted(truths, CORRECTNESS_RIDGE), support.CORRECTNESS_FEATURES),
    }
    print(json.dumps({k: document[k] for k in ("support", "correctness")}, indent=1))
    if options.write:
        WEIGHTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        put(PAGE, "fit", "\n".join([*lines, ""]))
    print(f"{time.process_time() - began:.0f} s of processor time", file=sys.stderr)


if __name__ == "__main__":
    main()
