"""ragassay's engine with a language model as the judge, in chunks as `ragassay evaluate` works them off."""

from __future__ import annotations

import asyncio
import time
from importlib import metadata
from typing import Any

from common import Timer, arguments, items, write

METRICS = ("faithfulness", "completeness", "relevance", "correctness")


async def evaluate(rows: list[dict[str, Any]], url: str, concurrency: int) -> dict[str, dict[str, float | None]]:
    """The scores of each item. This is all that is measured; swap it to measure another road through the product."""
    samples = [
        Sample(
            query_id=row["id"],
            query=row["query"],
            ground_truth_answer=row["ground_truth"],
            response=Response(answer=row["answer"], contexts=row["contexts"]),
        )
        for row in rows
    ]
    judge = LLMJudge(LLM("gpt-4o-mini", api_base=url, concurrency=concurrency))
    config, journal = ScoringConfig(EvalConfig(), tuple(map(parse, METRICS)), Panel.of(judge)), MemoryJournal()
    size = DEFAULTS.performance.batch
    chunks = [samples[start : start + size] for start in range(0, len(samples), size)]
    results = await asyncio.gather(*(evaluate_chunk(chunk, "default", config, journal) for chunk in chunks))
    return {
        result.query_id: {name: score.value for name, score in result.scores.items()}
        for chunk in results
        for result in chunk
    }


if __name__ == "__main__":
    chosen = arguments()
    rows, began = items(chosen), time.monotonic()
    from ragassay.core.eval_config import DEFAULTS, EvalConfig
    from ragassay.core.models import Response, Sample
    from ragassay.evaluation.evaluate import ScoringConfig
    from ragassay.evaluation.evaluate import evaluate as evaluate_chunk
    from ragassay.judges.llm import LLMJudge
    from ragassay.judges.panel import Panel
    from ragassay.llm import LLM, warm_up
    from ragassay.llm.journal import MemoryJournal
    from ragassay.metrics.metric import parse

    warm_up()
    import_s = time.monotonic() - began
    with Timer() as timer:
        scores = asyncio.run(evaluate(rows, f"{chosen.base_url}/v1", chosen.concurrency))
    write(
        chosen,
        runner="ours",
        version=metadata.version("ragassay"),
        metrics=list(METRICS),
        items=len(rows),
        import_s=round(import_s, 2),
        scores=scores,
        **timer.fields,
    )
