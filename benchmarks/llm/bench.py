"""Runs ragassay against a mock provider, beside the floor, and says which targets are met. See README.md.

python benchmarks/llm/bench.py [CASE ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gen_dataset
from measured import load, machine, mock_provider

HERE = Path(__file__).resolve().parent
LATENCY_MS, CONCURRENCY, ITEMS, MANY, RUNS = 300, 16, 100, 400, 3
FAULTS = {
    "429 and malformed": ({"429": 2, "malformed": 2}, ITEMS),
    "429": ({"429": 10}, ITEMS),
    "hangs": ({"hang": 0.5}, MANY),
}
PRESSURE = {"many refused": {"429": 10, "malformed": 2}, "some hang": {"hang": 1}}
PRESSED_ITEMS = 96
CASES = ["cost", *FAULTS, *PRESSURE]
Row = dict[str, Any]


def measure(runner: str, items: int, folder: Path, faults: dict[str, float]) -> Row:
    """One run of one runner against a fresh server."""
    out, dataset = folder / "out.json", folder / f"{items}.jsonl"
    out.unlink(missing_ok=True)
    gen_dataset.write(items, dataset)
    with mock_provider(LATENCY_MS, faults) as base:
        command = [sys.executable, HERE / "runners" / f"run_{runner}.py", "--base-url", base, "--dataset", dataset]
        command += ["--out", out, "--concurrency", str(CONCURRENCY)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode:
            sys.exit(f"{runner} failed: {done.stderr[-2000:]}")
        with urllib.request.urlopen(f"{base}/__bench/stats") as response:
            asked = json.load(response)
    told = json.loads(out.read_text())
    cells = [value for row in told.pop("scores").values() for value in row.values()]
    row = {
        **told,
        **asked,
        "calls_per_item": asked["calls"] / items,
        "prompt_tokens_per_item": asked["prompt_tokens"] / items,
        "completion_tokens_per_item": asked["completion_tokens"] / items,
        "cpu_ms_per_item": 1000 * told["eval_cpu_s"] / items,
        "missing": sum(value is None for value in cells),
        "cells": len(cells),
    }
    print(line(row), file=sys.stderr, flush=True)
    return row


def line(row: Row) -> str:
    return (
        f"{row['runner']:8} {row['items']} items  wall {row['wall_s']:6.2f} s (waited {row['runq_wait_s']:.2f} for a core)  "
        f"cpu {row['cpu_ms_per_item']:5.1f} ms/item  calls {row['calls_per_item']:.2f}/item  "
        f"tokens {row['prompt_tokens_per_item']:.0f}+{row['completion_tokens_per_item']:.0f}/item  "
        f"missing {row['missing']}/{row['cells']}"
    )


def cost(folder: Path) -> Iterator[str]:
    """What an item costs, beside the floor; and whether it stays so with more of them."""
    in_turn = {"floor": ("floor", ITEMS), "ours": ("ours", ITEMS), "many": ("ours", MANY)}
    rounds = [{who: measure(*run, folder, {}) for who, run in in_turn.items()} for _ in range(RUNS)]

    def mid(name: str, of: str = "ours") -> float:
        return float(median(each[of][name] for each in rounds))

    ratio = median(each["ours"]["wall_s"] / each["floor"]["wall_s"] for each in rounds)
    busy = [{who: row["wall_s"] - row["runq_wait_s"] for who, row in each.items()} for each in rounds]
    idle = median(each["ours"] / each["floor"] for each in busy)
    waited = sum(each["ours"]["runq_wait_s"] for each in rounds) / RUNS
    yield target("calls an item", mid("calls_per_item"), 1.0, ".2f")
    yield target("prompt tokens an item", mid("prompt_tokens_per_item"), 1900, ",.0f")
    yield target("completion tokens an item", mid("completion_tokens_per_item"), 300, ",.0f")
    yield target("wall time, times the floor's", ratio, 1.25, ".2f")
    yield f"| ... without the {waited:.1f} s that it waited for a core | {idle:.2f} | | |"
    yield target("CPU, ms an item", mid("cpu_ms_per_item"), 15, ".1f")
    more = median(each["many"]["cpu_ms_per_item"] / each["ours"]["cpu_ms_per_item"] for each in rounds)
    yield target(f"... at {MANY} items, times that at {ITEMS}", more, 1.0, ".2f")


def faults(folder: Path, name: str) -> Iterator[str]:
    """What faults of the provider cost: no score, and hardly more calls than there were faults."""
    shares, items = FAULTS[name]
    row = measure("ours", items, folder, shares)
    injected = sum(row["faults"].values())
    told = " + ".join(f"{share:g} % {'hangs' if kind == 'hang' else kind}" for kind, share in shares.items())
    yield target(f"{told}, {items} items: scores missing", row["missing"], 0, ".0f")
    yield target(f"... calls more than items, {injected} faults", row["calls"] - items, injected + 0.02 * items, ".0f")


def pressure(folder: Path, name: str) -> Iterator[str]:
    """How much longer a run takes at a provider that refuses calls for a second, or lets them hang."""
    shares = PRESSURE[name]
    rounds = []
    for _ in range(RUNS):
        floor = measure("floor", PRESSED_ITEMS, folder, {})
        rounds.append((floor, measure("ours", PRESSED_ITEMS, folder, shares)))
    ratio = median(ours["wall_s"] / floor["wall_s"] for floor, ours in rounds)
    injected = [sum(ours["faults"].values()) for _, ours in rounds]
    told = " + ".join(f"{share:g} % {'hangs' if kind == 'hang' else kind}" for kind, share in shares.items())
    yield target(f"{told}, {PRESSED_ITEMS} items: times the calm floor's wall time", ratio, 2.0, ".2f")
    yield target("... scores missing", max(ours["missing"] for _, ours in rounds), 0, ".0f")
    extra = max(ours["calls"] - PRESSED_ITEMS - n for (_, ours), n in zip(rounds, injected, strict=True))
    yield target(
        f"... calls more than items and faults ({', '.join(map(str, injected))})", extra, 0.02 * PRESSED_ITEMS, ".0f"
    )


def target(what: str, found: float, most: float, form: str) -> str:
    return f"| {what} | {found:{form}} | {most:{form}} | {'met' if found <= most else 'missed'} |"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)}; default: all")
    chosen = options.parse_args()
    wanted = chosen.cases or CASES
    if unknown := [case for case in wanted if case not in CASES]:
        options.error(f"unknown case {unknown[0]!r}")
    began, before = time.monotonic(), load()
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "cost" in wanted:
            lines += cost(folder)
        for case in FAULTS:
            lines += faults(folder, case) if case in wanted else []
        for case in PRESSURE:
            lines += pressure(folder, case) if case in wanted else []
    text = f"{machine(before)}.\n"
    if lines:
        text += "\n".join(["", "| | measured | at most | |", "|---|---|---|---|", *lines, ""])
    print(text)
    print(f"in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return int(any(each.endswith("| missed |") for each in lines))


if __name__ == "__main__":
    sys.exit(main())
