"""One evaluator on one dataset, in a process of its own; `bench.py` runs it.

python runner.py (floor | ours) --base-url URL --dataset FILE.jsonl --out RESULT.json --concurrency N

`floor` is one structured call an item over plain HTTP: it judges nothing well, and no evaluator can be faster. `ours` is
ragassay's engine with a model as the judge, in chunks as `ragassay evaluate` works them off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

NUMBERS = ("relevancy", "correctness", "recall")
CLAIM = {"type": "object", "properties": {"claim": {"type": "string"}, "supported": {"type": "integer"}}}
CLAIMS = {"claims": {"type": "array", "items": CLAIM}, **{name: {"type": "number"} for name in NUMBERS}}
FORM = {"name": "verdict", "schema": {"type": "object", "properties": CLAIMS}}
METRICS = ("faithfulness", "completeness", "relevance", "correctness")


def floor(rows: list[dict[str, Any]], url: str, concurrency: int) -> Any:
    """What evaluates: the scores that failed, and all of them."""
    import aiohttp

    async def evaluate() -> tuple[int, int]:
        slots = asyncio.Semaphore(concurrency)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def one(row: dict[str, Any]) -> bool:
                asked = [{"role": "user", "content": "Judge the answer.\n" + json.dumps(row)}]
                form = {"type": "json_schema", "json_schema": FORM}
                body = {"model": "gpt-4o-mini", "messages": asked, "response_format": form}
                async with slots, session.post(f"{url}/chat/completions", json=body) as response:
                    try:
                        return bool(json.loads((await response.json())["choices"][0]["message"]["content"]))
                    except (KeyError, ValueError):
                        return False

            read = await asyncio.gather(*map(one, rows))
        return read.count(False), len(read)

    return evaluate


def ours(rows: list[dict[str, Any]], url: str, concurrency: int) -> Any:
    """The same by ragassay."""
    from gen_dataset import sample

    from ragassay.core.eval_config import DEFAULTS, RunConfig
    from ragassay.evaluation.evaluate import ScoringConfig
    from ragassay.evaluation.evaluate import evaluate as evaluate_chunk
    from ragassay.judges.llm import LLMJudge
    from ragassay.judges.panel import Panel, Rater
    from ragassay.llm import LLM, warm_up
    from ragassay.llm.journal import MemoryJournal
    from ragassay.metrics.metric import parse

    warm_up()

    async def evaluate() -> tuple[int, int]:
        judge = LLMJudge(LLM("gpt-4o-mini", api_base=url, concurrency=concurrency))
        config = ScoringConfig(RunConfig(), tuple(map(parse, METRICS)), Panel([Rater((judge,))]))
        journal = MemoryJournal()
        samples, size = list(map(sample, rows)), DEFAULTS.performance.batch
        chunks = [samples[start : start + size] for start in range(0, len(samples), size)]
        results = await asyncio.gather(*(evaluate_chunk(chunk, "default", config, journal) for chunk in chunks))
        values = [score.value for chunk in results for result in chunk for score in result.scores.values()]
        return values.count(None), len(values)

    return evaluate


def waited() -> float:
    """Seconds for which this process's main thread waited for a core so far."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("runner", choices=["floor", "ours"])
    options.add_argument("--base-url", required=True, help="root of the provider's API")
    options.add_argument("--dataset", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--concurrency", type=int, default=16)
    chosen = options.parse_args()
    rows = [json.loads(line) for line in chosen.dataset.read_text(encoding="utf-8").splitlines()]
    evaluate = {"floor": floor, "ours": ours}[chosen.runner](rows, chosen.base_url, chosen.concurrency)
    began, cpu, before = time.monotonic(), time.process_time(), waited()
    missing, cells = asyncio.run(evaluate())
    times = {"wall_s": time.monotonic() - began, "cpu_s": time.process_time() - cpu, "waited_s": waited() - before}
    chosen.out.write_text(
        json.dumps({"runner": chosen.runner, "items": len(rows), **times, "missing": missing, "cells": cells})
    )


if __name__ == "__main__":
    main()
