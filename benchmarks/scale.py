"""How much a service does: rows per second beside the engine alone, jobs of up to a million rows, and small jobs beside them.

    python benchmarks/scale.py [engine] [large] [small] [--rows 20000 100000 1000000]

`engine`: rows judged by a model at a mock provider that takes 0 and 300 ms, by the engine in one process and through
`ragassay serve` with one and two worker processes. `large`: for each number of rows a service of its own with one job of
recorded rows, and small jobs submitted meanwhile; memory, bytes of Redis, times of pages. `small`: small jobs beside one of
100,000 rows that the same judge is asked about. Half an hour of an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise

import httpx
import numpy as np
import psutil
from api_load import METRICS, long_job, row, until_finished
from measured import FaultyProvider, Service, load, machine, table

CHUNK, SMALL, TRIES = 50, 20, 50
PERFORMANCE = {"concurrency": 8, "cache": False}
SIZES = (20_000, 100_000, 1_000_000)
JUDGED = {0: 2000, 300: 1000}  # rows, by the provider's latency in ms
MODEL = "openai/mock"
FACED = ["faithfulness", "completeness", "relevance", "correctness", "accurate"]


def judging(workers: int, provider: FaultyProvider) -> Service:
    """A service whose judge is a model at that provider."""
    return Service(workers=workers, api_base=provider.url, lease_s=60, traced=False)


def judged_row(n: int) -> dict[str, object]:
    return {**row(n), "contexts": [f"River {n} springs in the hills.", f"It reaches the sea at harbour {n}."]}


def engine_alone(api_base: str, rows: int) -> float:
    """Rows per second of one process, imports and start not counted."""
    code = (
        "import json, sys, time, ragassay\n"
        "from ragassay.llm import warm_up\n"
        "rows, how = json.load(sys.stdin)\n"
        "warm_up()\n"
        "ragassay.evaluate(rows[:50], **how)\n"
        "began = time.perf_counter()\n"
        "ragassay.evaluate(rows[50:], **how)\n"
        "print((len(rows) - 50) / (time.perf_counter() - began))\n"
    )
    how = {"judge": MODEL, "api_base": api_base, "metrics": FACED, "performance": PERFORMANCE}
    given = json.dumps([[judged_row(n) for n in range(rows + CHUNK)], how])
    with tempfile.TemporaryDirectory() as folder:
        how = {"capture_output": True, "text": True, "check": True}
        environment = os.environ | {"RAGASSAY_HOME": folder, "OPENAI_API_KEY": "none"}
        done = subprocess.run([sys.executable, "-c", code], input=given, env=environment, **how)
    return float(done.stdout)


def through_service(provider: FaultyProvider, rows: int, workers: int) -> float:
    """Rows per second from submission to report, of a service whose workers have done a small job before.

    A job for each worker process: one that asks a provider leaves a process to others.
    """
    with judging(workers, provider) as service:
        client, took = service.ready().client, 0.0
        for count in (CHUNK * workers, rows):
            made = ({**one, "query": f"{one['query']} {count}"} for one in map(judged_row, range(count)))
            headers = {"Content-Type": "application/x-ndjson"}
            content = "\n".join(map(json.dumps, made))
            client.put(f"/v1/datasets/d{count}", content=content, headers=headers, timeout=600).raise_for_status()
            body = {"dataset": f"d{count}", "metrics": FACED, "judge": MODEL, "performance": PERFORMANCE}
            began = time.perf_counter()
            jobs = [client.post("/v1/jobs", json=body).raise_for_status().json()["id"] for _ in range(workers)]
            for job in jobs:
                until_finished(client, job)
            took = time.perf_counter() - began
        return workers * rows / took


def engine_table() -> list[str]:
    """Rows per second, the engine alone beside the service."""
    lines = []
    for latency_ms, rows in JUDGED.items():
        with FaultyProvider(latency_ms) as provider:
            alone, one, two = engine_alone(provider.url, rows), *(through_service(provider, rows, n) for n in (1, 2))
        rates = [f"{alone:.1f} a second", f"{one:.1f}", f"{one / alone:.0%}", f"{two:.1f}", f"{two / one:.2f}x"]
        lines.append([f"{latency_ms} ms", f"{rows:,}", *rates])
        print(lines[-1], file=sys.stderr)
    head = ["judge takes", "rows", "engine alone", "service, 1 worker", "of the engine", "2 workers", "of 1"]
    return table(head, *lines)


class Memory(threading.Thread):
    """What API and workers hold, in MB, five times a second."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self.service, self.api = service, service.part("cli serve api")
        self.seen: list[tuple[float, float]] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.2):
            with suppress(psutil.NoSuchProcess, ValueError):  # one that ends while it is looked at
                self.look()

    def look(self) -> int:
        """Look now; returns how often it was looked so far."""
        workers = [p for p in self.service.tree() if "celery" in p.cmdline()]
        largest = max(p.memory_info().rss for p in workers)
        self.seen.append((self.api.memory_info().rss / 1e6, largest / 1e6))
        return len(self.seen)


