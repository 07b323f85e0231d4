"""Runs the floor and ragassay in turn against a fresh mock server each, and compares them. See README.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

import gen_dataset

HERE = Path(__file__).resolve().parent
TARGETS = {"calls_per_item": 1.1, "prompt_tokens_per_item": 2000, "wall_over_floor": 1.35, "cpu_ms_per_item": 15}


def measure(runner: str, dataset: Path, folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """One run of one runner."""
    port_file, out = folder / "port", folder / "out.json"
    for file in (port_file, out):
        file.unlink(missing_ok=True)
    faults = [f"--{name}={getattr(chosen, name)}" for name in ("p429", "p500", "pmalformed", "phang")]
    server = [sys.executable, HERE / "mock_server.py", "--port-file", port_file, "--latency-ms", str(chosen.latency_ms)]
    mock = subprocess.Popen([*server, *faults])
    try:
        while not port_file.exists():
            time.sleep(0.02)
        base = f"http://127.0.0.1:{port_file.read_text()}"
        command = [sys.executable, HERE / "runners" / f"run_{runner}.py", "--base-url", base, "--dataset", dataset]
        subprocess.run([*command, "--out", out, "--concurrency", str(chosen.concurrency)], check=True, timeout=900)
        with urllib.request.urlopen(f"{base}/__bench/stats") as response:
            asked = json.load(response)
    finally:
        mock.terminate()
        mock.wait()
    told = json.loads(out.read_text())
    n = told["items"]
    cells = [value for row in told.pop("scores").values() for value in row.values()]
    return {
        **told,
        **asked,
        "calls_per_item": asked["calls"] / n,
        "prompt_tokens_per_item": asked["prompt_tokens"] / n,
        "completion_tokens_per_item": asked["completion_tokens"] / n,
        "cpu_ms_per_item": 1000 * told["eval_cpu_s"] / n,
        "missing": sum(value is None for value in cells),
        "cells": len(cells),
    }


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['runner']:6} wall {row['wall_s']:6.2f} s (waited {row['runq_wait_s']:.2f})  "
        f"cpu {row['cpu_ms_per_item']:5.1f} ms/item  calls {row['calls_per_item']:.2f}/item  "
        f"tokens {row['prompt_tokens_per_item']:.0f}+{row['completion_tokens_per_item']:.0f}/item  "
        f"in flight {row['mean_inflight']}/{row['peak_inflight']}  missing {row['missing']}/{row['cells']}"
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--items", type=int, default=100)
    options.add_argument("--concurrency", type=int, default=16)
    options.add_argument("--latency-ms", type=float, default=300)
    for name in ("p429", "p500", "pmalformed", "phang"):
        options.add_argument(f"--{name}", type=float, default=0, help="percent of the calls")
    options.add_argument("-o", "--out", type=Path, help="write all rows here as JSON")
    chosen = options.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gen_dataset.write(chosen.items, folder / "items.jsonl")
        for _ in range(chosen.runs):
            for runner in ("floor", "ours"):
                rows.append(measure(runner, folder / "items.jsonl", folder, chosen))
                print(line(rows[-1]), flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps(rows, indent=1))
    if any(rows[0]["faults"].values()):
        return 0  # the floor doesn't repeat what failed, so there is nothing to compare
    floor, ours = ([row for row in rows if row["runner"] == runner] for runner in ("floor", "ours"))
    found = {name: median(row[name] for row in ours) for name in TARGETS if name in ours[0]}
    found["wall_over_floor"] = median(o["wall_s"] / f["wall_s"] for o, f in zip(ours, floor, strict=True))
    busy = [[row["wall_s"] - row["runq_wait_s"] for row in runs] for runs in (ours, floor)]
    idle = median(o / f for o, f in zip(*busy, strict=True))
    print(f"{'wall on idle cores':24} {idle:8.2f}  wall_over_floor without the time spent waiting for a core")
    for name, target in TARGETS.items():
        print(f"{name:24} {found[name]:8.2f}  target {target:g}  {'ok' if found[name] <= target else 'MISSED'}")
    return int(any(found[name] > target for name, target in TARGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
