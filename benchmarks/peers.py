"""Ten rows of datasets/quickstart, evaluated by another package and by ragassay at one endpoint: scores, calls, tokens.

python benchmarks/peers.py ragas --python ~/v-ragas/bin/python --api-base http://127.0.0.1:8000/v1 --model MODEL
python benchmarks/peers.py ragas --python ~/v-ragas/bin/python       at the mock server, whose scores mean nothing

A relay on loopback stands between, counts calls and the tokens that replies report, and puts in the model and
OPENAI_API_KEY. Environments of the others: benchmarks/llm/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import aiohttp
from aiohttp import web
from measured import mock_provider

import ragassay
from ragassay.llm import warm_up

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "datasets" / "quickstart"
CHATS = "chat/completions", "responses"
PAIRS = {
    "ragas": {
        "faithfulness": "faithfulness",
        "answer_relevancy": "relevance",
        "answer_correctness": "correctness",
        "context_recall": "context_recall",
    },
    "deepeval": {
        "Faithfulness": "faithfulness",
        "Answer Relevancy": "relevance",
        "Contextual Recall": "context_recall",
        "Completeness [GEval]": "completeness",
    },
    "trulens": {
        "groundedness": "faithfulness",
        "answer_relevance": "relevance",
        "context_relevance": "context_precision",
        "agreement": "correctness",
    },
    "mlflow": {
        "retrieval_groundedness": "faithfulness",
        "relevance_to_query": "relevance",
        "correctness": "completeness",
        "retrieval_sufficiency": "context_recall",
    },
}


class Relay:
    """Hands requests on to the endpoint, and counts them and their tokens."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        self.chats = self.embeddings = self.tokens = 0

    async def __call__(self, request: web.Request) -> web.Response:
        what, body = request.match_info["what"], await request.json()
        chat = what in CHATS
        if model := self.chosen.model if chat else self.chosen.embeddings:
            body["model"] = model
        key = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.chosen.api_base}/{what}", json=body, headers=key) as reply,
        ):
            text = await reply.read()
        self.chats += chat
        self.embeddings += not chat
        if reply.ok:
            self.tokens += json.loads(text).get("usage", {}).get("total_tokens", 0)
        return web.Response(body=text, status=reply.status, content_type="application/json")

    def taken(self) -> tuple[int, int, int]:
        """Chat calls, calls for embeddings and tokens since the last time."""
        counted = self.chats, self.embeddings, self.tokens
        self.chats = self.embeddings = self.tokens = 0
        return counted


def rows(count: int) -> list[dict[str, Any]]:
    """Queries with the answers of the better of the two systems, as the runners take them."""
    lines = (ROWS / "queries.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    answers = map(json.loads, (ROWS / "responses" / "candidate.jsonl").read_text(encoding="utf-8").splitlines())
    given = {each["query_id"]: each for each in answers}
    return [
        {
            "id": row["query_id"],
            "query": row["query"],
            "ground_truth": row["ground_truth_answer"],
            "answer": given[row["query_id"]]["answer"],
            "contexts": given[row["query_id"]]["contexts"],
        }
        for row in map(json.loads, lines)
    ]


def there(peer: str, python: str, url: str, data: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """What the runner of a peer gives: its version, wall time and scores by query and metric."""
    dataset, out = folder / "rows.jsonl", folder / "out.json"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in data), encoding="utf-8")
    runner = ROOT / "benchmarks" / "llm" / "runners" / f"run_{peer}.py"
    command = [python, runner, "--base-url", url, "--dataset", dataset, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{peer} failed: {done.stderr[-2000:]}")
    return dict(json.loads(out.read_text(encoding="utf-8")))


def here(metrics: list[str], url: str, data: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """The same of ragassay."""
    os.environ["RAGASSAY_HOME"] = str(folder / "runs")
    judge = {"judge": "openai/gpt-4o-mini", "api_base": f"{url}/v1", "concurrency": 16}
    warm_up()  # a runner's time is without imports, too
    began = time.monotonic()
    report = ragassay.evaluate(data, metrics=metrics, **judge)
    wall = time.monotonic() - began
    scores = {row["query_id"]: {name: row[name] for name in metrics} for row in report.rows}
    return {"wall_s": wall, "scores": scores}


def mean(found: dict[str, Any], metric: str) -> str:
    values = [row[metric] for row in found["scores"].values()]
    scored = [value for value in values if value is not None]
    return f"{fmean(scored) if scored else float('nan'):.3f} n={len(scored)}/{len(values)}"


def table(peer: str, theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    """Means of what could be scored, then what each took for all rows."""
    yield f"| | {peer} {theirs['version']} | ragassay |\n|---|---|---|"
    for one, other in PAIRS[peer].items():
        yield f"| {one}; {other} | {mean(theirs, one)} | {mean(ours, other)} |"
    for what, key in (("calls of the model", 0), ("calls for embeddings", 1), ("tokens", 2)):
        yield f"| {what} | {theirs['taken'][key]:,} | {ours['taken'][key]:,} |"
    yield f"| wall, s | {theirs['wall_s']:.1f} | {ours['wall_s']:.1f} |"


async def compared(chosen: argparse.Namespace, folder: Path) -> list[str]:
    relay, app = Relay(chosen), web.Application(client_max_size=2**26)
    app.router.add_post("/v1/{what:.+}", relay)
    server = web.AppRunner(app, access_log=None)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0).start()
    url, data = f"http://127.0.0.1:{server.addresses[0][1]}", rows(chosen.rows)
    try:
        theirs = await asyncio.to_thread(there, chosen.peer, chosen.python, url, data, folder)
        theirs["taken"] = relay.taken()
        ours = await asyncio.to_thread(here, list(PAIRS[chosen.peer].values()), url, data, folder)
        ours["taken"] = relay.taken()
    finally:
        await server.cleanup()
    return list(table(chosen.peer, theirs, ours))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("peer", choices=PAIRS)
    options.add_argument("--python", required=True, help="of the environment that has it")
    options.add_argument("--api-base", help="an OpenAI-compatible endpoint, up to /v1; default: the mock server")
    options.add_argument("--model", help="default: gpt-4o-mini, as the runners ask for")
    options.add_argument("--embeddings", metavar="MODEL", help="for RAGAS; default: as its client asks for")
    options.add_argument("--rows", type=int, default=10)
    options.add_argument("--latency-ms", type=float, default=300, help="of the mock server")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.api_base:
            lines = asyncio.run(compared(chosen, folder))
        else:
            with mock_provider(chosen.latency_ms) as root:
                chosen.api_base = f"{root}/v1"
                lines = asyncio.run(compared(chosen, folder))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
