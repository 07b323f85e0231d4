"""A language model as the judge, on labelled sets: verdicts and probes.

    python benchmarks/judge/model.py --data DIR --judge openai/qwen --api-base http://127.0.0.1:8199/v1 --home HOME

DIR holds JSON Lines as ``ragassay judge agreement`` takes them, in folders or not. Of each set ``--rows`` items are drawn,
half of them a yes of people, by the seed; ``--part 1`` draws others than ``--part 0``, so that what is chosen on one part
can be measured on the other.
Calls are kept under HOME: what was answered once is not asked again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import time
from pathlib import Path
from typing import Any

from ragassay.core.eval_config import EvalConfig, Performance
from ragassay.core.settings import Settings
from ragassay.evaluation import local
from ragassay.evaluation.labels import LabelledRows
from ragassay.judges.agreement import MEASURES, LabelledScore, columns, measures
from ragassay.judges.prompt import read_prompt
from ragassay.sdk.evaluation import runtime_for
from ragassay.stats.intervals import Floats


def drawn(path: Path, count: int, part: int) -> list[dict[str, Any]]:
    """The rows of ``count`` items, half of them with a yes; an item is all rows that share ``max_group``."""
    items: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(path.open(encoding="utf-8")):
        row = json.loads(line)
        items.setdefault(str(row.get("max_group") or number), []).append(row)

    def said(item: list[dict[str, Any]]) -> bool:
        return any(
            float(row["label"] if row.get("label_binary") is None else row["label_binary"]) >= 0.5 for row in item
        )

    order = sorted(items)
    random.Random(path.stem).shuffle(order)
    half = count // 2
    kinds = [[name for name in order if said(items[name]) is kind] for kind in (True, False)]
    chosen = [name for kind in kinds for name in kind[part * half : (part + 1) * half]]
    return [row for name in sorted(chosen) for row in items[name]]


def judged(labelled: LabelledRows, spec: EvalConfig, home: Path) -> list[LabelledScore]:
    """What people and the judge say of each row."""
    runtime = runtime_for(settings=Settings(home=home))
    run = local.start(runtime, spec.model_copy(update={"metrics": (labelled.metric.name,)}), labelled.inputs)
    asyncio.run(local.complete(runtime, run))
    return list(labelled.scored(run))


def figures(labels: Floats, scores: Floats) -> list[str]:
    """AUC, balanced accuracy and ECE."""
    found = dict(zip(MEASURES, measures(labels, scores), strict=True))
    return [f"{found[name]:.2f}" for name in ("auc", "balanced_accuracy", "ece")]


def main() -> None:
    """Print a row for each set and reading."""
    options = argparse.ArgumentParser()
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--home", type=Path, required=True)
    options.add_argument("--judge", default="local")
    options.add_argument("--api-base")
    options.add_argument("--sets", nargs="*", default=[])
    options.add_argument("--modes", nargs="*", default=["verdict", "probe"], choices=["verdict", "probe"])
    options.add_argument("--swapped", nargs="*", default=[])
    options.add_argument("--rows", type=int, default=60)
    options.add_argument("--part", type=int, default=0)
    options.add_argument("--prompt", type=Path)
    options.add_argument("--timeout", type=float, default=600.0)
    given = options.parse_args()
    logging.disable(logging.WARNING)
    print(
        "| set | items | reading | AUC | balanced accuracy | ECE | missing | s a row |\n|---|---|---|---|---|---|---|---|"
    )
    for path in sorted(given.data.rglob("*.jsonl")):
        if given.sets and path.stem not in given.sets:
            continue
        rows = drawn(path, given.rows, given.part)
        for mode in given.modes if given.judge != "local" else ["local"]:
            prompt = read_prompt(given.prompt) if given.prompt and mode == "verdict" else None
            spec = EvalConfig(
                judge=given.judge,
                api_base=given.api_base,
                judge_mode="verdict" if mode == "local" else mode,
                judge_prompt=prompt,
                performance=Performance(timeout_s=given.timeout, concurrency=1),
            )
            file = given.home / "drawn" / f"{path.stem}-{given.part}-{mode}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
            began = time.monotonic()
            said = judged(LabelledRows(file, "faithfulness"), spec, given.home)
            seconds = time.monotonic() - began
            labels, scores = columns(said)
            labels = 1 - labels if path.stem in given.swapped else labels
            cells = " | ".join(figures(labels, scores))
            print(
                f"| {path.stem} | {len(labels)} | {mode} | {cells} | {len(said) - len(labels)} | {seconds / len(rows):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
