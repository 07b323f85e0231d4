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
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager

import httpx
import numpy as np
import psutil
from measured import load, machine

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


@contextmanager
def service(workers=2, **variables):
    """The address of a service in a folder of its own, and its process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RAGASSAY_")}
        options = ["--port", "0", "--workers", str(workers), "--data", f"{folder}/data"]
        command = [sys.executable, "-m", "ragassay.cli", "serve", *options]
        environment |= {"RAGASSAY_HOME": f"{folder}/home", "RAGASSAY_PRELOAD": "nothing", **variables}
        with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                url = ""
                for line in process.stdout:
                    url = url or "".join(re.findall(r"is up: (http://\S+)", line))
                    if "workers are ready" in line:
                        break
                yield url, process.pid
            finally:
                process.terminate()


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
        due = [(t, "status") for t in np.arange(choice.uniform(0, LOOK_EVERY_S), WARM_UP_S + seconds, LOOK_EVERY_S)]
        due += [
            (t, "submit") for t in np.arange(choice.uniform(0, SUBMIT_EVERY_S), WARM_UP_S + seconds, SUBMIT_EVERY_S)
        ]
        for after_s, kind in sorted(due):
            at = begins + after_s
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            late.append(time.perf_counter() - at)
            request = (
                session.get(f"{url}/v1/jobs/{job}")
                if kind == "status"
                else session.post(f"{url}/v1/jobs", data=body, headers={"Content-Type": "application/json"})
            )
            async with request as answer:
                await answer.read()
            if after_s >= WARM_UP_S:
                latencies[kind].append((time.perf_counter() - at) * 1000)
                statuses[f"{kind} {answer.status}"] += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=clients)) as session:
        await asyncio.gather(*(client(session, number) for number in range(clients)))
    return {"latencies": latencies, "statuses": statuses, "late": sum(s > 0.05 for s in late) / len(late)}


def table(found: dict[str, object], clients: int, seconds: float, before: float, done: str) -> str:
    lines = ["| request | a second | p50, ms | p90, ms | p99, ms | longest, ms |", "|---|---|---|---|---|---|"]
    for kind, name in (("status", "`GET /v1/jobs/ID`"), ("submit", "`POST /v1/jobs`, two rows")):
        values = found["latencies"][kind]
        figures = [*(np.percentile(values, p) for p in (50, 90, 99)), max(values)]
        lines.append(f"| {name} | {len(values) / seconds:.0f} | " + " | ".join(f"{f:.0f}" for f in figures) + " |")
    about = (
        f"{machine(before)}, shared with {clients} clients for {seconds:.0f} s. The large job had {done} rows done. Answers: "
        + ", ".join(f"{count} {what}" for what, count in sorted(found["statuses"].items()))
        + f". {found['late']:.0%} of the requests were sent more than 50 ms after they were due, because the answer before "
        f"was late; that wait is in the figures. The API's process took {found['cpu_ms']:.1f} ms of processor time a request, "
        "which does not depend on what else the machine does."
    )
    return "\n".join([about, "", *lines, ""])


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
    with service() as (url, pid):
        job = long_job(url)
        again = [sys.executable, __file__, f"--clients={options.clients}", f"--seconds={options.seconds}"]
        api = next(p for p in psutil.Process(pid).children() if "serve" in p.cmdline())
        began = api.cpu_times()
        done = subprocess.run([*again, "--ask", url, job], check=True, capture_output=True, text=True)
        spent = sum(api.cpu_times()[:2]) - sum(began[:2])
        progress = httpx.get(f"{url}/v1/jobs/{job}", trust_env=False).json()
    found = json.loads(done.stdout)
    rows_done = f"{progress['progress']['done']:,} of {ROWS:,}"
    found["cpu_ms"] = (
        spent * 1000 / (options.clients * (options.seconds + WARM_UP_S) * (1 / LOOK_EVERY_S + 1 / SUBMIT_EVERY_S))
    )
    text = table(found, options.clients, options.seconds, before, rows_done)
    print(text)
    return int(not found["statuses"].keys() <= {"status 200", "submit 202"})


if __name__ == "__main__":
    sys.exit(main())
