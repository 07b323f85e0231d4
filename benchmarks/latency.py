"""Measures how true our latencies are: a server that stalls, its own log of what users waited, and our report beside it.

    python benchmarks/latency.py

``examples/rag_server.py`` takes 100 ms +- 50 ms and stalls for 2 s at every 50th query, in a process of its own. It is
asked at a rate. The true latency of a query is from when it was due - the first one's arrival and so many intervals - until
it left the server, by the server's own clock. Exits with 1 where our p50 or p99 is more than 5 % off.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from measured import table

import ragassay

SERVER = Path(__file__).resolve().parents[1] / "examples" / "rag_server.py"
PERCENTILES = (50, 90, 95, 99)
QUERIES, RATE = 600, 10.0  # a second
SLOWNESS = ("--latency-ms=100", "--jitter-ms=50", "--stall-s=2", "--stall-every=50")


@contextmanager
def served(log: Path) -> Iterator[str]:
    """The address of a server that is so slow, in a process of its own."""
    command = [sys.executable, str(SERVER), "--port=0", f"--log={log}", *SLOWNESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield (process.stdout or sys.stdin).readline().strip()
        finally:
            process.terminate()


Seen = dict[int, tuple[float, float]]


def asked() -> tuple[ragassay.Report, Seen]:
    """Our report, and by the number of each query when it came to the server and left it."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "asked.jsonl")
        rows = [{"query_id": str(n), "query": f"refunds {n}", "ground_truth_answer": "30 days"} for n in range(QUERIES)]
        with served(log) as url:
            system = {"kind": "http", "url": url, "rate": RATE, "concurrency": 64}
            report = ragassay.evaluate(rows, systems={"server": system}, metrics=["token_f1"])
        seen = [json.loads(line) for line in log.read_text().splitlines()]
    return report, {int(one["query"].split()[1]): (one["came"], one["left"]) for one in seen}


def true_latencies(seen: Seen) -> list[float]:
    """Ms from when each query was due until it left the server."""
    first = min(came - number / RATE for number, (came, _) in seen.items())
    return [(left - first - number / RATE) * 1000 for number, (_, left) in sorted(seen.items())]


def percentiles(values: list[float]) -> dict[int, float]:
    """The percentiles of a report, by linear interpolation."""
    return {p: float(np.percentile(values, p)) for p in PERCENTILES}


def reported(report: ragassay.Report) -> dict[int, float]:
    """The same, as our report has them."""
    latency = report.systems["server"].latency_ms
    return {p: getattr(latency, f"p{p}") or 0.0 for p in PERCENTILES}


def main() -> None:
    """Measure, print, and exit with 1 where we are off."""
    report, seen = asked()
    ours, true = reported(report), percentiles(true_latencies(seen))
    named = {"what users waited, by the server's log": true, f"our report, `rate: {RATE:g}`": ours}
    lines = [[name, *(f"{figures[p]:,.0f} ms" for p in PERCENTILES)] for name, figures in named.items()]
    print(*table(("", *(f"p{p}" for p in PERCENTILES)), *lines), sep="\n")
    off = {p: abs(ours[p] / true[p] - 1) for p in (50, 99)}
    print(", ".join(f"p{p} is {share:.2%} off" for p, share in off.items()))
    sys.exit(max(off.values()) > 0.05)


if __name__ == "__main__":
    main()
