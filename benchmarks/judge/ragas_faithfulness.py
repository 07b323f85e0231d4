"""RAGAS's faithfulness with the same model on the same rows, beside ``model.py``.

    ~/v-ragas/bin/python benchmarks/judge/ragas_faithfulness.py ROWS.jsonl --api-base http://127.0.0.1:8199/v1 --scores OUT.jsonl

ROWS is a file that ``model.py`` drew (below HOME/drawn). Scores are written as they come; those that are in OUT are not asked
for again.
"""

import argparse
import asyncio
import json
import os
import time
import warnings
from pathlib import Path

os.environ |= {"RAGAS_DO_NOT_TRACK": "true", "OPENAI_API_KEY": "none"}
warnings.filterwarnings("ignore")

import openai  # noqa: E402 - after the variables
from ragas import SingleTurnSample  # noqa: E402
from ragas.llms import llm_factory  # noqa: E402
from ragas.metrics import Faithfulness  # noqa: E402


async def main() -> None:
    """Score each row that has no score yet."""
    options = argparse.ArgumentParser()
    options.add_argument("rows", type=Path)
    options.add_argument("--api-base", required=True)
    options.add_argument("--model", default="qwen")
    options.add_argument("--scores", type=Path, required=True)
    options.add_argument("--timeout", type=float, default=300.0)
    given = options.parse_args()
    known = given.scores.read_text(encoding="utf-8").splitlines() if given.scores.exists() else []
    done = {json.loads(line)["id"] for line in known}
    client = openai.AsyncOpenAI(base_url=given.api_base, api_key="none", timeout=given.timeout, max_retries=0)
    metric = Faithfulness(llm=llm_factory(given.model, client=client))
    for line in given.rows.open(encoding="utf-8"):
        row = json.loads(line)
        if row["id"] in done:
            continue
        sample = SingleTurnSample(
            user_input=row["query"] or "", retrieved_contexts=row["contexts"], response=row["answer"]
        )
        began, score, error = time.monotonic(), None, None
        try:
            score = float(await metric.single_turn_ascore(sample))
        except Exception as failed:
            error = f"{type(failed).__name__}: {failed}"[:200]
        score = None if score is None or score != score else score
        said = {"id": row["id"], "score": score, "error": error, "s": round(time.monotonic() - began, 1)}
        with given.scores.open("a", encoding="utf-8") as file:
            file.write(json.dumps(said) + "\n")


asyncio.run(main())