def small_jobs(client: httpx.Client, large: str) -> list[float]:
    """Seconds from the submission of a small judged job to its first claimed chunk, while the large job runs."""
    waits = []
    for n in range(TRIES):
        if client.get(f"/v1/jobs/{large}").json()["status"] not in ("queued", "running"):
            break
        samples = [{**judged_row(i), "query": f"{n} {i}?"} for i in range(SMALL)]
        began = time.perf_counter()
        body = {"samples": samples, "metrics": FACED, "judge": MODEL}
        job = client.post("/v1/jobs", json=body).raise_for_status().json()["id"]
        while client.get(f"/v1/jobs/{job}").json()["status"] == "queued":
            time.sleep(0.02)
        waits.append(time.perf_counter() - began)
        until_finished(client, job)
    return waits


def looks(client: httpx.Client, job: str) -> dict[str, list[float]]:
    """Milliseconds of some looks at a finished job's rows, each three times."""
    pages = {
        "the first page of 50 rows": "",
        "sorted by a metric": "&sort=-rougeL",
        "filtered by a metric and sorted": "&where=rougeL%3E0.5&sort=token_f1",
        "filtered by a text": "&text=harbour+4711.",
    }
    took: dict[str, list[float]] = {name: [] for name in pages}
    for name, asked in pages.items():
        for _ in range(3):
            began = time.perf_counter()
            client.get(f"/v1/jobs/{job}/results?limit=50{asked}").raise_for_status()
            took[name].append((time.perf_counter() - began) * 1000)
    return took


def large_job(rows: int) -> dict[str, str]:
    """One job of so many rows: its rate, memory, bytes, pages, and small jobs beside it."""
    with FaultyProvider(300) as provider, judging(2, provider) as service:
        client, store = service.ready().client, service.redis
        before = int(store.info("memory")["used_memory"])
        memory = Memory(service)
        memory.start()
        idle, began = memory.look(), time.perf_counter()
        job = long_job(service.url, rows)
        submitted = memory.look()
        waits = small_jobs(client, job)
        while service.job(job)["status"] in ("queued", "running"):
            time.sleep(0.5)
        evaluated, at = memory.look(), time.perf_counter()
        until_finished(client, job)
        reporting, took = time.perf_counter() - at, time.perf_counter() - began
        stored = int(store.info("memory")["used_memory"]) - before
        reported, size, at = memory.look(), 0, time.perf_counter()
        with client.stream("GET", f"/v1/jobs/{job}/report", timeout=600) as answer:
            size = sum(map(len, answer.iter_raw()))
        reading = time.perf_counter() - at
        ends = [0, idle, submitted, evaluated, reported, memory.look()]
        memory.over.set()
        memory.join()
        pages = looks(client, job)
    p50, p95 = np.percentile(waits or [np.nan], (50, 95))
    api, worker = (
        " / ".join(f"{max(one[n] for one in memory.seen[a:b]):,.0f}" for a, b in pairwise(ends)) for n in (0, 1)
    )
    return {
        "rows a second, upload and report included": f"{rows / took:,.0f}",
        "of that, seconds for the report": f"{reporting:.0f}",
        "memory of the API, MB: before / until the job is submitted / evaluated / reported / its report read": api,
        "of the largest worker process": worker,
        "Redis, bytes for a row: its dataset, results, columns and report": f"{stored / rows:,.0f}",
        "the report as JSON, in parts": f"{size / 1e6:,.0f} MB in {reading:.1f} s",
        f"small jobs next to it ({SMALL} judged rows, 300 ms) until their first chunk is claimed": (
            f"{len(waits)} tries: p50 {p50:.2f} s, p95 {p95:.2f} s, longest {max(waits, default=np.nan):.2f} s"
        ),
        **{name: f"{', '.join(f'{ms:.0f}' for ms in times)} ms" for name, times in pages.items()},
    }


def large_table(sizes: Sequence[int]) -> list[str]:
    """What was measured of a job of each size."""
    found = []
    for rows in sizes:
        found.append(large_job(rows))
        print(f"{rows:,} rows: {found[-1]}", file=sys.stderr)
    head = [f"one job, recorded responses, {', '.join(METRICS)}", *(f"{rows:,} rows" for rows in sizes)]
    return table(head, *([what, *(one[what] for one in found)] for what in found[0]))


def small_table() -> list[str]:
    """What small jobs wait while the judge is asked about 100,000 rows, by the number of worker processes."""
    lines = []
    for workers in (1, 2):
        with FaultyProvider(300) as provider, judging(workers, provider) as service:
            job = long_job(service.ready().url, 100_000, judged_row, metrics=FACED, judge=MODEL)
            while not service.job(job)["progress"]["done"]:
                time.sleep(0.1)
            waits = small_jobs(service.client, job)
        p50, p95 = np.percentile(waits, (50, 95))
        lines.append([workers, len(waits), f"{p50:.2f}", f"{p95:.2f}", f"{max(waits):.2f}"])
    return table(["worker processes", "tries", "p50, s", "p95, s", "longest, s"], *lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="engine|large|small")
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES, help="of the jobs of `large`")
    options = parser.parse_args()
    for part in options.parts or ["engine", "large", "small"]:
        before = load()
        lines = {"engine": engine_table, "large": partial(large_table, options.rows), "small": small_table}[part]()
        print(f"{machine(before)}.", "", *lines, "", sep="\n")


if __name__ == "__main__":
    main()
