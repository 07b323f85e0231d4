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
    samples = [Sample(query_id=row["id"], query=row["query"], ground_truth_answer=row["ground_truth"]) for row in rows]
    responses = {row["id"]: Response(answer=row["answer"], contexts=row["contexts"]) for row in rows}
    judge = LLMJudge(LLM("gpt-4o-mini", api_base=url, concurrency=concurrency))
    plan = Plan(tuple(map(parse, METRICS)), AccuracyRule.parse("correctness >= 0.5"))
    tools = Tools(Panel.of(judge), MemoryJournal(), Prices())
    size = PerformanceOptions.batch
    chunks = [samples[start : start + size] for start in range(0, len(samples), size)]
    system = Recorded("default", responses)
    results = await asyncio.gather(*(engine.evaluate(chunk, system, plan, tools) for chunk in chunks))
    return {
        result.query_id: {name: score.value for name, score in result.scores.items()}
        for chunk in results
        for result in chunk
    }


if __name__ == "__main__":
    chosen = arguments()
    rows, began = items(chosen), time.monotonic()
    from ragassay.core.models import Response, Sample
    from ragassay.core.options import PerformanceOptions
    from ragassay.evaluation import engine
    from ragassay.evaluation.engine import Plan, Tools
    from ragassay.judges.llm import LLMJudge
    from ragassay.judges.panel import Panel
    from ragassay.llm import LLM, Prices, warm_up
    from ragassay.llm.journal import MemoryJournal
    from ragassay.metrics.accuracy import AccuracyRule
    from ragassay.metrics.metric import parse
    from ragassay.systems.base import Recorded

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
