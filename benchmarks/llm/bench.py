"""Runs ragassay against a mock provider, next to the floor, and says which targets are met. See README.md.

python benchmarks/llm/bench.py [CASE ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gen_dataset
from measured import FaultyProvider, load, machine

HERE = Path(__file__).resolve().parent
LATENCY_MS, CONCURRENCY, ITEMS, MANY, RUNS = 300, 16, 100, 400, 3
FAULTS = {  # percent of the calls
    "many refused": {"429": 10, "malformed": 2},
    "some hang": {"hang": 1},
}
FAULTY_ITEMS = 96
CASES = ["cost", *FAULTS]
Row = dict[str, Any]


def measure(runner: str, items: int, folder: Path, faults: dict[str, float]) -> Row:
    """One run of one runner against a fresh server."""
    out, dataset = folder / "out.json", folder / f"{items}.jsonl"
    out.unlink(missing_ok=True)
    gen_dataset.write(items, dataset)
    with FaultyProvider(LATENCY_MS, faults) as provider:
        command = [sys.executable, HERE / "runner.py", runner, "--base-url", provider.url, "--dataset", dataset]
        command += ["--out", out, "--concurrency", str(CONCURRENCY)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode:
            sys.exit(f"{runner} failed: {done.stderr[-2000:]}")
        row = {**json.loads(out.read_text()), "calls": len(provider.log), "faults": provider.injected}
        row |= {name: total / items for name, total in provider.tokens().items()}
    row |= {"calls_per_item": row["calls"] / items, "cpu_ms_per_item": 1000 * row["cpu_s"] / items}
    shown = {name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()}
    print(json.dumps(shown), file=sys.stderr, flush=True)
    return row


def cost(folder: Path) -> Iterator[str]:
    """What an item costs, next to the floor; and whether it stays so with more of them."""
    in_turn = {"floor": ("floor", ITEMS), "ours": ("ours", ITEMS), "many": ("ours", MANY)}
    rounds = [{who: measure(*run, folder, {}) for who, run in in_turn.items()} for _ in range(RUNS)]

    def mid(name: str) -> float:
        return float(median(each["ours"][name] for each in rounds))

    def ratio(of: str, to: str, figure: Any) -> float:
        return float(median(figure(each[of]) / figure(each[to]) for each in rounds))

    yield target("calls an item", mid("calls_per_item"), 1.0, ".2f")
    yield target("prompt tokens an item", mid("prompt"), 1900, ",.0f")
    yield target("completion tokens an item", mid("completion"), 300, ",.0f")
    yield target("wall time, times the floor's", ratio("ours", "floor", lambda row: row["wall_s"]), 1.2, ".2f")
    idle = ratio("ours", "floor", lambda row: row["wall_s"] - row["waited_s"])
    yield f"| ... without the {mid('waited_s'):.1f} s that it waited for a core | {idle:.2f} | | |"
    yield target("CPU, ms an item", mid("cpu_ms_per_item"), 9, ".1f")
    more = ratio("many", "ours", lambda row: row["cpu_ms_per_item"])
    yield target(f"... at {MANY} items, times that at {ITEMS}", more, 1.25, ".2f")


def faults(folder: Path, name: str) -> Iterator[str]:
    """What faults of the provider cost: time, no score, and hardly more calls than there were faults."""
    shares, items = FAULTS[name], FAULTY_ITEMS
    rounds = [(measure("floor", items, folder, {}), measure("ours", items, folder, shares)) for _ in range(RUNS)]
    ratio = median(ours["wall_s"] / floor["wall_s"] for floor, ours in rounds)
    percents = " + ".join(f"{share:g} % {'hangs' if kind == 'hang' else kind}" for kind, share in shares.items())
    yield target(f"{percents}, {items} items: times the calm floor's wall time", ratio, 2.0, ".2f")
    yield target("... scores missing", max(ours["missing"] for _, ours in rounds), 0, ".0f")
    extra = max(ours["calls"] - items - Counter(ours["faults"]).total() for _, ours in rounds)
    yield target("... calls more than items and faults", extra, 0.02 * items, ".0f")


def target(what: str, found: float, most: float, form: str) -> str:
    return f"| {what} | {found:{form}} | {most:{form}} | {'met' if found <= most else 'missed'} |"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)}; default: all")
    wanted = options.parse_args().cases or CASES
    if unknown := set(wanted) - set(CASES):
        options.error(f"unknown case {min(unknown)!r}")
    before, lines = load(), ["| | measured | at most | |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        for case in wanted:
            lines += cost(Path(name)) if case == "cost" else faults(Path(name), case)
    print(f"{machine(before)}.\n", *lines, sep="\n")
    return int(any(each.endswith("| missed |") for each in lines))


if __name__ == "__main__":
    sys.exit(main())
