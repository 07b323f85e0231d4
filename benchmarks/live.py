"""Live traffic under load: what it costs the sender, whether memory is flat, and whether a row is lost or paid twice.

    python benchmarks/live.py --number 10000 --rate 200 [--kill]
    python benchmarks/live.py --regression

Starts ``ragassay serve`` and a mock provider. A sender (``live_sender.py``) is run without tracing, then with the exporter of
OpenTelemetry's SDK. ``--kill``: worker processes and the API are killed while it sends.

``--regression`` sends 21 streams an hour of good traffic, and then an hour in which one of them has wrong contexts for 20 % of
its requests. The first hour is moved back by renaming keys in Redis: the service counts requests by its own clock.
"""

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

import psutil
from measured import ROOT, Provider, Service
from redis.exceptions import ResponseError

from live_traffic import GOOD, WRONG, otlp_lines, spans_of
from polling import until
from ragassay.core.settings import Settings
from ragassay.datasets.traces import TraceSpan
from ragassay.live.models import before
from ragassay.live.traffic import LiveTraffic
from ragassay.live.windows import WindowRows
from ragassay.service import wiring
from ragassay.service.notifications import Notification, NotificationPage
from ragassay.service.projects import project_key

SENDER = ROOT / "benchmarks" / "live_sender.py"
METRICS = ["faithfulness", "relevance"]
STREAMS = [f"stream{n}" for n in range(21)]
REGRESSED = STREAMS[0]
BEFORE, NOW = range(150), range(1000, 1200)  # numbers of requests
BATCH = 50  # requests in a body
JSON = {"Content-Type": "application/json"}
OTHER = "Invoices are sent on the first day of each month."


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
    options.add_argument("--sampled", type=float, default=0.05)
    options.add_argument("--budget", type=float, default=1.0)
    options.add_argument("--kill", action="store_true")
    options.add_argument("--regression", action="store_true", help="the alert of a planted regression, nothing else")
    given = options.parse_args()
    if given.regression:
        regression()
        return
    load = ("--number", given.number, "--rate", given.rate)
    untraced = send(*load, "--number", min(given.number, 2000), "--exporter", "none")
    print("without tracing:", untraced)
    memory: list[dict[str, float]] = []
    killed: list[str] = []
    ends = threading.Event()
    with Provider() as provider, Service(workers=2, api_base=provider.url, traced=False, lease_s=10) as service:
        service.ready()
        rule = {"rate": given.sampled, "budget_usd": given.budget, "job": {"metrics": METRICS, "judge": "gpt-4o-mini"}}
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


def regression() -> None:
    """Plant a regression in one of the streams, over HTTP, and print the alerts."""
    with Service(workers=2, traced=False) as service:
        service.ready()
        for stream in STREAMS:
            rule = {"rate": 1.0, "job": {"metrics": METRICS, "judge": "local"}}
            service.answered("PUT", f"/v1/live/streams/{stream}", json=rule).raise_for_status()
        send_requests(service, BEFORE)
        for stream in STREAMS:
            move_back(service, stream)
        send_requests(service, NOW)
        alerts = drift_alerts(service)
    for alert in alerts:
        print(f"{alert.headline}: {alert.path}")
    alerted = {alert.stream for alert in alerts}
    false = len(alerted - {REGRESSED})
    print(f"{REGRESSED} is alerted: {REGRESSED in alerted}; false alerts: {false} of {len(STREAMS) - 1}")


def send_requests(service: Service, numbers: range) -> None:
    """Send requests of these numbers to each stream as OTLP in JSON, and wait until they are evaluated."""
    for stream in STREAMS:
        rng = random.Random(f"{stream} {numbers.start}")
        for first in range(numbers.start, numbers.stop, BATCH):
            requests = [request_of(n, stream, rng) for n in range(first, min(first + BATCH, numbers.stop))]
            for line in otlp_lines(requests, stream).splitlines():
                service.answered("POST", "/v1/traces", content=line, headers=JSON).raise_for_status()
    for stream in STREAMS:
        until(lambda stream=stream: settled(service, stream), 600, f"the end of {stream}: {counts(service, stream)}")
    time.sleep(5)  # the scheduler looks at the windows after it has summed them up


def request_of(n: int, stream: str, rng: random.Random) -> list[TraceSpan]:
    """The spans of a request. One answer of ten is invented; of the regressed stream one in five has a wrong context."""
    wrong = stream == REGRESSED and n in NOW and n % 5 == 0
    answer = WRONG if rng.random() < 0.1 else GOOD
    return spans_of(n, of=stream, answer=answer, context=OTHER if wrong else GOOD)


def move_back(service: Service, stream: str) -> None:
    """Make the hours of a stream one hour older, the oldest first, in the keys of its figures and counts."""
    prefix, redis = project_key("default", "live:"), service.redis
    for name, at in redis.zrange(f"{prefix}hours:{stream}", 0, -1, withscores=True):
        hour = name.decode()
        [earlier] = before(hour, 1)
        for kind in ("counts", "window", "looks"):
            with suppress(ResponseError):  # there is no such key
                redis.rename(f"{prefix}{kind}:{stream}:{hour}", f"{prefix}{kind}:{stream}:{earlier}")
        redis.zrem(f"{prefix}hours:{stream}", hour)
        redis.zadd(f"{prefix}hours:{stream}", {earlier: at - 3.6e6})


def drift_alerts(service: Service) -> tuple[Notification, ...]:
    """The alerts about drift."""
    return NotificationPage.model_validate(service.get("/v1/alerts?kind=drift&limit=100")).alerts


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
