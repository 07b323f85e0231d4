"""Measures the local judge against human labels: on these sets its thresholds were chosen.

    python benchmarks/local_judge.py --data DIR [--lexical]

DIR holds the labelled sets as JSONL (``faithfulness/*.jsonl``, ``correctness/*.jsonl``, ``relevance/*.jsonl``: query,
contexts, answer, ground_truth_answer, label). Nothing of them is copied or written. Prints JSON lines; the numbers in
docs/judges.md are from here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr

from ragassay.embeddings import LocalEmbedder
from ragassay.judges.local import LocalJudge
from ragassay.metrics.judged import correctness, faithfulness, relevance
from ragassay.metrics.text import normalised
from ragassay.models import Response, Sample, Verdict

Row = dict[str, Any]


class NoLedger:
    """The local judge makes no calls."""


def rows_of(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def sample_of(row: Row) -> Sample:
    return Sample(
        query_id=row["id"],
        query=row.get("query") or row["answer"] or "?",
        ground_truth_answer=row.get("ground_truth_answer"),
        response=Response(answer=row["answer"], contexts=row.get("contexts") or None),
    )


def verdicts_of(judge: LocalJudge, samples: Sequence[Sample]) -> list[Verdict]:
    found = []
    for start in range(0, len(samples), 50):
        given = asyncio.run(judge.judge(samples[start : start + 50], NoLedger()))  # type: ignore[arg-type]
        found += [judgement.verdict for judgement in given if judgement.verdict]
    return found


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """Chance that a positive scores above a negative; ties count half."""
    positive = int(label.sum())
    ranks = float(rankdata(score)[label == 1].sum())
    return (ranks - positive * (positive + 1) / 2) / (positive * (len(label) - positive))


def agreement(label: np.ndarray, said: np.ndarray) -> dict[str, float]:
    """Accuracy, balanced accuracy and Cohen's kappa of yes/no against yes/no."""
    accuracy = float((label == said).mean())
    balanced = float(np.mean([(said[label == v] == v).mean() for v in (0, 1)]))
    chance = sum(float((label == v).mean() * (said == v).mean()) for v in (0, 1))
    return {"accuracy": accuracy, "balanced": balanced, "kappa": (accuracy - chance) / (1 - chance)}


def on_faithfulness(judge: LocalJudge, rows: list[Row]) -> dict[str, Any]:
    samples = [sample_of(row) for row in rows]
    similarity = [min(values, default=0.0) for values in judge.similarity(samples)]
    values = [faithfulness(verdict).value or 0.0 for verdict in verdicts_of(judge, samples)]
    items: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row, like, value in zip(rows, similarity, values, strict=True):
        items[row.get("max_group", row["id"])].append((like, value, row.get("label_binary", row["label"])))
    best = np.array([np.max(parts, axis=0) for parts in items.values()])
    label = best[:, 2]
    return {"auc": auc(label, best[:, 0]), **agreement(label, best[:, 1] == 1.0)}


def on_correctness(judge: LocalJudge, rows: list[Row]) -> dict[str, Any]:
    verdicts = verdicts_of(judge, [sample_of(row) for row in rows])
    value = np.array([correctness(verdict).value for verdict in verdicts], dtype=float)
    label = np.array([row["label"] for row in rows])
    truths = [[normalised(t) for t in row["ground_truth_answer"]] for row in rows]
    substring = [any(t in normalised(row["answer"]) for t in ts) for row, ts in zip(rows, truths, strict=True)]
    return {
        "auc": auc(label, value),
        **agreement(label, value >= 0.5),
        "substring": agreement(label, np.array(substring)),
    }


def on_relevance(judge: LocalJudge, rows: list[Row]) -> dict[str, Any]:
    verdicts = verdicts_of(judge, [sample_of(row) for row in rows])
    value = np.array([relevance(verdict).value for verdict in verdicts], dtype=float)
    label = np.array([row["label"] for row in rows])
    refused = np.array([bool(verdict.refusal) for verdict in verdicts])
    return {
        "spearman": float(spearmanr(value, label)[0]),
        "auc_useless": auc((label > 0).astype(int), value),
        "mean_said": float(value.mean()),
        "mean_label": float(label.mean()),
        "refusals": int(refused.sum()),
        "mean_label_of_refusals": float(label[refused].mean()),
    }


MEASURES = {"faithfulness": on_faithfulness, "correctness": on_correctness, "relevance": on_relevance}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the labelled sets")
    parser.add_argument("--lexical", action="store_true", help="judge by words alone")
    options = parser.parse_args()
    judge = LocalJudge(None if options.lexical else LocalEmbedder())
    for kind, measure in MEASURES.items():
        for file in sorted((options.data / kind).glob("*.jsonl")):
            rows, began = rows_of(file), time.perf_counter()
            found = measure(judge, rows)
            line = {"judge": judge.name, "set": file.stem, "rows": len(rows), **found}
            print(json.dumps({**line, "seconds": time.perf_counter() - began}, default=float))


if __name__ == "__main__":
    main()
