"""The floor: one structured call per item over plain HTTP. It judges nothing well; no evaluator can be faster."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from common import Timer, arguments, items, write

CLAIM = {"type": "object", "properties": {"claim": {"type": "string"}, "supported": {"type": "integer"}}}
NUMBERS = ("relevancy", "correctness", "recall")
SCHEMA = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": CLAIM}, **{name: {"type": "number"} for name in NUMBERS}},
}
METRICS = ["faithfulness", *NUMBERS]


async def evaluate(rows: list[dict[str, Any]], url: str, concurrency: int) -> dict[str, dict[str, float | None]]:
    scores: dict[str, dict[str, float | None]] = {}
    slots = asyncio.Semaphore(concurrency)
    described = {"name": "verdict", "schema": SCHEMA}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(row: dict[str, Any]) -> None:
            body = {
                "model": "gpt-4o-mini",
                "messages": [{"role": "user", "content": "Judge the answer.\n" + json.dumps(row)}],
                "response_format": {"type": "json_schema", "json_schema": described},
            }
            async with slots, session.post(f"{url}/chat/completions", json=body) as response:
                try:
                    said = json.loads((await response.json())["choices"][0]["message"]["content"])
                except (KeyError, ValueError):
                    scores[row["id"]] = dict.fromkeys(METRICS)
                    return
            supported = [claim["supported"] for claim in said["claims"]]
            scores[row["id"]] = {"faithfulness": sum(supported) / len(supported), **{n: said[n] for n in NUMBERS}}

        await asyncio.gather(*map(one, rows))
    return scores


if __name__ == "__main__":
    chosen = arguments()
    rows, began = items(chosen), time.monotonic()
    import aiohttp

    import_s = time.monotonic() - began
    with Timer() as timer:
        scores = asyncio.run(evaluate(rows, f"{chosen.base_url}/v1", chosen.concurrency))
    write(
        chosen,
        runner="floor",
        version="1",
        metrics=METRICS,
        items=len(rows),
        import_s=round(import_s, 2),
        scores=scores,
        **timer.fields,
    )
