"""Pages of `ragassay view` on a run of many rows: how long the first page of each kind takes, and the next ones.

    python benchmarks/pages.py [--rows 100000]

1,000 rows of `rows.py` are evaluated and written again and again, as `compare.py` does, into two runs of so many rows. A process
serves them that has read nothing yet: the first request of each kind is the first page. The next are the median of five others.
A comparison of so many rows is computed apart: its first page says so and asks again until it is complete.
Exits 1 above 1 s for a first page, or 150 ms for a next one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from compare import evaluated, multiplied, write_pair
from measured import load, machine, table

MAX_FIRST_S, MAX_NEXT_S, NEXT = 1.0, 0.15, 5
PAGES = {  # by what they show: the address of the page with a number
    "list of runs": "/ui/runs?n={0}",
    "run": "/ui/runs/RUN?n={0}",
    "rows": "/ui/runs/RUN/queries?from={0}",
    "rows, filtered and sorted": "/ui/runs/RUN/queries?where=faithfulness<0.9&sort=-latency_ms&from={0}",
    "rows of a kind of failure": "/ui/runs/RUN/queries?failure=unfaithful&from={0}",
    "row": "/ui/runs/RUN/row?id=r{0}",
    "compare": "/ui/compare?run=RUN&run=OTHER&n={0}",
    "label": "/ui/runs/RUN/label?size=1{0}",
    "trends": "/ui/trends?n={0}",
    "cost": "/ui/cost?n={0}",
}


def made(home: Path, rows: int) -> list[str]:
    """The ids of two runs of so many rows, the only ones in the folder."""
    ids = []
    for data in write_pair(home):
        few = evaluated(data, home)
        ids.append(multiplied(few, rows))
        shutil.rmtree(few.folder)
    return ids


def seconds(http: httpx.Client, address: str) -> tuple[float, float]:
    """Until a page is there, and until it has all that was asked for: one that is not ready says when to ask again."""
    began = time.perf_counter()
    page = http.get(address).raise_for_status()
    first = time.perf_counter() - began
    while "Refresh" in page.headers:
        time.sleep(0.5)
        page = http.get(address).raise_for_status()
    return first, time.perf_counter() - began


def looked_at(home: Path, run: str, other: str) -> dict[str, tuple[float, ...]]:
    """Seconds of the first page, until it is complete, and of the next ones, by what they show."""
    command = [sys.executable, "-m", "ragassay.cli", "view", "--no-browser"]
    environment = os.environ | {"RAGASSAY_HOME": str(home)}
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, env=environment, **how) as serving:
        try:
            url = httpx.URL(serving.stdout.readline().strip())
            times = {}
            patient = httpx.HTTPTransport(retries=10)  # until it listens
            with httpx.Client(base_url=url.copy_with(raw_path=b"/"), timeout=120, transport=patient) as http:
                http.get("/ui/static/style.css")
                for name, address in PAGES.items():
                    page = address.replace("RUN", run).replace("OTHER", other)
                    first, *others = (seconds(http, page.format(50 * n)) for n in range(NEXT + 1))
                    times[name] = *first, statistics.median(complete for _, complete in others)
            return times
        finally:
            serving.send_signal(signal.SIGINT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    before = load()
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        times = looked_at(home, *made(home, options.rows))
    lines = ([name, *(f"{1000 * seconds:,.0f}" for seconds in of_page)] for name, of_page in times.items())
    head = (f"page of runs of {options.rows:,} rows", "first, ms", "complete, ms", "next, ms")
    print(f"{machine(before)}.", "", *table(head, *lines), sep="\n", flush=True)
    slow = any(first > MAX_FIRST_S or after > MAX_NEXT_S for first, _, after in times.values())
    sys.exit(f"wanted {MAX_FIRST_S:g} s for a first page, {1000 * MAX_NEXT_S:g} ms for a next one" if slow else 0)


if __name__ == "__main__":
    main()
