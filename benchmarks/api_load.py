"""The API under load: how long submissions and looks at a job take with many clients while a job runs.

    python benchmarks/api_load.py [--clients 50] [--seconds 60]

`ragassay serve` runs as a user would start it. A dataset is uploaded, a job on it keeps the workers busy, and clients, each on
a connection of its own in a second process, look at that job every half second and submit a job of two rows every five.
Their requests are due by the clock, whether or not the answer before has come, and latency counts from when a request was
due: an API that stalls is not asked less, nor measured less. Exits with 1 for an answer that is not a 200 or 202.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import httpx
import numpy as np
from measured import Service, load, machine, table

LOOK_EVERY_S, SUBMIT_EVERY_S, WARM_UP_S = 0.5, 5.0, 5.0
ROWS = 100_000
METRICS = ["mrr", "ndcg@10", "token_f1", "rougeL"]


def row(n: int) -> dict[str, object]:
    return {
        "query_id": f"q{n}",
        "query": f"Where does river {n} reach the sea?",
        "ground_truth_answer": f"River {n} reaches the sea at harbour {n}, after {n} kilometres.",
        "answer": f"It reaches the sea at harbour {n}.",
        "relevant_doc_ids": [f"d{n}"],
        "retrieved_doc_ids": [f"d{n + 1}", f"d{n}"],
    }


def long_job(url: str, rows: int = ROWS, row: Callable[[int], dict[str, object]] = row, **options: object) -> str:
    """A job of so many rows, which outlasts the measurement."""
    content = b"\n".join(json.dumps(row(n)).encode() for n in range(rows))
    headers = {"Content-Type": "application/x-ndjson"}
    with httpx.Client(base_url=url, timeout=600, trust_env=False) as client:
        client.put("/v1/datasets/rivers", content=content, headers=headers).raise_for_status()
        body = {"dataset": "rivers", "metrics": METRICS, **options}
        return client.post("/v1/jobs", json=body).raise_for_status().json()["id"]


def until_finished(client: httpx.Client, job: str) -> None:
    """Wait for the end of a job; exits where that is another, since figures would be of nothing."""
    while (found := client.get(f"/v1/jobs/{job}").json())["status"] != "finished":
        if found["status"] in ("failed", "paused", "cancelled"):
            sys.exit(f"the job is {found['status']}: {found}")
        time.sleep(0.05)


async def asked(url: str, job: str, clients: int, seconds: float) -> dict[str, object]:
    """Latencies in ms by kind of request, and how many answers had which status."""
    import aiohttp

    latencies: dict[str, list[float]] = {"status": [], "submit": []}
    late: list[float] = []
    statuses: Counter[str] = Counter()
    body = json.dumps({"samples": [row(0), row(1)], "metrics": ["mrr"]}).encode()
    begins = time.perf_counter() + 1.0

    async def client(session: aiohttp.ClientSession, number: int) -> None:
        choice = random.Random(number)
        every, end = {"status": LOOK_EVERY_S, "submit": SUBMIT_EVERY_S}, WARM_UP_S + seconds
        due = [(t, kind) for kind, s in every.items() for t in np.arange(choice.uniform(0, s), end, s)]
        for after_s, kind in sorted(due):
            at = begins + after_s
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            late.append(time.perf_counter() - at)
            how = {"headers": {"Content-Type": "application/json"}, "data": body} if kind == "submit" else {}
            method, path = ("POST", "/v1/jobs") if how else ("GET", f"/v1/jobs/{job}")
            async with session.request(method, url + path, **how) as answer:
                await answer.read()
            if after_s >= WARM_UP_S:
                latencies[kind].append((time.perf_counter() - at) * 1000)
                statuses[f"{kind} {answer.status}"] += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=clients)) as session:
        await asyncio.gather(*(client(session, number) for number in range(clients)))
    return {"latencies": latencies, "statuses": statuses, "late": sum(s > 0.05 for s in late) / len(late)}


def told(found: dict[str, object], clients: int, seconds: float, before: float, done: str) -> str:
    rows = []
    for kind, name in (("status", "`GET /v1/jobs/ID`"), ("submit", "`POST /v1/jobs`, two rows")):
        values = found["latencies"][kind]
        figures = [len(values) / seconds, *(np.percentile(values, p) for p in (50, 90, 99)), max(values)]
        rows.append([name, *(f"{figure:.0f}" for figure in figures)])
    answers = ", ".join(f"{count} {what}" for what, count in sorted(found["statuses"].items()))
    about = (
        f"{machine(before)}, shared with {clients} clients for {seconds:.0f} s. The large job had {done} rows done. "
        f"Answers: {answers}. {found['late']:.0%} of the requests were sent more than 50 ms after they were due, because the "
        f"answer before was late; that wait is in the figures. The API's process took {found['cpu_ms']:.1f} ms of processor "
        "time a request, which does not depend on what else the machine does."
    )
    head = ["request", "a second", "p50, ms", "p90, ms", "p99, ms", "longest, ms"]
    return "\n".join([about, "", *table(head, *rows), ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--ask", nargs=2, metavar=("URL", "JOB"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(asyncio.run(asked(*options.ask, options.clients, options.seconds))))
        return 0
    before = load()
    with Service(traced=False) as service:
        url, job = service.ready().url, long_job(service.url)
        again = [sys.executable, __file__, f"--clients={options.clients}", f"--seconds={options.seconds}"]
        api = service.part("cli serve api")
        began = api.cpu_times()
        done = subprocess.run([*again, "--ask", url, job], check=True, capture_output=True, text=True)
        spent = sum(api.cpu_times()[:2]) - sum(began[:2])
        rows_done = f"{service.job(job)['progress']['done']:,} of {ROWS:,}"
    found = json.loads(done.stdout)
    requests = options.clients * (options.seconds + WARM_UP_S) * (1 / LOOK_EVERY_S + 1 / SUBMIT_EVERY_S)
    found["cpu_ms"] = spent * 1000 / requests
    print(told(found, options.clients, options.seconds, before, rows_done))
    return int(not found["statuses"].keys() <= {"status 200", "submit 202"})


if __name__ == "__main__":
    sys.exit(main())
