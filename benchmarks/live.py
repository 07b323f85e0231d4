"""Live traffic under load: what it costs the sender, whether memory is flat, and whether a row is lost or paid twice.

    python benchmarks/live.py --number 10000 --rate 200 [--kill]

Starts ``ragassay serve`` and a mock provider. A sender (``live_sender.py``) is run without tracing, then with the exporter of
OpenTelemetry's SDK. ``--kill``: worker processes and the API are killed while it sends.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

import psutil
from measured import ROOT, Provider, Service

from polling import until
from ragassay.core.settings import Settings
from ragassay.live.traffic import LiveTraffic
from ragassay.live.windows import WindowRows
from ragassay.service import wiring

SENDER = ROOT / "benchmarks" / "live_sender.py"
METRICS = ["faithfulness", "relevance"]
SAMPLED = 0.05  # of the requests


def send(*options: object) -> dict[str, float]:
    done = subprocess.run([sys.executable, SENDER, *map(str, options)], capture_output=True, text=True, check=False)
    if done.returncode or done.stderr.strip():
        print(done.stderr[-2000:], file=sys.stderr)
    return json.loads(done.stdout)


def watch(service: Service, ends: threading.Event, kept: list[dict[str, float]]) -> None:
    """Memory in MB of the API, the scheduler and all workers, every two seconds."""
    while not ends.wait(2.0):
        sizes: Counter[str] = Counter()
        for process in service.tree():
            with suppress(psutil.NoSuchProcess):  # one that ends while it is looked at
                line = " ".join(process.cmdline())
                part = next((name for name in ("celery", "beat", "redis", "serve") if name in line), "other")
                sizes[part] += process.memory_info().rss / 1e6
        kept.append(dict(sizes))


def kill(service: Service, ends: threading.Event, took_s: float, done: list[str]) -> None:
    """Kill worker processes three times and the API once, while the sender sends and after it."""
    for part, after_s in (("worker", took_s / 4), ("api", took_s / 4), ("worker", took_s / 4), ("worker", 45.0)):
        if ends.wait(after_s):
            return
        if part == "worker":
            service.kill_children()
        else:
            service.part("serve api").kill()
        done.append(part)


def counts(service: Service, stream: str) -> dict[str, int]:
    return service.get(f"/v1/live/streams/{stream}")["today"]


def settled(service: Service, stream: str) -> bool:
    now = counts(service, stream)
    return now["received"] > 0 and now["waiting"] == now["evaluating"] == 0


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--number", type=int, default=2000)
    options.add_argument("--rate", type=float, default=200.0)
    options.add_argument("--budget", type=float, default=1.0)
    options.add_argument("--kill", action="store_true")
    given = options.parse_args()
    load = ("--number", given.number, "--rate", given.rate)
    untraced = send(*load, "--number", min(given.number, 2000), "--exporter", "none")
    print("without tracing:", untraced)
    memory: list[dict[str, float]] = []
    killed: list[str] = []
    ends = threading.Event()
    with Provider() as provider, Service(workers=2, api_base=provider.url, traced=False, lease_s=10) as service:
        service.ready()
        rule = {"rate": SAMPLED, "budget_usd": given.budget, "job": {"metrics": METRICS, "judge": "gpt-4o-mini"}}
        service.answered("PUT", "/v1/live/streams/bench", json=rule).raise_for_status()
        watcher = threading.Thread(target=watch, args=(service, ends, memory))
        watcher.start()
        if given.kill:
            took_s = given.number / given.rate
            threading.Thread(target=kill, args=(service, ends, took_s, killed), daemon=True).start()
        traced = send(*load, "--url", service.url, "--service", "bench")
        print("with the exporter:", traced)
        print(f"added a request: {traced['mean_ms'] - untraced['mean_ms']:.3f} ms in the mean, "
              f"{traced['p99_ms'] - untraced['p99_ms']:.3f} ms at p99")  # fmt: skip
        until(lambda: settled(service, "bench"), 400, f"the end of all requests: {counts(service, 'bench')}")
        ends.set()
        watcher.join()
        states = counts(service, "bench")
        print("states:", {name: number for name, number in states.items() if number})
        stream = service.get("/v1/live/streams/bench")
        print("killed:", killed, "restarts:", len(service.restarts()))
        report_memory(memory)
        report_calls(provider, stream["spent_usd"], given.budget)
        report_rows(service)


def report_memory(memory: list[dict[str, float]]) -> None:
    quarter = len(memory) // 4
    for part in ("serve", "celery", "beat"):
        first, last = (
            max((one.get(part, 0.0) for one in some), default=0.0)
            for some in (memory[quarter : 2 * quarter], memory[-quarter:])
        )
        print(f"memory of {part}: {first:.0f} MB in the second quarter, {last:.0f} MB in the last")


def report_calls(provider: Provider, spent: float, budget: float) -> None:
    answered = [seen for seen in provider.log if seen.status == 200]
    twice = [key for key, number in Counter(seen.prompt_hash for seen in answered).items() if number > 1]
    print(f"calls: {len(provider.log)}, answered {len(answered)}, prompts answered more than once: {len(twice)}")
    print(f"spent by the account of the day: {spent:.6f} of {budget} USD")


def report_rows(service: Service) -> None:
    """How many rows the service evaluated, and how many of them twice."""
    settings = Settings(state_url=service.redis_url)
    store = LiveTraffic(wiring.jobs_for(settings), settings).store
    traces = WindowRows(store.figures("bench", store.hours("bench"))).traces
    print(f"rows evaluated: {len(traces)} ({len(traces) - len(set(traces))} twice)")


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"took {time.monotonic() - began:.0f} s")
